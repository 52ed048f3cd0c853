"""Groups: all attempts at one task, their advantages, and the samples that a trainer learns from.

A member that failed has no reward. It is left out of its group and counted there, never taken for a 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from paddock.agentic.rubrics.rubric import NoScore, to_score
from paddock.errors import GradingFailed, PlanError

if TYPE_CHECKING:
    from paddock.agentic.rollouts.results import Rollout
    from paddock.record.model_call import ModelCall

Kind = Literal["grpo", "rloo", "dr_grpo"]
_TINY = 1e-6  # keeps GRPO's quotient finite


@dataclass(frozen=True)
class Group:
    """All attempts at one task: ``members`` have a reward, ``failed`` have none."""

    members: Sequence[Rollout]
    failed: Sequence[Rollout] = ()

    @property
    def place(self) -> int:
        return [*self.members, *self.failed][0].place

    @property
    def name(self) -> str:
        return [*self.members, *self.failed][0].name

    @property
    def rewards(self) -> list[float]:
        return [float(one.reward or 0.0) for one in self.members]

    @property
    def varies(self) -> bool:
        """Whether the rewards differ. If not, every advantage is 0 and there is nothing to learn from."""
        return len(set(self.rewards)) > 1

    def advantages(self, kind: Kind = "grpo") -> list[float]:
        """Return one for each member.

        "grpo": (reward - mean) / standard deviation; "dr_grpo": reward - mean; "rloo": reward - mean of the others.

        >>> from paddock.agentic import Rollout
        >>> group = Group([Rollout(0, "train[0]", {}, at, 0, (reward,)) for at, reward in enumerate((1.0, 0.0, 0.5))])
        >>> group.advantages("rloo")
        [0.75, -0.75, 0.0]
        """
        rewards = self.rewards
        count = len(rewards)
        if kind not in ("grpo", "rloo", "dr_grpo"):
            raise PlanError(f"advantages({kind!r:.40}): expected 'grpo', 'rloo' or 'dr_grpo'.")
        if count < 2 or not self.varies:
            return [0.0] * count
        total = math.fsum(rewards)
        if kind == "rloo":
            return [reward - (total - reward) / (count - 1) for reward in rewards]
        centred = [reward - total / count for reward in rewards]
        if kind == "dr_grpo":
            return centred
        deviation = math.sqrt(math.fsum(one * one for one in centred) / (count - 1))
        return [one / (deviation + _TINY) for one in centred]

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed and left out" if self.failed else ""
        return f"<Group {self.name}: rewards {self.rewards}{failed}>"


def group_by_task(rollouts: Sequence[Rollout]) -> list[Group]:
    """Sort rollouts into groups, in the order of the tasks."""
    places: dict[int, tuple[list[Rollout], list[Rollout]]] = {}
    for one in rollouts:
        places.setdefault(one.place, ([], []))[one.reward is None].append(one)
    return [Group(members, failed) for _, (members, failed) in sorted(places.items())]


def grade_group(group: Group, rubric: Callable[[Group], Sequence[float]]) -> list[Rollout]:
    """Give each member the reward that the rubric has for it. If that fails, so does the grading of all members."""
    from paddock.agentic.rollouts.results import Failure

    try:
        scores = [to_score(score) for score in rubric(group)]
        if len(scores) != len(group.members):
            raise NoScore(f"it gave {len(scores)} scores for {len(group.members)} members")
    except Exception as error:
        words = str(error) if isinstance(error, NoScore) else f"{type(error).__name__}: {error}"
        failure = Failure(GradingFailed.code, f"The rubric of the group failed: {words}."[:2000], "step", 0)
        return [*(replace(one, error=failure) for one in group.members), *group.failed]
    graded = [replace(one, group_reward=score) for one, score in zip(group.members, scores, strict=True)]
    return [*graded, *group.failed]


@dataclass(frozen=True)
class Sample:
    """Tokens as the model saw and wrote them. ``loss_mask`` is 1 for those that it wrote; ``logprobs`` are 0 elsewhere.

    ``prompt_ids`` are those before its first word. ``logprobs`` are None if the endpoint sent none.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float] | None
    reward: float
    advantage: float
    rollout: Rollout = field(repr=False)


def samples_of(
    rollouts: Sequence[Rollout], advantages: Kind | None, drop_equal: bool, on_missing: Literal["raise", "skip"]
) -> Iterator[Sample]:
    """Yield the samples of all rollouts with a reward; see ``Rollouts.samples``."""
    for group in group_by_task(rollouts):
        if drop_equal and not group.varies:
            continue
        found = [0.0] * len(group.members) if advantages is None else group.advantages(advantages)
        for one, advantage in zip(group.members, found, strict=True):
            calls = [call for call in one.calls if call.error is None]
            missing = not calls or any(call.prompt_ids is None or call.completion_ids is None for call in calls)
            if missing and on_missing == "raise":
                raise PlanError(
                    f"{one.name}, attempt {one.attempt}: its calls have no token ids. Ask the endpoint for them, as "
                    f"ModelEndpoint(…, logprobs=True, return_token_ids=True) does with vLLM and SGLang."
                )
            if not missing:
                yield from _join(calls, one, advantage)


def _join(calls: Sequence[ModelCall], rollout: Rollout, advantage: float) -> Iterator[Sample]:
    """Yield one sample for the calls that continue each other.

    Another begins where a prompt is not what came before and more: the chat template has rewritten earlier turns, and
    tokens that the model never saw together must not be trained on as if it had.
    """
    prompt: list[int] = []
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[Any] | None = []

    def sample() -> Sample:
        return Sample(prompt, ids, mask, logprobs, float(rollout.reward or 0.0), advantage, rollout)

    for call in calls:
        now, written, chances = call.prompt_ids or [], call.completion_ids or [], call.logprobs
        seen = len(prompt) + len(ids)
        if ids and (now[: len(prompt)] != prompt or now[len(prompt) : seen] != ids):
            yield sample()
            prompt, ids, mask, logprobs = [], [], [], []
        if not ids:
            prompt, seen = list(now), len(now)
        between = now[seen:]
        ids = [*ids, *between, *written]
        mask = [*mask, *([0] * len(between)), *([1] * len(written))]
        if logprobs is not None and chances is not None and len(chances) == len(written):
            logprobs = [*logprobs, *([0.0] * len(between)), *chances]
        else:
            logprobs = None
    yield sample()
