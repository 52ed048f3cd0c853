"""Plain msgpack data and a body to values. The data is a stranger's: whatever is wrong with it is a BadFrame.

Lists and dicts are changed in place, so that nothing which the head became stands in memory twice. Pieces of the body
lie in the order of their markers and without gaps, so no byte of it can be asked for twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from paddock.core.spec_json import decode_spec
from paddock.errors import BadFrame, PaddockError
from paddock.hosting.limits import INTEGER_DIGITS, LIMITS, Limits
from paddock.hosting.messages import Failed
from paddock.hosting.value_kinds import ATOMS, CODE_POINTS, DTYPE_OF_NAME
from paddock.spaces.graph import GraphInstance
from paddock.spaces.json_form import from_json
from paddock.spaces.records.known import known_class

Unpickler = Callable[[bytes], Any]

_DIGITS = re.compile(rf"-?[1-9][0-9]{{0,{INTEGER_DIGITS - 1}}}", re.ASCII)
_TEXT_DTYPE = re.compile(r"(\|S|[<>]U)([1-9][0-9]{0,8})", re.ASCII)
_ADDRESSES = 1 << 63


class Reader:
    """The values of one message. Arrays are views of ``body``, which must be this message's alone."""

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
        """Complain about bytes that no value asked for."""
        if self._end != len(self._body):
            raise BadFrame(f"the body has {len(self._body)} bytes, of which the values take {self._end}")

    def read(self, plain: Any, depth: int = 1) -> Any:
        """The value that ``plain`` stands for. Lists and dicts are used up."""
        kind = type(plain)
        if kind in ATOMS:
            return plain
        if kind is list:
            return self._list(plain, depth)
        if kind is dict:
            if not plain:
                return plain
            return self._marker(plain, depth) if "$" in plain else self._dict(plain, depth)
        raise BadFrame(f"a value is a msgpack {kind.__name__}, which is no wire type")

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
        rule = _RULES.get(kind) if type(kind) is str else None
        if rule is None:
            raise BadFrame(f"unknown kind of value {_shown(kind)}")
        try:
            return rule(self, plain, depth)
        except KeyError as error:  # a field that is not there; keys of other dicts are never looked up
            raise BadFrame(f"a value of kind {kind!r} has no field {error}") from None

    def _take(self, offset: Any, size: int) -> int:
        """Check that the next piece lies at ``offset``, and go on behind it."""
        if type(offset) is not int or offset != self._end:
            raise BadFrame(f"a piece of the body is said to lie at {_shown(offset)}, the next begins at {self._end}")
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
            raise BadFrame(f"a piece of the body has the size {_shown(size)}")
        offset = self._take(plain["offset"], size)
        return memoryview(self._body)[offset : offset + size]

    def _array(self, plain: dict[str, Any], depth: int) -> NDArray[Any]:
        name, shape = plain["dtype"], plain["shape"]
        if type(name) is not str:
            raise BadFrame(f"the dtype of an array is a {type(name).__name__}, expected a str")
        dtype = DTYPE_OF_NAME.get(name) or self._text_dtype(name)
        size = self._count(shape, dtype.itemsize) * dtype.itemsize
        offset = self._take(plain["offset"], size)
        array: NDArray[Any] = np.ndarray(shape, dtype, self._body, offset)
        if name == "|b1":
            octets = np.ndarray(size, np.uint8, self._body, offset)
            np.minimum(octets, 1, out=octets)  # NumPy trusts that a bool is 0 or 1
        elif name[1] == "U":
            points = np.ndarray(size // 4, f"{name[0]}u4", self._body, offset)
            if size and points.max() >= CODE_POINTS:
                raise BadFrame("an array of text holds a number that is no code point")
        return array

    def _text_dtype(self, name: str) -> np.dtype[Any]:
        match = _TEXT_DTYPE.fullmatch(name)
        if match is None or int(match[2]) * 4 > self._limits.body_bytes:
            raise BadFrame(f"the dtype of an array is {name[:40]!r}, expected one of numbers, bools, text or bytes")
        return np.dtype(name)

    def _count(self, shape: Any, itemsize: int) -> int:
        """How many elements; also refuses what NumPy could not address, though an axis of zero makes it empty."""
        if type(shape) is not list or len(shape) > self._limits.ndim:
            raise BadFrame(f"the shape of an array is not a list of at most {self._limits.ndim} sizes")
        for size in shape:
            if type(size) is not int or size < 0:
                raise BadFrame(f"an axis of an array has the size {_shown(size)}")
        count = math.prod(shape)
        if not count and math.prod(size or 1 for size in shape) * itemsize >= _ADDRESSES:
            raise BadFrame("an empty array has axes longer than memory")
        return count

    def _objects(self, plain: dict[str, Any], depth: int) -> NDArray[Any]:
        items, shape = plain["items"], plain["shape"]
        if type(items) is not list or self._count(shape, 8) != len(items):
            raise BadFrame("an array of objects has not as many items as its shape says")
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
        dtype = DTYPE_OF_NAME.get(name)
        if dtype is None or len(data) != dtype.itemsize or (name == "|b1" and data > b"\x01"):
            raise BadFrame(f"{len(data)} bytes are no NumPy scalar of dtype {name[:40]!r}")
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
                raise BadFrame(f"a dict has more than {self._limits.odd_keys} keys that are no text, bytes or int")
            key, item = self._list(pair, depth)
            try:
                found[key] = item
            except TypeError:
                raise BadFrame(f"the key of a dict is a {type(key).__name__}, which has no hash") from None
        if len(found) != len(pairs):
            raise BadFrame("a key of a dict stands twice")
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
        """The fields alone, unless the record is one of paddock's own: a Struct space makes a record of them."""
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
            raise BadFrame(f"the fields of a struct are none of {name}: {str(error)[:200]}") from None

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
            raise BadFrame("the message holds a pickled value, and this end takes none")
        data = bytes(self._piece(plain))
        try:
            return self._unpickler(data)
        except Exception as error:  # the code of whatever was pickled
            raise BadFrame(f"a pickled value can't be read here: {type(error).__name__}: {error}") from error


def _shown(value: Any) -> str:
    # Not by str(): what a stranger nested deeply enough overflows the stack there.
    return repr(value[:40]) if type(value) is str else str(value) if type(value) is int else f"a {type(value).__name__}"


_RULES: dict[str, Callable[[Any, Any, int], Any]] = {
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
