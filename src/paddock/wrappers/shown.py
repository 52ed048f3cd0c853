"""Attributes of a wrapper that live in its logic or its memory, under the names that users know."""

from __future__ import annotations

from typing import Any


class Shown:
    """``name`` of the wrapper's ``place``; by default the name that the class attribute has."""

    def __init__(self, place: str, name: str | None) -> None:
        self.place, self.name = place, name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        return self if wrapper is None else getattr(getattr(wrapper, self.place), self.name or "")

    def __set__(self, wrapper: Any, value: Any) -> None:
        setattr(getattr(wrapper, self.place), self.name or "", value)


def of_logic(name: str | None = None) -> Any:
    """An argument of the wrapper. Any: the class attribute's annotation says what it is."""
    return Shown("_logic", name)


def of_memory(name: str | None = None) -> Any:
    """Something that the wrapper remembers."""
    return Shown("_memory", name)
