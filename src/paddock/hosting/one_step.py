"""The frames of one environment's step, written and read without detours; the bytes are those of ``codec``.

Whatever is not the usual (an info with something in it, a space with parts, several environments) is None here and
takes the codec. A reader would get wrong: splitting a head by known beginnings and ends is safe only because what is
left between them is decoded, or was seen before, as exactly one value. Hot: this is most of what a cheap step costs.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from paddock.hosting.messages import Done, Message, Step
from paddock.hosting.value_kinds import ATOMS, DTYPE_OF_NAME, NAME_OF_DTYPE

_PREFIX = struct.Struct("<4sIIQ")
_MAGIC = b"PDK1"
_PREFIX_BYTES = _PREFIX.size
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

# A Step of environment 0 up to its action, and a Done up to its observation.
_STEP = b"\x83\xa4type\xa4step\xa4envs\x91\x00\xa7actions\x91"
_DONE = b"\x82\xa4type\xa4done\xa5value\x91\x95"
_ACTION_AT = _PREFIX_BYTES + len(_STEP)
_OBSERVATION_AT = _PREFIX_BYTES + len(_DONE)
# Behind the observation: reward as a float, terminated, truncated, an empty info.
_REST = struct.Struct(">cd2sc")
_REST_BYTES = _REST.size
_FLOAT, _EMPTY = b"\xcb", b"\x80"
_FLAGS = {
    (False, False): b"\xc2\xc2",
    (False, True): b"\xc2\xc3",
    (True, False): b"\xc3\xc2",
    (True, True): b"\xc3\xc3",
}
_BOOLS = {flags: bools for bools, flags in _FLAGS.items()}

_HEAD_BYTES = 1 << 10  # usual ones are much shorter; what is not yet known to be sound is not decoded at any length
_SMALL_BYTES = 1 << 14  # of an array: larger ones are lent, not copied
_PLAIN = frozenset({type(None), bool, float})
_WORD = 1 << 63
_SMALL = frozenset([*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3])  # numbers of one byte, None, False, True
_MOST_MARKERS = 64

# How arrays of a dtype and shape are announced, and back. Forgotten as a whole when a peer sends too many.
_marker_of: dict[tuple[Any, tuple[int, ...]], bytes] = {}
_array_of: dict[bytes, tuple[np.dtype[Any], tuple[int, ...], int]] = {}


def step_frame(action: Any, number: int) -> bytes | None:
    """The request to step environment 0."""
    kind = type(action)
    if (kind is int and -_WORD <= action < _WORD) or kind in _PLAIN:
        value = _encode(action)
        return _PREFIX.pack(_MAGIC, len(_STEP) + len(value), number, 0) + _STEP + value
    if kind is np.ndarray and (marker := _marker(action)) is not None:
        body = _padded(action)
        return b"".join((_PREFIX.pack(_MAGIC, len(_STEP) + len(marker), number, len(body)), _STEP, marker, body))
    return None


def result_frame(result: Any, number: int) -> bytes | None:
    """The reply with these five results of one environment."""
    if type(result) is not tuple or len(result) != 5:
        return None
    observation, reward, terminated, truncated, info = result
    if type(reward) is not float or type(info) is not dict or info:
        return None
    if type(terminated) is not bool or type(truncated) is not bool:
        return None
    kind, body = type(observation), b""
    if kind is np.ndarray:
        marker = _marker(observation)
        if marker is None:
            return None
        body = _padded(observation)
    elif (kind is int and -_WORD <= observation < _WORD) or kind in _PLAIN:
        marker = _encode(observation)
    else:
        return None
    rest = _REST.pack(_FLOAT, reward, _FLAGS[terminated, truncated], _EMPTY)
    head_bytes = len(_DONE) + len(marker) + _REST_BYTES
    return b"".join((_PREFIX.pack(_MAGIC, head_bytes, number, len(body)), _DONE, marker, rest, body))


def read(frame: bytes) -> tuple[int, Message] | None:
    """The number and the message of a frame that is one of these two; None for any other, sound or not."""
    if len(frame) <= _PREFIX_BYTES:
        return None
    magic, head_bytes, number, body_bytes = _PREFIX.unpack_from(frame)
    end = _PREFIX_BYTES + head_bytes
    if magic != _MAGIC or end + body_bytes != len(frame) or head_bytes > _HEAD_BYTES:
        return None
    if frame.startswith(_DONE, _PREFIX_BYTES):
        at = end - _REST_BYTES
        if at <= _OBSERVATION_AT:
            return None
        float_, reward, flags, empty = _REST.unpack_from(frame, at)
        bools = _BOOLS.get(flags)
        if float_ != _FLOAT or empty != _EMPTY or bools is None:
            return None
        found = _value(frame, _OBSERVATION_AT, at, end)
        return None if found is _UNUSUAL else (number, Done([[found, reward, *bools, {}]]))
    if frame.startswith(_STEP, _PREFIX_BYTES):
        found = _value(frame, _ACTION_AT, end, end)
        return None if found is _UNUSUAL else (number, Step([0], [found]))
    return None


def is_step(frame: bytes) -> bool:
    """Whether this is a sound request to step environment 0, as ``step_frame`` writes it. Nothing is made of it."""
    if not frame.startswith(_STEP, _PREFIX_BYTES):
        return False
    magic, head_bytes, _, body_bytes = _PREFIX.unpack_from(frame)
    end = _PREFIX_BYTES + head_bytes
    if magic != _MAGIC or end + body_bytes != len(frame) or head_bytes > _HEAD_BYTES:
        return False
    return _is_value(frame, _ACTION_AT, end)


def _is_value(frame: bytes, start: int, end: int) -> bool:
    """As ``_value``, but the value itself is not wanted."""
    plain = frame[start:end]
    known = _array_of.get(plain)
    if known is not None:
        return known[2] == len(frame) - end
    return len(plain) == 1 and plain[0] in _SMALL and end == len(frame)


class _Unusual:
    pass


_UNUSUAL: Any = _Unusual()


def _value(frame: bytes, start: int, end: int, body_at: int) -> Any:
    """The one value whose bytes in the head these are, with the whole body."""
    plain = frame[start:end]
    known = _array_of.get(plain)
    if known is not None:
        dtype, shape, size = known
        if size != len(frame) - body_at:
            return _UNUSUAL
        return np.ndarray(shape, dtype, bytearray(frame[body_at:]))
    try:
        value = _decode(plain)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _UNUSUAL
    if type(value) in ATOMS and body_at == len(frame):
        return value
    if type(value) is dict:
        _learn(plain, value)
    return _UNUSUAL


def _learn(plain: bytes, marker: dict[Any, Any]) -> None:
    """Remember how an array is announced, if these are the very bytes that this end would write for it."""
    if set(marker) != {"$", "dtype", "shape", "offset"} or marker["$"] != "array":
        return
    name, shape = marker["dtype"], marker["shape"]
    if type(name) is not str or type(shape) is not list or len(shape) > 32 or not all(type(n) is int for n in shape):
        return
    dtype = DTYPE_OF_NAME.get(name)
    if dtype is None or dtype.kind == "b" or any(not 0 < n < _SMALL_BYTES for n in shape):
        return
    size = dtype.itemsize
    for n in shape:
        size *= n
    if size < _SMALL_BYTES and plain == _announced(name, tuple(shape)):
        if len(_array_of) >= _MOST_MARKERS:
            _array_of.clear()
        _array_of[plain] = dtype, tuple(shape), size + 7 & -8


def _marker(array: NDArray[Any]) -> bytes | None:
    key = array.dtype, array.shape
    marker = _marker_of.get(key)
    if marker is None:
        name = NAME_OF_DTYPE.get(array.dtype)
        if name is None or array.nbytes >= _SMALL_BYTES or array.ndim > 32:
            return None
        if len(_marker_of) >= _MOST_MARKERS:
            _marker_of.clear()
        marker = _marker_of[key] = _announced(name, array.shape)
    return marker


def _announced(name: str, shape: tuple[int, ...]) -> bytes:
    return _encode({"$": "array", "dtype": name, "shape": list(shape), "offset": 0})


def _padded(array: NDArray[Any]) -> bytes:
    data = array.tobytes()
    rest = -len(data) & 7
    return data + b"\0" * rest if rest else data
