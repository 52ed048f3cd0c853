"""Messages to frames and back: a prefix of 20 bytes, a head of msgpack, a body of raw arrays. See ``docs/wire.md``.

``encode`` does not copy large arrays, so send the parts before anything changes them.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from paddock.errors import BadFrame, NotTransferable
from paddock.hosting.messages import (
    ENV_LIMIT,
    LIMITS,
    Attach,
    Call,
    Close,
    Done,
    Failed,
    Hello,
    Limits,
    Make,
    Message,
    Outcome,
    Refuse,
    Render,
    Reset,
    Restore,
    Snapshot,
    State,
    Step,
    StepJson,
    Waiting,
    Welcome,
)
from paddock.hosting.values import (
    ATOMS,
    DTYPE_OF_NAME,
    FIXED,
    NAME_OF_DTYPE,
    NAME_OF_SCALAR,
    Pickler,
    Piece,
    Reader,
    Unpickler,
    Writer,
)

_MAGIC = b"PDK1"
PREFIX = struct.Struct("<4sIIQ")  # magic, bytes of the head, number of the request, bytes of the body
PREFIX_BYTES = PREFIX.size
NUMBER = struct.Struct("<I")
NUMBER_AT = 8  # where the number is in the prefix
# A body up to this size is sent in one part with the head; a copy is cheaper than a second buffer.
_JOINED_BYTES = 1 << 16

# Which fields are values, and what must arrive in them. Step and Done come first: they are the hot ones.
_VALUE_FIELDS: dict[type, dict[str, type | tuple[type, ...]]] = {
    Step: {"actions": (list, type(None))},
    Done: {"value": object},
    Make: {"what": dict},
    Reset: {"seed": (int, type(None)), "options": object},
    Restore: {"snapshot": bytes},
    Call: {"args": list, "kwargs": dict},
    Failed: {"code": str, "message": str, "error_type": str, "trace": str},
    Attach: {"observations": (dict, type(None)), "actions": (dict, type(None))},
}


# These have values in fields of narrower types (a long text is a marker), so they are read as these twins.
class _Reset(msgspec.Struct, tag="reset"):
    env: int
    seed: Any = None
    options: Any = None


class _Restore(msgspec.Struct, tag="restore"):
    env: int
    snapshot: Any


class _Failed(msgspec.Struct, tag="failed"):
    code: Any
    message: Any
    error_type: Any = ""
    trace: Any = ""


_CLASS_OF_TWIN: dict[type, type] = {_Reset: Reset, _Restore: Restore, _Failed: Failed}
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    Make
    | _Reset
    | Step
    | StepJson
    | State
    | Render
    | Snapshot
    | _Restore
    | Call
    | Close
    | Refuse
    | Done
    | _Failed
    | Outcome
    | Attach
    | Hello
    | Waiting
    | Welcome
)
# What msgspec raises for bytes that are not a message: also text that is not UTF-8, and nesting past Python's limit.
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


def encode(
    message: Message,
    number: int = 0,
    *,
    limits: Limits = LIMITS,
    pickler: Pickler | None = None,
    answers: Message | None = None,
) -> list[Piece]:
    """The frame with this number, in parts to send one after another: one part unless the body is large.

    NotTransferable says which value can't cross. Pass ``answers``, the request that this reply answers, to have it
    named in the user's terms (``info['viewer']`` rather than ``value[0][4]['viewer']``). ``pickler`` is for requests to
    a far end that trusts this one.
    """
    usual = None
    if type(message) is Step and message.envs == [0] and message.actions is not None and len(message.actions) == 1:
        usual = step_frame(message.actions[0], number)
    elif type(message) is Done and type(message.value) is list and len(message.value) == 1:
        usual = result_frame(message.value[0], number)
    if usual is not None:
        return [usual]
    pieces: list[Piece] = []
    body_bytes = 0
    if not _has_no_values(message):
        writer = Writer(limits, pickler)
        try:
            message = _write_values(message, writer)
        except NotTransferable as error:
            raise _name_place(error, answers) from None
        pieces, body_bytes = writer.pieces, writer.size
    try:
        head = _ENCODER.encode(message)
    except (OverflowError, UnicodeError, TypeError) as error:  # in a field that is not a value: an attribute's name
        raise NotTransferable(f"A {type(message).__name__} has a field that a message can't hold: {error}.") from None
    if len(head) > limits.head_bytes:
        raise NotTransferable(
            f"This {type(message).__name__} has {len(head)} bytes beside its arrays, more than {limits.head_bytes}. "
            "Put many numbers into one array, or many texts into one.",
            path="actions" if type(message) is Step else "",
        )
    prefix = PREFIX.pack(_MAGIC, len(head), number, body_bytes)
    if body_bytes <= _JOINED_BYTES:
        return [b"".join((prefix, head, *pieces))]
    return [prefix + head, *pieces]


def decode_prefix(prefix: bytes | bytearray | memoryview, *, limits: Limits = LIMITS) -> tuple[int, int, int]:
    """The request's number, the bytes of the head and the bytes of the body, from a frame's first 20 bytes."""
    if len(prefix) != PREFIX_BYTES:
        raise BadFrame(f"the prefix of a frame has {PREFIX_BYTES} bytes, got {len(prefix)}")
    magic, head_bytes, number, body_bytes = PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise BadFrame(f"a frame begins with {_MAGIC!r}, got {magic!r}")
    _check_sizes(head_bytes, body_bytes, limits)
    return number, head_bytes, body_bytes


def decode(
    head: bytes | bytearray | memoryview,
    body: bytearray,
    *,
    limits: Limits = LIMITS,
    unpickler: Unpickler | None = None,
) -> Message:
    """The message. Its arrays are writable views of ``body``: give each message a body of its own."""
    _check_sizes(len(head), len(body), limits)
    if len(head) > SCAN_BYTES:
        check_keys(bytes(head))
    try:
        message = _DECODER.decode(head)
    except _UNREADABLE as error:
        raise BadFrame(f"the head is not a message: {str(error)[:200]}") from None
    kind = type(message)
    if kind is not Done:
        _check_env(message)
    if not body and _has_no_values(message):
        return message  # type: ignore[no-any-return]
    reader = Reader(body, limits, unpickler)
    fields = _VALUE_FIELDS.get(_CLASS_OF_TWIN.get(kind, kind))
    try:
        if fields is not None:
            message = _read_values(message, fields, reader)
    except RecursionError:  # our own caller is deep already
        raise BadFrame("the values are nested deeper than what is left of Python's stack") from None
    reader.finish()
    return message  # type: ignore[no-any-return]


def decode_frame(
    data: bytes | bytearray, *, limits: Limits = LIMITS, unpickler: Unpickler | None = None
) -> tuple[int, Message]:
    """A whole frame in one piece, as tests and files have it."""
    number, head_bytes, body_bytes = decode_prefix(data[:PREFIX_BYTES], limits=limits)
    body_at = PREFIX_BYTES + head_bytes
    if len(data) != body_at + body_bytes:
        raise BadFrame(f"a frame of {body_at + body_bytes} bytes was announced, got {len(data)}")
    return number, decode(data[PREFIX_BYTES:body_at], bytearray(data[body_at:]), limits=limits, unpickler=unpickler)


def _has_no_values(message: Any) -> bool:
    kind = type(message)
    if kind is Done or kind is Step:
        return (message.value if kind is Done else message.actions) is None
    return kind not in _VALUE_FIELDS and kind not in _CLASS_OF_TWIN


def _check_sizes(head_bytes: int, body_bytes: int, limits: Limits) -> None:
    if head_bytes > limits.head_bytes:
        raise BadFrame(f"the head has {head_bytes} bytes, at most {limits.head_bytes} are read")
    if body_bytes > limits.body_bytes or body_bytes & 7:
        raise BadFrame(f"the body has {body_bytes} bytes, expected a multiple of 8 up to {limits.body_bytes}")


def _check_env(message: Any) -> None:
    if type(message) is Step:
        envs = message.envs
        if envs and not 0 <= min(envs) <= max(envs) < ENV_LIMIT:
            raise BadFrame(f"a Step names an environment outside 0 to {ENV_LIMIT - 1}")
        return
    number = message.rows if type(message) is Attach else getattr(message, "env", None)
    if number is not None and not 0 <= number < ENV_LIMIT:
        raise BadFrame(f"a {type(message).__name__.lstrip('_')} has the number {number}, outside 0 to {ENV_LIMIT - 1}")


def _write_values(message: Any, writer: Writer) -> Any:
    kind = type(message)
    if kind is Done:
        return Done(writer.add(message.value, "value"))
    if kind is Step:
        return Step(message.envs, writer.add(message.actions, "actions"))
    if kind is Failed:
        return Failed(**writer.failed_fields(message))
    fields = _VALUE_FIELDS.get(kind)
    if fields is None:
        return message
    return msgspec.structs.replace(message, **{name: writer.add(getattr(message, name), name) for name in fields})


def _read_values(message: Any, fields: dict[str, Any], reader: Reader) -> Any:
    """The message with its values read, itself if they only changed in place."""
    changed = {}
    for name, expected in fields.items():
        plain = getattr(message, name)
        value = reader.read(plain)
        if not isinstance(value, expected) or (expected is not object and type(value) is bool):
            raise BadFrame(f"{name!r} of a message is a {type(value).__name__}")
        if expected is not object and type(value) is dict and not all(type(key) is str for key in value):
            raise BadFrame(f"{name!r} of a message has a key that is not text")
        if value is not plain:
            changed[name] = value
    cls = _CLASS_OF_TWIN.get(type(message))
    if cls is not None:
        return cls(**{**msgspec.structs.asdict(message), **changed})
    return msgspec.structs.replace(message, **changed) if changed else message


_PARTS_OF_STEP = ("observation", "reward", "terminated", "truncated", "info")


def _name_place(error: NotTransferable, answers: Message | None) -> NotTransferable:
    """The error with the place in a reply as the user knows it."""
    path = error.path
    if isinstance(answers, Step) and (place := re.search(r"value\[(\d+)\]\[([0-4])\]", path)):
        shown = _PARTS_OF_STEP[int(place[2])]
    elif isinstance(answers, Reset) and (place := re.search(r"value\[([01])\]", path)):
        shown = ("observation", "info")[int(place[1])]
    elif isinstance(answers, (Call, Render)) and (place := re.search("value", path)):
        shown = answers.name if isinstance(answers, Call) else "render()"
    else:
        return error
    renamed = path[: place.start()] + shown + path[place.end() :]
    return NotTransferable(str(error).replace(path, renamed, 1), path=renamed, kind=error.kind)


# The frames of one environment's step, written and read directly; the bytes are the same as above. Whatever is unusual
# (an info with entries, a space with parts, several environments) is None here and takes the way above.
#
# Splitting a head by its known beginning and end is safe only because what is between them is
# decoded, or was seen before, as exactly one value. Hot: this is most of what a cheap step costs.


_encode = _ENCODER.encode
_decode = msgspec.msgpack.Decoder().decode

# A Step of environment 0 up to its action, and a Done up to its observation.
_STEP = b"\x83\xa4type\xa4step\xa4envs\x91\x00\xa7actions\x91"
_DONE = b"\x82\xa4type\xa4done\xa5value\x91\x95"
_ACTION_AT = PREFIX_BYTES + len(_STEP)
_OBSERVATION_AT = PREFIX_BYTES + len(_DONE)
# After the observation: reward as a float, terminated, truncated, an empty info.
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

_HEAD_BYTES = 1 << 10  # usual heads are much shorter; what may not be sound is not decoded at any length
_SMALL_BYTES = 1 << 14  # of an array: larger ones are lent, not copied
_WORD = 1 << 63
_SMALL = frozenset([*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3])  # numbers of one byte, None, False, True
_MOST_MARKERS = 64

# A NumPy scalar up to its bytes, by its type, and back. Not of bools, whose byte must be looked at.
_SCALAR_OF_KIND = {
    kind: _encode({"$": "scalar", "dtype": name, "data": bytes(np.dtype(name).itemsize)})[: -np.dtype(name).itemsize]
    for kind, name in NAME_OF_SCALAR.items()
    if len(name) == 3 and name != "|b1"
}
_DTYPE_OF_SCALAR = {scalar: np.dtype(NAME_OF_SCALAR[kind]) for kind, scalar in _SCALAR_OF_KIND.items()}
(_SCALAR_BYTES,) = set(map(len, _DTYPE_OF_SCALAR))

# The marker of arrays of a dtype and shape, and back. Cleared as a whole when a peer sends too many.
_marker_of: dict[tuple[Any, tuple[int, ...]], bytes] = {}
_array_of: dict[bytes, tuple[np.dtype[Any], tuple[int, ...], int]] = {}


def step_frame(action: Any, number: int) -> bytes | None:
    """The frame that asks to step environment 0; None if the action is unusual."""
    written = _write_usual(action)
    if written is None:
        return None
    plain, body = written
    return b"".join((PREFIX.pack(_MAGIC, len(_STEP) + len(plain), number, len(body)), _STEP, plain, body))


def result_frame(result: Any, number: int) -> bytes | None:
    """The frame of the reply with these five results of one environment; None if they are unusual."""
    if type(result) is not list or len(result) != 5:
        return None
    observation, reward, terminated, truncated, info = result
    if type(reward) is not float or type(info) is not dict or info:
        return None
    if type(terminated) is not bool or type(truncated) is not bool:
        return None
    written = _write_usual(observation)
    if written is None:
        return None
    plain, body = written
    rest = _REST.pack(_FLOAT, reward, _FLAGS[terminated, truncated], _EMPTY)
    head_bytes = len(_DONE) + len(plain) + _REST_BYTES
    return b"".join((PREFIX.pack(_MAGIC, head_bytes, number, len(body)), _DONE, plain, rest, body))


def _write_usual(value: Any) -> tuple[bytes, bytes] | None:
    """What is in the head and in the body for a number, a NumPy scalar, or a small array; None for anything else."""
    kind = type(value)
    if (kind is int and -_WORD <= value < _WORD) or kind in FIXED:
        return _encode(value), b""
    if kind is np.ndarray:
        marker = _marker(value)
        return None if marker is None else (marker, _pad(value))
    scalar = _SCALAR_OF_KIND.get(kind)
    return None if scalar is None else (scalar + value.tobytes(), b"")


def decode_step_frame(frame: bytes) -> tuple[int, Message] | None:
    """The number and the message of a frame as ``step_frame`` or ``result_frame`` writes it; None for any other."""
    if len(frame) <= PREFIX_BYTES:
        return None
    magic, head_bytes, number, body_bytes = PREFIX.unpack_from(frame)
    end = PREFIX_BYTES + head_bytes
    if magic != _MAGIC or end + body_bytes != len(frame) or head_bytes > _HEAD_BYTES:
        return None
    if frame.startswith(_DONE, PREFIX_BYTES):
        at = end - _REST_BYTES
        if at <= _OBSERVATION_AT:
            return None
        float_, reward, flags, empty = _REST.unpack_from(frame, at)
        bools = _BOOLS.get(flags)
        if float_ != _FLOAT or empty != _EMPTY or bools is None:
            return None
        found = _value(frame, _OBSERVATION_AT, at, end)
        return None if found is _UNUSUAL else (number, Done([[found, reward, *bools, {}]]))
    if frame.startswith(_STEP, PREFIX_BYTES):
        found = _value(frame, _ACTION_AT, end, end)
        return None if found is _UNUSUAL else (number, Step([0], [found]))
    return None


def is_step_frame(frame: bytes) -> bool:
    """Whether this is a sound frame as ``step_frame`` writes it. Does not build the message."""
    if not frame.startswith(_STEP, PREFIX_BYTES):
        return False
    magic, head_bytes, _, body_bytes = PREFIX.unpack_from(frame)
    end: int = PREFIX_BYTES + head_bytes
    if magic != _MAGIC or end + body_bytes != len(frame) or head_bytes > _HEAD_BYTES:
        return False
    plain = frame[_ACTION_AT:end]
    known = _array_of.get(plain)
    if known is not None:
        return known[2] == len(frame) - end
    scalar = _DTYPE_OF_SCALAR.get(plain[:_SCALAR_BYTES])
    if scalar is not None:
        return len(plain) == _SCALAR_BYTES + scalar.itemsize and end == len(frame)
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
    scalar = _DTYPE_OF_SCALAR.get(plain[:_SCALAR_BYTES])
    if scalar is not None and len(plain) == _SCALAR_BYTES + scalar.itemsize and body_at == len(frame):
        return np.frombuffer(plain, scalar, 1, _SCALAR_BYTES)[0]
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
    """Remember an array's marker, if these are the very bytes that this end would write for it."""
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
    if size < _SMALL_BYTES and plain == _encode_marker(name, tuple(shape)):
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
        marker = _marker_of[key] = _encode_marker(name, array.shape)
    return marker


def _encode_marker(name: str, shape: tuple[int, ...]) -> bytes:
    return _encode({"$": "array", "dtype": name, "shape": list(shape), "offset": 0})


def _pad(array: NDArray[Any]) -> bytes:
    data = array.tobytes()
    rest = -len(data) & 7
    return data + b"\0" * rest if rest else data


# A scan of a long head before anything is built from it: msgspec would take any msgpack key, arrays too, into a dict.
# Tuples can be chosen so that all have the same hash, and a head of 1 MiB would keep the reader busy for a minute. Text
# has secret hashes, so a head whose keys are text is read in milliseconds; the scan takes at most half a second.


# Shorter heads are not worth the scan: the worst of them takes a quarter of a second.
SCAN_BYTES = 1 << 16

# By the first byte of an item: how many bytes it has, and how many bytes of length follow.
_WIDTH = [1] * 256
_LENGTH = [0] * 256
for _code, _bytes in zip(range(0xCA, 0xD4), (5, 9, 2, 3, 5, 9, 2, 3, 5, 9), strict=True):
    _WIDTH[_code] = _bytes
for _code, _bytes in zip(range(0xD4, 0xD9), (3, 4, 6, 10, 18), strict=True):
    _WIDTH[_code] = _bytes
for _code in range(0xA0, 0xC0):
    _WIDTH[_code] = 1 + (_code & 31)
for _code, _bytes in zip(range(0xC4, 0xCA), (1, 2, 4) * 2, strict=True):
    _LENGTH[_code] = _bytes
for _code, _bytes in zip(range(0xD9, 0xE0), (1, 2, 4, 2, 4, 2, 4), strict=True):
    _LENGTH[_code] = _bytes
_TEXT = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])
_LISTS = frozenset([*range(0x90, 0xA0), 0xDC, 0xDD])
_MAPS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])
_EXTENSIONS = frozenset([0xC7, 0xC8, 0xC9])


def check_keys(head: bytes) -> None:
    """Raise BadFrame unless every key of a map is text. A head that is not msgpack passes: decoding refuses it."""
    at, end = 0, len(head)
    left, in_map = 1, False  # items of the innermost list or map; a map has two for each pair
    outer: list[tuple[int, bool]] = []
    while at < end:
        code = head[at]
        if in_map and not left & 1 and code not in _TEXT:
            raise BadFrame(f"the key of a map is not text, at byte {at} of the head")
        left -= 1
        width = _WIDTH[code]
        count = code & 15
        if length := _LENGTH[code]:
            count = int.from_bytes(head[at + 1 : at + 1 + length], "big")
            width += length
        if code in _LISTS or code in _MAPS:
            outer.append((left, in_map))
            in_map = code in _MAPS
            left = 2 * count if in_map else count
        elif length:
            width += count + (code in _EXTENSIONS)
        at += width
        while not left and outer:
            left, in_map = outer.pop()


# Numbers of requests on the wire: 1 to 2³² − 1, then 1 again. Inside, requests are counted without end, from 1. 0 is
# the handshake's number; as a count it means "none yet".


HANDSHAKE = 0
_LARGEST = 0xFFFFFFFF


def number_on_wire(count: int) -> int:
    """The wire number of the request with this count."""
    return (count - 1) % _LARGEST + 1 if count else HANDSHAKE


def nearest_count(number: int, count: int) -> int:
    """The count with this number that is nearest to ``count``; below 1 if it would be before the first request."""
    if number == HANDSHAKE:
        return 0
    ahead = (number - count) % _LARGEST
    return count + (ahead if ahead <= _LARGEST // 2 else ahead - _LARGEST)


def number_of(frame: bytes | bytearray | memoryview) -> int:
    """The number in a frame's prefix."""
    number: int = NUMBER.unpack_from(frame, NUMBER_AT)[0]
    return number
