"""Typed fields of one JSON object, and the budget of the whole text. Every complaint begins with the field's path."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paddock.errors import InvalidSpace
from paddock.spaces.json_guard import Repeated

DEPTH_LIMIT = 32
NODE_LIMIT = 4096
ELEMENT_LIMIT = 2**26
CHARACTER_LIMIT = 2**20
AXIS_LIMIT = 32

_INFINITE = {"inf": math.inf, "-inf": -math.inf}


class Budget:
    """How much of the allowed depth, number of spaces and number of elements is used."""

    def __init__(self) -> None:
        self._depth = self._nodes = self._elements = 0

    @contextmanager
    def enter(self, path: str) -> Iterator[None]:
        """Count one space, and one level while its parts are handled."""
        self._depth += 1
        self._nodes += 1
        if self._depth > DEPTH_LIMIT:
            raise InvalidSpace(f"{path}: spaces are nested deeper than {DEPTH_LIMIT} levels")
        if self._nodes > NODE_LIMIT:
            raise InvalidSpace(f"{path}: more than {NODE_LIMIT} spaces")
        yield
        self._depth -= 1

    def spend(self, shape: tuple[int, ...], path: str) -> None:
        """Count the elements of a value of that shape."""
        self._elements += math.prod(max(size, 1) for size in shape)
        if self._elements > ELEMENT_LIMIT:
            raise InvalidSpace(f"{path}: values of this space have more than {ELEMENT_LIMIT} elements")

    @staticmethod
    def check_text(text: str, path: str) -> str:
        """``text``, if it is Unicode text of bearable length."""
        if len(text) > CHARACTER_LIMIT:
            raise InvalidSpace(f"{path}: longer than {CHARACTER_LIMIT} characters")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidSpace(f"{path}: a lone surrogate at {error.start} is no Unicode text") from None
        return text


class Fields:
    """The fields of one object. Each is taken once; what is left over at the end is an error."""

    def __init__(self, data: Any, path: str) -> None:
        if isinstance(data, Repeated):
            raise InvalidSpace(f"{path}: the key {data.key[:40]!r} stands twice")
        if not isinstance(data, dict):
            raise InvalidSpace(f"{path}: expected an object that describes a space, got {_kind(data)}")
        self._left, self._path = dict(data), path

    def at(self, name: str) -> str:
        """The path of the field."""
        return f"{self._path}.{name}"

    def take(self, name: str) -> Any:
        """The field as it is."""
        if name not in self._left:
            raise InvalidSpace(f"{self.at(name)}: this field is missing")
        return self._left.pop(name)

    def check_nothing_left(self) -> None:
        """Complain about a field that nobody asked for: a reader of another version may give it a meaning."""
        for name in self._left:
            raise InvalidSpace(f"{self.at(name[:40])}: unknown field")

    def is_list(self, name: str) -> bool:
        """Whether the field is there and a list."""
        return isinstance(self._left.get(name), list)

    def integer(self, name: str) -> int:
        """An integer; true and false are none."""
        value = self.take(name)
        if type(value) is not int or value.bit_length() > 64:
            raise InvalidSpace(f"{self.at(name)}: expected an integer, got {_kind(value)}")
        return value

    def text(self, name: str) -> str:
        """A string."""
        value = self.take(name)
        if not isinstance(value, str):
            raise InvalidSpace(f"{self.at(name)}: expected a string, got {_kind(value)}")
        return value

    def boolean(self, name: str) -> bool:
        """A true or false."""
        value = self.take(name)
        if not isinstance(value, bool):
            raise InvalidSpace(f"{self.at(name)}: expected true or false, got {_kind(value)}")
        return value

    def list(self, name: str) -> list[Any]:
        """A list."""
        value = self.take(name)
        if not isinstance(value, list):
            raise InvalidSpace(f"{self.at(name)}: expected a list, got {_kind(value)}")
        return value

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """One of these strings."""
        value = self.text(name)
        if value not in choices:
            raise InvalidSpace(f"{self.at(name)}: expected one of {', '.join(choices)}, got {value[:40]!r}")
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of some axes."""
        sizes = self.list(name)
        if len(sizes) > AXIS_LIMIT:
            raise InvalidSpace(f"{self.at(name)}: more than {AXIS_LIMIT} axes")
        for i, size in enumerate(sizes):
            if type(size) is not int or size < 0:
                raise InvalidSpace(f"{self.at(name)}[{i}]: expected an integer of zero or more, got {_kind(size)}")
        return tuple(sizes)

    def integers(self, name: str, count: int, limits: Any) -> Any:
        """A list of exactly ``count`` integers within ``limits.min`` and ``limits.max``."""
        numbers = self.list(name)
        if len(numbers) != count:
            raise InvalidSpace(f"{self.at(name)}: expected {count} integers for the shape, got {len(numbers)}")
        for i, number in enumerate(numbers):
            if type(number) is not int or not limits.min <= number <= limits.max:
                raise InvalidSpace(f"{self.at(name)}[{i}]: expected an integer of {limits.dtype}, got {_kind(number)}")
        return numbers

    def number(self, value: Any, name: str, *, integer: bool) -> int | float:
        """``value`` as a bound: a number (only integers if so asked), or infinity by name."""
        if isinstance(value, str) and value in _INFINITE:
            return _INFINITE[value]
        if (type(value) is int and value.bit_length() <= 1024) or (type(value) is float and not integer):
            return value
        expected = "an integer" if integer else "a number"
        raise InvalidSpace(f'{self.at(name)}: expected {expected}, "inf" or "-inf", got {_kind(value)}')


def _kind(value: Any) -> str:
    """What a JSON value is, short enough for a message."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"{value:.6g}" if isinstance(value, float) or abs(value) < 2**60 else "a huge integer"
    if isinstance(value, str):
        return repr(value[:40])
    return "a list" if isinstance(value, list) else "an object"
