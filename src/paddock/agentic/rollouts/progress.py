"""How far a run is: a bar on a terminal, otherwise a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from paddock.agentic.rollouts.options import Spending

_REDRAW_S = 0.1
LINE_S = 10.0


class Tally:
    """The rollouts so far. ``running_turns``: turns of rollouts that have not ended."""

    def __init__(self, spending: Spending | None = None) -> None:
        self.done = self.failed = self.turns = self.running_turns = 0
        self.total = 0.0
        self._spending = spending

    def add(self, total_return: float | None, turns: int) -> None:
        """Count one more rollout; its return is None if it failed."""
        self.done += 1
        self.turns += turns
        if total_return is None:
            self.failed += 1
        else:
            self.total += total_return

    def words(self) -> str:
        scored, turns = self.done - self.failed, self.turns + self.running_turns
        mean = f"mean return {self.total / scored:.3f}" if scored else "no return yet"
        errors = f", {self.failed} error{'s' * (self.failed != 1)}" if self.failed else ""
        return f"{turns} turn{'s' * (turns != 1)}, {mean}{errors}{self._spending_words()}"

    def _spending_words(self) -> str:
        spent = self._spending
        if spent is None or not spent.tokens:
            return ""
        money = f", {spent.money:,.2f} spent" if spent.money else ""
        return f", {spent.tokens:,} tokens ({spent.tokens / max(spent.seconds, 1e-9):,.0f}/s){money}"


@contextmanager
def report_progress(
    total: int, enabled: bool | TextIO, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Tally], None]]:
    """Yield a function that shows a tally on stderr, or another stream. Call it often: it decides when to write."""
    into = sys.stderr if isinstance(enabled, bool) else enabled
    if not enabled or into is None:
        yield lambda tally: None
    elif not into.isatty():
        yield _lines(into, total, clock)
    else:
        with _bar(into, total, clock) as show:
            yield show


def _lines(into: TextIO, total: int, clock: Callable[[], float]) -> Callable[[Tally], None]:
    """Write a line every LINE_S, for a log, and one more at the end of a run that had any."""
    began = clock()
    due, written = began + LINE_S, -1

    def show(tally: Tally) -> None:
        nonlocal due, written
        now = clock()
        if now >= due or (written not in (-1, total) and tally.done >= total):
            due, written = now + LINE_S, tally.done
            with suppress(OSError, ValueError):  # rollouts must not be lost because a log is full or closed
                rollouts = f"{tally.done} of {total} rollout{'s' * (total != 1)}"
                into.write(f"{rollouts}, {tally.words()}, {now - began:.0f} s\n")
                into.flush()

    return show


@contextmanager
def _bar(into: TextIO, total: int, clock: Callable[[], float]) -> Iterator[Callable[[Tally], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(file=into, markup=False, emoji=False, highlight=False)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    # Not redirected: Rich would read the colour codes that an environment prints.
    drawn = Progress(
        *columns, TimeRemainingColumn(), console=console, redirect_stdout=False, redirect_stderr=False, transient=True
    )
    line = drawn.add_task("", total=total)
    due = 0.0

    def show(tally: Tally) -> None:
        nonlocal due
        if clock() >= due or tally.done >= total:
            due = clock() + _REDRAW_S
            drawn.update(line, completed=tally.done, description=tally.words())

    with drawn:
        yield show
