"""Rollouts as a table of Rich. Names and errors come from other people's code, so they are made safe to print.

Equal errors are listed once above the table, with their count; a row has only its error's code.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from paddock.sandbox.plain_text import shorten

if TYPE_CHECKING:
    from paddock.agentic.rollouts.results import Rollout, Rollouts

_COLUMNS = ("task", "attempt", "return", "steps", "turns", "seconds", "ended")
_DROPPABLE = ("seconds", "turns", "attempt", "steps")  # on a narrow screen, in this order
_CELL_CHARS = 80
_ERROR_CHARS = 200
_MAX_ERRORS = 5


class PrintableTable(Table):
    """A table of Rich that ``print`` shows too, as plain text of the terminal's width."""

    def __init__(self, title: str, errors: list[str]) -> None:
        super().__init__(title=Text(title), header_style="bold")
        self._errors = errors

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrow = copy(self)
        narrow.title = None
        for name in _DROPPABLE:
            # Measured without a limit: on a narrow screen Rich would break words to fit.
            if console.measure(narrow, options=options.update(max_width=10_000)).maximum <= options.max_width:
                break
            narrow.columns = [column for column in narrow.columns if column.header != name]
        yield Text(str(self.title), style="table.title")  # here: Rich would wrap it to the width of the table
        for line in self._errors:
            yield Text(line, no_wrap=True, overflow="ellipsis")
        yield from Table.__rich_console__(narrow, console, options)

    def __str__(self) -> str:
        text = StringIO()
        Console(file=text, color_system=None).print(self)
        return text.getvalue().rstrip("\n")


def table_of(rollouts: Rollouts, rows: int) -> Table:
    """Make a table of the first rollouts, with the figures and errors of all above it."""
    table = PrintableTable(_title(rollouts), _errors(rollouts))
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("task", "ended") else "right", overflow="fold")
    for rollout in rollouts[:rows]:
        table.add_row(*map(Text, _cells(rollout)))
    if len(rollouts) > rows:
        table.caption = f"and {len(rollouts) - rows:,} more"
    return table


def _title(rollouts: Rollouts) -> str:
    mean = rollouts.mean_return()
    parts = [
        f"{len(rollouts):,} rollout{'s' * (len(rollouts) != 1)}",
        f"mean return {'none' if mean is None else mean}",
    ]
    attempts = max((rollout.attempt for rollout in rollouts), default=0) + 1
    for k in (1, attempts) if attempts > 1 else ():
        found = rollouts.pass_at(k)
        parts.append(f"pass@{k} {'none' if found is None else found}")
    return ", ".join([*parts, f"errors {rollouts.error_share:.1%}"])


def _errors(rollouts: Rollouts) -> list[str]:
    """Return a line for each different error, the most frequent first."""
    failures = [rollout.error for rollout in rollouts if rollout.error is not None]
    kinds = Counter(_line(f"{failure.code}: {failure.message}", _ERROR_CHARS) for failure in failures).most_common()
    lines = [f"{count:,} x {text}" for text, count in kinds[:_MAX_ERRORS]]
    others = sum(count for _, count in kinds[_MAX_ERRORS:])
    return [*lines, f"{others:,} x another error"] if others else lines


def _line(text: str, limit: int) -> str:
    return shorten(text, limit).replace("\n", " ")


def _cells(rollout: Rollout) -> list[str]:
    total = rollout.total_return
    return [
        _line(rollout.name, _CELL_CHARS),
        str(rollout.attempt),
        "" if total is None else f"{total:,.3f}",
        str(rollout.steps),
        str(rollout.turns),
        f"{rollout.seconds:.1f}",
        _line(rollout.ended if rollout.error is None else rollout.error.code, _CELL_CHARS),
    ]
