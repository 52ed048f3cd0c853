"""``paddock demo``: the tour. The same seeded episode at every stop, and the same digest at each, or the demo fails."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.arguments import add_json
from paddock.cli.failures import FAILED, OK
from paddock.cli.output import Output
from paddock.kernels.installed import numba_installed

if TYPE_CHECKING:
    from paddock.cli.episodes import Play
    from paddock.cli.policies import Choose
    from paddock.core.env import Env

TARGET, SEED, STEPS = "CartPole-v1", 42, 500
HEADER = (
    "paddock: one environment, every distance. The same environment, written once, with proof that the numbers agree."
)
NEXT = (
    "paddock list                              every environment",
    "paddock run CartPole-v1 --episodes 100    play a hundred episodes",
    "paddock explain CartPole-v1 --num-envs 8  what make() would build",
    "paddock check CartPole-v1                 test an environment against the API",
)


class Stop(NamedTuple):
    """One distance: its name, how the environment is made there, and how many lanes step at once."""

    distance: str
    opened: Callable[[], AbstractContextManager[Env[Any, Any]]]
    lanes: int = 1


def _in_process() -> AbstractContextManager[Env[Any, Any]]:
    from paddock.cli.environment import made

    return made(TARGET)


def _lanes() -> AbstractContextManager[Env[Any, Any]]:
    from paddock.cli.first_lane import FirstLane

    return FirstLane(TARGET, LANES)


def _worker() -> AbstractContextManager[Env[Any, Any]]:
    from paddock.cli.environment import made

    return made(TARGET, isolation="process")


LANES = 1024
STOPS = (
    Stop("in process", _in_process),
    Stop(f"{LANES} lanes", _lanes, LANES),
    Stop("another process", _worker),
)


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Visit every stop, compare the digests."""
    if not arguments.json:
        output.line(HEADER)
        output.line(f"One episode of {TARGET} with seed {SEED}, played by a policy that keeps the pole up.")
        output.line()
    visits = [(stop, _visit(stop, output)) for stop in STOPS]
    same = len({played.digest for _, played in visits}) == 1
    if arguments.json:
        output.document(_document(visits, same))
    else:
        _print(visits, same, output)
    return OK if same else FAILED


def balance(env: Env[Any, Any], seed: int) -> Choose:
    """Push the cart to the side to which the pole falls."""
    return lambda observation, info: int(observation[2] + observation[3] / 2 > 0)


def _visit(stop: Stop, output: Output) -> Play:
    from paddock.cli.episodes import play

    with stop.opened() as env, output.progress(f"{TARGET} {stop.distance}", STEPS) as on_step:
        return play(env, balance, seed=SEED, on_step=on_step)


def _document(visits: list[tuple[Stop, Play]], same: bool) -> dict[str, Any]:
    stops = [
        {
            "distance": stop.distance,
            "steps": played.steps,
            "return": played.mean_return,
            "steps_per_second": played.steps_per_second * stop.lanes,
            "trajectory_digest": played.digest,
        }
        for stop, played in visits
    ]
    return {"target": TARGET, "seed": SEED, "stops": stops, "same_trajectory": same}


def _print(visits: list[tuple[Stop, Play]], same: bool, output: Output) -> None:
    output.table(
        ["distance", "steps", "return", "steps/s", "trajectory digest"],
        [
            [
                stop.distance,
                played.steps,
                played.mean_return,
                round(played.steps_per_second * stop.lanes),
                (played.digest or "none")[:16],
            ]
            for stop, played in visits
        ],
    )
    if not numba_installed():
        output.line('The lanes ran as plain Python. Compiled they are far faster: pip install "paddock[fast]"')
    if not same:
        output.error("the trajectories differ: the same environment must give the same numbers at every distance")
    output.line()
    output.line("Next:")
    for text in NEXT:
        output.line(f"  {text}")
