"""Wrappers as make() takes them: data, or callables. Only data and classes can be written down and made again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from paddock.core.spec import WrapperSpec, entry_point_text

WrapperLike: TypeAlias = "WrapperSpec | Callable[[Any], Any]"


def name_of(wrapper: WrapperLike) -> str:
    """What to call a wrapper in a plan."""
    if isinstance(wrapper, WrapperSpec):
        return wrapper.name
    called = wrapper.func if isinstance(wrapper, partial) else wrapper
    return getattr(called, "__name__", repr(called))


def as_data(wrapper: WrapperLike) -> WrapperSpec:
    """The wrapper's entry in a spec; of a function only its name, so that ``make`` says what can't be made again."""
    if isinstance(wrapper, WrapperSpec):
        return wrapper
    if isinstance(wrapper, partial) and isinstance(wrapper.func, type) and not wrapper.args:
        return WrapperSpec(name_of(wrapper), entry_point_text(wrapper.func), dict(wrapper.keywords))
    kwargs: dict[str, Any] | None = {} if isinstance(wrapper, type) else None
    return WrapperSpec(name_of(wrapper), entry_point_text(wrapper), kwargs)
