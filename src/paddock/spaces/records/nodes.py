"""The nodes of a compiled schema: they read data and draw samples.

Numbers are finite and text is Unicode, whatever the class behind the schema would take: JSON has no others. Undeclared
fields are refused. A path is put together only when something is wrong: each container adds its part while the error
passes through.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from paddock.errors import InvalidSpace
from paddock.spaces.discrete import Discrete
from paddock.spaces.records.fields import order_key
from paddock.spaces.space import SEED_LIMIT, Space

KEPT = "x-paddock-kept"

# Branches of unions that may fail in one reading, about a second: a stranger's schema could double them per level.
TRY_LIMIT = 1 << 17
# A pattern takes at most (length of the text) ** VARYING_LIMIT, and a longer text is not matched.
VARYING_LIMIT = 2
PATTERN_LIMIT = 1000
TEXT_LIMIT = 10_000

# Nodes that one sample may have, and how deep it may go.
DRAW_LIMIT = 1 << 16
DRAW_DEPTH = 64
# Below this depth lists stay short and optional fields are left out, so that recursive types come to an end.
SHALLOW = 6
# How far sampled numbers are from a bound, or from zero, where the other bound is missing.
_REACH = 1000
# How many more entries, characters and repeats than needed a sample has at most.
_EXTRA_ENTRIES, _EXTRA_LETTERS, _EXTRA_REPEATS = 3, 12, 8
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 "
_CANDIDATES = [chr(code) for code in range(32, 127)]
_LENGTH_LIMIT = 1 << 16
_KEY_LIMIT = 10**6

_NAME = re.compile(r"[^\W\d]\w{0,60}")
_ATOM = r"\[\^?(?:\\.|[^\]\\\[])+\]|\\[dws.\\/\-+*?(){}\[\]^$|]|[^\\^$.|?*+()\[\]{}]|\."
_ITEM = re.compile(rf"({_ATOM})(\?|\*|\+|\{{\d{{1,4}}(?:,\d{{0,4}})?\}})?")
_DIALECTS = ("--", "&&", "||", "~~")  # within brackets: sets to some, characters to others


class Mismatch(Exception):
    """Data that a node refuses; ``parts`` are its path, the innermost part first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.parts: list[str | int] = []

    @property
    def path(self) -> str:
        """Where it is: ``moves[2].to``."""
        return join(reversed(self.parts))


class Trail(str):
    """A piece of a path as text: ``.a[1]``, or nothing."""


def join(parts: Any) -> str:
    """Names and indices as one path."""
    text = ""
    for part in parts:
        if isinstance(part, Trail):
            text += part if text else part.removeprefix(".")
        elif isinstance(part, str) and _NAME.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part}]" if isinstance(part, int) else f"[{part[:40]!r}]"
    return text


def brief(value: Any) -> str:
    """A value in short, for messages; only plain values are asked for their ``repr``."""
    if type(value) in (bool, float, type(None)):
        return repr(value)
    if type(value) is int:
        return str(value) if value.bit_length() < 64 else "a huge int"
    if type(value) is str:
        return repr(value) if len(value) <= 40 else f"{value[:40]!r}…"
    name = type(value).__name__[:60]
    return f"an {name}" if name[:1] in "aeiou" else f"a {name}"


def refuse(expected: str, data: Any) -> Mismatch:
    """The usual Mismatch."""
    return Mismatch(f"expected {expected}, got {brief(data)}")


class Walk:
    """The state of one reading. ``plain``: read members of spaces as their JSON form.

    ``kept`` are members that pydantic must not turn into lists: data refers to them by number.
    """

    __slots__ = ("kept", "plain", "tries_left")

    def __init__(self, *, plain: bool, kept: list[Any] | None = None) -> None:
        self.plain, self.kept, self.tries_left = plain, kept, TRY_LIMIT

    def count_failure(self) -> None:
        """Count a branch of a union that refused the data."""
        self.tries_left -= 1
        if self.tries_left < 0:
            raise Mismatch(f"could be read in more than {TRY_LIMIT} ways, and none fits")


class Draw:
    """The state of drawing one sample."""

    __slots__ = ("left", "random")

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.left = random, DRAW_LIMIT

    def enter(self, depth: int, count: int = 1) -> None:
        """Count nodes, and refuse a sample that would not end."""
        self.left -= count
        if self.left < 0 or depth > DRAW_DEPTH:
            raise InvalidSpace(
                f"a sample would have more than {DRAW_LIMIT} parts or {DRAW_DEPTH} levels, so none is drawn"
            )

    def below(self, end: int) -> int:
        """An integer from 0 to ``end - 1``, however large that is."""
        if end < 1 << 62:
            return int(self.random.integers(end))
        return int.from_bytes(self.random.bytes(end.bit_length() // 8 + 9), "little") % end


class Node(Protocol):
    """A part of a schema."""

    def read(self, data: Any, walk: Walk) -> Any:
        """``data`` checked, with members for what describes members of spaces; or Mismatch."""
        ...

    def sample(self, draw: Draw, depth: int) -> Any:
        """Random data that `read` takes, as far as a schema can say."""
        ...


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
        elif isinstance(data, (list, tuple)) and list(data) in [value for value in self._values if type(value) is list]:
            return data
        names = [brief(value) for value in self._values[:8]] + ["…"] * (len(self._values) > 8)
        raise refuse(names[0] if len(names) == 1 else f"one of {', '.join(names)}", data)

    def sample(self, draw: Draw, depth: int) -> Any:
        if not self._values:
            raise InvalidSpace("an enum without values has no samples")
        return self._values[draw.below(len(self._values))]


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
            # The plain number of a subclass, which may compare in its own way.
            if isinstance(data, int) and not isinstance(data, bool):
                data = int.__int__(data)
            elif isinstance(data, float) and not self._integer:
                data = float.__float__(data)
            else:
                raise refuse(self._expected, data)
        if not self._fits(data):
            raise refuse(self._expected, data)
        return data  # type: ignore[no-any-return]

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
            raise refuse(f"str that matches {brief(self._pattern.text)}", text)
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
        most = self._least + _EXTRA_LETTERS if self._most is None else min(self._most, self._least + _EXTRA_LETTERS)
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
        self._space = space  # our own: nothing else draws from its stream

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


class Object:
    """A dict. ``others`` reads the values of fields that have no node of their own; without it there are none."""

    def __init__(
        self,
        fields: dict[str, Node],
        required: frozenset[str],
        *,
        others: Node | None = None,
        names: Node | None = None,
        least: int = 0,
        most: int | None = None,
    ) -> None:
        self._fields, self._required, self._others, self._names = fields, required, others, names
        self._least, self._most = least, most

    def read(self, data: Any, walk: Walk) -> dict[str, Any]:
        if not isinstance(data, dict):
            names = ", ".join(list(self._fields)[:8])
            raise refuse(f"dict with the fields {names}" if names else "dict", data)
        found = {}
        for name, node in self._fields.items():
            if name in data:
                found[name] = _read_part(node, data[name], name, walk)
            elif name in self._required:
                missing = Mismatch("this field is missing")
                missing.parts.append(name)
                raise missing
        if len(found) < len(data):
            self._read_others(data, found, walk)
        if len(data) < self._least or (self._most is not None and len(data) > self._most):
            raise Mismatch(f"expected dict of {_span(self._least, self._most)} entries, got {len(data)}")
        return found

    def _read_others(self, data: dict[Any, Any], found: dict[str, Any], walk: Walk) -> None:
        for key, item in data.items():
            if key in self._fields:
                continue
            if type(key) is not str:
                raise refuse("str as a key", key)
            if self._others is None:
                unknown = Mismatch(f"unknown field, expected only {', '.join(list(self._fields)[:8])}".strip())
                unknown.parts.append(key)
                raise unknown
            if self._names is not None:
                _read_part(self._names, key, key, walk)
            found[key] = _read_part(self._others, item, key, walk)

    def sample(self, draw: Draw, depth: int) -> dict[str, Any]:
        draw.enter(depth)
        drawn = {}
        for name, node in self._fields.items():
            wanted = name in self._required or (draw.below(2) and depth < SHALLOW)
            if wanted:
                drawn[name] = node.sample(draw, depth + 1)
        if self._others is not None and not self._fields:
            for _ in range(_count(draw, depth, self._least, self._most)):
                # Digits: they are keys of a dict[int, ...] too.
                key = str(draw.below(_KEY_LIMIT)) if self._names is None else self._names.sample(draw, depth + 1)
                drawn[key] = self._others.sample(draw, depth + 1)
        return drawn


class Array:
    """A list or tuple: ``first`` have nodes of their own, ``rest`` reads the others.

    Without an order it is a set, whose items come in one that has nothing to do with hashes.
    """

    def __init__(
        self,
        first: list[Node],
        rest: Node | None,
        *,
        least: int = 0,
        most: int | None = None,
        unique: bool = False,
        ordered: bool = True,
    ) -> None:
        self._first, self._rest, self._unique, self._ordered = first, rest, unique, ordered
        self._least = least
        self._most = most if rest is not None else min(len(first), len(first) if most is None else most)

    def read(self, data: Any, walk: Walk) -> list[Any]:
        if not isinstance(data, (list, tuple)):
            raise refuse("list", data)
        if len(data) < self._least or (self._most is not None and len(data) > self._most):
            raise Mismatch(f"expected list of {_span(self._least, self._most)} items, got {len(data)}")
        found = []
        for i, item in enumerate(data):
            node = self._first[i] if i < len(self._first) else self._rest
            assert node is not None  # the length was checked
            found.append(_read_part(node, item, i, walk))
        if self._unique:
            keys = [order_key(item) for item in found]
            if len(set(keys)) < len(keys):
                raise Mismatch("expected no item twice")
            if not self._ordered:
                found = [found[i] for i in sorted(range(len(keys)), key=keys.__getitem__)]
        return found

    def sample(self, draw: Draw, depth: int) -> list[Any]:
        least = max(self._least, len(self._first)) if self._most is None or self._most >= len(self._first) else 0
        count = _count(draw, depth, least, self._most)
        drawn: list[Any] = []
        for i in range(count):
            node = self._first[i] if i < len(self._first) else self._rest
            assert node is not None
            item = node.sample(draw, depth + 1)
            if not self._unique or item not in drawn:
                drawn.append(item)
        return drawn


class Union:
    """One of several. With ``tag``, a field whose value names the branch."""

    def __init__(self, branches: list[Node], tag: str | None = None, by_tag: dict[str, Node] | None = None) -> None:
        self.branches, self._tag, self._by_tag = branches, tag, by_tag or {}

    def read(self, data: Any, walk: Walk) -> Any:
        if self._tag is not None and isinstance(data, dict):
            tag = data.get(self._tag)
            branch = self._by_tag.get(tag) if isinstance(tag, str) else None
            if branch is not None:
                return branch.read(data, walk)
            wrong = Mismatch(f"expected one of {', '.join(map(brief, self._by_tag))}, got {brief(tag)}")
            wrong.parts.append(self._tag)
            raise wrong
        worst: Mismatch | None = None
        reasons = []
        for branch in self.branches:
            try:
                return branch.read(data, walk)
            except Mismatch as mismatch:
                walk.count_failure()
                # The branch that got furthest is the one that was meant.
                if worst is None or len(mismatch.parts) > len(worst.parts):
                    worst = mismatch
                reasons.append(mismatch.reason)
        if worst is None or worst.parts or not all(reason.startswith("expected ") for reason in reasons):
            raise worst or Mismatch("nothing is allowed here")
        expected = dict.fromkeys(reason.removeprefix("expected ").rpartition(", got ")[0] for reason in reasons)
        raise refuse(" or ".join(filter(None, expected)), data)

    def sample(self, draw: Draw, depth: int) -> Any:
        draw.enter(depth)
        branches = self.branches
        if depth >= SHALLOW:
            branches = [branch for branch in branches if not isinstance(branch, (Reference, Union))] or branches
        if not branches:
            raise InvalidSpace("a union of nothing has no samples")
        return branches[draw.below(len(branches))].sample(draw, depth + 1)


class Reference:
    """A definition by its name: looked up when data is read, because definitions may hold themselves."""

    def __init__(self, name: str, definitions: dict[str, Node]) -> None:
        self.name, self._definitions = name, definitions

    def read(self, data: Any, walk: Walk) -> Any:
        return self._definitions[self.name].read(data, walk)

    def sample(self, draw: Draw, depth: int) -> Any:
        draw.enter(depth)
        return self._definitions[self.name].sample(draw, depth + 1)


def _read_part(node: Node, data: Any, place: str | int, walk: Walk) -> Any:
    try:
        return node.read(data, walk)
    except Mismatch as mismatch:
        mismatch.parts.append(place)
        raise


def _span(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


def _count(draw: Draw, depth: int, least: int, most: int | None) -> int:
    """How many entries a sample gets; as few as possible where it is already deep."""
    more = _EXTRA_ENTRIES if most is None else min(most - least, _EXTRA_ENTRIES)
    count = least + (draw.below(more + 1) if depth < SHALLOW and more > 0 else 0)
    draw.enter(depth, count)
    return count


@dataclass(frozen=True)
class _Item:
    atom: str
    least: int
    most: int | None

    @cached_property
    def characters(self) -> list[str]:
        return [char for char in _CANDIDATES if re.fullmatch(self.atom, char)]


class Pattern:
    """A regular expression whose matching can't take long, and that can draw text that matches.

    It is a row of characters and classes with repeats, without groups or alternatives, and with few repeats that can
    vary: Python tries those in every combination. Any other pattern of a schema is left to the class it came from.
    """

    def __init__(self, text: str, items: list[_Item]) -> None:
        self.text, self._items = text, items
        self._matcher = re.compile(text)

    def matches(self, text: str) -> bool:
        """Whether it is found in ``text``; a very long text is not looked at."""
        return len(text) > TEXT_LIMIT or self._matcher.search(text) is not None

    def sample(self, draw: Draw) -> str | None:
        """Text that matches, or None where no ASCII character does."""
        found = []
        for item in self._items:
            most = item.least + _EXTRA_REPEATS if item.most is None else min(item.most, item.least + _EXTRA_REPEATS)
            count = item.least + draw.below(most - item.least + 1)
            if count and not item.characters:
                return None
            draw.enter(0, count)
            found += [item.characters[draw.below(len(item.characters))] for _ in range(count)]
        return "".join(found)


def safe_pattern(text: str) -> Pattern | None:
    """The pattern, or None where matching it could take long or is not the same everywhere."""
    body = text.removeprefix("^")
    anchored = body != text
    if body.endswith("$") and not body.endswith("\\$"):
        body = body[:-1]
    items, place = [], 0
    while place < len(body) and len(text) <= PATTERN_LIMIT:
        match = _ITEM.match(body, place)
        if match is None or any(sign in match[1] for sign in _DIALECTS):
            return None
        items.append(_Item(match[1], *_repeats(match[2])))
        place = match.end()
    varying = sum(item.least != item.most for item in items)
    if place < len(body) or varying + (not anchored) > VARYING_LIMIT:
        return None
    try:
        return Pattern(text, items)
    except re.error:
        return None


def _repeats(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 1, 1
    if text in "?*+":
        return {"?": (0, 1), "*": (0, None), "+": (1, None)}[text]
    least, comma, most = text[1:-1].partition(",")
    if not comma:
        return int(least), int(least)
    return int(least), int(most) if most else None
