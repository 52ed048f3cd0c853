"""Messages to frames and back: a prefix of 20 bytes, a head of msgpack, a body of raw arrays. See ``docs/wire.md``.

``encode`` does not copy large arrays, so send the parts before anything changes them.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import msgspec

from paddock.errors import BadFrame, NotTransferable
from paddock.hosting import messages as m
from paddock.hosting.messages import ENV_LIMIT, LIMITS, Done, Failed, Limits, Message, Rows, Step, StepRows
from paddock.hosting.values import Pickler, Piece, Reader, Unpickler, Writer

_MAGIC = b"PDK1"
PREFIX = struct.Struct("<4sIIQ")  # magic, bytes of the head, number of the request, bytes of the body
PREFIX_BYTES = PREFIX.size
NUMBER = struct.Struct("<I")
NUMBER_AT = 8  # where the number is in the prefix
# A body up to this size is sent in one part with the head; a copy is cheaper than a second buffer.
_JOINED_BYTES = 1 << 16

# Which fields are values, and what must arrive in them.
_VALUE_FIELDS: dict[type, dict[str, type | tuple[type, ...]]] = {
    Step: {"actions": list},
    StepRows: {"actions": (list, type(None))},
    Done: {"value": object},
    Rows: {"notes": (list, type(None))},
    m.Make: {"what": dict},
    m.Reset: {"seed": (int, type(None)), "options": object},
    m.Restore: {"snapshot": bytes},
    m.Call: {"args": list, "kwargs": dict},
    Failed: {"code": str, "message": str, "error_type": str, "trace": str},
    m.Attach: {"observations": (dict, type(None)), "actions": (dict, type(None))},
}
# Those whose one value may be None, which is not written.
_VALUE_OF: dict[type, str] = {Done: "value", Rows: "notes", StepRows: "actions"}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Message)
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
    kind: Any = type(message)
    rows: Any = message.rows if kind is StepRows or kind is Rows else None  # type: ignore[union-attr]
    pieces: list[Piece] = [] if rows is None else [rows]
    body_bytes = 0 if rows is None else len(rows)
    if kind in _VALUE_FIELDS and (kind not in _VALUE_OF or getattr(message, _VALUE_OF[kind]) is not None):
        writer = Writer(limits, pickler)
        try:
            message = _write_values(message, writer)
        except NotTransferable as error:
            raise _name_place(error, answers) from None
        pieces += writer.pieces
        body_bytes += writer.size
    elif rows is not None:  # hot: nearly every step
        message = kind(plain=message.plain, rows=body_bytes)  # type: ignore[union-attr]
    if body_bytes > limits.body_bytes:
        raise NotTransferable(f"This {kind.__name__} has {body_bytes} bytes, at most {limits.body_bytes} are read.")
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


def decode_prefix(
    data: bytes | bytearray | memoryview, at: int = 0, *, limits: Limits = LIMITS
) -> tuple[int, int, int]:
    """The number, the bytes of the head and the bytes of the body of a frame that begins at ``at``. Hot."""
    if len(data) - at < PREFIX_BYTES:
        raise BadFrame(f"the prefix of a frame has {PREFIX_BYTES} bytes, got {len(data) - at}")
    magic, head_bytes, number, body_bytes = PREFIX.unpack_from(data, at)
    if magic != _MAGIC:
        raise BadFrame(f"a frame begins with {_MAGIC!r}, got {magic!r}")
    if head_bytes > limits.head_bytes:
        raise BadFrame(f"the head has {head_bytes} bytes, at most {limits.head_bytes} are read")
    if body_bytes > limits.body_bytes or body_bytes & 7:
        raise BadFrame(f"the body has {body_bytes} bytes, expected a multiple of 8 up to {limits.body_bytes}")
    return number, head_bytes, body_bytes


def decode(
    head: bytes | bytearray | memoryview,
    body: bytearray,
    *,
    limits: Limits = LIMITS,
    unpickler: Unpickler | None = None,
) -> Message:
    """The message, of the sizes that ``decode_prefix`` returned.

    Its arrays are writable views of ``body``: give each message a body of its own.
    """
    if len(head) > SCAN_BYTES:
        check_keys(bytes(head))
    try:
        message = _DECODER.decode(head)
    except _UNREADABLE as error:
        raise BadFrame(f"the head is not a message: {str(error)[:200]}") from None
    kind = type(message)
    valued = kind not in _VALUE_OF or getattr(message, _VALUE_OF[kind]) is not None
    if (kind is Rows or kind is StepRows) and (size := message.rows) is not None:
        if type(size) is not int or not 0 <= size <= len(body) or size & 7:
            raise BadFrame(f"{size!r:.40} of the {len(body)} bytes of a body can't be rows")
        if size == len(body) and not valued:  # hot: nearly every step
            return kind(plain=message.plain, rows=body)  # type: ignore[no-any-return]
        message = msgspec.structs.replace(message, rows=memoryview(body)[:size])
        body = body[size:]
    if kind is not Done and kind is not Rows:
        _check_env(message)
    if not body and not valued:
        return message  # type: ignore[no-any-return]
    reader = Reader(body, limits, unpickler)
    fields = _VALUE_FIELDS.get(kind)
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
    number, head_bytes, body_bytes = decode_prefix(data, limits=limits)
    body_at = PREFIX_BYTES + head_bytes
    if len(data) != body_at + body_bytes:
        raise BadFrame(f"a frame of {body_at + body_bytes} bytes was announced, got {len(data)}")
    return number, decode(data[PREFIX_BYTES:body_at], bytearray(data[body_at:]), limits=limits, unpickler=unpickler)


def is_step_rows(frame: bytes) -> bool:
    """Whether this is a sound frame of StepRows with nothing but rows. Hot: a server passes these on unread."""
    if len(frame) < PREFIX_BYTES:
        return False
    magic, head_bytes, _, size = PREFIX.unpack_from(frame)
    if magic != _MAGIC or PREFIX_BYTES + head_bytes + size != len(frame) or size & 7:
        return False
    head = frame[PREFIX_BYTES : PREFIX_BYTES + head_bytes]
    return any(head == _ENCODER.encode(StepRows([], None, plain, size)) for plain in (False, True))


def _check_env(message: Any) -> None:
    if type(message) is Step or type(message) is StepRows:
        envs = message.envs
        if envs and not 0 <= min(envs) <= max(envs) < ENV_LIMIT:
            raise BadFrame(f"a Step names an environment outside 0 to {ENV_LIMIT - 1}")
        return
    number = message.rows if type(message) is m.Attach else getattr(message, "env", None)
    if number is not None and not 0 <= number < ENV_LIMIT:
        raise BadFrame(f"a {type(message).__name__} has the number {number}, outside 0 to {ENV_LIMIT - 1}")


def _write_values(message: Any, writer: Writer) -> Any:
    kind = type(message)
    if kind is Done:
        return Done(writer.add(message.value, "value"))
    if kind is Failed:
        return Failed(**writer.failed_fields(message))
    changed = {name: writer.add(getattr(message, name), name) for name in _VALUE_FIELDS[kind]}
    if kind is StepRows or kind is Rows:
        changed["rows"] = None if message.rows is None else len(message.rows)
    return msgspec.structs.replace(message, **changed)


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
    return msgspec.structs.replace(message, **changed) if changed else message


_PARTS_OF_STEP = ("observation", "reward", "terminated", "truncated", "info")


def _name_place(error: NotTransferable, answers: Message | None) -> NotTransferable:
    """The error with the place in a reply as the user knows it."""
    path = error.path
    if isinstance(answers, (Step, StepRows, m.StepJson)) and (place := re.search(r"value\[(\d+)\]\[([0-4])\]", path)):
        shown = _PARTS_OF_STEP[int(place[2])]
    elif isinstance(answers, StepRows) and (place := re.search(r"notes\[(\d+)\]\[([12])\]", path)):
        shown = ("info", "observation")[int(place[2]) - 1]
    elif isinstance(answers, m.Reset) and (place := re.search(r"value\[([01])\]", path)):
        shown = ("observation", "info")[int(place[1])]
    elif isinstance(answers, (m.Call, m.Render)) and (place := re.search("value", path)):
        shown = answers.name if isinstance(answers, m.Call) else "render()"
    else:
        return error
    renamed = path[: place.start()] + shown + path[place.end() :]
    return NotTransferable(str(error).replace(path, renamed, 1), path=renamed, kind=error.kind)


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
