"""``paddock bench``: run benchmarks, check their records, and read them. Each subcommand is in a module of its own."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import NamedTuple

from paddock.cli.output import Output
from paddock.cli.program import add_json


class Subcommand(NamedTuple):
    """A subcommand. Its module has ``add_NAME_arguments(parser)`` and ``run_NAME(arguments, output)``."""

    name: str
    module: str
    help: str


SUBCOMMANDS = (
    Subcommand("report", "paddock.cli.bench_report", "show what records say, also as a page or Markdown"),
    Subcommand("compare", "paddock.cli.bench_report", "say whether one run is better than another"),
)


def add_arguments(parser: ArgumentParser) -> None:
    """The subcommands, each with its own options."""
    commands = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", dest="subcommand", required=True)
    for one in SUBCOMMANDS:
        own = commands.add_parser(one.name, help=one.help, description=one.help, allow_abbrev=False)
        getattr(import_module(one.module), f"add_{one.name}_arguments")(own)
        add_json(own)


def run(arguments: Namespace, output: Output) -> int:
    """Run the subcommand that was chosen."""
    module = next(one.module for one in SUBCOMMANDS if one.name == arguments.subcommand)
    code: int = getattr(import_module(module), f"run_{arguments.subcommand}")(arguments, output)
    return code
