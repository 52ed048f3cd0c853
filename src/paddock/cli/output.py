"""What a command prints: one JSON document, or tables and facts. Rich is imported only for a terminal.

Every cell is made printable here, so a command may pass text of any origin.
"""

from __future__ import annotations

import json as _json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from paddock.cli.printing import printable, shown

CELL_LIMIT = 400


class Output:
    """The streams of this process as they were when the command began; later redirections do not touch it."""

    def __init__(self, *, json: bool = False, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.json = json
        self.stdout = _tolerant(stdout or sys.stdout)
        self.stderr = _tolerant(stderr or sys.stderr)

    def document(self, value: Any) -> None:
        """The one JSON document of the command. ASCII, so no escape can hide in it."""
        self.stdout.write(_json.dumps(plain(value), indent=2, allow_nan=False) + "\n")

    def text(self, text: str) -> None:
        """Text that paddock made for machines (SARIF), as it is."""
        self.stdout.write(text.rstrip("\n") + "\n")

    def line(self, text: str = "") -> None:
        """One line of text."""
        self.stdout.write(printable(text) + "\n")

    def error(self, text: str) -> None:
        """One line on stderr."""
        self.stderr.write(f"paddock: error: {printable(text)}\n")

    def warning(self, text: str) -> None:
        """One line on stderr; the command goes on."""
        self.stderr.write(f"paddock: warning: {printable(text)}\n")

    def failure(self, text: str, code: str) -> None:
        """The command failed: one line on stderr, and with ``--json`` the document says so too."""
        self.error(text)
        if self.json:
            self.document({"error": {"code": code, "message": text}})

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        title: str | None = None,
        droppable: Sequence[str] = (),
    ) -> None:
        """Rows under headings. Numbers stand on the right, None is an empty cell.

        A narrow terminal may do without ``droppable`` columns.
        """
        heads = list(map(printable, columns))
        cells = [["" if value is None else _cell(value) for value in row] for row in rows]
        title = None if title is None else printable(title)
        right = [
            bool(rows) and all(row[at] is None or isinstance(row[at], (int, float)) for row in rows)
            for at in range(len(columns))
        ]
        if self.stdout.isatty():
            from paddock.cli.terminal import print_table

            print_table(self.stdout, heads, cells, right, title, droppable)
            return
        if title is not None:
            self.line(title)
        for text in aligned([heads, *cells], right):
            self.stdout.write(text + "\n")

    def facts(self, pairs: Sequence[tuple[str, object]]) -> None:
        """Names and values, one pair a line."""
        for text in aligned([[_cell(name), _cell(value)] for name, value in pairs], [False, False]):
            self.stdout.write(text + "\n")

    @contextmanager
    def progress(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar on stderr while the block runs, for a terminal; elsewhere nothing. Call with what is done so far."""
        if not self.stderr.isatty():
            yield lambda done: None
            return
        from paddock.cli.terminal import progress_bar

        with progress_bar(self.stderr, label, total) as advance:
            yield advance

    def flush(self) -> None:
        """Write what is buffered, so that a full disk or a closed pipe is noticed while we can still answer."""
        self.stdout.flush()
        self.stderr.flush()

    def abandon(self) -> None:
        """Send what is still buffered nowhere: the interpreter flushes once more when it ends."""
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stdout.fileno())
            os.close(nowhere)
        except (OSError, ValueError):  # a stream without a descriptor has nothing to flush to
            return


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Lines in which the cells of a column begin, or end, at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it; what JSON has no form for is shown as text."""
    if value is None or isinstance(value, (bool, str)):
        return value if value is None or isinstance(value, bool) else str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # JSON has no infinity and no NaN: text, as in most readers' extensions.
        return float(value) if -_LARGEST <= value <= _LARGEST else shown(float(value))
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return shown(value)


_LARGEST = sys.float_info.max


def _cell(value: object) -> str:
    if isinstance(value, str):
        return printable(value, CELL_LIMIT)
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if type(value) is int else shown(value, CELL_LIMIT)


def _tolerant(stream: TextIO | None) -> TextIO:
    if stream is None:  # a process started without this stream, as under pythonw
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - lives as long as the process
    # An old terminal's encoding lacks most characters; a name with one of them is no reason to stop.
    if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream
