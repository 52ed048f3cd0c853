"""Messages to frames and back: a prefix of 20 bytes, a head of msgpack, a body of raw arrays. See ``docs/wire.md``.

A reader would get wrong: large arrays are not copied by ``encode``, so send the parts before anyone changes them.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import msgspec

from paddock.errors import BadFrame, NotTransferable
from paddock.hosting.head_scan import SCAN_BYTES, check_keys
from paddock.hosting.limits import ENV_LIMIT, LIMITS, Limits
from paddock.hosting.messages import (
    Attach,
    Call,
    Close,
    Done,
    Failed,
    Hello,
    Make,
    Message,
    Refuse,
    Render,
    Reset,
    Restore,
    Snapshot,
    State,
    Step,
    Waiting,
    Welcome,
)
from paddock.hosting.value_reader import Reader, Unpickler
from paddock.hosting.value_writer import Pickler, Piece, Writer

_MAGIC = b"PDK1"
PREFIX = struct.Struct("<4sIIQ")  # magic, bytes of the head, number of the request, bytes of the body
PREFIX_BYTES = PREFIX.size
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


# These have values in fields of narrower types (a long text is a marker), so they are read as twins.
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
    | State
    | Render
    | Snapshot
    | _Restore
    | Call
    | Close
    | Refuse
    | Done
    | _Failed
    | Attach
    | Hello
    | Waiting
    | Welcome
)
# What msgspec raises for bytes that are no message: also text that is not UTF-8, and nesting past Python's limit.
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


def encode(
    message: Message,
    number: int = 0,
    *,
    limits: Limits = LIMITS,
    pickler: Pickler | None = None,
    answers: Message | None = None,
) -> list[Piece]:
    """The frame with this number, in parts to be sent one after another. It is one part unless the body is large.

    NotTransferable says where the value stands that can't cross; with ``answers``, the request to which this is the
    reply, it calls it by its name there (``info['viewer']`` rather than ``value[0][4]['viewer']``). ``pickler`` is for
    requests to an end that trusts this one.
    """
    pieces: list[Piece] = []
    body_bytes = 0
    empty = (type(message) is Done and message.value is None) or (type(message) is Step and message.actions is None)
    if not empty:
        writer = Writer(limits, pickler)
        try:
            message = _write_values(message, writer)
        except NotTransferable as error:
            raise _named(error, answers) from None
        pieces, body_bytes = writer.pieces, writer.size
    try:
        head = _ENCODER.encode(message)
    except (OverflowError, UnicodeError, TypeError) as error:  # a field that is no value, as the name of an attribute
        raise NotTransferable(f"A {type(message).__name__} has a field that no message can hold: {error}.") from None
    if len(head) > limits.head_bytes:
        raise NotTransferable(
            f"This {type(message).__name__} has {len(head)} bytes beside its arrays; {limits.head_bytes} may cross. "
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
        raise BadFrame(f"the head is no message: {str(error)[:200]}") from None
    kind = type(message)
    if kind is not Done:
        _check_env(message)
    if not body and ((kind is Done and message.value is None) or (kind is Step and message.actions is None)):
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
            raise BadFrame(f"{name!r} of a message has a key that is no text")
        if value is not plain:
            changed[name] = value
    cls = _CLASS_OF_TWIN.get(type(message))
    if cls is not None:
        return cls(**{**msgspec.structs.asdict(message), **changed})
    return msgspec.structs.replace(message, **changed) if changed else message


_PARTS_OF_STEP = ("observation", "reward", "terminated", "truncated", "info")


def _named(error: NotTransferable, answers: Message | None) -> NotTransferable:
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
