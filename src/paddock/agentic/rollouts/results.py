"""The results of rollouts. A rollout that failed has no reward, not even zero: it counts as an error and in no mean."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import comb, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from paddock.agentic.rollouts.groups import Group, Kind, Sample, grade_group, group_by_task, samples_of
from paddock.agentic.tasks import task_name
from paddock.record.model_call import ModelCall
from paddock.record.trace import Episode, TraceReader
from paddock.record.trace.values import free_form

if TYPE_CHECKING:
    from rich.table import Table


FORMAT = "paddock.rollouts.v1"
RUN = "run.jsonl"  # the trace in a results folder
Where: TypeAlias = Literal["making", "reset", "policy", "step", "trace", "time"]


@dataclass(frozen=True)
class Failure:
    """Why a rollout has no reward. ``code`` is as on the wire; ``where`` is whose code failed, after ``step`` steps."""

    code: str
    message: str
    where: Where
    step: int


@dataclass(frozen=True)
class Rollout:
    """One attempt at one task. ``rewards`` are those of its steps, even if it failed later.

    ``task`` is the task's public row with its split and index, empty if the environment has no tasks; ``place`` is its
    place in the list of tasks. If it is neither ``terminated`` nor ``truncated`` and has no error, its turns ran out.
    ``calls`` are those of models, in their order; ``retries`` counts what failed and was tried again. ``group_reward``
    is of a rubric that saw all attempts, and takes the place of the return.
    """

    place: int
    name: str
    task: dict[str, Any]
    attempt: int
    seed: int
    rewards: tuple[float, ...] = ()
    terminated: bool = False
    truncated: bool = False
    turns: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list, repr=False)
    info: dict[str, Any] = field(default_factory=dict, repr=False)
    calls: Sequence[ModelCall] = field(default=(), repr=False)
    retries: int = 0
    group_reward: float | None = None
    error: Failure | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        """What happened, in a few lines."""
        from paddock.agentic.rollouts.story import tell  # here: a module for people who look

        return tell(self)

    @property
    def total_return(self) -> float | None:
        if self.error is not None:
            return None
        return float(sum(self.rewards)) if self.group_reward is None else self.group_reward

    @property
    def reward(self) -> float | None:
        """The return, under the name that trainers of language models use."""
        return self.total_return

    @property
    def steps(self) -> int:
        return len(self.rewards)

    @property
    def ended(self) -> str:
        """How it ended: terminated, truncated, turns (or its budget), or error."""
        if self.error is not None:
            return "error"
        return "terminated" if self.terminated else "truncated" if self.truncated else "turns"

    @property
    def cut_off(self) -> bool:
        """Whether a reply of the model that counts reached its limit of tokens."""
        return any(call.cut_off and call.error is None for call in self.calls)


class Rollouts(Sequence[Rollout]):
    """Rollouts in the order of the tasks, with all attempts at a task together. ``seed`` is for the intervals."""

    def __init__(self, rollouts: Sequence[Rollout], *, seed: int = 0) -> None:
        self._all, self._seed = tuple(rollouts), seed

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, seed: int = 0) -> Rollouts:
        """Read the trace of a run, or the results folder of ``paddock eval``. Any trace will do.

        Of several tries at a rollout the one that finished counts, else the last. What broke off is a failure.
        """
        found, _ = read_run(path)
        return cls([found[key] for key in sorted(found)], seed=seed)

    @overload
    def __getitem__(self, at: int) -> Rollout: ...
    @overload
    def __getitem__(self, at: slice) -> Rollouts: ...
    def __getitem__(self, at: int | slice) -> Rollout | Rollouts:
        return Rollouts(self._all[at], seed=self._seed) if isinstance(at, slice) else self._all[at]

    def __len__(self) -> int:
        return len(self._all)

    @property
    def errors(self) -> list[Rollout]:
        return [rollout for rollout in self._all if rollout.error is not None]

    @property
    def error_share(self) -> float:
        return len(self.errors) / len(self._all) if self._all else 0.0

    def groups(self) -> list[Group]:
        """All attempts at a task together, with their advantages. Those that failed are kept apart."""
        return group_by_task(self._all)

    def grade_groups(self, rubric: Callable[[Group], Sequence[float]]) -> Rollouts:
        """Return rollouts with the rewards of a rubric that sees a whole group, and returns one for each member."""
        graded = [one for group in self.groups() for one in grade_group(group, rubric)]
        return Rollouts(sorted(graded, key=lambda one: (one.place, one.attempt)), seed=self._seed)

    def samples(
        self,
        advantages: Kind | None = "grpo",
        *,
        drop_equal: bool = False,
        on_missing: Literal["raise", "skip"] = "raise",
    ) -> Iterator[Sample]:
        """Yield what a trainer learns from: ids, mask, log probabilities, reward and advantage.

        Rollouts that failed are left out. ``drop_equal`` leaves out groups whose rewards do not differ.
        ``on_missing="skip"`` leaves out rollouts without token ids, which are an error otherwise.
        """
        return samples_of(self._all, advantages, drop_equal, on_missing)

    def mean_return(self, *, confidence: float = 0.95) -> Estimate | None:
        """Return the mean over rollouts that did not fail; None if all failed.

        The interval is Wilson's if all returns are 0 or 1, otherwise a bootstrap over tasks.
        """
        return mean_of(self._by_task(), confidence=confidence, seed=self._seed)

    def pass_at(self, k: int, *, at_least: float = 1.0, confidence: float = 0.95) -> Estimate | None:
        """Return pass@k, where a return of ``at_least`` or more is a pass.

        None if no task has k attempts that did not fail: ``pass_at(3)`` needs ``rollout(..., attempts=3)`` or more.
        Unbiased: of n attempts at a task with c passes, 1 - C(n-c, k) / C(n, k). The interval is Wilson's.
        """
        if k < 1:
            raise ValueError(f"pass_at({k}): expected 1 or more attempts.")
        passed = [[total >= at_least for total in totals] for totals in self._by_task()]
        return pass_at_k(passed, k, confidence=confidence)

    def summary(self) -> dict[str, Any]:
        mean = self.mean_return()
        codes = Counter(rollout.error.code for rollout in self._all if rollout.error is not None)
        most = max((len(totals) for totals in self._by_task()), default=0)
        passes = {k: self.pass_at(k) for k in sorted({1, most}) if most}
        return {
            "rollouts": len(self._all),
            "tasks": len({rollout.place for rollout in self._all}),
            "mean_return": None if mean is None else asdict(mean),
            "pass_at": {str(k): None if found is None else asdict(found) for k, found in passes.items()},
            "error_share": self.error_share,
            "errors": dict(codes),
            "steps": sum(rollout.steps for rollout in self._all),
            "cut_off": sum(rollout.cut_off for rollout in self._all),
            "retries": sum(rollout.retries for rollout in self._all),
            **self._usage(),
            "seconds": sum(rollout.seconds for rollout in self._all),
        }

    def _usage(self) -> dict[str, Any]:
        """What the models were asked for, failed calls included."""
        calls = [call for rollout in self._all for call in rollout.calls]
        return {
            "calls": len(calls),
            "prompt_tokens": sum(call.prompt_tokens for call in calls),
            "completion_tokens": sum(call.completion_tokens for call in calls),
            "cost": sum(call.cost for call in calls),
        }

    def table(self, rows: int = 20) -> Table:
        """Return a table of Rich, which ``print`` shows too: the first ``rows`` rollouts under the figures of all."""
        from paddock.agentic.rollouts.table import table_of

        return table_of(self, rows)

    def __rich__(self) -> Table:
        return self.table()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON document: the figures, and every rollout with its messages. An existing file is replaced."""
        rollouts = [
            {
                **{name: getattr(one, name) for name in ("name", "task", "attempt", "seed", "steps", "turns", "ended")},
                "return": one.total_return,
                "rewards": one.rewards,
                "seconds": one.seconds,
                "error": one.error,
                "messages": one.messages,
            }
            for one in self._all
        ]
        # In the form that infos have in a trace.
        document = free_form(
            {"format": FORMAT, "summary": self.summary(), "rollouts": rollouts},
            lambda array: {"$dropped": f"array of shape {array.shape}"},
            "rollouts",
            drop=True,
        )
        target = Path(path)
        draft = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            draft.write_text(json.dumps(document, allow_nan=False, indent=1) + "\n", encoding="ascii")
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    def _by_task(self) -> list[list[float]]:
        groups: dict[int, list[float]] = {}
        for rollout in self._all:
            totals = groups.setdefault(rollout.place, [])
            if rollout.total_return is not None:
                totals.append(rollout.total_return)
        return list(groups.values())

    def __repr__(self) -> str:
        mean = self.mean_return()
        failed = len(self.errors)
        words = f"mean return {'none' if mean is None else mean}, {failed} error{'s' * (failed != 1)}"
        return f"<Rollouts {len(self)}: {words}>"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run. ``rollouts`` are those that had ended."""

    def __init__(self, rollouts: Rollouts) -> None:
        super().__init__(f"interrupted after {len(rollouts)} rollouts")
        self.rollouts = rollouts


def read_run(path: str | os.PathLike[str]) -> tuple[dict[tuple[int, int], Rollout], int]:
    """Read the rollouts of a trace by place and attempt, and a number above those of its episodes."""
    found: dict[tuple[int, int], Rollout] = {}
    above = 0
    trace = Path(path)
    for at, episode in enumerate(TraceReader(trace / RUN if trace.is_dir() else trace)):
        one = _from_episode(episode, at)
        above = max(above, episode.number + 1)
        key = one.place, one.attempt
        if key not in found or found[key].error is not None:
            found[key] = one
    return found, above


def _from_episode(episode: Episode, at: int) -> Rollout:
    """The rollout that an episode of a trace records; the ``at``-th place if the trace is not that of a run."""
    row = episode.task if isinstance(episode.task, dict) else {}
    place, attempt = (episode.about.get(name) for name in ("place", "attempt"))
    known, last = episode.rollout, episode.steps[-1] if episode.steps else None
    where: Any = "trace" if known is None else known.where
    error = None
    if episode.error is not None:
        error = Failure(episode.error.code, episode.error.message, where or "step", len(episode.steps))
    elif not episode.ended:
        error = Failure("BROKEN_OFF", "Its recording broke off.", "trace", len(episode.steps))
    return Rollout(
        place=place if type(place) is int else at,
        name=task_name(row, episode.seed),
        task=row,
        attempt=attempt if type(attempt) is int else 0,
        seed=episode.seed or 0,
        rewards=tuple(step.reward for step in episode.steps),
        terminated=last is not None and last.terminated,
        truncated=last is not None and last.truncated,
        turns=len(episode.steps) if known is None else known.turns,
        messages=[] if known is None else known.messages,
        info=(episode.info or {}) if last is None else last.info,
        calls=tuple(episode.calls),
        retries=0 if known is None else known.retries,
        error=error,
        seconds=0.0 if known is None else known.seconds,
    )


# ── Means and pass@k with intervals ──
#
# Intervals are over tasks, not attempts: attempts at one task are alike. Shares (means of zeros and ones, pass@k) have
# Wilson's interval: a bootstrap has no width if nothing or everything passed.

_Numbers: TypeAlias = NDArray[np.float64]

RESAMPLES = 2000
_FEWEST, _DRAWS = 200, 20_000_000  # with very many tasks the interval is narrow, and need not be known so well
_AT_A_TIME = 1 << 20  # draws that are held in memory


@dataclass(frozen=True)
class Estimate:
    """A mean over ``tasks`` tasks; ``low`` to ``high`` is its interval, which needs at least two tasks."""

    value: float
    low: float | None
    high: float | None
    confidence: float
    tasks: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean_of(
    groups: Sequence[Sequence[float]], *, confidence: float = 0.95, seed: int = 0, shares: bool = True
) -> Estimate | None:
    """Estimate the mean of all values, with an interval over the groups (tasks); None if there are no values.

    The interval is Wilson's if all values are 0 or 1, otherwise a bootstrap. ``shares=False`` is for values that may be
    less than 0, such as differences, even if these here are not: always a bootstrap.
    """
    filled = [group for group in groups if group]
    sums = np.array([float(sum(sorted(group))) for group in filled])
    counts = np.array([float(len(group)) for group in filled])
    if shares and all(value in (0.0, 1.0) for group in filled for value in group):
        return _estimate(sums, counts, confidence, partial(_wilson, attempts=int(counts.sum())))
    return _estimate(sums, counts, confidence, partial(_bootstrap, seed=seed))


def pass_at_k(passed: Sequence[Sequence[bool]], k: int, *, confidence: float = 0.95) -> Estimate | None:
    """Estimate the chance that one of k attempts at a task passes, without bias from having made more than k.

    Tasks with fewer than k attempts are left out; None if that is all of them.
    """
    enough = [group for group in passed if len(group) >= k]
    chances = np.array([1.0 - comb(len(group) - sum(group), k) / comb(len(group), k) for group in enough])
    return _estimate(chances, np.ones(len(chances)), confidence, partial(_wilson, attempts=sum(map(len, enough))))


def _estimate(sums: _Numbers, counts: _Numbers, confidence: float, interval: Callable[..., Any]) -> Estimate | None:
    tasks = len(sums)
    if tasks == 0:
        return None
    order = np.lexsort((counts, sums))  # the same tasks give the same interval, in whatever order they came
    sums, counts = sums[order], counts[order]
    value = float(sums.sum() / counts.sum())
    known = tasks > 1 and np.isfinite(sums).all()
    low, high = interval(sums, counts, confidence) if known else (None, None)
    return Estimate(value, low, high, confidence, tasks)


def _wilson(sums: _Numbers, counts: _Numbers, confidence: float, *, attempts: int) -> tuple[float, float]:
    """Return the interval of a share, for as many independent attempts as the data is worth.

    How much tasks differ tells how many: all attempts if they differ no more than by chance, only the tasks if attempts
    at one always agree. If nothing or everything passed, that can't be seen, and only the tasks count.
    """
    share, tasks = float(sums.sum() / counts.sum()), len(sums)
    worth = float(counts.sum() ** 2 / (counts**2).sum())  # tasks; less where some have many more attempts than others
    spread = float(((sums - share * counts) ** 2).sum() / counts.sum() ** 2) * tasks / (tasks - 1)
    if 0.0 < share < 1.0:
        worth = max(worth, min(attempts, share * (1.0 - share) / spread) if spread else attempts)
    z = NormalDist().inv_cdf((1.0 + confidence) / 2)
    middle = (share + z * z / (2 * worth)) / (1 + z * z / worth)
    half = z * sqrt(share * (1 - share) / worth + (z / (2 * worth)) ** 2) / (1 + z * z / worth)
    return 0.0 if share == 0.0 else max(0.0, middle - half), 1.0 if share == 1.0 else min(1.0, middle + half)


def _bootstrap(sums: _Numbers, counts: _Numbers, confidence: float, *, seed: int) -> tuple[float, float]:
    tasks = len(sums)
    rng = np.random.default_rng(seed)
    resamples = min(RESAMPLES, max(_FEWEST, _DRAWS // tasks))
    rows = max(1, _AT_A_TIME // tasks)
    means = []
    for begin in range(0, resamples, rows):
        drawn = rng.integers(tasks, size=(min(rows, resamples - begin), tasks))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1.0 - tail])
    return float(low), float(high)
