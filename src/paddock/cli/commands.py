"""The commands as data. The modules behind them stay unimported until one is chosen, so ``--help`` costs little."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command's name, the module with its ``add_arguments(parser)`` and ``run(arguments, output)``, and its help."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("init", "init", "a new environment in a folder of its own, ready to check, run and serve"),
    Command("list", "listing", "every environment that can be made by id"),
    Command("info", "info", "what is known about one environment"),
    Command("check", "check", "test an environment against the rules of the API"),
    Command("run", "run", "play episodes and show the results"),
    Command("rescore", "rescore", "score recorded episodes again, with another rubric"),
    Command("demo", "demo", "a short tour"),
    Command("doctor", "doctor", "what is installed here, and what is wrong with it"),
    Command("explain", "explain", "what make() would build for a target, and why"),
    Command("permissions", "permissions", "what code may do behind the wall, in plain words"),
    Command("serve", "serve", "environments for others, over HTTP and websockets"),
    Command("ps", "ps", "the sessions of a server"),
    Command("kill", "kill", "end one session of a server"),
    Command("hostile", "hostile", "attack this machine's walls with hostile environments, and keep score"),
)
