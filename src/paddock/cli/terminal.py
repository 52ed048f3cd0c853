"""Tables and progress bars for a terminal, by Rich. Imported only when one is shown; all text arrives printable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_REDRAW_S = 0.1
_SHORT = 16


def console(stream: TextIO) -> Console:
    """A console that takes text as text: no markup, no emoji codes, no guessing of colours."""
    return Console(file=stream, markup=False, emoji=False, highlight=False)


def print_table(
    stream: TextIO,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    title: str | None,
    droppable: Sequence[str] = (),
) -> None:
    """A table of printable cells. Where words would break, columns of ``droppable`` are left out, in that order."""
    screen = console(stream)
    kept = list(range(len(columns)))
    longest = [max(len(word) for row in (columns, *rows) for word in (*row[at].split(), "")) for at in kept]
    for name in droppable:
        if sum(longest[at] + 3 for at in kept) + 1 <= screen.width:  # a line and two spaces each, and the last line
            break
        kept.remove(columns.index(name))
    style = "" if os.environ.get("NO_COLOR") else "bold"
    table = Table(title=None if title is None else Text(title), title_justify="left", header_style=style)
    for at in kept:
        # A narrow terminal may break sentences, not numbers, names and digests.
        short = all(len(row[at]) <= _SHORT and " " not in row[at] for row in rows)
        table.add_column(Text(columns[at]), justify="right" if right[at] else "left", overflow="fold", no_wrap=short)
    for row in rows:
        table.add_row(*(Text(row[at]) for at in kept))
    screen.print(table)


@contextmanager
def progress_bar(stream: TextIO, label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar that disappears when the block ends; the function given takes how much is done."""
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    # Not redirected: Rich would read the colour codes that an environment prints.
    bar = Progress(*columns, console=console(stream), transient=True, redirect_stdout=False, redirect_stderr=False)
    task = bar.add_task(label, total=total)
    due = 0.0

    def advance(done: int) -> None:
        nonlocal due
        now = monotonic()
        if now >= due or done >= total:
            due = now + _REDRAW_S  # a redraw takes longer than a step of most environments
            bar.update(task, completed=done)

    with bar:
        yield advance
