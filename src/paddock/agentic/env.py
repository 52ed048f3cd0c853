"""ToolEnv: an Env whose actions are calls of its own methods. A call is a step: nothing here knows of a conversation.

What fails is one of three things. A tool that can't do what it was asked for: the model reads that in the observation.
The environment or its grader: EpisodeFailed, and no reward at all. An end: terminated or truncated, as in any Env.
"""

from __future__ import annotations

import inspect
import math
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from paddock.agentic.about import Metadata
from paddock.agentic.actions import Action, CallTool, ListTools, Say
from paddock.agentic.calls import LOG, call_tool, tool_error
from paddock.agentic.content import Text, checked_blocks
from paddock.agentic.helper_thread import HelperThread, TookTooLong
from paddock.agentic.observations import GradedObservation, Observation
from paddock.agentic.opening import opening
from paddock.agentic.task import Task
from paddock.agentic.tasks import Tasks, answer
from paddock.agentic.tools import Tool, tools_of
from paddock.core.env import Env, Info
from paddock.errors import (
    EpisodeFailed,
    GradingFailed,
    InvalidAction,
    InvalidTask,
    InvalidValue,
    PaddockError,
    ResetNeeded,
    ToolFailed,
)
from paddock.spaces import Struct

if TYPE_CHECKING:
    from typing_extensions import Self

_ACTIONS = (CallTool, ListTools, Say)
_ROW_BYTES = 1 << 15  # of a task in an info, of which a wall lets 64 kB through


class ToolEnv(Env[Observation, Action]):
    """An environment of tools.

    A subclass writes methods with ``@tool``, and where it wants ``tasks``, ``begin``, ``listen`` and ``rubric``. Its
    docstring is the description that peers see.

    >>> from paddock.agentic import Task, Tasks, tool
    >>> class Guess(ToolEnv):
    ...     '''Find a number between 1 and 10.'''
    ...
    ...     tasks = Tasks(train=lambda i: Task(seed=i, prompt="Guess my number."))
    ...
    ...     def begin(self, task):
    ...         self._secret = int(self.np_random.integers(1, 11))
    ...         return task.prompt
    ...
    ...     @tool
    ...     def guess(self, number: int) -> str:
    ...         '''Guess the number.
    ...
    ...         Args:
    ...             number: between 1 and 10.
    ...         '''
    ...         if number == self._secret:
    ...             self.award(1.0)
    ...             self.finish()
    ...             return "Right!"
    ...         return "Higher." if number < self._secret else "Lower."
    >>> env = Guess()
    >>> observation, info = env.reset(options={"index": 3})
    >>> env.step(CallTool("guess", {"number": "x"}))[0].error
    ToolError(error_type='invalid_args', message="guess: number: expected int, got 'x'")
    >>> env.close()
    """

    metadata: dict[str, Any] = Metadata({})  # type: ignore[assignment]
    action_space = Struct(Action)
    observation_space = Struct(Observation)

    tools: ClassVar[dict[str, Tool]] = {}
    description: ClassVar[str] = ""
    tasks: Tasks = Tasks(train=[Task()])
    rubric: Any = None
    # None for no limit, in seconds: for each tool that has none of its own and for ``listen``; for ``begin``; for the
    # rubric.
    timeout_s: float | None = 25.0  # below the 30 s after which a wall ends the whole worker
    begin_timeout_s: float | None = 300.0
    rubric_timeout_s: float | None = 60.0

    # Of this episode: its task, what ``reset`` was given, and what a step wants told beside its observation.
    task: Task
    options: Info
    info: Info

    _running = False
    _place: dict[str, Any] | None = None
    _choices: np.random.Generator | None = None
    _awarded: float | None = None  # None outside of a step
    _terminated = _truncated = False
    _rubric_copied = False  # from the class
    _thread: HelperThread
    _grader: HelperThread

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.description = inspect.cleandoc(vars(cls).get("__doc__") or cls.description)
        cls.tools = tools_of(cls, _RESERVED)
        declared = vars(cls).get("metadata")
        if isinstance(declared, dict):
            inherited = next(vars(parent)["metadata"] for parent in cls.__mro__[1:] if "metadata" in vars(parent))
            cls.metadata = Metadata({**getattr(inherited, "declared", {}), **declared})  # type: ignore[assignment]
        if isinstance(vars(cls).get("tasks"), (list, tuple, dict)):
            raise InvalidTask(f"{cls.__name__}.tasks: expected Tasks(train=[...]), got {vars(cls)['tasks']!r:.80}.")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Not in __init__, which a subclass may forget to call.
        self = super().__new__(cls)
        self.action_space, self.observation_space = deepcopy(cls.action_space), deepcopy(cls.observation_space)
        # Two, because a tool that hangs must not keep its step from being graded.
        self._thread, self._grader = HelperThread(), HelperThread()
        self.info, self.options = {}, {}
        return self

    # What an author writes, and calls.

    def begin(self, task: Task) -> Any:
        """Set the episode up for ``task``; what the agent is told: content, messages, or None for the task's prompt.

        May be async, as ``listen`` and every tool may.
        """
        return None

    def listen(self, text: str) -> Any:
        """The agent said something instead of calling a tool; what it is told. This one ends the episode."""
        self.finish()

    def award(self, reward: float) -> None:
        """Add to the reward of this step; not where a rubric gives it."""
        if self._awarded is None or self._thread.busy:
            raise GradingFailed("award() counts in a tool or in listen() only, while its step lasts.")
        if self.rubric is not None:
            raise GradingFailed(f"award({reward!r:.40}): {type(self).__name__} has a rubric, which gives the reward.")
        try:
            worth = float(reward) if isinstance(reward, (int, float, np.integer, np.floating)) else math.nan
        except OverflowError:  # its repr may be too long for Python, too
            raise GradingFailed("award(an int beyond all floats): expected a finite number.") from None
        if not math.isfinite(worth):
            raise GradingFailed(f"award({reward!r:.40}): expected a finite number.")
        self._awarded += worth

    def finish(self, *, truncated: bool = False) -> None:
        """End the episode with this step: terminated, or truncated if it did not come to its own end."""
        if self._awarded is None or self._thread.busy:
            raise EpisodeFailed("finish() counts in a tool or in listen() only, while its step lasts.")
        if truncated:
            self._truncated = True
        else:
            self._terminated = True

    def public_state(self) -> Any:
        """What peers see of the state: which task it is."""
        return {} if self._place is None else {"task": dict(self._place)}

    # What an agent's side calls.

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Begin an episode. Options: ``split`` (the first if not given) and ``index``, drawn by the seed if not given.

        The task's own seed begins the random stream unless ``seed`` is given.
        """
        self._running = False
        super().reset(seed=seed)
        split, index, task = self._choose(seed, options or {})
        if seed is None and task.seed is not None:
            super().reset(seed=task.seed)
        self.task, self.options, self.info = task, dict(options or {}), {}
        self._place = {"split": split, "index": index}
        self._awarded, self._terminated, self._truncated = None, False, False
        self._begin_rubric()
        self._thread.settle(self.timeout_s)
        self._thread.in_place = self._limits() == {None}  # all in one thread or none: SQLite, for one, keeps to its own
        self._grader.in_place = self.rubric_timeout_s is None
        begun = self._own_code("begin", partial(self.begin, task), self.begin_timeout_s)
        try:
            messages, content = opening(task.prompt or self.description if begun is None else begun)
        except (TypeError, ValueError) as error:
            raise EpisodeFailed(f"begin() returned what is neither content nor messages: {error}.") from error
        self._running = True
        observation = Observation(messages=messages, content=content, tools=self._infos())
        return observation, {**self.info, "task": {**self._place, **_row(task)}}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, Info]:
        if not self._running:
            raise ResetNeeded("Cannot call env.step() before env.reset(), nor after an episode ended or failed.")
        action = self._admitted(action)
        if isinstance(action, ListTools):
            return Observation(tools=self._infos()), 0.0, False, False, {}
        self.info = {}
        self._awarded = 0.0
        self._running = False  # until the step has come to its end
        try:
            observation = self._say(action) if isinstance(action, Say) else self._call(action)
            reward = self._awarded if self.rubric is None else self._graded(action, observation)
        finally:
            self._awarded = None
        self._running = not (self._terminated or self._truncated)
        return observation, reward, self._terminated, self._truncated, dict(self.info)

    def close(self) -> None:
        self._running = False
        self._thread.close()
        self._grader.close()

    def has_wrapper_attr(self, name: str) -> bool:
        return name == "task" or super().has_wrapper_attr(name)

    def get_wrapper_attr(self, name: str) -> Any:
        # To who asks from outside, "task" is OpenEnv's Task API: the task itself holds what must stay here.
        return partial(answer, self.tasks) if name == "task" else super().get_wrapper_attr(name)

    def _choose(self, seed: int | None, options: Info) -> tuple[str, int, Task]:
        if not isinstance(self.tasks, Tasks):
            raise InvalidTask(f"{type(self).__name__}.tasks: expected Tasks(train=...), got {self.tasks!r:.80}.")
        split = options.get("split")
        split = self.tasks.names[0] if split is None else split
        index = options.get("index")
        if index is None:
            # A stream of its own: a task that seeds np_random would choose its successor too.
            if seed is not None or self._choices is None:
                self._choices = np.random.default_rng(None if seed is None else [seed, 1])
            index = self.tasks.draw(split, self._choices)
        index = int(index) if isinstance(index, np.integer) else index
        return split, index, self.tasks.get(split, index)

    def _admitted(self, action: Any) -> Any:
        if type(action) in _ACTIONS:
            return action
        try:
            return self.action_space.validate(action)
        except InvalidValue as error:
            raise InvalidAction(str(error), action=action, space=self.action_space) from None

    def _call(self, action: CallTool) -> Observation:
        return call_tool(self, self.tools, action, self._thread, self.timeout_s)

    def _say(self, action: Say) -> Observation:
        try:
            heard = self._own_code("listen", partial(self.listen, action.text), self.timeout_s)
            return Observation(content=checked_blocks(heard))
        except ToolFailed as error:
            told = tool_error("execution_error", str(error))
            return Observation(content=[Text(told.message)], error=told)
        except (TypeError, ValueError) as error:
            if isinstance(error, PaddockError):
                raise
            raise EpisodeFailed(f"listen() returned what is no content: {error}.") from error

    def _own_code(self, name: str, call: Any, timeout_s: float | None) -> Any:
        """Run what the author wrote beside the tools: when that fails, so does the episode."""
        try:
            return self._thread.run(call, timeout_s)
        except TookTooLong as error:
            raise EpisodeFailed(f"{name}() timed out: {error}.") from None
        except (PaddockError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit too: it is the author's code that ends, not this process
            LOG.warning("%s() failed", name, exc_info=error)
            raise EpisodeFailed(f"{name}() failed: {type(error).__name__}.") from error

    def _begin_rubric(self) -> None:
        """Each environment has a rubric of its own: the class's may remember what happened."""
        declared = type(self).rubric
        if self._grader.busy:  # a rubric hangs; what it does is of no use to anyone any more
            self._grader = HelperThread()
            if self._rubric_copied:
                del self.rubric
        if declared is not None and "rubric" not in self.__dict__:
            self.rubric = declared() if isinstance(declared, type) else deepcopy(declared)
            self._rubric_copied = True
        if self.rubric is not None:
            self.rubric.reset()

    def _graded(self, action: Action, observation: Observation) -> float:
        from paddock.agentic.rubrics import grade

        seen = GradedObservation.of(
            observation,
            task=self.task,
            terminated=self._terminated,
            truncated=self._truncated,
            info=dict(self.info),
        )
        graded = grade(self.rubric, action, seen, timeout_s=self.rubric_timeout_s, thread=self._grader)
        self.info = {**self.info, "rubric": graded.provenance()}
        return graded.score

    def _limits(self) -> set[Any]:
        own = {tool.options.timeout_s for tool in self.tools.values()} - {"default"}
        return own | {self.timeout_s, self.begin_timeout_s}

    def _infos(self) -> list[Any]:
        return [tool.info for tool in self.tools.values()]


def _row(task: Task) -> dict[str, Any]:
    """The public row; without what is too long for an info, the prompt first: the observation has that."""
    row = task.public()
    for name in ("prompt", "metadata"):
        if len(msgspec.json.encode(row)) > _ROW_BYTES:
            del row[name]
    return row


# A tool by such a name would take the place of what environments have.
_RESERVED = frozenset(name for name in dir(ToolEnv) if not name.startswith("_")) | {"state", "task", "options", "info"}
