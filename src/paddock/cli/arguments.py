"""Arguments that several commands share. Types raise ``ArgumentTypeError``, whose text argparse shows."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, _ActionsContainer
from collections.abc import Callable

_MAX_DIGITS = 40


def add_json(parser: _ActionsContainer) -> None:
    """``--json``, which every command has."""
    parser.add_argument("--json", action="store_true", help="print one JSON document, and nothing else, on stdout")


def add_target(parser: ArgumentParser) -> None:
    """``TARGET``: what make() takes."""
    parser.add_argument("target", metavar="TARGET", help="an id such as CartPole-v1, or my_module:Maze-v0")


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
