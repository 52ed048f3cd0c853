"""``paddock run``: play episodes and show the results. The seed is always printed, so any run can be repeated."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paddock.cli.environment import grant_all, open_env
from paddock.cli.output import INTERRUPTED, OK, Output, mistake
from paddock.cli.program import add_deadline, add_target, integer
from paddock.core.problem import kind

if TYPE_CHECKING:
    from paddock.cli.episodes import Play
    from paddock.core.env import Env

MOST_ROWS = 20


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add_target(parser)
    add("--episodes", type=integer(1), default=1, metavar="N", help="how many (default 1)")
    add("--isolation", metavar="KIND", help="as make(isolation=...)")
    add(
        "--policy",
        default="random",
        metavar="NAME",
        help="what acts: random (the default), or a file such as ./agent.py",
    )
    add("--policy-isolation", metavar="KIND", help="the wall around an agent's file: sandbox (the default) … none")
    add("--grant", action="store_true", help="grant a folder the permissions that it asks for")
    add("--seed", type=integer(0), default=0, metavar="S", help="episode i is seeded with S + i (default 0)")
    add("--max-episode-steps", type=integer(1), metavar="N", help="another time limit than the environment's own")
    add("--kwargs", type=_object, default={}, metavar="JSON", help="arguments of the environment, as '{\"size\": 7}'")
    add("--trace", metavar="FILE", help="write a trace of the episodes (docs/traces.md)")
    add_deadline(parser)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"is {kind(value)}, not a JSON object of names and values")
    return value


def run(arguments: Namespace, output: Output) -> int:
    """Play, then print the table."""
    from paddock.cli.episodes import open_policy, play
    from paddock.cli.watchdog import watch

    count = arguments.episodes
    isolation = grant_all(arguments.target, arguments.isolation) if arguments.grant else arguments.isolation
    options = {"isolation": isolation, "max_episode_steps": arguments.max_episode_steps, "env_kwargs": arguments.kwargs}
    with (
        watch(output, arguments.deadline),
        open_policy(arguments.policy, arguments.policy_isolation) as policy,
        open_env(arguments.target, **options) as env,
        _record_trace(env, arguments) as recorded,
        output.progress(arguments.target, count) as on_episode,
    ):
        played = play(recorded, policy, seed=arguments.seed, episodes=count, on_episode=on_episode)
    if arguments.json:
        output.document(_document(arguments, played))
    else:
        _print(arguments, played, output)
    return INTERRUPTED if played.interrupted else OK


@contextmanager
def _record_trace(env: Env[Any, Any], arguments: Namespace) -> Iterator[Env[Any, Any]]:
    """Put a recorder around the environment if ``--trace`` is given."""
    if arguments.trace is None:
        yield env
        return
    from paddock.record.trace import Recorder, TraceWriter

    try:
        writer = TraceWriter(arguments.trace, seal=True)
    except FileExistsError as error:
        raise mistake(f"--trace {arguments.trace}: {error}") from None
    except OSError as error:
        why = f"{error.strerror}. Name a file in a folder that exists and that you may write to"
        raise mistake(f"--trace {arguments.trace}: {why}.") from error
    with writer:
        yield Recorder(env, writer)


def _document(arguments: Namespace, played: Play) -> dict[str, Any]:
    names = ("seed", "return", "length", "ended_by")
    return {
        "target": arguments.target,
        "policy": arguments.policy,
        "seed": arguments.seed,
        "episodes": [dict(zip(names, episode, strict=True)) for episode in played.episodes],
        **({"interrupted": True} if played.interrupted else {}),
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
    if played.interrupted:
        output.line(f"interrupted after {len(rows):,} of {arguments.episodes:,} episodes")
    output.facts(
        [
            ("mean return", "none" if played.mean_return is None else played.mean_return),
            ("steps", played.steps),
            ("steps/s", f"{played.steps_per_second:,.0f}"),
            ("trajectory digest", played.digest or f"none: {played.no_digest}"),
        ]
    )
