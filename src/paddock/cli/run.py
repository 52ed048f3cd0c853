"""``paddock run``: play episodes and show what came of them. The seed is always printed, so any run can be repeated."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from paddock.cli.arguments import add_json, add_target, integer
from paddock.cli.failures import OK
from paddock.cli.output import Output
from paddock.cli.policies import chosen

if TYPE_CHECKING:
    from paddock.cli.episodes import Play

MOST_ROWS = 20


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_target(parser)
    parser.add_argument("--episodes", type=integer(1), default=1, metavar="N", help="how many (default 1)")
    parser.add_argument("--isolation", metavar="KIND", help="as make(isolation=...)")
    parser.add_argument(
        "--policy",
        default="random",
        metavar="NAME",
        help="who acts: random (the default), or a file such as ./agent.py",
    )
    parser.add_argument(
        "--policy-isolation", metavar="KIND", help="the wall around an agent's file: sandbox (the default) … none"
    )
    parser.add_argument("--grant", action="store_true", help="grant a folder the permissions that it asks for")
    parser.add_argument(
        "--seed", type=integer(0), default=0, metavar="S", help="episode i begins with S + i (default 0)"
    )
    parser.add_argument(
        "--max-episode-steps", type=integer(1), metavar="N", help="another time limit than the environment's own"
    )
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Play, then print the table."""
    from paddock.cli.environment import granted, made
    from paddock.cli.episodes import play

    count = arguments.episodes
    isolation = granted(arguments.target, arguments.isolation) if arguments.grant else arguments.isolation
    with (
        chosen(arguments.policy, arguments.policy_isolation) as policy,
        made(arguments.target, isolation=isolation, max_episode_steps=arguments.max_episode_steps) as env,
        output.progress(arguments.target, count) as on_episode,
    ):
        played = play(env, policy, seed=arguments.seed, episodes=count, on_episode=on_episode)
    if arguments.json:
        output.document(_document(arguments, played))
    else:
        _print(arguments, played, output)
    return OK


def _document(arguments: Namespace, played: Play) -> dict[str, Any]:
    names = ("seed", "return", "length", "ended_by")
    return {
        "target": arguments.target,
        "policy": arguments.policy,
        "seed": arguments.seed,
        "episodes": [dict(zip(names, episode, strict=True)) for episode in played.episodes],
        "mean_return": played.mean_return,
        "steps": played.steps,
        "steps_per_second": played.steps_per_second,
        "trajectory_digest": played.digest,
        **({"no_digest": played.no_digest} if played.no_digest is not None else {}),
    }


def _print(arguments: Namespace, played: Play, output: Output) -> None:
    rows = [[number, *episode] for number, episode in enumerate(played.episodes)]
    output.table(
        ["episode", "seed", "return", "length", "ended by"],
        [[number, str(seed), total, length, ended] for number, seed, total, length, ended in rows[:MOST_ROWS]],
        title=f"{arguments.target}, policy {arguments.policy}, seed {arguments.seed}",
    )
    if len(rows) > MOST_ROWS:
        output.line(f"and {len(rows) - MOST_ROWS:,} more episodes (--json has all)")
    output.line()
    output.facts(
        [
            ("mean return", played.mean_return),
            ("steps", played.steps),
            ("steps/s", f"{played.steps_per_second:,.0f}"),
            ("trajectory digest", played.digest or f"none: {played.no_digest}"),
        ]
    )
