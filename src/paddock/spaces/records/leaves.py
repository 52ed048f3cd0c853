"""The nodes that have no nodes inside: numbers, text, constants, spaces, and what may be anything.

Numbers are finite and text is Unicode, whatever the class behind the schema would take: JSON has no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from paddock.errors import InvalidSpace
from paddock.spaces.discrete import Discrete
from paddock.spaces.records.pattern import Pattern
from paddock.spaces.records.walk import Draw, Mismatch, Trail, Walk, refuse, shown
from paddock.spaces.space import SEED_LIMIT, Space

# How far samples stray from a bound, or from zero, where the other bound is missing.
_REACH = 1000
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 "
_LONGER = 12
_LENGTH_LIMIT = 1 << 16

KEPT = "x-paddock-kept"


class Constants:
    """One of some values: null, a bool, an enum or a literal. 1, 1.0 and true are three different ones."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._known = {(type(value), value) for value in values if type(value) in (str, int, float, bool, type(None))}

    def read(self, data: Any, walk: Walk) -> Any:
        if isinstance(data, str) and type(data) is not str:
            data = str.__str__(data)
        kind = type(data)
        if kind in (str, int, float, bool, type(None)):
            if (kind, data) in self._known:
                return data
        elif any(_equal(data, value) for value in self._values):
            return data
        names = [shown(value) for value in self._values[:8]] + ["…"] * (len(self._values) > 8)
        raise refuse(names[0] if len(names) == 1 else f"one of {', '.join(names)}", data)

    def sample(self, draw: Draw, depth: int) -> Any:
        if not self._values:
            raise InvalidSpace("an enum without values has no samples")
        return self._values[draw.below(len(self._values))]


def _equal(data: Any, value: Any) -> bool:
    """For lists among the constants of an enum."""
    return isinstance(value, list) and isinstance(data, (list, tuple)) and list(data) == value


class Boolean:
    """True or false; 0 and 1 are neither."""

    def read(self, data: Any, walk: Walk) -> bool:
        if type(data) is not bool:
            raise refuse("bool", data)
        return data

    def sample(self, draw: Draw, depth: int) -> bool:
        return bool(draw.below(2))


class Number:
    """Integers, or all numbers; an integer is not made a float here, because a union may want it as it is."""

    def __init__(
        self,
        *,
        integer: bool,
        least: float | None = None,
        most: float | None = None,
        above: float | None = None,
        below: float | None = None,
        step: float | None = None,
    ) -> None:
        self._integer = integer
        self._least, self._most, self._above, self._below, self._step = least, most, above, below, step
        bounds = [(">=", least), ("<=", most), (">", above), ("<", below), ("a multiple of", step)]
        limits = " and ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)
        self._expected = f"{'int' if integer else 'float'} {limits}".strip()

    def read(self, data: Any, walk: Walk) -> int | float:
        kind = type(data)
        if kind is not int and (kind is not float or self._integer):
            data = self._of_subclass(data)
        if not self._fits(data):
            raise refuse(self._expected, data)
        return data  # type: ignore[no-any-return]

    def _of_subclass(self, data: Any) -> Any:
        if isinstance(data, int) and not isinstance(data, bool):
            return int.__int__(data)
        if isinstance(data, float) and not self._integer:
            return float.__float__(data)
        raise refuse(self._expected, data)

    def _fits(self, number: Any) -> bool:
        try:
            if not self._integer and not math.isfinite(number):
                return False
        except OverflowError:  # an integer beyond the floats
            return False
        return (
            (self._least is None or number >= self._least)
            and (self._most is None or number <= self._most)
            and (self._above is None or number > self._above)
            and (self._below is None or number < self._below)
            and (self._step is None or _is_multiple(number, self._step))
        )

    def sample(self, draw: Draw, depth: int) -> int | float:
        low = max((bound for bound in (self._least, self._above) if bound is not None), default=None)
        high = min((bound for bound in (self._most, self._below) if bound is not None), default=None)
        if low is None:
            low = -_REACH if high is None else high - _REACH
        if high is None:
            high = low + _REACH
        if self._integer or self._step is not None:
            unit = self._step or 1
            first, last = int(-(-low // unit)), int(high // unit)  # exact for large integers too
            first, last = first + (first * unit == self._above), last - (last * unit == self._below)
            if last < first:
                raise InvalidSpace(f"no number is {self._expected}")
            drawn = (first + draw.below(last - first + 1)) * unit
            return int(drawn) if self._integer else drawn
        share = float(draw.random.random())
        return min(max(low * (1 - share) + high * share, low), high)


def _is_multiple(number: float, step: float) -> bool:
    if isinstance(number, int) and isinstance(step, int):
        return number % step == 0
    rest, tolerance = abs(math.fmod(number, step)), abs(number) / 1e9
    return rest <= tolerance or abs(rest - abs(step)) <= tolerance


class Text:
    """Strings. ``check`` raises ValueError for what its format does not allow; ``make`` gives samples of it."""

    def __init__(
        self,
        *,
        least: int = 0,
        most: int | None = None,
        pattern: Pattern | None = None,
        check: Callable[[str], Any] | None = None,
        make: Callable[[Draw], str] | None = None,
        judged: bool = False,
        kind: str = "",
    ) -> None:
        self._least, self._most, self._pattern, self._check, self._make = least, most, pattern, check, make
        self._judged, self._kind = judged, kind

    def read(self, data: Any, walk: Walk) -> str:
        if not isinstance(data, str):
            raise refuse("str", data)
        text = str.__str__(data)
        if len(text) < self._least or (self._most is not None and len(text) > self._most):
            span = f"{self._least} or more" if self._most is None else f"{self._least} to {self._most}"
            raise refuse(f"str of {span} characters", text)
        if not text.isascii():
            _check_unicode(text)
        if self._judged:  # by the class itself, in its own dialect
            return text
        if self._pattern is not None and not self._pattern.matches(text):
            raise refuse(f"str that matches {shown(self._pattern.text)}", text)
        if self._check is not None:
            try:
                self._check(text)
            except ValueError:
                raise refuse(f"str with a {self._kind}", text) from None
        return text

    def sample(self, draw: Draw, depth: int) -> str:
        if self._make is not None:
            return self._make(draw)
        if self._pattern is not None:
            found = self._pattern.sample(draw)
            if found is not None:
                return found
        if self._least > _LENGTH_LIMIT:
            raise InvalidSpace(f"a text of {self._least} characters or more is too long to sample")
        most = self._least + _LONGER if self._most is None else min(self._most, self._least + _LONGER)
        count = self._least + draw.below(max(most - self._least, 0) + 1)
        return "".join([_LETTERS[draw.below(len(_LETTERS))] for _ in range(count)])


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Mismatch(f"expected Unicode text, got a lone surrogate at {error.start}") from None


class Member:
    """A member of a space, as it is or in its JSON form."""

    def __init__(self, space: Space[Any]) -> None:
        self._space = space  # our own, with a stream that nobody else draws from

    def read(self, data: Any, walk: Walk) -> Any:
        from paddock.spaces.json_value import encode

        if walk.kept is not None and type(data) is dict and KEPT in data:
            data = walk.kept[data[KEPT]]
        member = self._find(data)
        if walk.plain:
            return encode(self._space, member)
        # A record says `int` where a Discrete has NumPy's.
        return int(member) if isinstance(self._space, Discrete) else member

    def _find(self, data: Any) -> Any:
        # The JSON form first: a Box takes lists as members too, and leaves them lists.
        from paddock.spaces.json_value import decode

        try:
            return decode(self._space, data, "")
        except InvalidSpace as error:
            if self._space.contains(data):
                return data
            path, _, reason = str(error).partition(": ")
            mismatch = Mismatch(reason)
            mismatch.parts = [Trail(path)]
            raise mismatch from None

    def sample(self, draw: Draw, depth: int) -> Any:
        self._space.seed(draw.below(SEED_LIMIT))
        return self._space.sample()


class Anything:
    """Any JSON data."""

    def read(self, data: Any, walk: Walk) -> Any:
        kind = type(data)
        if kind in (bool, int, type(None)):
            return data
        if kind is float:
            if not math.isfinite(data):
                raise refuse("a finite number", data)
            return data
        if isinstance(data, str):
            _check_unicode(str.__str__(data))
            return str.__str__(data)
        if isinstance(data, (list, tuple)):
            return [self._part(item, i, walk) for i, item in enumerate(data)]
        if isinstance(data, dict):
            for key in data:
                if type(key) is not str:
                    raise refuse("str as a key", key)
            return {key: self._part(item, key, walk) for key, item in data.items()}
        raise refuse("JSON data", data)

    def _part(self, item: Any, place: str | int, walk: Walk) -> Any:
        try:
            return self.read(item, walk)
        except Mismatch as mismatch:
            mismatch.parts.append(place)
            raise

    def sample(self, draw: Draw, depth: int) -> Any:
        return [None, True, False, draw.below(_REACH), float(draw.random.random()), "text"][draw.below(6)]
