"""Fields of a manifest, taken one by one with their types. What is left over at the end is an unknown key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from paddock.errors import InvalidManifest

MAX_DEPTH = 32
MAX_TEXT = 4096
_WORDS = {str: "a text", bool: "true or false", int: "a whole number", dict: "a table", list: "a list"}


@dataclass
class Fields:
    """A table of the manifest. ``place`` is how its user would find it: ``paddock.toml: [[env]] number 2``."""

    place: str
    values: Mapping[str, Any]
    known: list[str] = field(default_factory=list)

    def refuse(self, key: str, why: str) -> InvalidManifest:
        """The error for this key."""
        return InvalidManifest(f"{self.place}: {key}: {why}")

    def take(self, key: str, kind: type, default: Any = None, *, required: bool = False) -> Any:
        """The value if it is of this kind, ``default`` if there is none."""
        self.known.append(key)
        if key not in self.values:
            if required:
                raise self.refuse(key, f"is missing; expected {_WORDS[kind]}.")
            return default
        value: Any = self.values[key]
        if type(value) is not kind:  # exactly: true is no whole number
            raise self.refuse(key, f"{shown(value)} is {named(value)}; expected {_WORDS[kind]}.")
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise self.refuse(key, f"has {len(value):,} characters; at most {MAX_TEXT:,} are read.")
        return value

    def number(self, key: str) -> float | None:
        """A finite number, whole or not."""
        self.known.append(key)
        value = self.values.get(key)
        if value is None:
            return None
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self.refuse(key, f"{shown(value)} is {named(value)}; expected a finite number.")
        return float(value)

    def count(self, key: str) -> int | None:
        """A whole number from 1 on."""
        value: int | None = self.take(key, int)
        if value is not None and value < 1:
            raise self.refuse(key, f"{shown(value)} is not 1 or more.")
        return value

    def interval(self, key: str) -> tuple[float, float] | None:
        """Two numbers, the lower one first; infinity is one."""
        value = self.take(key, list)
        if value is None:
            return None
        if len(value) != 2 or not all(map(_orderable, value)) or not value[0] <= value[1]:
            raise self.refuse(key, f"{shown(value)}; expected two numbers, the lower one first, as [-1.0, 1.0].")
        return float(value[0]), float(value[1])

    def plain(self, key: str) -> dict[str, Any]:
        """A table of data that crosses to another process: texts, numbers, true and false, lists and tables."""
        value: dict[str, Any] = self.take(key, dict, {})
        self._check_plain(value, key, 0)
        return value

    def tables(self, key: str) -> list[Fields]:
        """A list of tables."""
        value = self.take(key, list, [])
        for one in value:
            if type(one) is not dict:
                raise self.refuse(key, f"{shown(one)} is {named(one)}; expected a list of tables.")
        return [Fields(f"{self.place}, {key} number {at}", one) for at, one in enumerate(value, start=1)]

    def finish(self) -> None:
        """Refuse what nobody took."""
        for key in self.values:
            if key not in self.known:
                close = get_close_matches(key[:80], self.known, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise InvalidManifest(
                    f"{self.place}: there is no key {shown(key)}.{hint} There are: {', '.join(self.known)}."
                )

    def _check_plain(self, value: Any, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.refuse(path[:80], f"is nested deeper than {MAX_DEPTH}.")
        if type(value) is dict:
            for name, item in value.items():
                # Such keys are tags where specs are JSON.
                if name.startswith("$") or len(name) > 256:
                    raise self.refuse(
                        path[:80], f"has the key {shown(name)}; expected one without $, at most 256 long."
                    )
                self._check_plain(item, f"{path}.{name}", depth + 1)
        elif type(value) is list:
            for at, item in enumerate(value):
                self._check_plain(item, f"{path}[{at}]", depth + 1)
        elif type(value) not in (str, bool, int, float):
            expected = "expected texts, numbers, true, false, lists and tables."
            raise self.refuse(path[:80], f"{shown(value)} is {named(value)}; {expected}")


def _orderable(value: Any) -> bool:
    return (type(value) is float and not math.isnan(value)) or type(value) is int


def shown(value: Any) -> str:
    """A value of the manifest, short and on one line, its unprintable characters escaped."""
    text = ascii(value) if isinstance(value, str) else repr(value) if type(value) in (int, float, bool, list) else "…"
    return text if len(text) <= 80 else text[:77] + "..."


def named(value: Any) -> str:
    """What kind of value this is, in words."""
    if type(value) is float:
        return "a number"
    return _WORDS.get(type(value), f"a {type(value).__name__}")
