"""A tidy schema compiled to nodes, which read data and draw samples.

Numbers are finite and text is Unicode, whatever the class behind the schema would take: JSON has no others. Undeclared
fields are refused. A path is put together only when something is wrong: each container adds its part while the error
passes through.
"""

from __future__ import annotations

import math
import operator
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import msgspec
import numpy as np

from paddock.errors import InvalidSpace
from paddock.spaces.discrete import Discrete
from paddock.spaces.json_form import read_form
from paddock.spaces.json_schema import DEFINITIONS, Schema
from paddock.spaces.json_value import decode, encode
from paddock.spaces.records.fields import order_key
from paddock.spaces.space import SEED_LIMIT, Space

SPACE = "x-paddock-space"
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
_ATOMS = (str, int, float, bool, type(None))
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 "
_LENGTH_LIMIT = 1 << 16
_KEY_LIMIT = 10**6
_SECONDS = 2 * 10**9

_NAME = re.compile(r"[^\W\d]\w{0,60}")
_ATOM = r"\[\^?(?:\\.|[^\]\\\[])+\]|\\[dws.\\/\-+*?(){}\[\]^$|]|[^\\^$.|?*+()\[\]{}]|\."
_ITEM = re.compile(rf"({_ATOM})(\?|\*|\+|\{{\d{{1,4}}(?:,\d{{0,4}})?\}})?")
_DIALECTS = ("--", "&&", "||", "~~")  # within brackets: sets to some, characters to others


class Mismatch(Exception):
    """Data that a node refuses; ``parts`` are its path, the innermost part first."""

    def __init__(self, reason: str, *parts: str) -> None:
        self.reason, self.parts = reason, list(parts)

    @property
    def path(self) -> str:
        """Where it is: ``moves[2].to``."""
        return "".join(reversed(self.parts)).removeprefix(".")


def format_part(part: str | int) -> str:
    """A name or an index as it stands in a path."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _NAME.fullmatch(part) else f"[{part[:40]!r}]"


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
    """The state of one reading. ``plain``: read members of spaces as their JSON form."""

    __slots__ = ("plain", "tries_left")

    def __init__(self, *, plain: bool) -> None:
        self.plain, self.tries_left = plain, TRY_LIMIT

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
    """A part of a schema. Each class reads its own keywords; parts of containers come from ``compile``."""

    def read(self, data: Any, walk: Walk) -> Any:
        """``data`` checked, with members for what describes members of spaces; or Mismatch."""
        ...

    def sample(self, draw: Draw, depth: int) -> Any:
        """Random data that `read` takes, as far as a schema can say."""
        ...


Compile = Callable[["Schema | bool"], Node]


class Constants:
    """One of some values: null, a bool, an enum or a literal. 1, 1.0 and true are three different ones."""

    def __init__(self, values: list[Any], expected: str = "") -> None:
        names = [brief(value) for value in values[:8]] + ["…"] * (len(values) > 8)
        self._expected = expected or (names[0] if len(names) == 1 else f"one of {', '.join(names)}")
        self._values = values
        self._known = {(type(value), value) for value in values if type(value) in _ATOMS}

    def read(self, data: Any, walk: Walk) -> Any:
        if isinstance(data, str) and type(data) is not str:
            data = str.__str__(data)
        if type(data) in _ATOMS:
            if (type(data), data) in self._known:
                return data
        elif isinstance(data, (list, tuple)) and list(data) in [value for value in self._values if type(value) is list]:
            return data
        raise refuse(self._expected, data)

    def sample(self, draw: Draw, depth: int) -> Any:
        if not self._values:
            raise InvalidSpace("an enum without values has no samples")
        return self._values[draw.below(len(self._values))]


class Number:
    """Integers, or all numbers; an integer is not made a float here, because a union may want it as it is."""

    def __init__(self, schema: Schema) -> None:
        self._integer = schema.get("type") == "integer"
        self._bounds = {name: schema[name] for name in _BOUNDS if name in schema}
        limits = " and ".join(f"{_BOUNDS[name][0]} {bound}" for name, bound in self._bounds.items())
        self._expected = f"{'int' if self._integer else 'float'} {limits}".strip()

    def read(self, data: Any, walk: Walk) -> int | float:
        # The plain number of a subclass, which may compare in its own way.
        number: int | float
        if isinstance(data, int) and not isinstance(data, bool):
            number = int.__int__(data)
        elif isinstance(data, float) and not self._integer:
            number = float.__float__(data)
        else:
            raise refuse(self._expected, data)
        if not self._integer and not _is_finite(number):
            raise refuse(self._expected, data)
        for name, bound in self._bounds.items():
            if not _BOUNDS[name][1](number, bound):
                raise refuse(self._expected, data)
        return number

    def sample(self, draw: Draw, depth: int) -> int | float:
        least, most, above, below, step = map(self._bounds.get, _BOUNDS)
        low = max((bound for bound in (least, above) if bound is not None), default=None)
        high = min((bound for bound in (most, below) if bound is not None), default=None)
        if low is None:
            low = -_REACH if high is None else high - _REACH
        if high is None:
            high = low + _REACH
        if self._integer or step is not None:
            unit = step or 1
            first, last = int(-(-low // unit)), int(high // unit)  # exact for large integers too
            first, last = first + (first * unit == above), last - (last * unit == below)
            if last < first:
                raise InvalidSpace(f"no number is {self._expected}")
            drawn = (first + draw.below(last - first + 1)) * unit
            return int(drawn) if self._integer else drawn
        share = float(draw.random.random())
        return min(max(low * (1 - share) + high * share, low), high)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the floats
        return False


def _is_multiple(number: float, step: float) -> bool:
    if isinstance(number, int) and isinstance(step, int):
        return number % step == 0
    rest, tolerance = abs(math.fmod(number, step)), abs(number) / 1e9
    return rest <= tolerance or abs(rest - abs(step)) <= tolerance


_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": (">=", operator.ge),
    "maximum": ("<=", operator.le),
    "exclusiveMinimum": (">", operator.gt),
    "exclusiveMaximum": ("<", operator.lt),
    "multipleOf": ("a multiple of", _is_multiple),
}


class Text:
    """Strings. Where a class has the last word (``judged``), patterns and formats only guide samples."""

    def __init__(self, schema: Schema, *, judged: bool) -> None:
        self._least, self._most = schema.get("minLength", 0), schema.get("maxLength")
        self._pattern = safe_pattern(schema["pattern"]) if "pattern" in schema else None
        self._format = schema.get("contentEncoding") or schema.get("format") or ""
        self._class: type | None
        self._make: Callable[[Draw], str] | None
        self._class, self._make = _FORMATS.get(self._format, (None, None))
        self._judged = judged

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
        if self._class is not None:
            try:
                msgspec.convert(text, self._class)
            except msgspec.ValidationError:
                raise refuse(f"str with a {self._format}", text) from None
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
        # The JSON form first: a Box takes lists as members too, and leaves them lists.
        try:
            member = decode(self._space, data, "")
        except InvalidSpace as error:
            if not self._space.contains(data):
                path, _, reason = str(error).partition(": ")
                raise Mismatch(reason, path) from None
            member = data
        if walk.plain:
            return encode(self._space, member)
        # A record says `int` where a Discrete has NumPy's.
        return int(member) if isinstance(self._space, Discrete) else member

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
            return [_read_part(self, item, i, walk) for i, item in enumerate(data)]
        if isinstance(data, dict):
            for key in data:
                if type(key) is not str:
                    raise refuse("str as a key", key)
            return {key: _read_part(self, item, key, walk) for key, item in data.items()}
        raise refuse("JSON data", data)

    def sample(self, draw: Draw, depth: int) -> Any:
        return [None, True, False, draw.below(_REACH), float(draw.random.random()), "text"][draw.below(6)]


class Object:
    """A dict. ``others`` reads the values of fields that have no node of their own; without it there are none."""

    def __init__(self, schema: Schema, compile: Compile) -> None:
        others, names = schema.get("additionalProperties", True), schema.get("propertyNames")
        self._fields = {name: compile(item) for name, item in schema.get("properties", {}).items()}
        self._required = frozenset(schema.get("required", ()))
        self._others = None if others is False else compile(others)
        self._names = (
            None if names is None else compile({"type": "string", **names} if isinstance(names, dict) else names)
        )
        self._least, self._most = schema.get("minProperties", 0), schema.get("maxProperties")

    def read(self, data: Any, walk: Walk) -> dict[str, Any]:
        if not isinstance(data, dict):
            names = ", ".join(list(self._fields)[:8])
            raise refuse(f"dict with the fields {names}" if names else "dict", data)
        found = {}
        for name, node in self._fields.items():
            if name in data:
                found[name] = _read_part(node, data[name], name, walk)
            elif name in self._required:
                raise Mismatch("this field is missing", format_part(name))
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
                raise Mismatch(
                    f"unknown field, expected only {', '.join(list(self._fields)[:8])}".strip(), format_part(key)
                )
            if self._names is not None:
                _read_part(self._names, key, key, walk)
            found[key] = _read_part(self._others, item, key, walk)

    def sample(self, draw: Draw, depth: int) -> dict[str, Any]:
        draw.enter(depth)
        drawn = {}
        for name, node in self._fields.items():
            if name in self._required or (draw.below(2) and depth < SHALLOW):
                drawn[name] = node.sample(draw, depth + 1)
        if self._others is not None and not self._fields:
            for _ in range(_count(draw, depth, self._least, self._most)):
                # Digits: they are keys of a dict[int, ...] too.
                key = str(draw.below(_KEY_LIMIT)) if self._names is None else self._names.sample(draw, depth + 1)
                drawn[key] = self._others.sample(draw, depth + 1)
        return drawn


class Array:
    """A list or tuple: ``first`` have nodes of their own, ``rest`` reads the others."""

    def __init__(self, schema: Schema, compile: Compile) -> None:
        rest, most = schema.get("items", True), schema.get("maxItems")
        self._first = [compile(item) for item in schema.get("prefixItems", ())]
        self._rest = None if rest is False else compile(rest)
        self._unique = schema.get("uniqueItems", False)
        self._least = schema.get("minItems", 0)
        self._most = most if rest is not False else min(len(self._first), len(self._first) if most is None else most)

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
        if self._unique and len(set(map(order_key, found))) < len(found):
            raise Mismatch("expected no item twice")
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

    def __init__(self, branches: list[Any], tag: str | None = None, by_tag: dict[str, Any] | None = None) -> None:
        self.branches, self.tag, self.by_tag = branches, tag, by_tag or {}

    def read(self, data: Any, walk: Walk) -> Any:
        if self.tag is not None and isinstance(data, dict):
            tag = data.get(self.tag)
            branch = self.by_tag.get(tag) if isinstance(tag, str) else None
            if branch is not None:
                return branch.read(data, walk)
            raise Mismatch(
                f"expected one of {', '.join(map(brief, self.by_tag))}, got {brief(tag)}", format_part(self.tag)
            )
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
        mismatch.parts.append(format_part(place))
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


class _Item(NamedTuple):
    """A character or class in a pattern, and how often it may stand there."""

    atom: str
    least: int
    most: int | None


@cache
def _characters(atom: str) -> list[str]:
    return [char for char in map(chr, range(32, 127)) if re.fullmatch(atom, char)]


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
            characters = _characters(item.atom)
            if count and not characters:
                return None
            draw.enter(0, count)
            found += [characters[draw.below(len(characters))] for _ in range(count)]
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


def _sample_date(draw: Draw) -> str:
    return datetime.fromtimestamp(draw.below(_SECONDS), timezone.utc).strftime("%Y-%m-%d")


def _sample_time(draw: Draw) -> str:
    return f"{draw.below(24):02}:{draw.below(60):02}:{draw.below(60):02}{'Z' * draw.below(2)}"


# The class that text of a format can be converted to, and how it is sampled. Other formats are remarks.
_FORMATS: dict[str, tuple[type, Callable[[Draw], str]]] = {
    "date-time": (datetime, lambda draw: f"{_sample_date(draw)}T{_sample_time(draw)}"),
    "date": (date, _sample_date),
    "time": (time, _sample_time),
    "duration": (timedelta, lambda draw: f"PT{draw.below(10**5)}S"),
    "uuid": (UUID, lambda draw: str(UUID(bytes=draw.random.bytes(16), version=4))),
    "decimal": (Decimal, lambda draw: f"{draw.below(10**5)}.{draw.below(100):02}"),
    "base64": (bytes, lambda draw: b64encode(draw.random.bytes(draw.below(13))).decode()),
}


def compile_schema(schema: Schema, *, judged: bool) -> Node:
    """Compile a tidy schema. ``judged``: a class has the last word, so patterns and formats only guide samples."""
    definitions: dict[str, Node] = {}

    def compile(schema: Schema | bool) -> Node:
        if isinstance(schema, bool):
            return Anything() if schema else Union([])
        if SPACE in schema:
            return Member(read_form(schema[SPACE], f"$.schema.{SPACE}"))
        if "$ref" in schema:
            return Reference(schema["$ref"].removeprefix(DEFINITIONS), definitions)
        if "allOf" in schema:
            if len(schema["allOf"]) != 1:
                raise InvalidSpace(f"schema: allOf of {len(schema['allOf'])} schemas, expected one")
            return compile(schema["allOf"][0])
        if "anyOf" in schema or "oneOf" in schema:
            branches = [compile(item) for item in schema["anyOf" if "anyOf" in schema else "oneOf"]]
            tagged = schema.get("discriminator")
            if tagged is None:
                return branches[0] if len(branches) == 1 else Union(branches)
            by_tag = {tag: compile({"$ref": reference}) for tag, reference in tagged["mapping"].items()}
            return Union(branches, tagged["propertyName"], by_tag)
        if "const" in schema or "enum" in schema:
            return Constants(schema["enum"] if "enum" in schema else [schema["const"]])
        match schema.get("type"):
            case "object":
                return Object(schema, compile)
            case "array":
                return Array(schema, compile)
            case "string":
                return Text(schema, judged=judged)
            case "integer" | "number":
                return Number(schema)
            case "boolean":
                return Constants([False, True], "bool")
            case "null":
                return Constants([None])
        return Anything()

    definitions.update({name: compile(item) for name, item in schema.get("$defs", {}).items()})
    root = compile(schema)
    _check_ends(definitions)
    return root


def _check_ends(definitions: dict[str, Node]) -> None:
    """Refuse definitions that consist of nothing but each other."""

    def visit(node: Node, above: tuple[str, ...]) -> None:
        if isinstance(node, Union):
            for branch in node.branches:
                visit(branch, above)
        if isinstance(node, Reference) and node.name not in done:
            if node.name in above:
                raise InvalidSpace(f"schema.$defs: {node.name[:40]!r} is defined by nothing but itself")
            visit(definitions[node.name], (*above, node.name))
            done.add(node.name)

    done: set[str] = set()
    for name in definitions:
        visit(Reference(name, definitions), ())
