"""Training curves from traces whose episodes say after how many training steps they were played."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paddock.bench.statistics import Figures, describe
from paddock.bench.svg import Curve, draw_curves
from paddock.errors import InvalidTrace
from paddock.record.trace import TraceReader


@dataclass(frozen=True)
class Training:
    """The evaluations of one training: figures by training steps. ``problems`` says what the trace does not show."""

    name: str
    points: tuple[tuple[int, Figures], ...]
    problems: tuple[str, ...]


def read_training(path: Path) -> Training:
    """Read a trace that ``paddock.adapters.evaluation`` wrote. Episodes that failed are counted and have no return."""
    rounds: dict[int, list[float]] = {}
    failures: dict[int, int] = {}
    reader = TraceReader(path)
    for episode in reader:
        steps = episode.about.get("training_steps")
        if type(steps) is not int:
            raise InvalidTrace(f"{path}: episode {episode.number} does not say after how many training steps it was.")
        if episode.total_return is None:
            failures[steps] = failures.get(steps, 0) + 1
        else:
            rounds.setdefault(steps, []).append(episode.total_return)
    points = []
    for steps, returns in sorted(rounds.items()):
        digest = hashlib.sha256(repr((steps, returns)).encode()).hexdigest()
        points.append((steps, describe(returns, digest=digest, failures=failures.get(steps, 0))))
    problems = [] if reader.sealed else [f"{path.name} has no seal: evaluations may be missing"]
    if failures:
        problems.append(f"{path.name}: {sum(failures.values())} episodes failed and are not in the curve")
    return Training(path.stem, tuple(points), tuple(problems))


def draw_training(trainings: Sequence[Training]) -> str:
    """Return the curves as SVG: the IQM of each evaluation's returns, with its interval as a band."""
    curves = []
    for one in trainings:
        found = [figures.iqm for _, figures in one.points]
        middle = np.array([iqm.value for iqm in found])
        low = np.array([np.nan if iqm.low is None else iqm.low for iqm in found])
        high = np.array([np.nan if iqm.high is None else iqm.high for iqm in found])
        curves.append(Curve(one.name, np.array([float(steps) for steps, _ in one.points]), middle, low, high))
    return draw_curves(curves, title="Evaluation while training", x="training steps", y="IQM of the return, 95 %")
