"""Score recorded episodes again, with another rubric. The environment does not run: what it told then is all there is.

Answers that were hidden from the agent are in no trace. They come from the environment's own tasks, where those are at
hand; a rubric that needs them and has them not fails for that episode, which then has no score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from paddock.agentic.actions import Action, ListTools
from paddock.agentic.helper_thread import HelperThread
from paddock.agentic.observations import GradedObservation, Observation
from paddock.agentic.rubrics import Grade, Rubric, grade
from paddock.agentic.task import Task, task_name
from paddock.errors import GradingFailed, InvalidTask
from paddock.record.trace import Episode, Step, TraceWriter
from paddock.record.trace.opening import Opening

FindTask: TypeAlias = Callable[[str, int], Task]

_NOT_TOLD = ("split", "index", "hidden")  # of a task in a trace: its place, and what no honest trace has
_OURS = "rubric"  # in a step's info: what the rubric of then said


@dataclass(frozen=True)
class Rescored:
    """An episode with its old and its new return; or, without a new one, ``reason``. ``grades``: one for each step."""

    episode: Episode
    new: float | None
    grades: tuple[Grade | None, ...] = ()
    reason: str | None = None
    hidden: bool = False

    @property
    def old(self) -> float | None:
        """The return that was recorded."""
        return self.episode.total_return

    @property
    def task(self) -> str:
        """For people: ``test[3]``."""
        row = self.episode.task
        return task_name(row if isinstance(row, Mapping) else {}, self.episode.seed)


class Unscorable(Exception):
    """Why an episode can't be scored, in words."""


class Rescoring:
    """One rubric over many episodes; ``close`` ends the thread that it runs in."""

    def __init__(self, rubric: Rubric, *, timeout_s: float | None = 60.0) -> None:
        self._rubric, self._timeout_s = rubric, timeout_s
        self._thread = HelperThread()

    def score(self, episode: Episode, find_task: FindTask | None = None) -> Rescored:
        """The episode with its new return. ``find_task`` gives a task with what is hidden of it."""
        hidden = False
        try:
            _check(episode)
            task, hidden = _task_of(episode, find_task)
            self._rubric.reset()
            grades = tuple(self._grade(step, task, at) for at, step in enumerate(episode.steps, 1))
        except Unscorable as error:
            return Rescored(episode, None, reason=str(error), hidden=hidden)
        except GradingFailed as error:
            missing = "" if hidden else " (what is hidden of its task was not at hand)"
            return Rescored(episode, None, reason=f"{error}{missing}", hidden=hidden)
        return Rescored(episode, sum((found.score for found in grades if found), 0.0), grades, hidden=hidden)

    def close(self) -> None:
        """Safe to call twice."""
        self._thread.close()

    def _grade(self, step: Step, task: Task, at: int) -> Grade | None:
        """As in the step itself: to ask which tools there are is no work."""
        action, observation = _typed(step.action, Action, at), _typed(step.observation, Observation, at)
        if isinstance(action, ListTools):
            return None
        if self._thread.busy:  # a rubric that never came back keeps its thread
            self._thread = HelperThread()
        seen = GradedObservation.of(
            observation,
            task=task,
            terminated=step.terminated,
            truncated=step.truncated,
            info={name: value for name, value in step.info.items() if name != _OURS},
        )
        return grade(self._rubric, action, seen, timeout_s=self._timeout_s, thread=self._thread)


def _check(episode: Episode) -> None:
    if episode.error is not None:
        raise Unscorable(f"it ended with the error {episode.error.code}")
    if not episode.ended:
        raise Unscorable("its recording broke off")
    if not episode.steps:
        raise Unscorable("it has no steps")


def _task_of(episode: Episode, find_task: FindTask | None) -> tuple[Task, bool]:
    """The task, and whether with what is hidden of it."""
    row = episode.task if isinstance(episode.task, Mapping) else {}
    told = {name: value for name, value in row.items() if name not in _NOT_TOLD}
    try:
        public = msgspec.convert(told, Task)
    except msgspec.ValidationError as error:
        raise Unscorable(f"its task is none: {error}") from None
    if find_task is None or not row:
        return public, False
    try:
        found = find_task(row.get("split"), row.get("index"))  # type: ignore[arg-type]  # checked by what it calls
    except InvalidTask as error:
        raise Unscorable(f"the environment has its task no more: {error}") from None
    if found.public() != public.public():
        raise Unscorable("the environment's task of this place is another one now")
    return found, True


def _typed(value: Any, kind: Any, at: int) -> Any:
    """A record of ours, whether the trace gave one or its fields."""
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except (msgspec.ValidationError, TypeError):
        raise Unscorable(f"step {at} is none of an environment of tools") from None


def write(trace: TraceWriter, scored: Rescored, rubric: str) -> None:
    """Add the episode with its new rewards. One that an error ended keeps it; others without a score are left out."""
    episode = scored.episode
    if scored.new is None and episode.error is None:
        return
    note = {"rubric": rubric, "return": scored.old, "hidden": scored.hidden}
    about = dict(episode.about) if scored.new is None else {**episode.about, "rescored": note}
    into = trace.begin(Opening.like(episode, about=about))
    if episode.info is not None:
        into.reset(episode.observation, episode.info)
    for at, step in enumerate(episode.steps):
        given = scored.grades[at] if scored.grades else None
        reward = step.reward if scored.new is None else 0.0 if given is None else given.score
        info = step.info if given is None else {**step.info, _OURS: given.provenance()}
        into.step(step.action, step.observation, reward, step.terminated, step.truncated, info)
    into.end(None if episode.error is None else (episode.error.code, episode.error.message))
