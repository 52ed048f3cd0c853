"""Code that may have to wait, written once, as a generator: it yields what may be awaitable and gets the result back.

Called, it returns a plain value if nothing had to wait; only from the first awaitable on is there a coroutine.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from functools import wraps
from inspect import isawaitable, iscoroutine
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Steps: TypeAlias = "Generator[Any, Any, T]"


def maybe_async(function: Callable[P, Steps[Any]]) -> Callable[P, Any]:
    """Make a generator function return what its generator returns, or a coroutine of it.

    Callers know which, and should not have to tell the type checker.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        steps = function(*args, **kwargs)
        try:
            value = next(steps)
            while type(value) is float or not isawaitable(value):  # a score, nearly always
                value = steps.send(value)
        except StopIteration as end:
            return end.value
        return _discard_with(_resume(steps, value), [value])

    return call


async def _resume(steps: Steps[T], value: Any) -> T:
    try:
        while True:
            try:
                result = await value if isawaitable(value) else value
            except BaseException as error:
                value = steps.throw(error)
            else:
                value = steps.send(result)
    except StopIteration as end:
        last: T = end.value
        return last


def gather(values: Sequence[Any]) -> Coroutine[Any, Any, list[Any]]:
    """Await the awaitable values at the same time. If one fails, the others are cancelled and end first."""

    async def wait() -> list[Any]:
        tasks = {at: asyncio.ensure_future(one) for at, one in enumerate(values) if isawaitable(one)}
        try:
            await asyncio.gather(*tasks.values())
        except BaseException:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            raise
        return [tasks[at].result() if at in tasks else one for at, one in enumerate(values)]

    return _discard_with(wait(), values)


def _discard_with(whole: Coroutine[Any, Any, T], parts: Iterable[Any]) -> Coroutine[Any, Any, T]:
    """Discard the parts when the coroutine is discarded: one that never began would drop them unawaited."""
    weakref.finalize(whole, discard, parts).atexit = False
    return whole


def discard(values: Iterable[Any]) -> None:
    """Close coroutines that will not be awaited."""
    for one in values:
        if iscoroutine(one):
            one.close()
