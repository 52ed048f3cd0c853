"""Rubric: scores an action and its outcome. Rubrics are made of rubrics, as neural networks are made of modules.

A call returns a number, or a coroutine of one if the rubric or any of its parts has to wait. Names and behaviour are
those of OpenEnv's RFC 004.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import isawaitable
from numbers import Real
from typing import Any, ClassVar, TypeAlias

from paddock.agentic.messages import Observation
from paddock.agentic.rubrics.maybe_async import Steps, maybe_async
from paddock.agentic.tasks import Task
from paddock.agentic.threads import TimedThread, TookTooLong
from paddock.core.problem import kind
from paddock.errors import GradingFailed, InvalidRubric


class Rubric(ABC):
    """Write ``forward``. A rubric that is assigned to an attribute becomes a child of that name.

    Rubrics in a list or dict do not: use RubricList and RubricDict for those.

    >>> class Short(Rubric):
    ...     def forward(self, action, observation):
    ...         return len(action) <= 5
    >>> Short()("tiny", None)
    1.0
    """

    state_fields: ClassVar[tuple[str, ...]] = ()
    """Attributes that belong in ``state_dict``, besides those of the base classes."""
    replayable: bool = True
    """Whether the same action and observation always give the same score. For a judge that is a model, False."""
    last_score: float | None
    """The score of the last call."""

    # Not in __init__: a subclass whose own forgets super().__init__() works all the same.
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        rubric = super().__new__(cls)
        vars(rubric).update(last_score=None, _children={}, _forward_hooks=Hooks(), _forward_pre_hooks=Hooks())
        return rubric

    @abstractmethod
    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Return the score. May be ``async``, and may return the coroutine of an async child without awaiting it."""

    @maybe_async
    def __call__(self, action: Any, observation: Any) -> Steps[float]:
        """Call hooks, ``forward``, hooks. Their exceptions pass unchanged; ``grade`` makes them GradingFailed."""
        ledger = _current.get() or Ledger()  # one to throw away if nothing grades
        with _Run(ledger, self):
            for before in tuple(self._forward_pre_hooks.values()):
                yield before(self, action, observation)
            score = to_score((yield self.forward(action, observation)))
            object.__setattr__(self, "last_score", score)  # not self.last_score: it can't be a child
            for after in tuple(self._forward_hooks.values()):
                yield after(self, action, observation, score)
            ledger.scores[id(self)] = score
        return score

    # ── Hooks ──

    def register_forward_hook(self, hook: Callable[[Rubric, Any, Any, float], Any]) -> HookHandle:
        """Call ``hook(rubric, action, observation, score)`` after ``forward``. It may be async."""
        return HookHandle(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: Callable[[Rubric, Any, Any], Any]) -> HookHandle:
        """Call ``hook(rubric, action, observation)`` before ``forward``, and so before any child."""
        return HookHandle(self._forward_pre_hooks, hook)

    # ── The tree ──

    _children: dict[str, Rubric]
    _forward_hooks: Hooks
    _forward_pre_hooks: Hooks

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Rubric):
            if name in _METHODS:
                raise InvalidRubric(f"A child can't be called {name!r}: every rubric has something of that name.")
            self._adopt(name, value)
        else:
            self._children.pop(name, None)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._children.pop(name, None)

    def _adopt(self, name: Any, child: Any) -> None:
        """Add a child without an attribute, for classes that take rubrics as arguments."""
        own = type(self).__name__
        if not isinstance(child, Rubric):
            raise InvalidRubric(f"A part of {own} must be a Rubric; got {type(child).__name__}.")
        if not isinstance(name, str) or not name or "." in name:
            raise InvalidRubric(f"A child's name is a text without dots, which stand between names; got {name!r}.")
        if child is self or any(below is self for below in child.rubrics()):
            raise InvalidRubric(f"{own} would be a part of itself if {name!r} were its child.")
        self._children[name] = child

    def children(self) -> Iterator[Rubric]:
        yield from self._children.values()

    def named_children(self) -> Iterator[tuple[str, Rubric]]:
        yield from self._children.items()

    def rubrics(self) -> Iterator[Rubric]:
        """Iterate over all descendants, each before its own children."""
        for _, rubric in self.named_rubrics():
            yield rubric

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, Rubric]]:
        """Iterate over all descendants with their dotted names, which begin with ``prefix``."""
        for name, child in self._children.items():
            full = f"{prefix}.{name}" if prefix else name
            yield full, child
            yield from child.named_rubrics(full)

    def get_rubric(self, path: str) -> Rubric:
        """Return the descendant with this dotted name."""
        rubric = self
        for name in path.split("."):
            if name not in rubric._children:
                names = ", ".join(name for name, _ in self.named_rubrics()) or "none"
                raise InvalidRubric(f"{type(self).__name__} has no part {path!r}. There are: {names}.")
            rubric = rubric._children[name]
        return rubric

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={child!r}' for name, child in self._children.items())})"

    # ── State ──

    def reset(self) -> None:
        """Begin an episode: forget the last one. Calls the children's ``reset``; so should yours."""
        for child in self._children.values():
            child.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the configuration for a checkpoint, descendants included: ``{"gate.threshold": 0.5}``.

        That is what the rubric was set up with, not what it has seen.
        """
        state = {name: copy.deepcopy(getattr(self, name)) for name in _state_fields(self)}
        for name, child in self.named_children():
            state.update({f"{name}.{key}": value for key, value in child.state_dict().items()})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned. A missing key leaves its value as it is, as in OpenEnv.

        An unknown key or a wrong value is an error, and then nothing changes.
        """
        if not isinstance(state, Mapping):
            raise InvalidRubric(f"A state is a dict, as state_dict() returns it; got {type(state).__name__}.")
        before = self.state_dict()  # of a subclass too, which may add keys of its own
        for key in state:
            if key not in before:
                close = get_close_matches(str(key)[:80], before, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                known = f"There are: {', '.join(before)}." if before else "It has no state."
                raise InvalidRubric(
                    f"{type(self).__name__} has no state {str(key)[:80]!r}.{hint} {known} Nothing was changed."
                )
        try:
            _assign_state(self, state)
        except Exception:
            _assign_state(self, before)
            raise


_METHODS = frozenset(dir(Rubric))


# What a rubric sees.


class GradedObservation(Observation, kw_only=True):
    """What a rubric gets. It never leaves the worker that holds the environment: ``task`` has the hidden answers.

    ``info`` is the info of this step. Traces keep it, so a rubric that reads it can score the episode again later.
    """

    task: Task
    done: bool = False
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = {}

    @staticmethod
    def of(observation: Observation, *, terminated: bool, truncated: bool, **more: Any) -> GradedObservation:
        """Add to the agent's observation what only its grader sees: ``task`` and ``info`` are the ``more``."""
        fields = {name: getattr(observation, name) for name in Observation.__struct_fields__}
        done = terminated or truncated
        return GradedObservation(**fields, done=done, terminated=terminated, truncated=truncated, **more)


class NoScore(ValueError):
    """A value is not a score. The text is safe to show to anyone, so it quotes the value only if that is a number."""


class Late(TimeoutError):
    """No score in time. The text is safe to show to anyone."""


def to_score(value: Any) -> float:
    """Turn a finite number into a float, scalars of array libraries and bools too. NoScore for anything else."""
    if type(value) is float and math.isfinite(value):  # nearly always
        return value
    number = value
    if not isinstance(number, Real) and getattr(number, "shape", None) == () and hasattr(number, "item"):
        number = number.item()
    if not isinstance(number, Real):
        raise NoScore(f"its score is {kind(value)}; expected a finite number")
    try:
        score = float(number)
    except OverflowError:
        score = math.inf
    if not math.isfinite(score):
        raise NoScore(f"its score is {score}; expected a finite number")
    return score


def check_number(name: str, value: Any, *, least: float = -math.inf, most: float = math.inf) -> float:
    """Check a number that a rubric is set up with: finite and within the bounds. Text is not a number."""
    try:
        number = to_score(value)
    except NoScore:
        raise InvalidRubric(f"{name}: {value!r} is not a finite number.") from None
    if not least <= number <= most:
        raise InvalidRubric(f"{name} must be in [{least:g}, {most:g}], got {value!r}.")
    return number


class HookHandle:
    """What ``register_forward_hook`` returns. It is also a context manager that removes the hook at its end."""

    def __init__(self, hooks: Hooks, hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        hooks[self] = hook

    def remove(self) -> None:
        """Stop calling the hook; if hooks run now, after this time. Safe to call twice."""
        self._hooks.pop(self, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks(dict[HookHandle, Callable[..., Any]]):
    """Callables in the order of their addition; one that is added twice is called twice."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Hooks:
        """Keep the same callables, not copies: a hook writes to one place. Handles belong to the original."""
        return Hooks(self)


def _state_fields(rubric: Rubric) -> tuple[str, ...]:
    """Return the ``state_fields`` of the rubric's class and of its bases, the uppermost first."""
    declared = (name for cls in reversed(type(rubric).__mro__) for name in vars(cls).get("state_fields", ()))
    return tuple(dict.fromkeys(declared))


def _assign_state(rubric: Rubric, state: Mapping[str, Any]) -> None:
    for name in _state_fields(rubric):
        if name in state:
            setattr(rubric, name, copy.deepcopy(state[name]))
    for name, child in rubric.named_children():
        own = {key.removeprefix(f"{name}."): state[key] for key in state if key.startswith(f"{name}.")}
        if own:
            child.load_state_dict(own)


class Ledger:
    """What happens in one grading: which rubrics ran, their scores, and where an error came from.

    ``last_score`` of a rubric can't tell: if this grading stopped early, it is from a step before. Rubrics are compared
    by identity, and never by truth: a rubric of length 0 is a rubric all the same.
    """

    def __init__(self) -> None:
        self.replayable = True
        self.scores: dict[int, float] = {}  # by id of the rubric; of several in one grading the last counts
        self._rubrics: dict[int, Rubric] = {}  # keeps them alive, so that no id is used twice
        self._running: dict[object, Rubric] = {}
        self._cancelled: list[Rubric] = []
        self._origins: list[tuple[BaseException, Rubric]] = []

    def origin(self, error: BaseException) -> Rubric | None:
        """Return the innermost rubric that raised this very error; None if none did."""
        return next((rubric for known, rubric in self._origins if known is error), None)

    def late(self) -> Rubric | None:
        """Return the innermost rubric that was cancelled; if none was, the last to start of those that still run."""
        return next(iter([*self._cancelled, *reversed(tuple(self._running.values()))]), None)

    def parts(self, root: Rubric) -> dict[str, float]:
        """Return the scores of the root's descendants that ran, by dotted name."""
        named = root.named_rubrics()
        return {name: self.scores[id(rubric)] for name, rubric in named if id(rubric) in self.scores}


class _Run:
    """Notes the work of one rubric. Not a generator: it is a good part of what grading a cheap step costs."""

    __slots__ = ("_ledger", "_rubric")

    def __init__(self, ledger: Ledger, rubric: Rubric) -> None:
        self._ledger, self._rubric = ledger, rubric

    def __enter__(self) -> None:
        ledger, rubric = self._ledger, self._rubric
        ledger._rubrics[id(rubric)] = ledger._running[self] = rubric
        ledger.replayable = ledger.replayable and rubric.replayable

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        del self._ledger._running[self]
        if isinstance(error, CancelledError):
            self._ledger._cancelled.append(self._rubric)
        elif isinstance(error, SystemExit):  # the rubric may end its grading, never the process
            no_score = NoScore("it called sys.exit()")
            self._ledger._origins.append((no_score, self._rubric))
            raise no_score from error
        elif isinstance(error, Exception):
            self._ledger._origins.append((error, self._rubric))


# Rubrics that run in this context, and in those copied from it, write there.
_current: ContextVar[Ledger | None] = ContextVar("paddock_rubric_ledger", default=None)


# ── Rubrics that score a whole episode at its end ──
#
# They hold the episode's actions and observations in memory until `reset`, which every episode must begin with.

Trajectory: TypeAlias = "list[tuple[Any, Any]]"


class TrajectoryRubric(Rubric):
    """Write ``score_trajectory``, and ``compute_step_rewards`` to say which step deserves how much of it."""

    state_fields = ("intermediate_reward",)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        rubric = super().__new__(cls, *args, **kwargs)
        vars(rubric).update(_trajectory=[], _intermediate_reward=0.0)
        return rubric

    def __init__(self, intermediate_reward: float = 0.0) -> None:
        super().__init__()
        self.intermediate_reward = intermediate_reward

    _trajectory: Trajectory
    _intermediate_reward: float

    @property
    def intermediate_reward(self) -> float:
        """The score of a step that does not end the episode."""
        return self._intermediate_reward

    @intermediate_reward.setter
    def intermediate_reward(self, value: float) -> None:
        self._intermediate_reward = check_number("intermediate_reward", value)

    @property
    def trajectory(self) -> Trajectory:
        """The steps of this episode so far, (action, observation) each; a copy of the list."""
        return list(self._trajectory)

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Add the step; score them all if ``observation.done``."""
        self._trajectory.append((action, observation))
        if getattr(observation, "done", False):
            return self.score_trajectory(self._trajectory)
        return self.intermediate_reward

    @abstractmethod
    def score_trajectory(self, trajectory: Trajectory) -> float | Awaitable[float]:
        """Return the score of the episode. May be async."""

    @abstractmethod
    def compute_step_rewards(self) -> list[float] | Awaitable[list[float]]:
        """Return a reward for each step of the trajectory, for trainers that want one."""

    def reset(self) -> None:
        super().reset()
        self._trajectory = []


class ExponentialDiscountingTrajectoryRubric(TrajectoryRubric):
    """Credit that fades into the past: a step that lies n steps before the end gets gamma to the n of the score.

    ``gamma`` 1 gives every step the same, 0 rewards the last step alone.
    """

    state_fields = ("gamma",)

    def __init__(self, gamma: float = 0.99, intermediate_reward: float = 0.0) -> None:
        super().__init__(intermediate_reward=intermediate_reward)
        self.gamma = gamma

    @property
    def gamma(self) -> float:
        """The share of the credit that is left one step earlier, from 0 to 1."""
        return self._gamma

    @gamma.setter
    def gamma(self, value: float) -> None:
        self._gamma = check_number("gamma", value, least=0.0, most=1.0)

    @maybe_async
    def compute_step_rewards(self) -> Steps[list[float]]:
        """Return a reward for each step so far; a coroutine of them if ``score_trajectory`` is async."""
        trajectory: list[Any] = self._trajectory
        if not trajectory:
            return []
        score = to_score((yield self.score_trajectory(trajectory)))
        return [score * self.gamma ** (len(trajectory) - 1 - at) for at in range(len(trajectory))]


# ── grade(): run a rubric once, from sync code, and say where the score came from ──
#
# It returns a Grade or raises GradingFailed, nothing else. The error names the rubric and the kind of failure. It does
# not quote other exceptions, which may hold the answers; they are its `__cause__`.


@dataclass(frozen=True)
class Grade:
    """A score with its provenance. ``parts`` has the scores of the rubric's descendants that ran, by dotted name.

    ``replayable`` is False if one of those that ran is not. ``step_rewards`` come from a TrajectoryRubric at the end of
    an episode, one for each of its steps.
    """

    score: float
    parts: dict[str, float]
    replayable: bool
    step_rewards: tuple[float, ...] | None = None

    def provenance(self) -> dict[str, Any]:
        """Return it as plain data, for ``info["rubric"]``."""
        plain: dict[str, Any] = {"score": self.score, "parts": dict(self.parts), "replayable": self.replayable}
        if self.step_rewards is not None:
            plain["step_rewards"] = list(self.step_rewards)
        return plain


def grade(
    rubric: Rubric, action: Any, observation: Any, *, timeout_s: float | None = None, thread: TimedThread | None = None
) -> Grade:
    """Grade within ``timeout_s`` seconds, on ``thread``.

    If you grade often, pass the same thread each time: what an async client opened belongs to that thread's loop.
    """
    ledger, worker = Ledger(), TimedThread() if thread is None else thread

    def run() -> Any:
        token = _current.set(ledger)
        try:
            result = _grade(ledger, rubric, action, observation)
        finally:
            _current.reset(token)
        return wait(result) if isawaitable(result) else result

    async def wait(result: Any) -> Any:
        _current.set(ledger)  # again: a coroutine has a context of its own
        return await result

    try:
        graded: Grade = worker.run(run, timeout_s)
        return graded
    except TookTooLong as error:
        raise _failure(rubric, ledger.late(), str(error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a judge's client that was cancelled too: nothing here cancels the caller
        reason = str(error) if isinstance(error, (NoScore, Late)) else type(error).__name__
        raise _failure(rubric, ledger.origin(error), reason) from error
    finally:
        if thread is None:
            worker.close()


@maybe_async
def _grade(ledger: Ledger, rubric: Rubric, action: Any, observation: Any) -> Steps[Grade]:
    score = to_score((yield rubric(action, observation)))
    step_rewards = None
    if isinstance(rubric, TrajectoryRubric) and getattr(observation, "done", False):
        step_rewards = tuple(map(to_score, (yield rubric.compute_step_rewards())))
    return Grade(score, ledger.parts(rubric), ledger.replayable, step_rewards)


def _failure(root: Rubric, origin: Rubric | None, reason: str) -> GradingFailed:
    rubric = root if origin is None else origin
    name = next((name for name, known in root.named_rubrics() if known is rubric), "")
    place = f"{name} ({type(rubric).__name__})" if name else type(rubric).__name__
    return GradingFailed(f"The rubric {place} failed: {reason}.", rubric=name)
