"""Text that others wrote, made safe for a terminal. An environment's words reach the screen only through here."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

LINE_LIMIT = 2000


def printable(text: str, limit: int = LINE_LIMIT) -> str:
    r"""``text`` on one line, every character that could steer a terminal shown as an escape such as ``\x1b``.

    Characters that Python calls unprintable are replaced: C0 and C1 controls, DEL, newlines, direction overrides and
    other invisible formatting, lone surrogates. The result has at most ``limit`` characters.
    """
    plain = str.__str__(text)  # a subclass of str may lie about what it holds
    # Cut first: a megabyte need not be escaped to show its beginning.
    shown = plain[: limit + 1]
    if not shown.isprintable():
        shown = "".join(map(visible, shown))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def visible(character: str) -> str:
    r"""The character, or its escape if it is not printable."""
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return _SHORT.get(character) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(value: object, limit: int = LINE_LIMIT) -> str:
    """``repr(value)``, printable; an object whose repr fails is shown by its type."""
    try:
        return printable(repr(value), limit)
    except Exception:  # the repr is someone else's code
        return printable(f"<{type(value).__name__} without a repr>", limit)


def described(error: BaseException, limit: int = LINE_LIMIT) -> str:
    """The error's type and message, printable."""
    return printable(f"{type(error).__name__}: {message_of(error)}", limit)


def message_of(error: BaseException) -> str:
    """``str(error)``, whatever that does."""
    try:
        return str(error)
    except Exception:  # __str__ is someone else's code
        return "(its message can't be shown)"


class EscapingBytes(io.BufferedIOBase):
    """Bytes in, visible text out to ``stream``; only newlines and tabs pass unchanged."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._mid_line = False
        self.lines_left: int | None = None  # after so many more, the rest is only counted
        self._left_out = 0
        # Incremental: a character may arrive in two writes.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")

    @property
    def name(self) -> str:
        """What ``repr`` of the text side shows."""
        return "<escaped>"

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        raw = bytes(memoryview(data))  # type: ignore[arg-type]
        text = self._within(self._decoder.decode(raw))
        if text:
            self._stream.write("".join(c if c in "\n\t" else visible(c) for c in text))
            self._stream.flush()
            self._mid_line = text[-1] != "\n"
        return len(raw)

    def _within(self, text: str) -> str:
        """What of the text still has room."""
        if self.lines_left is None:
            return text
        kept = text.splitlines(keepends=True)[: self.lines_left]
        self.lines_left -= (shown := "".join(kept)).count("\n")
        self._left_out += text.count("\n", len(shown))
        return shown

    def end(self) -> None:
        """Complete the last line, and say how many were left out."""
        self.lines_left = None
        if self._mid_line:
            self.write(b"\n")
        if self._left_out:
            self.write(f"(and {self._left_out:,} more lines that the environment printed)\n".encode())

    def fileno(self) -> int:
        return self._stream.fileno()


def escaping_stream(stream: TextIO) -> io.TextIOWrapper[EscapingBytes]:
    """A text stream with the usual ``buffer`` whose output reaches ``stream`` escaped. Closing it closes only it."""
    return io.TextIOWrapper(EscapingBytes(stream), "utf-8", errors="backslashreplace", newline="\n", write_through=True)
