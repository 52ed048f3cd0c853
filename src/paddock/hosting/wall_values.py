"""Values without a space (infos, states, attributes, pictures) from behind a wall: bounded, of few types, text plain.

What has nothing to be stripped comes back as the same object, so an honest value is passed on bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.errors import EnvironmentViolation
from paddock.hosting.wall_members import quoted, shown, violation
from paddock.hosting.wall_spaces import check_space
from paddock.sandbox.plain_text import plain
from paddock.spaces import Space
from paddock.spaces.graph import GraphInstance

_ENTRY_BYTES = 8  # an entry costs at least this, so that many empty ones count too
_OBJECT_BYTES = 1024  # a space, a generator: far less than it took to send one
_SMALL = frozenset({type(None), bool, float})
_NUMERIC = "biufc"


class ValueCheck:
    """One walk through a value, with a budget for all of it.

    ``wide`` lets pass what an attribute may be and an info may not: complex numbers, keys that are no text, text in
    NumPy's form, spaces, random generators. ``colours`` leaves the colours in text.
    """

    __slots__ = ("_allowed", "_bytes_left", "_colours", "_depth", "_entries_left", "_path", "_places", "_wide")

    def __init__(
        self, path: str, *, max_bytes: int, depth: int, entries: int, wide: bool = False, colours: bool = False
    ) -> None:
        self._path, self._wide, self._colours = path, wide, colours
        self._allowed = max_bytes
        self._bytes_left, self._depth, self._entries_left = max_bytes, depth, entries
        self._places: list[Any] = []  # keys and indices that lead to where the walk is

    def read(self, value: Any) -> Any:
        """The value with its text made plain, or EnvironmentViolation. Containers are copied where that changes one."""
        kind = type(value)
        if kind in _SMALL:
            self._count(_ENTRY_BYTES)
            return value
        if kind is int:
            self._count(_ENTRY_BYTES + (value.bit_length() >> 3))
            return value
        if kind is str:
            return self._text(value)
        if kind is dict:
            return self._dict(value)
        if kind is list or kind is tuple:
            return self._items(value)
        if kind is np.ndarray and value.dtype.kind in _NUMERIC:
            self._count(_ENTRY_BYTES + value.nbytes)
            return value
        if kind is bytes:
            self._count(_ENTRY_BYTES + len(value))
            return value
        if isinstance(value, np.generic) and value.dtype.kind in _NUMERIC:
            self._count(_ENTRY_BYTES)
            return value
        if self._wide:
            return self._wider(value)
        raise self.refusal(
            f"{shown(value)} may not cross the wall: only None, bools, numbers, text, bytes, lists, tuples, dicts and "
            "arrays of numbers may"
        )

    def refusal(self, problem: str) -> EnvironmentViolation:
        """What to raise for the place where the walk is."""
        return violation(self._place(), problem)

    def _place(self) -> str:
        return self._path + "".join(f"[{quoted(key)}]" for key in self._places)

    def _count(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._places.clear()  # all of it is too much, not the part that came last
            raise self.refusal(f"it has more than {self._allowed} bytes, counting {_ENTRY_BYTES} for each entry")

    def _text(self, text: str) -> str:
        # By its code points: a text of one rare letter takes four bytes for each in memory.
        self._count(_ENTRY_BYTES + (len(text) if text.isascii() else 4 * len(text)))
        return plain(text, colours=self._colours)

    def _enter(self, count: int) -> None:
        self._entries_left -= count
        if self._entries_left < 0:
            self._places.clear()
            raise self.refusal("it has too many entries")
        self._depth -= 1
        if self._depth < 0:
            raise self.refusal("it is nested too deeply")

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        self._count(_ENTRY_BYTES)
        self._enter(len(value))
        changed = False
        found: dict[Any, Any] = {}
        for key, item in value.items():
            new_key = self._key(key)
            self._places.append(new_key)
            new_item = item if item is None else self.read(item)
            if new_key is not key and new_key in found:
                raise self.refusal("the key stands twice once it is plain text")
            changed |= new_key is not key or new_item is not item
            found[new_key] = new_item
            self._places.pop()
        self._depth += 1
        return found if changed else value

    def _key(self, key: Any) -> Any:
        if type(key) is str:
            return self._text(key)
        if self._wide and type(key) in (int, bool, float, bytes, type(None)):
            return self.read(key)
        raise self.refusal(f"the key {shown(key)} is no text")

    def _items(self, value: list[Any] | tuple[Any, ...]) -> Any:
        self._count(_ENTRY_BYTES)
        self._enter(len(value))
        found: list[Any] = []
        changed = False
        for index, item in enumerate(value):
            self._places.append(index)
            new_item = self.read(item)
            changed |= new_item is not item
            found.append(new_item)
            self._places.pop()
        self._depth += 1
        return value if not changed else found if type(value) is list else tuple(found)

    def _wider(self, value: Any) -> Any:
        kind = type(value)
        if kind is complex or isinstance(value, (Space, np.random.Generator)):
            self._count(_OBJECT_BYTES)
            if isinstance(value, Space):
                check_space(value, self._place(), limit=self._allowed)
            return value
        if kind is np.str_:
            text = self._text(str(value))
            return value if text == value else np.str_(text)
        if kind is np.ndarray and value.dtype.kind == "U":
            self._count(_ENTRY_BYTES + value.nbytes)
            clean = np.array([plain(text) for text in value.reshape(-1).tolist()], value.dtype).reshape(value.shape)
            return value if (clean == value).all() else clean
        if kind is GraphInstance:
            return GraphInstance(*self._items(tuple(value)))
        raise self.refusal(f"{shown(value)} may not cross the wall")
