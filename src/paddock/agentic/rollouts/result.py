"""What came of rollouts. One that failed has no reward, not even zero: it counts as an error and in no mean."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from paddock.agentic.rollouts.statistics import Estimate, mean_of, pass_at_k
from paddock.record.trace.values import free_form

if TYPE_CHECKING:
    from rich.table import Table

FORMAT = "paddock.rollouts.v1"
Where: TypeAlias = Literal["making", "reset", "policy", "step", "trace", "time"]


@dataclass(frozen=True)
class Failure:
    """Why a rollout has no reward. ``code`` is as on the wire; ``where`` it arose, after ``step`` steps."""

    code: str
    message: str
    where: Where
    step: int


@dataclass(frozen=True)
class Rollout:
    """One attempt at one task. ``rewards`` are those of its steps, also of one that failed later.

    ``task`` is the task's public row with its split and index, empty where the environment has none; ``place`` is its
    place in the list of tasks. Neither ``terminated``, ``truncated`` nor an error: its turns were used up.
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
    error: Failure | None = None
    seconds: float = 0.0

    @property
    def total_return(self) -> float | None:
        """The sum of the rewards; None if it failed."""
        return None if self.error is not None else float(sum(self.rewards))

    @property
    def reward(self) -> float | None:
        """The return, as trainers of language models call it."""
        return self.total_return

    @property
    def steps(self) -> int:
        """Steps that the environment took."""
        return len(self.rewards)

    @property
    def ended(self) -> str:
        """terminated, truncated, turns or error."""
        if self.error is not None:
            return "error"
        return "terminated" if self.terminated else "truncated" if self.truncated else "turns"


class Rollouts(Sequence[Rollout]):
    """In the order of the tasks, the attempts at each one after another. ``seed`` is that of the intervals too."""

    def __init__(self, rollouts: Sequence[Rollout], *, seed: int = 0) -> None:
        self._all, self._seed = tuple(rollouts), seed

    @overload
    def __getitem__(self, at: int) -> Rollout: ...
    @overload
    def __getitem__(self, at: slice) -> Rollouts: ...
    def __getitem__(self, at: int | slice) -> Rollout | Rollouts:
        return Rollouts(self._all[at], seed=self._seed) if isinstance(at, slice) else self._all[at]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Rollout]:
        return iter(self._all)

    @property
    def errors(self) -> list[Rollout]:
        """Those that failed."""
        return [rollout for rollout in self._all if rollout.error is not None]

    @property
    def error_share(self) -> float:
        """How many of all failed, 0 to 1."""
        return len(self.errors) / len(self._all) if self._all else 0.0

    def mean_return(self, *, confidence: float = 0.95) -> Estimate | None:
        """Over those that did not fail; None if there is none. Tasks are what its interval draws from.

        The interval is Wilson's where all returns are 0 or 1, a bootstrap over tasks elsewhere.
        """
        return mean_of(self._by_task(), confidence=confidence, seed=self._seed)

    def pass_at(self, k: int, *, at_least: float = 1.0, confidence: float = 0.95) -> Estimate | None:
        """pass@k, where a return of ``at_least`` or more is a pass.

        None if no task has k attempts that did not fail: ``pass_at(3)`` needs ``rollout(..., attempts=3)`` or more.
        Unbiased: of n attempts at a task with c passes, 1 - C(n-c, k) / C(n, k). The interval is Wilson's.
        """
        if k < 1:
            raise ValueError(f"pass_at({k}): expected 1 or more attempts.")
        passed = [[total >= at_least for total in totals] for totals in self._by_task()]
        return pass_at_k(passed, k, confidence=confidence)

    def summary(self) -> dict[str, Any]:
        """The figures as plain data."""
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
            "seconds": sum(rollout.seconds for rollout in self._all),
        }

    def table(self, rows: int = 20) -> Table:
        """A table of Rich, which ``print`` shows too: the first ``rows`` rollouts under the figures of all."""
        from paddock.agentic.rollouts.table import table_of

        return table_of(self, rows)

    def __rich__(self) -> Table:
        return self.table()

    def save(self, path: str | os.PathLike[str]) -> None:
        """One JSON document: the figures, and every rollout with its messages. A file that is there is replaced."""
        document = _plain({"format": FORMAT, "summary": self.summary(), "rollouts": [_told(one) for one in self._all]})
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


def _told(rollout: Rollout) -> dict[str, Any]:
    return {
        **{name: getattr(rollout, name) for name in ("name", "task", "attempt", "seed", "steps", "turns", "ended")},
        "return": rollout.total_return,
        "rewards": rollout.rewards,
        "seconds": rollout.seconds,
        "error": rollout.error,
        "messages": rollout.messages,
    }


def _plain(document: Any) -> Any:
    """As JSON, in the form that infos have in a trace."""
    return free_form(document, lambda array: {"$dropped": f"array of shape {array.shape}"}, "rollouts", drop=True)
