"""Values that cross between processes, exactly: what arrives has the same types and the same bits.

Plain msgpack stands for itself: None, bool, 64-bit int, float, short str and bytes, list, and dict with short ASCII
keys other than ``"$"``. Everything else is a dict ``{"$": kind, …}``; ``docs/wire.md`` lists the kinds.
A decoded array is a view of the message's body, writable, and keeps the whole body alive.

Some values change: subclasses of int, float, str, bytes, complex, list and dict become their base, arrays become
contiguous, a space's own random stream and a generator's seed sequence are left behind, and the tuples in a spec's
kwargs become lists, as in Gymnasium's JSON.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray

from paddock.core.spec import EnvSpec
from paddock.core.spec_json import decode_spec, encode_spec
from paddock.core.values import DTYPES, kind_of
from paddock.errors import BadFrame, InvalidValue, NotTransferable, PaddockError
from paddock.hosting.messages import INTEGER_DIGITS, LIMITS, LONG_BYTES, Failed, Limits
from paddock.spaces.graph import GraphInstance
from paddock.spaces.json_form import from_json, to_json
from paddock.spaces.records.fields import is_plain, is_record, open_up
from paddock.spaces.space import Space
from paddock.spaces.struct import known_class, known_name

Piece = bytes | memoryview
Pickler = Callable[[Any], bytes]
Unpickler = Callable[[bytes], Any]

# Types that cross, by exact type. These cross as they are, whatever their value.
FIXED = frozenset({type(None), bool, float})
# These need no reading.
ATOMS = frozenset({type(None), bool, float, int, str, bytes})

NAME_OF_DTYPE: dict[np.dtype[Any], str] = {dtype: name for name, dtype in DTYPES.items()}
# `longlong` and its like arrive as the other types that they equal on this machine.
NAME_OF_SCALAR: dict[type, str] = {
    kind: NAME_OF_DTYPE[np.dtype(kind)] for kind in set(np.sctypeDict.values()) if np.dtype(kind) in NAME_OF_DTYPE
}

CODE_POINTS = 0x110000


def to_wire(
    value: Any,
    buffers: list[Piece],
    *,
    name: str = "value",
    limits: Limits = LIMITS,
    pickler: Pickler | None = None,
) -> Any:
    """``value`` as plain data. Adds what goes into the body to ``buffers``, which must be empty.

    Raises NotTransferable with the path of the first value that can't cross, beginning with ``name``. With a
    ``pickler`` such values are pickled instead, for a far end that trusts this one.

    >>> buffers = []
    >>> to_wire((1, 2.5), buffers), buffers
    ({'$': 'tuple', 'items': [1, 2.5]}, [])
    """
    writer = Writer(limits, pickler)
    plain = writer.add(value, name)
    buffers += writer.pieces
    return plain


def from_wire(plain: Any, body: bytearray, *, limits: Limits = LIMITS, unpickler: Unpickler | None = None) -> Any:
    """The value that ``to_wire`` was given, or BadFrame. Changes ``plain``; its arrays are views of ``body``."""
    reader = Reader(body, limits, unpickler)
    value = reader.read(plain)
    reader.finish()
    return value


# Writing


# Below this an array is copied at once; from here on it is lent until the frame is sent.
_LENT_BYTES = 1 << 14
_INTEGER_BITS = 13_600  # fewer than INTEGER_DIGITS decimal digits
_PADDING = [b"\0" * n for n in range(8)]

_PLAIN = "can't cross between processes. Use plain data, NumPy arrays or a dataclass instead, or leave it out."
_UNPICKLED = "Leave out what can't be sent, such as an open file or a lock, and create it in the environment."


class _Refused(Exception):
    """``value`` can't cross; ``reason`` continues the text after its place, "is …", and says what to do."""

    def __init__(self, value: Any, reason: str) -> None:
        self.value, self.reason = value, reason


class _TooLarge(Exception):
    """The value as a whole is past a bound."""


class Writer:
    """Writes the values of one message. ``pieces`` joined are the body, padding included; ``size`` is its length.

    Hot: ``write`` asks one table; values that need no change are recognised inside their list or dict. The place of a
    value is found only once it has been refused.
    """

    __slots__ = ("_json_left", "_limits", "_nodes_left", "_pickler", "_pieces_left", "_text_left", "pieces", "size")

    def __init__(self, limits: Limits = LIMITS, pickler: Pickler | None = None) -> None:
        self.pieces: list[Piece] = []
        self.size = 0
        self._limits = limits
        self._pickler = pickler
        # Each node takes a byte of the head or more. So a small web of shared lists, a huge tree, is noticed here.
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
            raise NotTransferable(f"{path} {refused.reason}", path=path, kind=class_name(refused.value)) from None
        except _TooLarge as error:
            raise NotTransferable(f"{name} {error}.", path=name, kind=class_name(value)) from None

    def write(self, value: Any, depth: int) -> Any:
        """``value`` as plain data; raises _Refused or _TooLarge."""
        kind = type(value)
        if kind in FIXED:
            return value
        rule = _WRITE_RULES.get(kind)
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
        """Add a piece to the body; returns its offset."""
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
        """Pickle the value if there is a pickler, else raise."""
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
                raise _TooLarge(f"has a dict with {odd} keys that are not text, bytes or int; use those as keys")
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

    def _text_scalar(self, value: np.str_ | np.bytes_, depth: int) -> dict[str, Any]:
        # Not by its memory: an array would lose NULs at the end.
        if isinstance(value, np.bytes_):
            return {"$": "scalar", "dtype": "S", "data": self._bytes(bytes(value), depth)}
        return {"$": "scalar", "dtype": "U", "data": self._str(str.__str__(value), depth)}

    def _graph(self, value: GraphInstance, depth: int) -> dict[str, Any]:
        nodes, edges, links = self._list(list(value), depth)
        return {"$": "graph", "nodes": nodes, "edges": edges, "edge_links": links}

    def _failed(self, value: Failed, depth: int) -> dict[str, Any]:
        return {"$": "failed", **self.failed_fields(value)}

    def failed_fields(self, value: Failed) -> dict[str, Any]:
        """The texts of a Failed. It must always cross, so what is not Unicode in them is escaped."""
        texts = {name: getattr(value, name) for name in Failed.__struct_fields__}
        return {name: self._str(text.encode("utf-8", "backslashreplace").decode(), 1) for name, text in texts.items()}

    def _other(self, value: Any, depth: int) -> Any:
        """What is not in the table: subclasses, and what is seldom sent."""
        if self._pickler is None and known_name(type(value)) is not None:
            return self._struct(value, depth)
        rule = _BASE_RULES.get(kind_of(type(value)))
        if rule is not None:
            return rule(self, value, depth)
        if isinstance(value, Space):
            return self._json("space", value, to_json)
        if isinstance(value, EnvSpec):
            return self._json("spec", value, _spec_json)
        random = sys.modules.get("numpy.random")  # if it is not loaded, there are no generators
        if random is not None and isinstance(value, random.Generator):
            return self._generator(value)
        # With a pickler, as the object it is; without, as its fields: the far end need not know the class.
        if self._pickler is None and is_record(type(value)):
            return self._struct(value, depth)
        return self._refuse(value, f"is a {class_name(value)}")

    def _struct(self, value: Any, depth: int) -> dict[str, Any]:
        """A record as its fields in plain form, arrays as they are; with its name where the far end knows it."""
        name = known_name(type(value))
        try:
            # Both give the same; the first is faster.
            fields = to_builtins(value) if name is not None and is_plain(value) else open_up(value, depth)
        except InvalidValue as error:
            raise _TooLarge(f"has a {class_name(value)} in it that can't be taken apart: {error}") from None
        named = {} if name is None else {"name": name}
        try:
            return {"$": "struct", **named, "fields": self._dict(fields, depth)}
        except _Refused as refused:
            place = place_of(refused.value, fields, "") or ""
            raise _Refused(value, f"is a {class_name(value)} whose {place} {refused.reason}") from None

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
            return self._refuse(value, f"is a {class_name(value)} over {class_name(bits)}")
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

_WRITE_RULES: dict[type, Rule] = {
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
    np.bytes_: Writer._text_scalar,
    GraphInstance: Writer._graph,
    Failed: Writer._failed,
}

# Subclasses (enums, OrderedDict) cross as their base. Not tuples: a namedtuple without its names is another value.
_BASE_RULES: dict[str, Rule] = {
    "int": lambda writer, value, depth: writer._int(int.__int__(value), depth),
    "float": lambda writer, value, depth: float.__float__(value),
    "text": lambda writer, value, depth: writer._str(str.__str__(value), depth),
    "bytes": lambda writer, value, depth: writer._bytes(bytes.__getitem__(value, slice(None)), depth),
    "complex": lambda writer, value, depth: writer._complex(complex.__pos__(value), depth),
    "dict": lambda writer, value, depth: writer._dict(dict(value), depth),
    "list": lambda writer, value, depth: writer._list(list(value), depth),
}


# Reading


_DIGITS = re.compile(rf"-?[1-9][0-9]{{0,{INTEGER_DIGITS - 1}}}", re.ASCII)
_TEXT_DTYPE = re.compile(r"(\|S|[<>]U)([1-9][0-9]{0,8})", re.ASCII)
_ADDRESSES = 1 << 63


class Reader:
    """Reads the values of one message, which is untrusted: whatever is wrong with it is a BadFrame.

    Arrays are views of ``body``, which must be this message's alone. Lists and dicts are changed in place, so that the
    head is never in memory twice. Pieces of the body are in the order of their markers and without gaps, so no byte of
    it is read twice.
    """

    __slots__ = ("_body", "_end", "_json_left", "_limits", "_pieces_left", "_text_left", "_unpickler")

    def __init__(self, body: bytearray, limits: Limits = LIMITS, unpickler: Unpickler | None = None) -> None:
        self._body = body
        self._end = 0  # of the pieces that were read, padding included
        self._limits = limits
        self._unpickler = unpickler
        self._pieces_left = limits.pieces
        self._text_left = limits.text_bytes
        self._json_left = limits.json_bytes

    def finish(self) -> None:
        """Raise BadFrame if the body has bytes that no value uses."""
        if self._end != len(self._body):
            raise BadFrame(f"the body has {len(self._body)} bytes, of which the values take {self._end}")

    def read(self, plain: Any, depth: int = 1) -> Any:
        """The value that ``plain`` stands for. Changes its lists and dicts."""
        kind = type(plain)
        if kind in ATOMS:
            return plain
        if kind is list:
            return self._list(plain, depth)
        if kind is dict:
            if not plain:
                return plain
            return self._marker(plain, depth) if "$" in plain else self._dict(plain, depth)
        raise BadFrame(f"a value is a msgpack {kind.__name__}, which is not a wire type")

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        if depth > self._limits.depth:
            raise BadFrame(f"values are nested deeper than {self._limits.depth} levels")
        for index, item in enumerate(items):
            if type(item) not in ATOMS:
                items[index] = self.read(item, depth + 1)
        return items

    def _dict(self, plain: dict[Any, Any], depth: int) -> dict[str, Any]:
        if depth > self._limits.depth:
            raise BadFrame(f"values are nested deeper than {self._limits.depth} levels")
        for key, item in plain.items():
            if type(key) is not str:
                raise BadFrame(f"the key of a map is a {type(key).__name__}, expected a str")
            if type(item) not in ATOMS:
                plain[key] = self.read(item, depth + 1)  # no new key, so the loop may go on
        return plain

    def _marker(self, plain: dict[str, Any], depth: int) -> Any:
        kind = plain["$"]
        rule = _READ_RULES.get(kind) if type(kind) is str else None
        if rule is None:
            raise BadFrame(f"unknown kind of value {_shorten(kind)}")
        try:
            return rule(self, plain, depth)
        except KeyError as error:  # a field that is not there; keys of other dicts are never looked up
            raise BadFrame(f"a value of kind {kind!r} has no field {error}") from None

    def _take(self, offset: Any, size: int) -> int:
        """Check that the next piece begins at ``offset``, and move past it."""
        if type(offset) is not int or offset != self._end:
            raise BadFrame(f"a piece of the body is said to be at {_shorten(offset)}, the next begins at {self._end}")
        end = offset + size
        if end > len(self._body):
            raise BadFrame(f"a piece of the body would end at {end}, the body has {len(self._body)} bytes")
        self._pieces_left -= 1
        if self._pieces_left < 0:
            raise BadFrame(f"the body has more than {self._limits.pieces} pieces")
        self._end = end + 7 & -8
        return offset

    def _piece(self, plain: dict[str, Any]) -> memoryview:
        size = plain["size"]
        if type(size) is not int or size < 0:
            raise BadFrame(f"a piece of the body has the size {_shorten(size)}")
        offset = self._take(plain["offset"], size)
        return memoryview(self._body)[offset : offset + size]

    def _array(self, plain: dict[str, Any], depth: int) -> NDArray[Any]:
        name, shape = plain["dtype"], plain["shape"]
        if type(name) is not str:
            raise BadFrame(f"the dtype of an array is a {type(name).__name__}, expected a str")
        dtype = DTYPES.get(name)
        if dtype is None:
            match = _TEXT_DTYPE.fullmatch(name)
            if match is None or int(match[2]) * 4 > self._limits.body_bytes:
                raise BadFrame(f"the dtype of an array is {name[:40]!r}, expected one of numbers, bools, text or bytes")
            dtype = np.dtype(name)
        size = self._count(shape, dtype.itemsize) * dtype.itemsize
        offset = self._take(plain["offset"], size)
        array: NDArray[Any] = np.ndarray(shape, dtype, self._body, offset)
        if name == "|b1":
            octets = np.ndarray(size, np.uint8, self._body, offset)
            if octets.flags.writeable:
                np.minimum(octets, 1, out=octets)  # NumPy trusts that a bool is 0 or 1
            else:  # in memory that others read, too
                array = np.minimum(octets, 1).view(np.bool_).reshape(shape)
        elif name[1] == "U":
            points = np.ndarray(size // 4, f"{name[0]}u4", self._body, offset)
            if size and points.max() >= CODE_POINTS:
                raise BadFrame("an array of text holds a number that is not a code point")
        return array

    def _count(self, shape: Any, itemsize: int) -> int:
        """How many elements. Refuses what NumPy can't address, even if an axis of zero makes it empty."""
        if type(shape) is not list or len(shape) > self._limits.ndim:
            raise BadFrame(f"the shape of an array is not a list of at most {self._limits.ndim} sizes")
        for size in shape:
            if type(size) is not int or size < 0:
                raise BadFrame(f"an axis of an array has the size {_shorten(size)}")
        count = math.prod(shape)
        if not count and math.prod(size or 1 for size in shape) * itemsize >= _ADDRESSES:
            raise BadFrame("an empty array has axes longer than memory")
        return count

    def _objects(self, plain: dict[str, Any], depth: int) -> NDArray[Any]:
        items, shape = plain["items"], plain["shape"]
        if type(items) is not list or self._count(shape, 8) != len(items):
            raise BadFrame("an array of objects does not have as many items as its shape says")
        flat: NDArray[Any] = np.empty(len(items), object)
        for index, item in enumerate(self._list(items, depth)):
            flat[index] = item
        shaped: NDArray[Any] = flat.reshape(shape)
        return shaped

    def _scalar(self, plain: dict[str, Any], depth: int) -> Any:
        name = plain["dtype"]
        data = self.read(plain["data"], depth)
        if name == "U" and type(data) is str:
            return np.str_(data)
        if type(name) is not str or type(data) is not bytes:
            raise BadFrame("a NumPy scalar has a dtype and bytes, or text with the dtype 'U'")
        if name == "S":
            return np.bytes_(data)
        dtype = DTYPES.get(name)
        if dtype is None or len(data) != dtype.itemsize or (name == "|b1" and data > b"\x01"):
            raise BadFrame(f"{len(data)} bytes are not a NumPy scalar of dtype {name[:40]!r}")
        return np.frombuffer(data, dtype)[0]

    def _tuple(self, plain: dict[str, Any], depth: int) -> tuple[Any, ...]:
        items = plain["items"]
        if type(items) is not list:
            raise BadFrame("the items of a tuple are not a list")
        return tuple(self._list(items, depth))

    def _pairs(self, plain: dict[str, Any], depth: int) -> dict[Any, Any]:
        pairs = plain["pairs"]
        if type(pairs) is not list or depth > self._limits.depth:
            raise BadFrame(f"a dict of pairs is not a list of them, or deeper than {self._limits.depth} levels")
        found: dict[Any, Any] = {}
        odd_left = self._limits.odd_keys
        for pair in pairs:
            if type(pair) is not list or len(pair) != 2:
                raise BadFrame("an item of a dict is not a pair")
            odd_left -= type(pair[0]) not in ATOMS
            if odd_left < 0:
                raise BadFrame(f"a dict has more than {self._limits.odd_keys} keys that are not text, bytes or int")
            key, item = self._list(pair, depth)
            try:
                found[key] = item
            except TypeError:
                raise BadFrame(f"the key of a dict is a {type(key).__name__}, which has no hash") from None
        if len(found) != len(pairs):
            raise BadFrame("a key of a dict occurs twice")
        return found

    def _int(self, plain: dict[str, Any], depth: int) -> int:
        digits = plain["digits"]
        if type(digits) is not str or not _DIGITS.fullmatch(digits):
            raise BadFrame(f"an integer is not written in at most {INTEGER_DIGITS} decimal digits")
        try:
            return int(digits)
        except ValueError as error:  # where Python was told to read fewer digits
            raise BadFrame(f"an integer is too long: {error}") from None

    def _complex(self, plain: dict[str, Any], depth: int) -> complex:
        real, imag = plain["real"], plain["imag"]
        if type(real) is not float or type(imag) is not float:
            raise BadFrame("the parts of a complex number are not floats")
        return complex(real, imag)

    def _text(self, plain: dict[str, Any], depth: int) -> str:
        piece = self._piece(plain)
        self._text_left -= len(piece)
        if self._text_left < 0:
            raise BadFrame(f"the message has more than {self._limits.text_bytes} bytes of text")
        try:
            return str(piece, "utf-8")
        except UnicodeDecodeError as error:
            raise BadFrame(f"a text is not UTF-8: {error.reason} at byte {error.start}") from None

    def _bytes(self, plain: dict[str, Any], depth: int) -> bytes:
        return bytes(self._piece(plain))

    def _text_field(self, plain: Any) -> str:
        """A short or a long text."""
        value = self.read(plain)
        if type(value) is not str:
            raise BadFrame(f"a field is a {type(value).__name__}, expected a str")
        return value

    def _graph(self, plain: dict[str, Any], depth: int) -> GraphInstance:
        return GraphInstance(*self._list([plain["nodes"], plain["edges"], plain["edge_links"]], depth))

    def _struct(self, plain: dict[str, Any], depth: int) -> Any:
        """The fields alone, unless the record is one of paddock's own: a Struct space turns them into a record."""
        fields = plain["fields"]
        if type(fields) is not dict or fields.get("$", "dict") != "dict":
            raise BadFrame("the fields of a struct are not a dict")
        found = self._pairs(fields, depth) if "$" in fields else self._dict(fields, depth)
        name = plain.get("name")
        known = known_class(name) if type(name) is str else None
        if known is None:
            return found
        try:
            return msgspec.convert(found, known)
        except (msgspec.ValidationError, TypeError) as error:
            raise BadFrame(f"the fields of a struct do not fit {name}: {str(error)[:200]}") from None

    def _failed(self, plain: dict[str, Any], depth: int) -> Failed:
        return Failed(*[self._text_field(plain[name]) for name in Failed.__struct_fields__])

    def _json(self, plain: dict[str, Any], depth: int) -> Any:
        text = self._text_field(plain["json"])
        self._json_left -= len(text)
        if self._json_left < 0:
            raise BadFrame(f"the message has more than {self._limits.json_bytes} bytes of spaces and specs")
        try:
            return from_json(text) if plain["$"] == "space" else decode_spec(text)
        except (PaddockError, Warning) as error:  # a Warning, where the user made them errors
            raise BadFrame(f"a {plain['$']} is malformed: {error}") from None

    def _generator(self, plain: dict[str, Any], depth: int) -> np.random.Generator:
        state, inc, half, bits = plain["state"], plain["inc"], plain["has_uint32"], plain["uinteger"]
        for word in (state, inc):
            if type(word) is not bytes or len(word) != 16:
                raise BadFrame("a word of a generator's state is not 16 bytes")
        if type(half) is not bool or type(bits) is not int or not 0 <= bits < 1 << 32:
            raise BadFrame("the spare half word of a generator is not 32 bits")
        words = {"state": int.from_bytes(state, "little"), "inc": int.from_bytes(inc, "little")}
        generator = np.random.Generator(np.random.PCG64(0))
        generator.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": words,
            "has_uint32": int(half),
            "uinteger": bits,
        }
        return generator

    def _pickled(self, plain: dict[str, Any], depth: int) -> Any:
        if self._unpickler is None:
            raise BadFrame("the message holds a pickled value, which this end does not accept")
        data = bytes(self._piece(plain))
        try:
            return self._unpickler(data)
        except Exception as error:  # the code of whatever was pickled
            raise BadFrame(f"a pickled value can't be read here: {type(error).__name__}: {error}") from error


def _shorten(value: Any) -> str:
    # Not by str(): nested deeply enough, a value overflows the stack there.
    return repr(value[:40]) if type(value) is str else str(value) if type(value) is int else f"a {type(value).__name__}"


_READ_RULES: dict[str, Callable[[Any, Any, int], Any]] = {
    "array": Reader._array,
    "scalar": Reader._scalar,
    "tuple": Reader._tuple,
    "dict": Reader._pairs,
    "text": Reader._text,
    "bytes": Reader._bytes,
    "int": Reader._int,
    "complex": Reader._complex,
    "objects": Reader._objects,
    "graph": Reader._graph,
    "struct": Reader._struct,
    "failed": Reader._failed,
    "space": Reader._json,
    "spec": Reader._json,
    "generator": Reader._generator,
    "pickled": Reader._pickled,
}


# The place of a refused value, ``info['viewer']``. Slow: only for error texts.


def class_name(value: Any) -> str:
    """The name of the value's class, with its module unless that is builtins."""
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def place_of(target: Any, value: Any, path: str, visited: set[int] | None = None) -> str | None:
    """The path of ``target`` itself, not of an equal value, within ``value``."""
    visited = set() if visited is None else visited
    if value is target:
        return path
    if id(value) in visited:
        return None
    visited.add(id(value))
    places = (place_of(target, part, place, visited) for place, part in _parts(value, path))
    return next((place for place in places if place is not None), None)


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"a key of {path}", key
            text = repr(key) if isinstance(key, (str, int, float, bytes, tuple)) else f"a {class_name(key)}"
            yield f"{path}[{text if len(text) <= 60 else text[:60] + '…'}]", item
    elif isinstance(value, GraphInstance):
        for name, item in value._asdict().items():
            yield f"{path}.{name}", item
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
    elif type(value) is np.ndarray and value.dtype.kind == "O":
        for place in np.ndindex(value.shape):
            yield f"{path}[{', '.join(map(str, place))}]", value[place]
