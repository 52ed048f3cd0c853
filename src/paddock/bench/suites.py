"""Suites: which tasks a benchmark has. Those that come with paddock, and those in TOML files, which may be anyone's.

A suite names no code but that of its environments: wrappers are paddock's own.
"""

from __future__ import annotations

import re
from inspect import signature
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import msgspec

from paddock.core.spec import WrapperSpec
from paddock.errors import InvalidManifest, InvalidSuite
from paddock.making.target import split_folder
from paddock.package import read_toml

# Data in, data out. Not those that draw, write files or take functions.
_DATA_WRAPPERS = """
AtariPreprocessing ClipAction ClipReward DelayObservation DiscretizeAction DiscretizeObservation DtypeObservation
FilterObservation FlattenObservation FrameStackObservation GrayscaleObservation MaxAndSkipObservation ObstructView
RepeatAction RescaleAction RescaleObservation ReshapeObservation ResizeObservation StickyAction TimeAwareObservation
TimeLimit
"""
WRAPPERS = frozenset(_DATA_WRAPPERS.split())
_NAME = re.compile(r"\w[\w .+-]{0,79}", re.ASCII)  # results are in a folder of this name


class SuiteWrapper(msgspec.Struct, forbid_unknown_fields=True):
    """A wrapper of paddock's around the environment of a task."""

    name: str
    kwargs: dict[str, Any] = {}

    def spec(self) -> WrapperSpec:
        """The wrapper as an EnvSpec has it, with all its arguments: a worker would not say what it took by default."""
        import paddock.wrappers

        try:
            bound = signature(getattr(paddock.wrappers, self.name)).bind(None, **self.kwargs)
        except TypeError as error:
            raise InvalidSuite(f"the wrapper {self.name}: {error}.") from None
        bound.apply_defaults()
        del bound.arguments["env"]
        return WrapperSpec(self.name, f"paddock.wrappers:{self.name}", dict(bound.arguments))


def public_target(target: str) -> str:
    """The target without folders of this machine: their last name is enough for a reader to know it again."""
    folder = split_folder(target)
    if folder is None:
        return target
    name, id = Path(folder[0]).expanduser().resolve().name, folder[1]
    return f"./{name}" if id is None else f"./{name}:{id}"


class SuiteTask(msgspec.Struct, forbid_unknown_fields=True):
    """One environment, how many episodes of it, and how they count: ``docs/bench.md`` explains the fields."""

    env: str
    name: str = ""
    kwargs: dict[str, Any] = {}
    wrappers: list[SuiteWrapper] = []
    episodes: int = 10
    max_steps: int | None = None
    seeds: Literal["derived"] = "derived"
    metric: Literal["return", "length", "success"] = "return"
    success_at: float | None = None
    failure: float = 0.0
    floor: float | None = None
    ceiling: float | None = None

    def __post_init__(self) -> None:
        self.name = self.name or public_target(self.env)


class Suite(msgspec.Struct, forbid_unknown_fields=True):
    """Tasks under one name."""

    name: str
    task: list[SuiteTask]
    about: str = ""


def _tasks(rows: str, episodes: int, **more: Any) -> list[SuiteTask]:
    """Rows of: id, failure, floor, ceiling; then settings as ``name=value``."""
    tasks = []
    for row in rows.strip().splitlines():
        env, failure, floor, ceiling, *settings = row.split()
        numbers = {"failure": float(failure), "floor": float(floor), "ceiling": float(ceiling)}
        named = {name: int(value) for name, value in (one.split("=") for one in settings)}
        tasks.append(SuiteTask(env, **{"episodes": episodes, **numbers, **more, **named}))
    return tasks


BUILT_IN = {
    "classic-control": Suite(
        "classic-control",
        _tasks(
            """
            CartPole-v1                    0     20    475
            MountainCar-v0              -200   -200   -110
            MountainCarContinuous-v0    -100    -90     90
            Pendulum-v1                -2000   -500   -200
            Acrobot-v1                  -500   -400   -100
            """,
            20,
        ),
        "five environments with continuous states",
    ),
    "toy-text": Suite(
        "toy-text",
        _tasks(
            """
            FrozenLake-v1       0     0.1   0.7
            CliffWalking-v1  -20000  -200   -13  max_steps=200
            Taxi-v4          -2000   -100     8
            Blackjack-v1        -1    0.1   0.1
            """,
            50,
        ),
        "four tables of states",
    ),
    "agentic-text": Suite(
        "agentic-text",
        [
            SuiteTask(
                "paddock/Echo", episodes=10, max_steps=8, metric="success", success_at=1.0, floor=0.0, ceiling=0.5
            ),
            SuiteTask("paddock/Wordle", episodes=20, metric="success", success_at=1.0, floor=0.0, ceiling=0.5),
        ],
        "environments of tools, for language models",
    ),
    "smoke": Suite(
        "smoke",
        _tasks("CartPole-v1 0 20 475", 3) + _tasks("FrozenLake-v1 0 0 0.9", 3),
        "a few seconds, to see that all works",
    ),
}


def read_suite(name: str) -> Suite:
    """The suite of this name, or in this TOML file. InvalidSuite says what is wrong with it."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    if path.suffix != ".toml" or not path.is_file():
        raise InvalidSuite(f"no suite {name!r}. Expected one of {', '.join(BUILT_IN)}, or a TOML file.")
    try:
        suite = msgspec.convert(read_toml(path), Suite)
    except (InvalidManifest, msgspec.ValidationError) as error:
        raise InvalidSuite(f"{name}: {str(error).removeprefix(f'{path}: ')} docs/bench.md shows a suite.") from None
    check_suite(suite)
    return suite


def check_suite(suite: Suite) -> None:
    """Refuse a suite that can't be run, with the task that is the reason."""
    if not _NAME.fullmatch(suite.name):
        raise InvalidSuite(f"the suite's name {suite.name[:80]!r}: expected letters, digits and spaces, as 'my suite'.")
    if not suite.task:
        raise InvalidSuite(f"the suite {suite.name!r} has no [[task]].")
    for task in suite.task:
        numbers = (task.failure, task.success_at, task.floor, task.ceiling)
        problem = ""
        if unknown := [one.name for one in task.wrappers if one.name not in WRAPPERS]:
            problem = f"wrapper {unknown[0]!r}: a suite may use {', '.join(sorted(WRAPPERS))}"
        elif task.episodes < 1 or (task.max_steps is not None and not 1 <= task.max_steps <= 1 << 30):
            problem = "episodes and max_steps are 1 or more, and max_steps at most 2**30"
        elif not all(one is None or isfinite(one) for one in numbers):
            problem = "failure, success_at, floor and ceiling are finite"
        elif (task.metric == "success") != (task.success_at is not None):
            problem = 'metric = "success" and success_at = RETURN go together'
        elif task.floor is not None and task.failure > task.floor:
            problem = f"failure = {task.failure} pays for failing, since the floor is {task.floor}"
        if problem:
            raise InvalidSuite(f"the suite {suite.name!r}, task {task.name!r}: {problem}.")
    names = [task.name for task in suite.task]
    if len(set(names)) < len(names):
        raise InvalidSuite(f"the suite {suite.name!r} has two tasks of one name. Give each a name = ….")
