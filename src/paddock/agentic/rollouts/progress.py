"""A bar while rollouts run: on a terminal, and on no other stream. What it says is numbers alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REDRAW_S = 0.1


class Tally:
    """Done so far, for the bar."""

    def __init__(self) -> None:
        self.done = self.failed = 0
        self.total = 0.0

    def add(self, total_return: float | None) -> None:
        """One more; None if it failed."""
        self.done += 1
        if total_return is None:
            self.failed += 1
        else:
            self.total += total_return

    def words(self) -> str:
        """For people."""
        scored = self.done - self.failed
        mean = f"mean return {self.total / scored:.3f}" if scored else "no return yet"
        return f"{mean}, {self.failed} errors" if self.failed else mean


@contextmanager
def bar(total: int, shown: bool) -> Iterator[Callable[[Tally], None]]:
    """What shows a tally."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield lambda tally: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    # Not redirected: Rich would read the colour codes that an environment prints.
    drawn = Progress(
        *columns, TimeRemainingColumn(), console=console, redirect_stdout=False, redirect_stderr=False, transient=True
    )
    line = drawn.add_task("", total=total)
    due = 0.0

    def show(tally: Tally) -> None:
        nonlocal due
        if time.monotonic() >= due or tally.done >= total:
            due = time.monotonic() + _REDRAW_S
            drawn.update(line, completed=tally.done, description=tally.words())

    with drawn:
        yield show
