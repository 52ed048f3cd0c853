"""What a wrapper remembers, as plain data for snapshots. Bytes come from anywhere: what is there says what may come."""

from __future__ import annotations

from collections import deque
from copy import copy
from typing import Any

import numpy as np

from paddock.core.problem import kind
from paddock.errors import InvalidSnapshot, SnapshotUnsupported


class Memory:
    """What is remembered: attributes, in a snapshot if they have no underscore. One subclass a logic.

    They may be numbers, text, arrays, deques of these, dicts and tuples of all these, and memories.

    A class of Python's own: attributes of a SimpleNamespace take three times as long, and steps are counted in them.
    """

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)


_PLAIN = (type(None), bool, int, float, str)


def packed(memory: Any) -> dict[str, Any]:
    """The attributes without an underscore, each as plain data."""
    return {name: _pack(name, value) for name, value in _kept(memory).items()}


def unpacked(memory: Any, data: dict[str, Any]) -> dict[str, Any]:
    """New values for the attributes of a memory, of the same kind as those that it has; it is not changed."""
    kept = _kept(memory)
    if kept.keys() != data.keys():
        raise InvalidSnapshot(f"This snapshot remembers {sorted(data)}, expected {sorted(kept)}.")
    return {name: _unpack(name, kept[name], data[name]) for name in kept}


def _kept(memory: Any) -> dict[str, Any]:
    return {} if memory is None else {name: value for name, value in vars(memory).items() if name[0] != "_"}


def _pack(name: str, value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return {"dtype": value.dtype.str, "shape": list(value.shape), "bytes": value.tobytes()}
    if isinstance(value, deque):
        return [_pack(name, one) for one in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {"parts": {key: _pack(name, one) for key, one in value.items()}}
    if isinstance(value, Memory):
        return {"memory": packed(value)}
    if type(value) is tuple:
        return {"tuple": [_pack(name, one) for one in value]}
    if type(value) in _PLAIN:
        return value
    raise SnapshotUnsupported(f"A wrapper remembers {name}={type(value).__name__}, which has no form as plain data.")


def _unpack(name: str, there: Any, data: Any) -> Any:
    """``data`` as a value like ``there``; where that is None or a number it may be of any kind that can be packed."""
    try:
        value = _value(there, data)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidSnapshot(f"This snapshot's {name} is malformed.") from None
    alike = isinstance(value, type(there)) or there is None or value is None
    numbers = (int, float, np.generic)
    if not alike and not (isinstance(value, numbers) and isinstance(there, numbers)):
        raise InvalidSnapshot(f"This snapshot's {name} is {kind(value)}, expected {type(there).__name__}.")
    if isinstance(there, np.ndarray) and value is not None and (there.shape, there.dtype) != (value.shape, value.dtype):
        raise InvalidSnapshot(f"This snapshot's {name} is {value.dtype}{list(value.shape)}, expected another array.")
    return value


def _value(there: Any, data: Any) -> Any:
    if isinstance(there, deque):
        return deque((_value(None, one) for one in data), maxlen=there.maxlen)
    if not isinstance(data, dict):
        if type(data) not in _PLAIN:
            raise TypeError
        return data
    if "parts" in data:
        parts = data["parts"]
        if isinstance(there, dict):
            return {key: _unpack(key, there[key], parts[key]) for key in there}
        return {str(key): _value(None, one) for key, one in parts.items()}
    if "memory" in data:
        restored = copy(there)
        vars(restored).update(unpacked(there, data["memory"]))
        return restored
    if "tuple" in data:
        old = there if isinstance(there, tuple) else (None,) * len(data["tuple"])
        return tuple(_unpack("part", one, new) for one, new in zip(old, data["tuple"], strict=True))
    dtype = np.dtype(data["dtype"])
    if dtype.hasobject:
        raise TypeError
    array = np.frombuffer(data["bytes"], dtype).reshape(data["shape"]).copy()
    return array if array.ndim else array[()]
