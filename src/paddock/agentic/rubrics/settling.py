"""Code that may have to wait, written once as a generator: it yields what may be awaitable and gets back the result.

``settled`` gives a plain value if nothing had to wait; only from the first awaitable on is there a coroutine.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine, Generator, Iterable, Sequence
from inspect import isawaitable, iscoroutine
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = "Generator[Any, Any, T]"


def settled(steps: Steps[T]) -> T | Coroutine[Any, Any, T]:
    """What the steps return, or a coroutine of it."""
    try:
        given = next(steps)
        while type(given) is float or not isawaitable(given):  # a score, nearly always
            given = steps.send(given)
    except StopIteration as end:
        result: T = end.value
        return result
    return _with(_settled_later(steps, given), [given])


async def _settled_later(steps: Steps[T], given: Any) -> T:
    try:
        while True:
            try:
                value = await given if isawaitable(given) else given
            except BaseException as error:
                given = steps.throw(error)
            else:
                given = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


def all_settled(given: Sequence[Any]) -> Coroutine[Any, Any, list[Any]]:
    """Each value, the awaitable ones awaited at the same time. If one fails, the others are cancelled and end first."""
    return _with(_all_settled_later(given), given)


async def _all_settled_later(given: Sequence[Any]) -> list[Any]:
    tasks = {at: asyncio.ensure_future(one) for at, one in enumerate(given) if isawaitable(one)}
    try:
        await asyncio.gather(*tasks.values())
    except BaseException:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        raise
    return [tasks[at].result() if at in tasks else one for at, one in enumerate(given)]


def _with(whole: Coroutine[Any, Any, T], parts: Iterable[Any]) -> Coroutine[Any, Any, T]:
    """The coroutine; who discards it has discarded its parts too, which it would drop if it never began."""
    weakref.finalize(whole, discard, parts).atexit = False
    return whole


def discard(given: Iterable[Any]) -> None:
    """Close coroutines that nobody will await."""
    for one in given:
        if iscoroutine(one):
            one.close()
