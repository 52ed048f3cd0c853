"""main(): choose the command, run it, and turn every ending into an exit code. Only our own output reaches stdout."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, _ActionsContainer
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from paddock import __version__
from paddock.cli.output import (
    BROKEN_PIPE,
    FAILED,
    INTERRUPTED,
    MISTAKE,
    OK,
    CommandFailed,
    Output,
    error_message,
    escaping_stream,
    mistake,
)
from paddock.errors import PaddockError, StorageFull

DESCRIPTION = "One environment, every distance. Try: paddock demo"
EPILOG = "exit codes: 0 success, 1 the check or run failed, 2 wrong usage. PADDOCK_DEBUG=1 shows tracebacks."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, with the arguments of this process by default."""
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
    except KeyboardInterrupt:
        output.interruption()
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        message, code, exit_code = _meaning(error)
        if code == "INTERNAL" or os.environ.get("PADDOCK_DEBUG", "0") not in ("", "0"):
            import traceback

            traceback.print_exception(type(error), error, error.__traceback__, file=escaping_stream(output.stderr))
        output.failure(message, code)
        return exit_code


def _meaning(error: Exception) -> tuple[str, str, int]:
    """Return the line for the user, the code for ``--json`` and the exit code."""
    message = error_message(error)
    if isinstance(error, CommandFailed):
        return message, error.code, error.exit_code
    if isinstance(error, PaddockError):
        return message, error.code, FAILED if isinstance(error, StorageFull) else MISTAKE
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "paddock":
        return f"{error.name} is not installed. Run: pip install {error.name}", "DEPENDENCY_NOT_INSTALLED", MISTAKE
    if isinstance(error, OSError):
        return message, "OS_ERROR", FAILED
    # A bug of ours: the traceback is printed too.
    return f"a bug in paddock: {type(error).__name__}: {message}", "INTERNAL", FAILED


def _run(words: list[str], output: Output) -> int:
    command = _find_command(words)
    if command is None:
        parser = _parser(None)
        parser.parse_args(words)
        parser.print_help()
        return OK
    module = import_module(f"paddock.cli.{command.module}")
    own = "" if command.module == command.name else f"_{command.name}"
    add_arguments = getattr(module, f"add{own}_arguments", None)
    arguments, unknown = _parser(command, add_arguments).parse_known_args(words)
    if unknown:
        raise mistake(f"unrecognized arguments: {' '.join(unknown)}. See: paddock {command.name} --help")
    if getattr(arguments, "config", None) is not None:  # once more, with the file's values where no flag was given
        flags, defaults = vars(arguments), module.read_config(arguments.config)
        # Else argparse would append the flags to a list of the file.
        defaults = {name: value for name, value in defaults.items() if not (isinstance(value, list) and flags[name])}
        arguments = _parser(command, add_arguments, defaults).parse_args(words)
    from paddock.trust.settings import Choice, choosing

    behind_the_wall = choosing(Choice("sandbox", "as in all commands"))
    with _redirect_output(output, getattr(module, "PRINTED_LINES", None)), behind_the_wall:
        code: int = getattr(module, f"run{own}")(arguments, output)
    return code


def _find_command(words: list[str]) -> Command | None:
    """Return the command that the first word names; options before it take no values."""
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


class _Parser(ArgumentParser):
    """Reports a mistake in one line instead of a usage text and an exit."""

    def error(self, message: str) -> NoReturn:
        raise mistake(f"{message}. See: {self.prog} --help")


def _parser(
    chosen: Command | None,
    add_arguments: Callable[[ArgumentParser], None] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> ArgumentParser:
    parser = _Parser(prog="paddock", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"paddock {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        own = commands.add_parser(command.name, help=command.help, description=command.help, allow_abbrev=False)
        if command == chosen:
            if add_arguments is not None:
                add_arguments(own)
            if own.get_default("json") is None:  # `check` has added it already, beside --sarif
                add_json(own)
            own.set_defaults(**defaults or {})
    return parser


@contextmanager
def _redirect_output(output: Output, most_lines: int | None) -> Iterator[None]:
    """While a command runs, send what other code prints or warns to stderr, escaped, up to ``most_lines`` lines."""
    stray = escaping_stream(output.stderr)
    into = stray.buffer
    into.lines_left = most_lines

    def show_warning(message: Warning | str, *details: object, **more: object) -> None:
        output.warning(message if isinstance(message, str) else error_message(message))

    with redirect_stdout(stray), redirect_stderr(stray), warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            yield
        finally:
            into.end()


class Command(NamedTuple):
    """A command, with its help and the module that has its ``run(arguments, output)`` and ``add_arguments(parser)``.

    The latter only if it has more than ``--json``. In a module of another name they are called after the command:
    ``run_kill``, ``add_kill_arguments``. A module is imported only when its command is chosen, so ``--help`` is quick.
    """

    name: str
    module: str
    help: str


COMMANDS = (
    Command("init", "init", "write a new environment that is ready to check, run and serve"),
    Command("list", "info", "list every environment that can be made by id"),
    Command("info", "info", "describe one environment"),
    Command("check", "check", "check an environment against the rules of the API"),
    Command("run", "run", "play episodes and show the results"),
    Command("record", "run", "play episodes and write them into a trace"),
    Command("replay", "run.replay", "play a recorded trace again, and say where it differs"),
    Command("bench", "bench", "run benchmarks, verify and compare their records"),
    Command("eval", "eval", "let a model play the tasks of an environment, and keep and show the results"),
    Command("compare", "eval", "compare the results of two runs, task by task"),
    Command("rescore", "rescore", "score recorded episodes again, with another rubric"),
    Command("view", "run.replay", "look at recorded episodes in the terminal, or as a page of HTML"),
    Command("audit", "check", "look whether strangers can rely on a package, and whether its results repeat"),
    Command("log", "permissions", "show what was installed, granted, registered and overridden here"),
    Command("demo", "demo", "take a short tour"),
    Command("doctor", "doctor", "show what is installed here and what is wrong with it"),
    Command("explain", "info", "explain what make() would build for a target, and why"),
    Command("permissions", "permissions", "say in plain words what code may do behind the wall"),
    Command("serve", "serve", "serve environments over HTTP and websockets"),
    Command("gateway", "fleet", "spread the sessions of clients over several servers"),
    Command("build", "build", "build an image of a server, with docker or podman"),
    Command("deploy", "fleet", "print manifests for Kubernetes, compose or systemd"),
    Command("ps", "ps", "list the sessions of a server"),
    Command("kill", "ps", "end one session of a server"),
    Command("openenv", "openenv", "OpenEnv's commands: init, validate, build and serve for folders in its form"),
    Command("pack", "packages", "write an environment's folder as a package"),
    Command("verify", "packages", "check a package's files and signatures, and whether they are trusted here"),
    Command("install", "packages", "install a signed package, after showing what it asks for"),
    Command("uninstall", "packages", "remove an installed package"),
    Command("publish", "packages", "put a package into a registry's folder"),
    Command("keygen", "packages", "make a key that signs packages and results"),
    Command("sign", "packages", "sign a package"),
    Command("trust", "packages", "say whose packages are trusted: add, list, show, remove"),
    Command("revoke", "packages", "withdraw keys and packages with a signed list"),
    Command("hostile", "hostile", "attack this machine's walls with hostile environments, and keep score"),
)


# ── Arguments that several commands share. Types raise ArgumentTypeError, whose text argparse shows ──

_MAX_DIGITS = 40
TARGET_HELP = (
    "an id such as CartPole-v1, my_module:Maze-v0, a folder such as ./maze or, where it has several environments, "
    "./maze:Maze-v0, or a server's URL"
)


def add_json(parser: _ActionsContainer) -> None:
    """``--json``, which every command has."""
    parser.add_argument("--json", action="store_true", help="print one JSON document, and nothing else, on stdout")


def add_target(parser: ArgumentParser) -> None:
    """``TARGET``: what make() takes."""
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)


def add_deadline(parser: ArgumentParser) -> None:
    """``--deadline SECONDS``, for commands that call an environment."""
    parser.add_argument(
        "--deadline",
        type=seconds,
        metavar="SECONDS",
        help="end a call into the environment that takes longer; without it, a slow call is only reported",
    )


def seconds(text: str, *, below: float = 1e6, expected: str = "a number of seconds above 0") -> float:
    """A type for seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < below:  # NaN too
        raise ArgumentTypeError(f"{text[:_MAX_DIGITS]!r} is not {expected}")
    return value


def integer(at_least: int, at_most: int | None = None) -> Callable[[str], int]:
    """A type for whole numbers from ``at_least`` on."""
    expected = f"{at_least} or more" if at_most is None else f"{at_least} to {at_most}"

    def parse(text: str) -> int:
        try:
            value = int(text) if len(text) <= _MAX_DIGITS else None
        except ValueError:
            value = None
        if value is None or value < at_least or (at_most is not None and value > at_most):
            raise ArgumentTypeError(f"{text[:_MAX_DIGITS]!r} is not a whole number of {expected}")
        return value

    return parse
