"""How far rollouts are: a bar on a terminal, elsewhere a line now and then. What it says is numbers alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_REDRAW_S = 0.1
LINE_S = 10.0


class Tally:
    """Done so far. ``under_way``: turns of rollouts that have not ended."""

    def __init__(self) -> None:
        self.done = self.failed = self.turns = self.under_way = 0
        self.total = 0.0

    def add(self, total_return: float | None, turns: int) -> None:
        """One more rollout; its return is None if it failed."""
        self.done += 1
        self.turns += turns
        if total_return is None:
            self.failed += 1
        else:
            self.total += total_return

    def words(self) -> str:
        """For people."""
        scored, turns = self.done - self.failed, self.turns + self.under_way
        mean = f"mean return {self.total / scored:.3f}" if scored else "no return yet"
        errors = f", {self.failed} error{'s' * (self.failed != 1)}" if self.failed else ""
        return f"{turns} turn{'s' * (turns != 1)}, {mean}{errors}"


@contextmanager
def reporting(
    total: int, wanted: bool, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Tally], None]]:
    """What shows a tally on stderr; call it often. It decides by ``clock`` when something is written."""
    if not wanted or sys.stderr is None:
        yield lambda tally: None
    elif not sys.stderr.isatty():
        yield _lines(total, clock)
    else:
        with _bar(total, clock) as show:
            yield show


def _lines(total: int, clock: Callable[[], float]) -> Callable[[Tally], None]:
    """A line every LINE_S, for a log; one more at the end of a run that had any."""
    began = clock()
    due, written = began + LINE_S, -1

    def show(tally: Tally) -> None:
        nonlocal due, written
        now = clock()
        if now >= due or (written not in (-1, total) and tally.done >= total):
            due, written = now + LINE_S, tally.done
            with suppress(OSError, ValueError):  # a log that is full or closed is no reason to lose rollouts
                rollouts = f"{tally.done} of {total} rollout{'s' * (total != 1)}"
                sys.stderr.write(f"{rollouts}, {tally.words()}, {now - began:.0f} s\n")
                sys.stderr.flush()

    return show


@contextmanager
def _bar(total: int, clock: Callable[[], float]) -> Iterator[Callable[[Tally], None]]:
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
        if clock() >= due or tally.done >= total:
            due = clock() + _REDRAW_S
            drawn.update(line, completed=tally.done, description=tally.words())

    with drawn:
        yield show
