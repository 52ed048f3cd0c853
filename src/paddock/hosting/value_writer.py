"""Values to plain msgpack data and pieces of a body. Where a value stands is found only once it has been refused.

Hot path: ``write`` asks one table, and looks at values that need no change inside their list or dict.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray

from paddock.core.spec import EnvSpec
from paddock.core.spec_json import decode_spec, encode_spec
from paddock.errors import InvalidValue, NotTransferable, PaddockError
from paddock.hosting.limits import INTEGER_DIGITS, LIMITS, LONG_BYTES, Limits
from paddock.hosting.messages import Failed
from paddock.hosting.value_kinds import FIXED, NAME_OF_DTYPE, NAME_OF_SCALAR
from paddock.hosting.value_place import kind_of, place_of
from paddock.spaces.graph import GraphInstance
from paddock.spaces.json_form import to_json
from paddock.spaces.records.fields import is_record, open_up
from paddock.spaces.records.known import known_name
from paddock.spaces.records.plain import is_plain
from paddock.spaces.space import Space

Piece = bytes | memoryview
Pickler = Callable[[Any], bytes]

# Below this an array is copied at once; from here on it is lent until the frame is sent.
_LENT_BYTES = 1 << 14
_INTEGER_BITS = 13_600  # fewer than INTEGER_DIGITS decimal digits
_PADDING = [b"\0" * n for n in range(8)]

_PLAIN = "can't cross between processes. Use plain data, NumPy arrays or a dataclass instead, or leave it out."
_UNPICKLED = "Leave out what can't be sent, such as an open file or a lock, and create it in the environment."


class _Refused(Exception):
    """``value`` can't cross; ``reason`` goes on from its place, "is …", and says what to do."""

    def __init__(self, value: Any, reason: str) -> None:
        self.value, self.reason = value, reason


class _TooLarge(Exception):
    """The value as a whole is past a bound."""


class Writer:
    """The values of one message. ``pieces`` joined are the body, padding included; ``size`` is its length."""

    __slots__ = ("_json_left", "_limits", "_nodes_left", "_pickler", "_pieces_left", "_text_left", "pieces", "size")

    def __init__(self, limits: Limits = LIMITS, pickler: Pickler | None = None) -> None:
        self.pieces: list[Piece] = []
        self.size = 0
        self._limits = limits
        self._pickler = pickler
        # Each takes a byte of the head or more; a small web of shared lists is a huge tree, and noticed here.
        self._nodes_left = limits.head_bytes
        self._pieces_left = limits.pieces
        self._text_left = limits.text_bytes
        self._json_left = limits.json_bytes

    def add(self, value: Any, name: str) -> Any:
        """``value`` as plain data; ``name`` is what it is called in an error."""
        try:
            return self.write(value, 1)
        except _Refused as refused:
            path = place_of(refused.value, value, name) or name
            raise NotTransferable(f"{path} {refused.reason}", path=path, kind=kind_of(refused.value)) from None
        except _TooLarge as error:
            raise NotTransferable(f"{name} {error}.", path=name, kind=kind_of(value)) from None

    def write(self, value: Any, depth: int) -> Any:
        """``value`` as plain data, or one of this file's own errors."""
        kind = type(value)
        if kind in FIXED:
            return value
        rule = _RULES.get(kind)
        return self._other(value, depth) if rule is None else rule(self, value, depth)

    def _enter(self, count: int, depth: int) -> None:
        if depth > self._limits.depth:
            raise _TooLarge(f"is nested deeper than {self._limits.depth} levels, or holds itself; make it flatter")
        self._nodes_left -= count + 1
        if self._nodes_left < 0:
            raise _TooLarge(
                f"has more items than a message of {self._limits.head_bytes} bytes holds; put numbers into one array"
            )

    def _append(self, piece: Piece, size: int) -> int:
        """Where the piece lies in the body."""
        offset = self.size
        padding = -size & 7
        self.size = offset + size + padding
        self._pieces_left -= 1
        if self.size > self._limits.body_bytes:
            raise _TooLarge(f"makes a message of more than {self._limits.body_bytes} bytes; send less at a time")
        if self._pieces_left < 0:
            raise _TooLarge(f"has more than {self._limits.pieces} arrays and long texts; stack them into one array")
        self.pieces.append(piece)
        if padding:
            self.pieces.append(_PADDING[padding])
        return offset

    def _refuse(self, value: Any, reason: str) -> dict[str, Any]:
        """Pickle the value, if the far end may be given code, or raise."""
        if self._pickler is None:
            raise _Refused(value, f"{reason} and {_PLAIN}")
        try:
            data = self._pickler(value)
        except Exception as error:  # whatever the value's own __reduce__ raises
            why = f"{type(error).__name__}: {error}".rstrip(".")
            raise _Refused(value, f"{reason}, and pickle can't carry it: {why}. {_UNPICKLED}") from error
        return {"$": "pickled", "offset": self._append(data, len(data)), "size": len(data)}

    def _int(self, value: int, depth: int) -> Any:
        if -(1 << 63) <= value < 1 << 64:
            return value
        if value.bit_length() > _INTEGER_BITS:
            return self._refuse(value, f"is an integer of more than {INTEGER_DIGITS} digits")
        try:
            return {"$": "int", "digits": str(value)}
        except ValueError as error:  # where Python was told to write fewer digits
            return self._refuse(value, f"is an integer too long to write: {error}")

    def _str(self, value: str, depth: int) -> Any:
        if len(value) < LONG_BYTES and value.isascii():
            return value
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            return self._refuse(value, f"is a str with a lone surrogate at {error.start}, not Unicode text,")
        if len(data) < LONG_BYTES:
            return value
        self._text_left -= len(data)
        if self._text_left < 0:
            raise _TooLarge(f"has more than {self._limits.text_bytes} bytes of text; send less at a time")
        return {"$": "text", "offset": self._append(data, len(data)), "size": len(data)}

    def _bytes(self, value: bytes, depth: int) -> Any:
        if len(value) < LONG_BYTES:
            return value
        return {"$": "bytes", "offset": self._append(value, len(value)), "size": len(value)}

    def _complex(self, value: complex, depth: int) -> dict[str, Any]:
        return {"$": "complex", "real": value.real, "imag": value.imag}

    def _list(self, value: list[Any], depth: int) -> list[Any]:
        self._enter(len(value), depth)
        write, deeper = self.write, depth + 1
        return [item if type(item) in FIXED else write(item, deeper) for item in value]

    def _tuple(self, value: tuple[Any, ...], depth: int) -> dict[str, Any]:
        return {"$": "tuple", "items": self._list(value, depth)}  # type: ignore[arg-type]

    def _dict(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        if not value:
            return {}
        # All keys before any item: a piece of the body can't be taken back.
        for key in value:
            if type(key) is not str or key == "$" or not key.isascii() or len(key) >= LONG_BYTES:
                return self._pairs(value, depth)
        self._enter(len(value), depth)
        write, deeper = self.write, depth + 1
        return {key: item if type(item) in FIXED else write(item, deeper) for key, item in value.items()}

    def _pairs(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        self._enter(2 * len(value), depth)
        pairs = [[self.write(key, depth + 1), self.write(item, depth + 1)] for key, item in value.items()]
        if len(pairs) > self._limits.odd_keys:
            odd = sum(type(key) not in (str, bytes, int) for key, _ in pairs)
            if odd > self._limits.odd_keys:
                raise _TooLarge(f"has a dict with {odd} keys that are no text, bytes or int; use those as keys")
        return {"$": "dict", "pairs": pairs}

    def _array(self, value: NDArray[Any], depth: int) -> dict[str, Any]:
        dtype = value.dtype
        name = NAME_OF_DTYPE.get(dtype)
        if name is None:
            if dtype.kind == "O":
                return self._objects(value, depth)
            if dtype.kind not in "SU" or not dtype.itemsize:
                return self._refuse(value, f"is an array of dtype {dtype}")
            name = dtype.str
        size = value.nbytes
        if value.ndim > self._limits.ndim:
            return self._refuse(value, f"is an array of {value.ndim} axes")
        piece: Piece
        if size < _LENT_BYTES:
            piece = value.tobytes()
        else:
            piece = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        return {"$": "array", "dtype": name, "shape": list(value.shape), "offset": self._append(piece, size)}

    def _objects(self, value: NDArray[Any], depth: int) -> dict[str, Any]:
        if value.ndim > self._limits.ndim:
            return self._refuse(value, f"is an array of {value.ndim} axes")
        return {"$": "objects", "shape": list(value.shape), "items": self._list(list(value.flat), depth)}

    def _scalar(self, value: np.generic, depth: int) -> dict[str, Any]:
        return {"$": "scalar", "dtype": NAME_OF_SCALAR[type(value)], "data": value.tobytes()}

    def _text_scalar(self, value: np.str_, depth: int) -> dict[str, Any]:
        # Not by its memory: an array would lose NULs at the end.
        return {"$": "scalar", "dtype": "U", "data": self._str(str.__str__(value), depth)}

    def _bytes_scalar(self, value: np.bytes_, depth: int) -> dict[str, Any]:
        return {"$": "scalar", "dtype": "S", "data": self._bytes(bytes(value), depth)}

    def _graph(self, value: GraphInstance, depth: int) -> dict[str, Any]:
        nodes, edges, links = self._list(list(value), depth)
        return {"$": "graph", "nodes": nodes, "edges": edges, "edge_links": links}

    def _failed(self, value: Failed, depth: int) -> dict[str, Any]:
        return {"$": "failed", **self.failed_fields(value)}

    def failed_fields(self, value: Failed) -> dict[str, Any]:
        """The texts of a Failed. It must always cross, so what is no Unicode text in them is escaped."""
        texts = {name: getattr(value, name) for name in Failed.__struct_fields__}
        return {name: self._str(text.encode("utf-8", "backslashreplace").decode(), 1) for name, text in texts.items()}

    def _other(self, value: Any, depth: int) -> Any:
        """What no table knows: subclasses, and what is seldom sent."""
        if self._pickler is None and known_name(type(value)) is not None:
            return self._struct(value, depth)
        if isinstance(value, (np.generic, np.ndarray)):
            return self._refuse(value, f"is a {kind_of(value)}")
        for base, unchanged, rule in _BASES:
            if isinstance(value, base):
                return rule(self, unchanged(value), depth)
        if isinstance(value, Space):
            return self._json("space", value, to_json)
        if isinstance(value, EnvSpec):
            return self._json("spec", value, _spec_json)
        random = sys.modules.get("numpy.random")  # not loaded, so none exists
        if random is not None and isinstance(value, random.Generator):
            return self._generator(value)
        # With a pickler, as what it is; without, as what it says: the far end need not know the class.
        if self._pickler is None and is_record(type(value)):
            return self._struct(value, depth)
        return self._refuse(value, f"is a {kind_of(value)}")

    def _struct(self, value: Any, depth: int) -> dict[str, Any]:
        """A record as its fields in plain form, arrays as they are; with its name where the other end knows that."""
        name = known_name(type(value))
        try:
            # The same, but for who has to ask what everything is.
            fields = to_builtins(value) if name is not None and is_plain(value) else open_up(value, depth)
        except InvalidValue as error:
            raise _TooLarge(f"has a {kind_of(value)} in it that can't be taken apart: {error}") from None
        named = {} if name is None else {"name": name}
        try:
            return {"$": "struct", **named, "fields": self._dict(fields, depth)}
        except _Refused as refused:
            place = place_of(refused.value, fields, "") or ""
            raise _Refused(value, f"is a {kind_of(value)} whose {place} {refused.reason}") from None

    def _json(self, kind: str, value: Any, to_text: Callable[[Any], str]) -> dict[str, Any]:
        try:
            text = to_text(value)
        except PaddockError as error:
            return self._refuse(value, f"is a {kind} without a JSON form ({error})")
        self._json_left -= len(text)
        if self._json_left < 0:
            raise _TooLarge(f"has more than {self._limits.json_bytes} bytes of spaces and specs; send less at a time")
        return {"$": kind, "json": self._str(text, 1)}

    def _generator(self, value: np.random.Generator) -> dict[str, Any]:
        bits = value.bit_generator
        if type(value) is not np.random.Generator or type(bits) is not np.random.PCG64:
            return self._refuse(value, f"is a {kind_of(value)} over {kind_of(bits)}")
        state: Any = bits.state
        return {
            "$": "generator",
            "state": state["state"]["state"].to_bytes(16, "little"),
            "inc": state["state"]["inc"].to_bytes(16, "little"),
            "has_uint32": bool(state["has_uint32"]),
            "uinteger": state["uinteger"],
        }


def _spec_json(spec: EnvSpec) -> str:
    text = encode_spec(spec)
    decode_spec(text)  # JSON has no infinity, which a threshold may be: better noticed here than over there
    return text


Rule = Callable[[Any, Any, int], Any]

_RULES: dict[type, Rule] = {
    **dict.fromkeys(NAME_OF_SCALAR, Writer._scalar),
    int: Writer._int,
    str: Writer._str,
    bytes: Writer._bytes,
    complex: Writer._complex,
    list: Writer._list,
    tuple: Writer._tuple,
    dict: Writer._dict,
    np.ndarray: Writer._array,
    np.str_: Writer._text_scalar,
    np.bytes_: Writer._bytes_scalar,
    GraphInstance: Writer._graph,
    Failed: Writer._failed,
}

# Subclasses (enums, OrderedDict) cross as what they are based on. Not tuples: a namedtuple without names is another.
_BASES: list[tuple[type, Callable[[Any], Any], Rule]] = [
    (int, int.__int__, Writer._int),
    (float, float.__float__, Writer.write),
    (str, str.__str__, Writer._str),
    (bytes, lambda value: bytes.__getitem__(value, slice(None)), Writer._bytes),
    (complex, complex.__pos__, Writer._complex),
    (dict, dict, Writer._dict),
    (list, list, Writer._list),
]
