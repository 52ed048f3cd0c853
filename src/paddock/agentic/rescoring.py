"""Score recorded episodes again, with another rubric. The environment does not run: the trace is all there is.

No trace has the fields that were hidden from the agent. They come from the environment's own tasks, if those are
available; a rubric that needs them and does not get them fails for that episode, which then has no score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from paddock.agentic.messages import Action, ListTools, Observation
from paddock.agentic.rubrics import Grade, Rubric, grade
from paddock.agentic.rubrics.rubric import GradedObservation
from paddock.agentic.tasks import Task, task_name
from paddock.agentic.threads import TimedThread
from paddock.errors import GradingFailed, InvalidTask
from paddock.record.trace import Episode, Step, TraceWriter
from paddock.record.trace.writer import Opening

FindTask: TypeAlias = Callable[[str, int], Task]

_NOT_PUBLIC = ("split", "index", "hidden")  # of a task in a trace: its place, and fields that no honest trace has
_RUBRIC_KEY = "rubric"  # in a step's info: the grade of the rubric that scored it first


@dataclass(frozen=True)
class Rescored:
    """An episode with its old and new return, or the ``reason`` why there is no new one. ``grades``: one per step."""

    episode: Episode
    new: float | None
    grades: tuple[Grade | None, ...] = ()
    reason: str | None = None
    hidden: bool = False

    @property
    def old(self) -> float | None:
        return self.episode.total_return

    @property
    def task(self) -> str:
        row = self.episode.task
        return task_name(row if isinstance(row, Mapping) else {}, self.episode.seed)


class Unscorable(Exception):
    """An episode can't be scored; the text says why."""


class Rescoring:
    """One rubric over many episodes; ``close`` ends the thread that it runs in."""

    def __init__(self, rubric: Rubric, *, timeout_s: float | None = 60.0) -> None:
        self._rubric, self._timeout_s = rubric, timeout_s
        self._thread = TimedThread()

    def score(self, episode: Episode, find_task: FindTask | None = None) -> Rescored:
        """Score the episode. ``find_task`` returns a task with its hidden fields."""
        hidden = False
        try:
            if episode.error is not None:
                raise Unscorable(f"it ended with the error {episode.error.code}")
            if not episode.ended:
                raise Unscorable("its recording broke off")
            if not episode.steps:
                raise Unscorable("it has no steps")
            task, hidden = _task_of(episode, find_task)
            self._rubric.reset()
            grades = tuple(self._grade(step, task, at) for at, step in enumerate(episode.steps, 1))
        except Unscorable as error:
            return Rescored(episode, None, reason=str(error), hidden=hidden)
        except GradingFailed as error:
            missing = "" if hidden else " (the hidden fields of its task were not available)"
            return Rescored(episode, None, reason=f"{error}{missing}", hidden=hidden)
        return Rescored(episode, sum((grade.score for grade in grades if grade), 0.0), grades, hidden=hidden)

    def close(self) -> None:
        """Safe to call twice."""
        self._thread.close()

    def _grade(self, step: Step, task: Task, at: int) -> Grade | None:
        """Grade one step. As in the environment, ListTools is not graded."""
        action, observation = _to_record(step.action, Action, at), _to_record(step.observation, Observation, at)
        if isinstance(action, ListTools):
            return None
        if self._thread.busy:  # a rubric that never came back keeps its thread
            self._thread = TimedThread()
        seen = GradedObservation.of(
            observation,
            task=task,
            terminated=step.terminated,
            truncated=step.truncated,
            info={name: value for name, value in step.info.items() if name != _RUBRIC_KEY},
        )
        return grade(self._rubric, action, seen, timeout_s=self._timeout_s, thread=self._thread)


def _task_of(episode: Episode, find_task: FindTask | None) -> tuple[Task, bool]:
    """Return the task, and whether it has its hidden fields."""
    row = episode.task if isinstance(episode.task, Mapping) else {}
    fields = {name: value for name, value in row.items() if name not in _NOT_PUBLIC}
    try:
        public = msgspec.convert(fields, Task)
    except msgspec.ValidationError as error:
        raise Unscorable(f"invalid task: {error}") from None
    if find_task is None or not row:
        return public, False
    try:
        task = find_task(row.get("split"), row.get("index"))  # type: ignore[arg-type]  # checked by what it calls
    except InvalidTask as error:
        raise Unscorable(f"the environment no longer has its task: {error}") from None
    if task.public() != public.public():
        raise Unscorable("the environment now has another task in this place")
    return task, True


def _to_record(value: Any, kind: Any, at: int) -> Any:
    """Return a record of ours, whether the trace has one or only its fields."""
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except (msgspec.ValidationError, TypeError):
        raise Unscorable(f"step {at} is not one of an environment of tools") from None


def write(trace: TraceWriter, scored: Rescored, rubric: str) -> None:
    """Add the episode with its new rewards. One that failed keeps its error; others without a score are left out."""
    episode = scored.episode
    if scored.new is None and episode.error is None:
        return
    note = {"rubric": rubric, "return": scored.old, "hidden": scored.hidden}
    about = dict(episode.about) if scored.new is None else {**episode.about, "rescored": note}
    into = trace.begin(Opening.like(episode, about=about))
    if episode.info is not None:
        into.reset(episode.observation, episode.info)
    for at, step in enumerate(episode.steps):
        new = scored.grades[at] if scored.grades else None
        reward = step.reward if scored.new is None else 0.0 if new is None else new.score
        info = step.info if new is None else {**step.info, _RUBRIC_KEY: new.provenance()}
        into.step(step.action, step.observation, reward, step.terminated, step.truncated, info)
    for call in episode.calls:
        into.call(call)
    if (known := episode.rollout) is not None:
        into.rollout(**vars(known))
    into.end(None if episode.error is None else (episode.error.code, episode.error.message))
