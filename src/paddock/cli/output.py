"""What a command prints, and how it ends. Text of any origin is made safe for a terminal here.

Rich is imported only for a terminal. Exit code 2 is the user's mistake, 1 is a failure of what was run.
"""

from __future__ import annotations

import codecs
import io
import json as _json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from paddock.errors import DeadlineExceeded, DependencyNotInstalled, PaddockError, UnregisteredEnv

if TYPE_CHECKING:
    from rich.console import Console

CELL_LIMIT = 400
_REDRAW_S = 0.1


class Output:
    """The streams of this process as they were when the command began; later redirections do not touch it."""

    def __init__(self, *, json: bool = False, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.json, self._has_document = json, False
        self.stdout = _tolerant(stdout or sys.stdout)
        self.stderr = _tolerant(stderr or sys.stderr)

    def document(self, value: Any) -> None:
        """Print the command's one JSON document. It is ASCII, so no escape can hide in it."""
        self._has_document = True
        self.stdout.write(_json.dumps(to_json_data(value), indent=2, allow_nan=False) + "\n")

    def report(self, facts: Any, *lines: str) -> None:
        """Say what the command did: with ``--json`` in its document, else in these lines."""
        if self.json:
            self.document(facts)
            return
        for line in lines:
            self.line(line)

    def text(self, text: str) -> None:
        """Print text that paddock made for machines, unchanged."""
        self.stdout.write(text.rstrip("\n") + "\n")

    def line(self, text: str = "") -> None:
        """Print one line."""
        self.stdout.write(printable(text) + "\n")

    def error(self, text: str) -> None:
        """Print one line on stderr."""
        self.stderr.write(f"paddock: error: {printable(text)}\n")

    def warning(self, text: str) -> None:
        """Print one line on stderr; the command goes on."""
        self.stderr.write(f"paddock: warning: {printable(text)}\n")

    def interruption(self, text: str = "") -> None:
        """Report Ctrl-C: on stderr if there is something to say, and with ``--json`` as the document."""
        if text:
            self.stderr.write(f"paddock: {printable(text)}\n")
        if self.json and not self._has_document:
            self.document({"error": {"code": "INTERRUPTED", "message": text or "interrupted"}})

    def failure(self, text: str, code: str) -> None:
        """Report that the command failed: on stderr, and with ``--json`` in the document too."""
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
        """Print rows under headings. Numbers are right-aligned, None is an empty cell.

        A narrow terminal may drop the ``droppable`` columns.
        """
        heads = list(map(printable, columns))
        cells = [["" if value is None else _cell(value) for value in row] for row in rows]
        title = None if title is None else printable(title)
        right = [
            bool(rows) and all(row[at] is None or isinstance(row[at], (int, float)) for row in rows)
            for at in range(len(columns))
        ]
        if self.stdout.isatty():
            print_table(self.stdout, heads, cells, right, title, droppable)
            return
        if title is not None:
            self.line(title)
        for text in align([heads, *cells], right):
            self.stdout.write(text + "\n")

    def facts(self, pairs: Sequence[tuple[str, object]]) -> None:
        """Print names and values, one pair per line."""
        for text in align([[_cell(name), _cell(value)] for name, value in pairs], [False, False]):
            self.stdout.write(text + "\n")

    @contextmanager
    def progress(self, label: str, total: int) -> Iterator[Callable[..., None]]:
        """Show a bar on stderr while the block runs, if that is a terminal. Yields a function of how much is done.

        It takes another total, too, if that is known only now. The bar disappears when the block ends.
        """
        if not self.stderr.isatty():
            yield lambda done, of=total: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        # Not redirected: Rich would read the colour codes that an environment prints.
        screen = console(self.stderr)
        bar = Progress(*columns, console=screen, transient=True, redirect_stdout=False, redirect_stderr=False)
        task = bar.add_task(label, total=total)
        due = 0.0

        def advance(done: int, of: int = total) -> None:
            nonlocal due
            now = monotonic()
            if now >= due or done >= of:
                due = now + _REDRAW_S  # a redraw takes longer than a step of most environments
                bar.update(task, completed=done, total=of)

        with bar:
            yield advance

    def flush(self) -> None:
        """Write what is buffered, so that a full disk or a closed pipe is noticed while we can still report it."""
        self.stdout.flush()
        self.stderr.flush()

    def abandon(self) -> None:
        """Discard what is still buffered: the interpreter flushes once more when it ends."""
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stdout.fileno())
            os.close(nowhere)
        except (OSError, ValueError):  # a stream without a descriptor has nothing to flush to
            return


def align(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Return lines in which the cells of a column begin, or end, at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def to_json_data(value: Any) -> Any:
    """Turn a value into JSON data; what JSON has no form for becomes text."""
    if value is None or isinstance(value, (bool, str)):
        return value if value is None or isinstance(value, bool) else str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # JSON has no infinity and no NaN: text, as in most readers' extensions.
        return float(value) if -_LARGEST <= value <= _LARGEST else printable_repr(float(value))
    if isinstance(value, dict):
        return {str(name): to_json_data(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_data(item) for item in value]
    return printable_repr(value)


_LARGEST = sys.float_info.max


def _cell(value: object) -> str:
    if isinstance(value, str):
        return printable(value, CELL_LIMIT)
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if type(value) is int else printable_repr(value, CELL_LIMIT)


def _tolerant(stream: TextIO | None) -> TextIO:
    if stream is None:  # a process started without this stream, as under pythonw
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - lives as long as the process
    # The encoding of an old terminal lacks most characters; a name that has one must not stop the command.
    if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream


# ── Text of other code, made safe for a terminal ──

LINE_LIMIT = 2000


def printable(text: str, limit: int = LINE_LIMIT) -> str:
    r"""Return text on one line, with every character that could control a terminal as an escape such as ``\x1b``.

    Characters that Python calls unprintable are replaced: C0 and C1 controls, DEL, newlines, direction overrides and
    other invisible formatting, lone surrogates. The result has at most ``limit`` characters.
    """
    plain = str.__str__(text)  # a subclass of str may lie about what it holds
    # Cut first: a megabyte need not be escaped to show its beginning.
    shown = plain[: limit + 1]
    if not shown.isprintable():
        shown = "".join(map(escape, shown))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def escape(character: str) -> str:
    r"""Return the character, or its escape if it is not printable."""
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def printable_repr(value: object, limit: int = LINE_LIMIT) -> str:
    """Return ``repr(value)``, printable; of an object whose repr fails, its type."""
    try:
        return printable(repr(value), limit)
    except Exception:  # the repr is someone else's code
        return printable(f"<{type(value).__name__} without a repr>", limit)


def describe_error(error: BaseException, limit: int = LINE_LIMIT) -> str:
    """Return the error's type and message, printable."""
    return printable(f"{type(error).__name__}: {error_message(error)}", limit)


def error_message(error: BaseException) -> str:
    """Return ``str(error)``, whatever that does."""
    try:
        return str(error)
    except Exception:  # __str__ is someone else's code
        return "(its message can't be shown)"


class EscapingBytes(io.BufferedIOBase):
    """Writes bytes as visible text to ``stream``; only newlines and tabs pass unchanged."""

    name = "<escaped>"  # what ``repr`` of the text side shows

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._mid_line = False
        self.lines_left: int | None = None  # after this many more, the rest is only counted
        self._skipped = 0
        # Incremental: a character may arrive in two writes.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        raw = bytes(memoryview(data))  # type: ignore[arg-type]
        text = self._within(self._decoder.decode(raw))
        if text:
            self._stream.write("".join(c if c in "\n\t" else escape(c) for c in text))
            self._stream.flush()
            self._mid_line = text[-1] != "\n"
        return len(raw)

    def _within(self, text: str) -> str:
        """Return the part of the text that is still within the limit."""
        if self.lines_left is None:
            return text
        kept = text.splitlines(keepends=True)[: self.lines_left]
        self.lines_left -= (shown := "".join(kept)).count("\n")
        self._skipped += text.count("\n", len(shown))
        return shown

    def end(self) -> None:
        """Complete the last line, and say how many lines were left out."""
        self.lines_left = None
        if self._mid_line:
            self.write(b"\n")
        if self._skipped:
            self.write(f"(and {self._skipped:,} more lines that the environment printed)\n".encode())

    def fileno(self) -> int:
        return self._stream.fileno()


def escaping_stream(stream: TextIO) -> io.TextIOWrapper[EscapingBytes]:
    """Make a text stream whose output reaches ``stream`` escaped. Closing it leaves ``stream`` open."""
    return io.TextIOWrapper(EscapingBytes(stream), "utf-8", errors="backslashreplace", newline="\n", write_through=True)


# ── Tables for a terminal, by Rich. All text must be printable already ──

_SHORT_CELL = 16


def console(stream: TextIO) -> Console:
    """Make a console that prints text unchanged: no markup, no emoji codes, no highlighting."""
    from rich.console import Console

    return Console(file=stream, markup=False, emoji=False, highlight=False)


def print_table(
    stream: TextIO,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    title: str | None,
    droppable: Sequence[str] = (),
) -> None:
    """Print a table. If words would break, drop columns of ``droppable``, in that order."""
    from rich.table import Table
    from rich.text import Text

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
        short = all(len(row[at]) <= _SHORT_CELL and " " not in row[at] for row in rows)
        table.add_column(Text(columns[at]), justify="right" if right[at] else "left", overflow="fold", no_wrap=short)
    for row in rows:
        table.add_row(*(Text(row[at]) for at in kept))
    screen.print(table)


# ── How commands end early: with one line and an exit code ──

OK, FAILED, MISTAKE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


class CommandFailed(Exception):
    """Ends the command. ``code`` is what ``--json`` reports, as on the wire."""

    def __init__(self, message: str, *, exit_code: int, code: str = "ERROR") -> None:
        super().__init__(message)
        self.exit_code, self.code = exit_code, code


def agree(output: Output, question: str, unasked: str) -> bool:
    """Ask a person on stderr. Without a terminal nobody is asked: the command ends and says what ``unasked`` says."""
    if not sys.stdin.isatty():
        raise mistake(f"{unasked}, and there is no terminal to ask at. Add --yes.")
    output.stderr.write(f"{printable(question)} [y/N] ")
    output.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def mistake(message: str, code: str = "USAGE") -> CommandFailed:
    """Make an error that the user can correct."""
    return CommandFailed(message, exit_code=MISTAKE, code=code)


@contextmanager
def environment_code(doing: Callable[[], str]) -> Iterator[None]:
    """Wrap calls into an environment: whatever it raises, even ``SystemExit``, is its failure and not ours."""
    try:
        yield
    except CommandFailed:
        raise
    except DependencyNotInstalled as error:
        raise mistake(error_message(error), error.code) from error
    except DeadlineExceeded as error:
        raise CommandFailed(f"{doing()}: {error_message(error)}", exit_code=FAILED, code=error.code) from error
    except (Exception, SystemExit) as error:
        from paddock.hosting.failures import place_of  # when something failed: `paddock list` never needs it

        code = error.code if isinstance(error, PaddockError) else "ENV_ERROR"
        place = place_of(error)
        words = f"{doing()} raised {describe_error(error)}{'' if place is None else f' at {place}'}"
        raise CommandFailed(words, exit_code=FAILED, code=code) from error


@contextmanager
def target_code(text: str) -> Iterator[None]:
    """Wrap the building of a target: a module or an id that does not exist is the user's mistake."""
    with environment_code(lambda: f"making {text}"):
        try:
            yield
        except UnregisteredEnv as error:
            raise mistake(error_message(error), error.code) from error
        except ModuleNotFoundError as error:
            raise mistake(f"making {text}: {error_message(error)}{_wanted_at(error)}", "MODULE_NOT_FOUND") from error


def _wanted_at(error: ModuleNotFoundError) -> str:
    """Say where the environment imports the missing module, and what to do about it."""
    from paddock.hosting.failures import place_of

    place = place_of(error)
    if place is None:
        return ""
    return (
        f" at {place}. Install it for {sys.executable}, whose packages are visible behind a wall too. If it is "
        f"elsewhere, add its folder to read under [permissions] in paddock.toml."
    )
