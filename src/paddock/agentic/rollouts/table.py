"""Rollouts as a table of Rich. Names and errors are words of strangers: they are made plain before they are shown."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from paddock.sandbox.plain_text import brief

if TYPE_CHECKING:
    from paddock.agentic.rollouts.result import Rollout, Rollouts

_COLUMNS = ("task", "attempt", "return", "steps", "turns", "seconds", "ended")
_CELL = 80


class PrintableTable(Table):
    """A table of Rich that ``print`` shows too, as plain text of the terminal's width."""

    def __str__(self) -> str:
        text = StringIO()
        Console(file=text, color_system=None).print(self)
        return text.getvalue().rstrip("\n")


def table_of(rollouts: Rollouts, rows: int) -> Table:
    """The figures as its title, a row for each of the first rollouts, and how many more there are."""
    table = PrintableTable(title=Text(_title(rollouts)), title_justify="left", header_style="bold")
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


def _cells(rollout: Rollout) -> list[str]:
    total = rollout.total_return
    ended = rollout.ended if rollout.error is None else f"{rollout.error.code}: {rollout.error.message}"
    return [
        brief(rollout.name, _CELL).replace("\n", " "),
        str(rollout.attempt),
        "" if total is None else f"{total:,.3f}",
        str(rollout.steps),
        str(rollout.turns),
        f"{rollout.seconds:.1f}",
        brief(ended, _CELL).replace("\n", " "),
    ]
