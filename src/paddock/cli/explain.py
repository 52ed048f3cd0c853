"""``paddock explain``: the plan that make() would follow. Planning runs no environment code, so any target is safe."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from paddock.cli.arguments import add_json, add_target, integer
from paddock.cli.failures import OK
from paddock.cli.output import Output


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_target(parser)
    parser.add_argument("--num-envs", type=integer(1), metavar="N", help="plan n lanes instead of one environment")
    parser.add_argument("--isolation", metavar="KIND", help="as make(isolation=...)")
    parser.add_argument("--backend", default="auto", metavar="NAME", help="as make(backend=...)")
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print the plan."""
    from paddock.cli.environment import plan_target

    plan = plan_target(
        arguments.target, num_envs=arguments.num_envs, isolation=arguments.isolation, backend=arguments.backend
    )
    rows = plan.lines()
    if arguments.json:
        output.document({"target": plan.target.text, "plan": [{"what": what, "how": how} for what, how in rows]})
    else:
        output.facts(rows)
    return OK
