"""EnvSpec to and from JSON. The text may come from a stranger: it is bounded and typed, and reading it runs no code.

Arguments of environments and wrappers are plain data; arrays, dtypes and infinity stand under a tag, and no tag names
code. A tuple comes back as a list, as in Gymnasium's JSON; ``same_arguments`` takes both for the same.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np

from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.core.values import SPEC, TaggedJson
from paddock.errors import InvalidSpec, PaddockError
from paddock.spaces.json_data import JsonLimits, read_json

# Arguments nest 32 levels deep, in a wrapper's they begin at the fourth, and an array makes three of one.
SPEC_LIMITS = JsonLimits(1 << 20, nesting=40)
SPEC_JSON = TaggedJson(SPEC)


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


# Used once here: msgspec crashes if threads use a class for the first time at the same moment.
msgspec.convert({"id": ""}, _SpecFields)


def encode_spec(spec: EnvSpec) -> str:
    """The spec as JSON, keys in Gymnasium's order."""
    fields: dict[str, Any] = {name: getattr(spec, name) for name in _SpecFields.__struct_fields__}
    for name in ("entry_point", "vector_entry_point", "kwargs"):
        fields[name] = SPEC_JSON.write(fields[name], f"{spec.id}.{name}")
    fields["additional_wrappers"] = [
        {**vars(w), "kwargs": SPEC_JSON.write(w.kwargs, f"{spec.id}.{w.name}.kwargs")} for w in spec.additional_wrappers
    ]
    return json.dumps(fields)


def decode_spec(text: str | bytes) -> EnvSpec:
    """The spec that the JSON describes; malformed or oversized text is an InvalidSpec."""
    if not isinstance(text, (str, bytes)):
        raise InvalidSpec(f"An EnvSpec's JSON is text, got {type(text).__name__}.")
    try:
        fields = msgspec.convert(read_json(text, SPEC_LIMITS), _SpecFields)
        if fields.max_episode_steps is not None and not -1 <= fields.max_episode_steps < 1 << 62:
            raise InvalidSpec(f"max_episode_steps is {fields.max_episode_steps}; expected a count, or -1 for none.")
        wrappers = tuple(
            WrapperSpec(w.name, w.entry_point, SPEC_JSON.read(w.kwargs, f"{fields.id}.{w.name}.kwargs"))
            for w in fields.additional_wrappers
        )
        kwargs = SPEC_JSON.read(fields.kwargs, f"{fields.id}.kwargs")
        return EnvSpec(**{**msgspec.structs.asdict(fields), "kwargs": kwargs, "additional_wrappers": wrappers})
    except PaddockError as error:
        raise InvalidSpec(f"Not the JSON of an EnvSpec: {error}") from error
    except ValueError as error:  # not JSON, not these fields, or a tag that is none
        raise InvalidSpec(f"Not the JSON of an EnvSpec: {error}.") from None


def same_arguments(one: Any, other: Any) -> bool:
    """Whether two values are the same data; a tuple and a list are, two arrays by dtype, shape and numbers."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return (
            isinstance(one, np.ndarray)
            and isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_arguments(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(same_arguments, one, other))
    return bool(one == other) or (one != one and other != other)  # the second: both are nan
