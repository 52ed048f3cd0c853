"""Arguments that several commands share. Types raise ``ArgumentTypeError``, whose text argparse shows."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, _ActionsContainer
from collections.abc import Callable

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
        type=_seconds,
        metavar="SECONDS",
        help="end a call into the environment that takes longer; without it you are told where it stands",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:  # NaN too
        raise ArgumentTypeError(f"{text[:_MAX_DIGITS]!r} is not a number of seconds above 0")
    return value


def integer(at_least: int) -> Callable[[str], int]:
    """A type for whole numbers from ``at_least`` on."""

    def parse(text: str) -> int:
        try:
            value = int(text) if len(text) <= _MAX_DIGITS else None
        except ValueError:
            value = None
        if value is None or value < at_least:
            raise ArgumentTypeError(f"{text[:_MAX_DIGITS]!r} is not a whole number of {at_least} or more")
        return value

    return parse
