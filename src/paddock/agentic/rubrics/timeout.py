"""Timeout: a rubric that must answer in time, or the grading fails. It never turns lateness into a score of 0."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable
from inspect import isawaitable
from time import monotonic
from typing import Any

from paddock.agentic.helper_thread import TIDY_S, HelperThread, TookTooLong
from paddock.agentic.rubrics.rubric import Rubric
from paddock.agentic.rubrics.setting import number
from paddock.errors import InvalidRubric


class Late(TimeoutError):
    """No score in time. The text may be told to anyone."""


class Timeout(Rubric):
    """The child's score, if it comes within ``timeout_s`` seconds.

    Late async code is cancelled. Late sync code can't be: it is left behind on its thread, and until it ends every call
    is late at once.
    """

    state_fields = ("timeout_s",)

    def __init__(self, rubric: Rubric, timeout_s: float) -> None:
        super().__init__()
        self._adopt("rubric", rubric)
        self.rubric = rubric
        self.timeout_s = timeout_s
        self._thread = HelperThread()

    @property
    def timeout_s(self) -> float:
        """How long the child may take."""
        return self._timeout_s

    @timeout_s.setter
    def timeout_s(self, value: float) -> None:
        seconds = number("timeout_s", value)
        if seconds <= 0:
            raise InvalidRubric(f"timeout_s: {value!r} is no time; expected seconds above 0.")
        self._timeout_s = seconds

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """The child's score in time."""
        end = monotonic() + self.timeout_s
        context = contextvars.copy_context()
        try:
            # In a tuple, which the thread can't await: coroutines run in the loop of who asked, as all others do.
            (score,) = self._thread.run(lambda: (context.run(self.rubric, action, observation),), self.timeout_s)
        except TookTooLong as error:
            raise Late(str(error)) from None
        return self._in_time(score, end) if isawaitable(score) else score

    async def _in_time(self, waiting: Awaitable[float], end: float) -> float:
        # Not wait_for: it waits for the end of what it cancelled, however long that takes.
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait([task], timeout=max(0.0, end - monotonic()))
            if task.done():
                return task.result()
        finally:
            if task.cancel():
                await asyncio.wait([task], timeout=TIDY_S)
        raise Late(f"no result within {self.timeout_s:g} s")
