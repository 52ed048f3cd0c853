"""The nodes that have nodes inside: objects, arrays, unions and references. Fields that nobody declared are refused."""

from __future__ import annotations

from typing import Any

from paddock.errors import InvalidSpace
from paddock.spaces.records.fields import order_key
from paddock.spaces.records.walk import SHALLOW, Draw, Mismatch, Node, Walk, refuse, shown

_SOME = 3  # more entries than needed that a sampled list or dict has at most
_KEY_LIMIT = 10**6


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
            return self._read_tagged(data, walk)
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

    def _read_tagged(self, data: dict[Any, Any], walk: Walk) -> Any:
        tag = data.get(self._tag)
        branch = self._by_tag.get(tag) if isinstance(tag, str) else None
        if branch is not None:
            return branch.read(data, walk)
        wrong = Mismatch(f"expected one of {', '.join(map(shown, self._by_tag))}, got {shown(tag)}")
        wrong.parts.append(self._tag or "")
        raise wrong

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
    """How many entries a sample has; as few as may be where it is deep already."""
    more = _SOME if most is None else min(most - least, _SOME)
    count = least + (draw.below(more + 1) if depth < SHALLOW and more > 0 else 0)
    draw.enter(depth, count)
    return count
