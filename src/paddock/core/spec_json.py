"""EnvSpec to and from JSON. The text may come from anywhere: it is bounded, typed, and never names code to run now."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.core.spec_values import from_plain, to_plain
from paddock.errors import InvalidSpec, PaddockError

MAX_BYTES = 1 << 20


class _WrapperFields(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    entry_point: str
    kwargs: dict[str, Any] | None = None


class _SpecFields(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    entry_point: str | None = None
    reward_threshold: float | None = None
    nondeterministic: bool = False
    max_episode_steps: int | None = None
    order_enforce: bool = True
    disable_env_checker: bool = False
    kwargs: dict[str, Any] = {}
    additional_wrappers: list[_WrapperFields] = []
    vector_entry_point: str | None = None


def encode_spec(spec: EnvSpec) -> str:
    """The spec as JSON, keys in Gymnasium's order."""
    fields: dict[str, Any] = {name: getattr(spec, name) for name in _SpecFields.__struct_fields__}
    for name in ("entry_point", "vector_entry_point"):
        fields[name] = to_plain(fields[name], f"{spec.id}.{name}")
    fields["kwargs"] = to_plain(spec.kwargs, f"{spec.id}.kwargs")
    fields["additional_wrappers"] = [
        {"name": w.name, "entry_point": w.entry_point, "kwargs": to_plain(w.kwargs, f"{spec.id}.{w.name}.kwargs")}
        for w in spec.additional_wrappers
    ]
    return json.dumps(fields)


def decode_spec(text: str | bytes) -> EnvSpec:
    """The spec that the JSON describes; malformed or oversized text is an InvalidSpec."""
    if not isinstance(text, (str, bytes)):
        raise InvalidSpec(f"An EnvSpec's JSON is text, got {type(text).__name__}.")
    if len(text) > MAX_BYTES:
        raise InvalidSpec(f"This EnvSpec's JSON has {len(text)} bytes; at most {MAX_BYTES} are read.")
    try:
        fields = msgspec.json.decode(text, type=_SpecFields)
        return _to_spec(fields)
    except RecursionError:
        raise InvalidSpec("This EnvSpec's JSON is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidSpec(f"Not the JSON of an EnvSpec: {error}.") from None
    except PaddockError as error:
        raise InvalidSpec(f"Not the JSON of an EnvSpec: {error}") from error


def _to_spec(fields: _SpecFields) -> EnvSpec:
    if fields.max_episode_steps is not None and not -1 <= fields.max_episode_steps < 1 << 62:
        raise InvalidSpec(f"max_episode_steps is {fields.max_episode_steps}; expected a step count, or -1 for none.")
    kwargs = from_plain(fields.kwargs, f"{fields.id}.kwargs")
    wrappers = tuple(
        WrapperSpec(w.name, w.entry_point, from_plain(w.kwargs, f"{fields.id}.{w.name}.kwargs"))
        for w in fields.additional_wrappers
    )
    return EnvSpec(**{**msgspec.structs.asdict(fields), "kwargs": kwargs, "additional_wrappers": wrappers})
