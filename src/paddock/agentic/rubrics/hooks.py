"""Hooks of a rubric and the handles that remove them. One removed while hooks run is still called this time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class HookHandle:
    """What ``register_forward_hook`` returns. It is also a context manager that removes the hook at its end."""

    def __init__(self, hooks: Hooks, key: object) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """The hook is not called any more. Safe to call twice."""
        self._hooks.discard(self._key)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks:
    """Callables in the order in which they were added; one that is added twice is called twice."""

    def __init__(self) -> None:
        self._called: dict[object, Callable[..., Any]] = {}

    def add(self, hook: Callable[..., Any]) -> HookHandle:
        """Call it from now on, after those that are there."""
        key = object()
        self._called[key] = hook
        return HookHandle(self, key)

    def discard(self, key: object) -> None:
        """Forget the hook with this key, if it is there."""
        self._called.pop(key, None)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(tuple(self._called.values()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Hooks:
        """The same callables, not copies of them: what a hook writes to is one thing. Handles are of the original."""
        copied = Hooks()
        copied._called.update(self._called)
        return copied
