"""``paddock run``: play episodes and show the results. The seed is always printed, so any run can be repeated."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paddock.cli.environment import film, grant_all, open_env
from paddock.cli.output import INTERRUPTED, OK, Output, mistake
from paddock.cli.program import add_deadline, add_target, integer
from paddock.core.problem import kind

if TYPE_CHECKING:
    from paddock.bench.statistics import Figures
    from paddock.cli.run.episodes import Play
    from paddock.core.env import Env
    from paddock.record.trace import TraceWriter

MOST_ROWS = 20


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    _add_shared_arguments(parser)
    parser.add_argument("--trace", metavar="FILE", help="write a trace of the episodes (docs/traces.md)")


def add_record_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock record``, which are those of ``run`` with a trace in any case."""
    _add_shared_arguments(parser)
    parser.add_argument(
        "--out", dest="trace", required=True, metavar="FILE", help="the trace, which must not exist yet"
    )


def _add_shared_arguments(parser: ArgumentParser) -> None:
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
    add(
        *("--env-kwargs", "--kwargs"),
        type=_object,
        default={},
        metavar="JSON",
        help="arguments of the environment, as '{\"size\": 7}'",
    )
    add("--num-envs", type=integer(1), default=1, metavar="N", help="play in so many lanes (default 1)")
    add("--video", metavar="DIR", help="write an mp4 of each episode into this folder")
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
    from paddock.cli.run.episodes import open_policy, play, play_lanes
    from paddock.cli.watchdog import watch
    from paddock.core.env import isolation_of

    count, lanes = arguments.episodes, arguments.num_envs
    if arguments.video is not None and lanes > 1:
        raise mistake("--video films one lane. Drop it, or --num-envs.")
    with (
        watch(output, arguments.deadline),
        open_policy(arguments.policy, arguments.policy_isolation) as policy,
        open_env(arguments.target, **_options(arguments)) as env,
        _open_trace(arguments) as trace,
        output.progress(arguments.target, count) as on_episode,
    ):
        isolation = isolation_of(env)
        how: dict[str, Any] = {"seed": arguments.seed, "episodes": count, "on_episode": on_episode}
        if lanes > 1:
            played = play_lanes(env, policy, trace=trace, **how)
        else:
            with _observe(env, trace, arguments.video) as observed:
                played = play(observed, policy, **how)
    if arguments.json:
        output.document(_document(arguments, played, isolation))
    else:
        _print(arguments, played, output)
    return INTERRUPTED if played.interrupted else OK


def run_record(arguments: Namespace, output: Output) -> int:
    """Play, with a trace."""
    from paddock.core.registry import registry

    code = run(arguments, output)
    if not arguments.json:
        where = "" if registry.is_protected(arguments.target) else f" --env {arguments.target}"
        output.line(f"the trace is {arguments.trace}; repeat it with: paddock replay {arguments.trace}{where}")
    return code


def _options(arguments: Namespace) -> dict[str, Any]:
    """The options of ``make``."""
    isolation = grant_all(arguments.target, arguments.isolation) if arguments.grant else arguments.isolation
    options: dict[str, Any] = {
        "isolation": isolation,
        "max_episode_steps": arguments.max_episode_steps,
        "env_kwargs": arguments.env_kwargs,
    }
    if arguments.video is not None:
        options["render_mode"] = "rgb_array"
    if arguments.num_envs > 1:
        from paddock.core.vector_env import AutoresetMode
        from paddock.making import LaneOptions

        alone = LaneOptions(autoreset=AutoresetMode.DISABLED, on_fault="raise")
        options |= {"num_envs": arguments.num_envs, "lanes": alone}
    return options


@contextmanager
def _open_trace(arguments: Namespace) -> Iterator[TraceWriter | None]:
    """Open the trace if ``--trace`` is given."""
    if arguments.trace is None:
        yield None
        return
    from paddock.record.trace import TraceWriter

    try:
        writer = TraceWriter(arguments.trace, seal=True)
    except FileExistsError as error:
        raise mistake(str(error)) from None
    except OSError as error:
        why = f"{error.strerror}. Name a file in a folder that exists and that you may write to"
        raise mistake(f"can't write {arguments.trace}: {why}.") from error
    with writer:
        yield writer


@contextmanager
def _observe(env: Env[Any, Any], trace: TraceWriter | None, video: str | None) -> Iterator[Env[Any, Any]]:
    """Put a recorder and a camera around the environment, as far as they are wanted."""
    from paddock.record.trace import Recorder

    recorded = env if trace is None else Recorder(env, trace)
    if video is None:
        yield recorded
        return
    with film(recorded, video, "run") as filmed:
        yield filmed


def _salt(arguments: Namespace) -> str:
    """What intervals are drawn from where a run has no digest."""
    return f"{arguments.target} {arguments.policy} {arguments.seed}"


def _document(arguments: Namespace, played: Play, isolation: str) -> dict[str, Any]:
    figures = played.figures(_salt(arguments))
    names = ("seed", "return", "length", "ended_by")
    return {
        "target": arguments.target,
        "isolation": isolation,
        "policy": arguments.policy,
        "seed": arguments.seed,
        "episodes": [dict(zip(names, episode, strict=True)) for episode in played.episodes],
        **({"interrupted": True} if played.interrupted else {}),
        "mean_return": None if figures is None else figures.mean.value,
        "statistics": None if figures is None else figures.document(),
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
    figures = played.figures(_salt(arguments))
    output.facts(
        [
            *describe_returns(figures),
            ("steps", played.steps),
            ("steps/s", f"{played.steps_per_second:,.0f}"),
            ("trajectory digest", played.digest or f"none: {played.no_digest}"),
        ]
    )


def describe_returns(figures: Figures | None) -> list[tuple[str, object]]:
    """Return the lines about returns: a mean alone for one episode, intervals for more."""
    if figures is None:
        return [("mean return", "none")]
    if figures.mean.low is None:
        return [("mean return", figures.mean.value)]
    averages = (("mean return", figures.mean), ("median", figures.median), ("IQM", figures.iqm))
    known = [(name, one) for name, one in averages if one.low is not None]  # of zeros and ones, the mean alone
    return [(name, f"{one.value:,.2f}  [{one.low:,.2f}, {one.high:,.2f}]") for name, one in known]
