"""main(): choose the command, run it, turn every ending into an exit code. Only our own output reaches stdout."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Any, NoReturn

from paddock.cli.commands import COMMANDS, Command
from paddock.cli.failures import BROKEN_PIPE, FAILED, INTERRUPTED, MISTAKE, OK, CommandFailed, mistake
from paddock.cli.output import Output
from paddock.cli.printing import escaping_stream, message_of
from paddock.errors import PaddockError

DESCRIPTION = "One environment, every distance. Try: paddock demo"
EPILOG = (
    "exit codes: 0 fine, 1 what was checked or run failed, 2 a mistake in the call. PADDOCK_DEBUG=1 shows tracebacks."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the arguments are those of the process unless given."""
    words = list(sys.argv[1:] if argv is None else argv)
    output = Output(json="--json" in words)
    try:
        code = _report_endings(words, output)
        output.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        output.abandon()
        return BROKEN_PIPE
    except OSError as error:
        output.abandon()
        output.error(f"can't write the output: {error}")
        return FAILED


def _report_endings(words: list[str], output: Output) -> int:
    try:
        return _run(words, output)
    except SystemExit as stop:  # argparse, after --help and --version
        return stop.code if isinstance(stop.code, int) else OK
    except BrokenPipeError:
        raise
    except Exception as error:
        message, code, exit_code = _meaning(error)
        if code == "INTERNAL" or _debugging():
            import traceback

            traceback.print_exception(type(error), error, error.__traceback__, file=escaping_stream(output.stderr))
        output.failure(message, code)
        return exit_code


def _meaning(error: Exception) -> tuple[str, str, int]:
    """The line for the user, the code for ``--json`` and the exit code."""
    message = message_of(error)
    if isinstance(error, CommandFailed):
        return message, error.code, error.exit_code
    if isinstance(error, PaddockError):
        return message, error.code, MISTAKE
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "paddock":
        return f"{error.name} is not installed. Run: pip install {error.name}", "DEPENDENCY_NOT_INSTALLED", MISTAKE
    if isinstance(error, OSError):
        return message, "OS_ERROR", FAILED
    # All of a bug of ours is wanted in a report: the traceback comes with it.
    return f"a bug in paddock: {type(error).__name__}: {message}", "INTERNAL", FAILED


def _debugging() -> bool:
    return os.environ.get("PADDOCK_DEBUG", "0") not in ("", "0")


def _run(words: list[str], output: Output) -> int:
    command = _chosen(words)
    if command is None:
        parser = _parser(None)
        parser.parse_args(words)
        parser.print_help()
        return OK
    module = import_module(f"paddock.cli.{command.module}")
    arguments = _parser(command, module).parse_args(words)
    with _contained(output, getattr(module, "PRINTED_LINES", None)):
        code: int = module.run(arguments, output)
    return code


def _chosen(words: list[str]) -> Command | None:
    """The command that the first word names; the options before it take no values."""
    name = next((word for word in words if not word.startswith("-")), None)
    if name is None:
        return None
    for command in COMMANDS:
        if command.name == name:
            return command
    from difflib import get_close_matches

    names = [command.name for command in COMMANDS]
    close = get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise mistake(f"no command {name[:80]!r}.{hint} Commands: {', '.join(names)}.")


class _Parser(argparse.ArgumentParser):
    """Mistakes become one line instead of a usage text and an exit."""

    def error(self, message: str) -> NoReturn:
        raise mistake(f"{message}. See: {self.prog} --help")


def _parser(chosen: Command | None, module: Any = None) -> argparse.ArgumentParser:
    parser = _Parser(prog="paddock", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"paddock {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        own = commands.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        if command == chosen:
            module.add_arguments(own)
    return parser


def _version() -> str:
    from paddock import __version__

    return __version__


@contextmanager
def _contained(output: Output, most_lines: int | None) -> Iterator[None]:
    """While a command runs, what other code prints or warns goes to stderr, escaped; no more lines than these."""
    stray = escaping_stream(output.stderr)
    into = stray.buffer
    into.lines_left = most_lines

    def show_warning(message: Warning | str, *details: object, **more: object) -> None:
        output.warning(message if isinstance(message, str) else message_of(message))

    with redirect_stdout(stray), redirect_stderr(stray), warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            yield
        finally:
            into.end()
