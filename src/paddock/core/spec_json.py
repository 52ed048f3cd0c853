"""EnvSpec to and from JSON. The text may come from a stranger: it is bounded and typed, and reading it runs no code.

Arguments of environments and wrappers are plain data; arrays, dtypes and infinity stand under a tag, and no tag names
code. A tuple comes back as a list, as in Gymnasium's JSON; ``same_arguments`` takes both for the same.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np

from paddock.core.problem import kind
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import InvalidSpec, PaddockError
from paddock.spaces.json_form import NUMBERS

MAX_JSON_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_KEY_LENGTH = 256
_ARRAY, _DTYPE, _FLOAT = "$array", "$dtype", "$float"
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


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


# Made here: msgspec crashes if threads use a class for the first time at the same moment.
_DECODER = msgspec.json.Decoder(_SpecFields)


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
    if len(text) > MAX_JSON_BYTES:
        raise InvalidSpec(f"This EnvSpec's JSON has {len(text)} bytes; at most {MAX_JSON_BYTES} are read.")
    try:
        fields = _DECODER.decode(text)
        if fields.max_episode_steps is not None and not -1 <= fields.max_episode_steps < 1 << 62:
            raise InvalidSpec(f"max_episode_steps is {fields.max_episode_steps}; expected a count, or -1 for none.")
        wrappers = tuple(
            WrapperSpec(w.name, w.entry_point, from_plain(w.kwargs, f"{fields.id}.{w.name}.kwargs"))
            for w in fields.additional_wrappers
        )
        kwargs = from_plain(fields.kwargs, f"{fields.id}.kwargs")
        return EnvSpec(**{**msgspec.structs.asdict(fields), "kwargs": kwargs, "additional_wrappers": wrappers})
    except RecursionError:
        raise InvalidSpec("This EnvSpec's JSON is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidSpec(f"Not the JSON of an EnvSpec: {error}.") from None
    except PaddockError as error:
        raise InvalidSpec(f"Not the JSON of an EnvSpec: {error}") from error


def to_plain(value: Any, path: str, depth: int = 0) -> Any:
    """Turn the value into JSON's types. A value without such a form is an InvalidSpec that names its path."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (dict, list, tuple)):
        return _each(to_plain, value, path, depth)
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: str(value)}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.name in NUMBERS:
        numbers = [to_plain(number, path) for number in value.reshape(-1).tolist()]
        flat = [number[_FLOAT] if isinstance(number, dict) else number for number in numbers]
        return {_ARRAY: {"dtype": value.dtype.name, "shape": list(value.shape), "data": flat}}
    is_number_class = value in (bool, int, float) or (isinstance(value, type) and issubclass(value, np.generic))
    if (is_number_class or isinstance(value, np.dtype)) and np.dtype(value).name in NUMBERS:
        return {_DTYPE: np.dtype(value).name}
    if callable(value):
        raise InvalidSpec(f"Callable found in {path}: {value!r}. A spec with JSON names code as 'module:attribute'.")
    raise InvalidSpec(f"{path} is {kind(value)}, which JSON can't hold. Use plain data.")


def from_plain(value: Any, path: str, depth: int = 0) -> Any:
    """Read back what ``to_plain`` wrote. Anything else under a tag is an InvalidSpec."""
    if not isinstance(value, dict) or not any(key.startswith("$") for key in value):
        return _each(from_plain, value, path, depth) if isinstance(value, (dict, list)) else value
    ((tag, content), *more) = value.items()
    reader = _READERS.get(tag)
    try:
        if reader is None or more:
            raise ValueError
        return reader(content)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InvalidSpec(f"{path[:80]} has the tag {tag[:40]!r} with content that does not belong there.") from None


def _each(rule: Any, value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidSpec(f"{path[:80]} is nested deeper than {MAX_DEPTH}.")
    if not isinstance(value, dict):
        return [rule(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    for key in value:
        if not isinstance(key, str):
            raise InvalidSpec(f"{path} has the key {key!r}; JSON keys are text.")
        if len(key) > MAX_KEY_LENGTH:  # also bounds the path that is built for each item below
            raise InvalidSpec(f"{path} has a key of {len(key)} characters; at most {MAX_KEY_LENGTH} are read.")
        if key.startswith("$"):
            raise InvalidSpec(f"{path} has the key {key!r}; keys that begin with $ are tags of the JSON itself.")
    return {key: rule(item, f"{path}.{key}", depth + 1) for key, item in value.items()}


def _read_array(content: Any) -> Any:
    dtype = _read_dtype(content["dtype"])
    shape, data = content["shape"], content["data"]
    if len(content) != 3 or type(data) is not list or any(type(size) is not int or size < 0 for size in shape):
        raise TypeError
    if len(data) != math.prod(shape):
        raise ValueError
    return array_of(data, dtype).reshape(shape)


def array_of(data: list[Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The array of numbers that stand under a tag. TypeError, KeyError or OverflowError if one is not of the dtype."""
    kinds: tuple[type, ...] = {"b": (bool,), "f": (int, float, str)}.get(dtype.kind, (int,))
    if any(type(number) not in kinds for number in data):
        raise TypeError
    numbers = [NOT_FINITE[number] if isinstance(number, str) else number for number in data]
    if dtype.kind in "iu" and numbers:
        limits = np.iinfo(dtype)
        if not limits.min <= min(numbers) <= max(numbers) <= limits.max:
            raise OverflowError
    with np.errstate(over="ignore"):
        return np.array(numbers, dtype)


def _read_dtype(content: Any) -> np.dtype[Any]:
    if content not in NUMBERS:
        raise ValueError
    dtype: np.dtype[Any] = np.dtype(content)
    return dtype


_READERS = {_ARRAY: _read_array, _DTYPE: _read_dtype, _FLOAT: NOT_FINITE.__getitem__}


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
