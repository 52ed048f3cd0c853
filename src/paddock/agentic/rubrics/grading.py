"""grade(): ask a rubric once, from code that waits, and say where the score came from.

It returns a Grade or raises GradingFailed, nothing else. The error's text names the rubric and what went wrong without
the words of other people's exceptions, which may hold the answers; those are its ``__cause__``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from paddock.agentic.helper_thread import HelperThread, TookTooLong
from paddock.agentic.rubrics.ledger import Ledger
from paddock.agentic.rubrics.rubric import Rubric
from paddock.agentic.rubrics.score import NoScore, finite
from paddock.agentic.rubrics.settling import Steps, settled
from paddock.agentic.rubrics.timeout import Late
from paddock.agentic.rubrics.trajectory import TrajectoryRubric
from paddock.errors import GradingFailed


@dataclass(frozen=True)
class Grade:
    """A score with its provenance. ``parts`` has those of the rubric's descendants that were asked, by dotted name.

    ``replayable`` is False if one that was asked is not. ``step_rewards`` come from a TrajectoryRubric at the end of an
    episode, one for each of its steps.
    """

    score: float
    parts: dict[str, float]
    replayable: bool
    step_rewards: tuple[float, ...] | None = None

    def provenance(self) -> dict[str, Any]:
        """As plain data, for ``info["rubric"]``."""
        plain: dict[str, Any] = {"score": self.score, "parts": dict(self.parts), "replayable": self.replayable}
        if self.step_rewards is not None:
            plain["step_rewards"] = list(self.step_rewards)
        return plain


def grade(
    rubric: Rubric,
    action: Any,
    observation: Any,
    *,
    timeout_s: float | None = None,
    thread: HelperThread | None = None,
) -> Grade:
    """The rubric's grade, within ``timeout_s`` seconds, worked out on ``thread``.

    Who grades often passes a thread, always the same: what an async client opened belongs to that thread's loop.
    """
    ledger, worker = Ledger(), HelperThread() if thread is None else thread
    try:
        graded: Grade = worker.run(lambda: _within(ledger, rubric, action, observation), timeout_s)
        return graded
    except TookTooLong as error:
        raise _failure(rubric, ledger.late(), str(error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a judge's client that was cancelled, too: nothing here cancels who asks
        reason = str(error) if isinstance(error, (NoScore, Late)) else type(error).__name__
        raise _failure(rubric, ledger.origin(error), reason) from error
    finally:
        if thread is None:
            worker.close()


def _within(ledger: Ledger, rubric: Rubric, action: Any, observation: Any) -> Any:
    """A Grade, or a coroutine of one, which has a context of its own to open the ledger in."""
    with ledger.open():
        given = settled(_grading(ledger, rubric, action, observation))
    return _within_later(ledger, given) if isawaitable(given) else given


async def _within_later(ledger: Ledger, given: Awaitable[Grade]) -> Grade:
    with ledger.open():
        return await given


def _grading(ledger: Ledger, rubric: Rubric, action: Any, observation: Any) -> Steps[Grade]:
    score = finite((yield rubric(action, observation)))
    step_rewards = None
    if isinstance(rubric, TrajectoryRubric) and getattr(observation, "done", False):
        step_rewards = tuple(map(finite, (yield rubric.compute_step_rewards())))
    return Grade(score, ledger.parts(rubric), ledger.replayable, step_rewards)


def _failure(root: Rubric, origin: Rubric | None, reason: str) -> GradingFailed:
    rubric = root if origin is None else origin
    name = next((name for name, known in root.named_rubrics() if known is rubric), "")
    place = f"{name} ({type(rubric).__name__})" if name else type(rubric).__name__
    return GradingFailed(f"The rubric {place} failed: {reason}.", rubric=name)
