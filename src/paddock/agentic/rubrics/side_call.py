"""Call sync code from async code without stopping its loop. The thread is a daemon: one that hangs holds nothing up."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def side_call(function: Callable[[], T]) -> T:
    """What the function returns or raises, on a thread of its own. If nobody waits any more, it goes on unheard.

    Not ``asyncio.to_thread``: at its end the interpreter waits for that one's threads, hung or not.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(function)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="paddock-judge", daemon=True).start()
    return await asyncio.wrap_future(future)
