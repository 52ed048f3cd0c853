"""``func`` of the Transform wrappers, which their hook calls. Hot: a step goes straight to it, a frame less.

Not where a subclass has a hook of its own: then a step goes through that.
"""

from __future__ import annotations

from typing import Any


class _Func:
    def __init__(self, hook: str) -> None:
        self.hook = hook

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner = owner

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        return self if wrapper is None else wrapper._func

    def __set__(self, wrapper: Any, func: Any) -> None:
        wrapper._func = func
        hooked = getattr(type(wrapper), self.hook) is not getattr(self.owner, self.hook)
        wrapper._straight = getattr(wrapper, self.hook) if hooked else func


def func_of(hook: str) -> Any:
    """The function that ``hook`` calls; ``_straight`` is what a step calls. Any: the attribute's annotation says it."""
    return _Func(hook)
