"""ToolEnv: an Env whose actions are calls of its own methods. A call is a step: nothing here knows of a conversation.

Failures come in two kinds. If a tool can't do what the agent asked, the model reads that in the observation. If the
environment or its grader fails, the step raises EpisodeFailed or GradingFailed, and there is no reward at all.
"""

from __future__ import annotations

import inspect
import math
from copy import deepcopy
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from paddock.agentic.messages import (
    Action,
    CallTool,
    Image,
    ListTools,
    Message,
    Observation,
    Say,
    Text,
    ToolInfo,
    check_blocks,
)
from paddock.agentic.rubrics import grade
from paddock.agentic.rubrics.rubric import GradedObservation
from paddock.agentic.snapshots import NOT_STATE, restore, save
from paddock.agentic.tasks import Task, Tasks, answer
from paddock.agentic.threads import TimedThread, TookTooLong
from paddock.agentic.tools import LOG, Tool, call_tool, collect_tools, tool_error
from paddock.core.env import Env, Info
from paddock.errors import (
    EpisodeFailed,
    GradingFailed,
    InvalidAction,
    InvalidTask,
    InvalidTool,
    InvalidValue,
    PaddockError,
    ResetNeeded,
    ToolFailed,
)
from paddock.spaces import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from paddock.agentic.mcp import Link, Mcp


class Metadata:
    """What peers learn of a ToolEnv without running it: its tools, its splits and its description.

    An attribute that is computed from the class, or from an instance that has tasks of its own. Schemas are JSON text
    here: metadata crosses walls that allow few levels, and schemas have many.
    """

    def __init__(self, declared: dict[str, Any]) -> None:
        self.declared = declared
        self._last: tuple[Any, list[dict[str, Any]]] = None, []  # tools, as they were asked for last, and as text

    def __get__(self, env: Any, cls: Any) -> dict[str, Any]:
        if env is not None and env.servers and not env._links:
            env._open_servers()
        owner = cls if env is None else env
        tools, tasks, last = owner.tools, owner.tasks, self._last
        if last[0] is not tools:
            last = tools, [_described(tool.info) for tool in tools.values()]
            if tools is cls.tools:  # those of MCP servers would be kept after their environment
                self._last = last
        return {
            "render_modes": [],
            "description": cls.description,
            "tools": [dict(one) for one in last[1]],
            "splits": tasks.openenv_splits() if isinstance(tasks, Tasks) else [],
            **self.declared,
        }


def _described(info: ToolInfo) -> dict[str, Any]:
    fields = msgspec.structs.asdict(info).items()
    return {name: msgspec.json.encode(value).decode() if isinstance(value, dict) else value for name, value in fields}


_ACTIONS = (CallTool, ListTools, Say)
_MAX_ROW_BYTES = 1 << 15  # of a task in an info; a wall lets 64 kB of info through


class ToolEnv(Env[Observation, Action]):
    """An environment of tools.

    A subclass has methods with ``@tool`` and, if it wants them, ``tasks``, ``begin``, ``listen`` and ``rubric``. Its
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

    tools: dict[str, Tool] = {}  # the class has its own methods; an instance also those of its servers
    description: ClassVar[str] = ""
    tasks: Tasks = Tasks(train=[Task()])
    rubric: Any = None
    servers: Sequence[Mcp] = ()  # of others, whose tools are offered too
    # For snapshots: attributes that all copies share, and classes of other libraries that are their attributes alone.
    constants: ClassVar[tuple[str, ...]] = ()
    plain_classes: ClassVar[tuple[type, ...]] = ()
    # Limits in seconds; None for no limit. The first is for ``listen`` and for tools without a limit of their own.
    timeout_s: float | None = 25.0  # below the 30 s after which a wall ends the whole worker
    begin_timeout_s: float | None = 300.0
    rubric_timeout_s: float | None = 60.0

    # Of this episode: its task, the options of its ``reset``, and the info of the current step.
    task: Task
    options: Info
    info: Info

    _running = False
    _place: dict[str, Any] | None = None  # split and index of the task
    _choices: np.random.Generator | None = None  # draws tasks
    _awarded: float | None = None  # None outside of a step
    _terminated = _truncated = False
    _rubric_copied = False  # from the class
    _thread: TimedThread
    _grader: TimedThread
    _links: Sequence[Link] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.description = inspect.cleandoc(vars(cls).get("__doc__") or cls.description)
        cls.tools = collect_tools(cls, _RESERVED)
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
        self._thread, self._grader = TimedThread(), TimedThread()
        self.info, self.options = {}, {}
        return self

    # ── For authors: methods to write, and to call ──

    def begin(self, task: Task) -> Any:
        """Set up the episode. Return what the agent reads first: content, messages, or None for the task's prompt.

        May be async, like ``listen`` and every tool.
        """
        return None

    def listen(self, text: str) -> Any:
        """Answer an agent that said something instead of calling a tool. By default, this ends the episode."""
        self.finish()

    def award(self, reward: float) -> None:
        """Add to the reward of this step. Not for environments with a rubric, which gives the reward."""
        if self._awarded is None or self._thread.busy:
            raise GradingFailed("award() works only inside a tool or listen(), during its step.")
        if self.rubric is not None:
            raise GradingFailed(f"award({reward!r:.40}): {type(self).__name__} has a rubric, which gives the reward.")
        try:
            number = float(reward) if isinstance(reward, (int, float, np.integer, np.floating)) else math.nan
        except OverflowError:  # its repr may be too long for Python, too
            raise GradingFailed("award(): this integer is too large for a float; expected a finite number.") from None
        if not math.isfinite(number):
            raise GradingFailed(f"award({reward!r:.40}): expected a finite number.")
        self._awarded += number

    def finish(self, *, truncated: bool = False) -> None:
        """End the episode with this step: terminated, or truncated if something outside the task cut it short."""
        if self._awarded is None or self._thread.busy:
            raise EpisodeFailed("finish() works only inside a tool or listen(), during its step.")
        if truncated:
            self._truncated = True
        else:
            self._terminated = True

    def public_state(self) -> Any:
        """Tell peers which task this is."""
        return {} if self._place is None else {"task": dict(self._place)}

    # ── For agents ──

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Begin an episode. Options: ``split`` (default: the first) and ``index`` (default: drawn by the seed).

        Without a ``seed``, the task's own seed starts the random stream.
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
        if self.servers and (not self._links or any(link.used and not link.server.keep for link in self._links)):
            self._open_servers()
        if self._links:
            self.info["servers"] = [link.about for link in self._links]
        self._thread.settle(self.timeout_s)
        self._settle_threads()
        begun = self._run("begin", partial(self.begin, task), self.begin_timeout_s)
        try:
            messages, content = open_conversation(task.prompt or self.description if begun is None else begun)
        except (TypeError, ValueError) as error:
            raise EpisodeFailed(f"begin() returned neither content nor messages: {error}.") from error
        self._running = True
        row = task.public()
        for name in ("prompt", "metadata"):  # the observation has the prompt
            if len(msgspec.json.encode(row)) > _MAX_ROW_BYTES:
                del row[name]
        observation = Observation(messages=messages, content=content, tools=self._infos())
        return observation, {**self.info, "task": {**self._place, **row}}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, Info]:
        if not self._running:
            raise ResetNeeded("Cannot call env.step() before env.reset(), nor after an episode ended or failed.")
        if type(action) not in _ACTIONS:
            try:
                valid: Any = self.action_space.validate(action)
            except InvalidValue as error:
                raise InvalidAction(str(error), action=action, space=self.action_space) from None
            action = valid
        if isinstance(action, ListTools):
            return Observation(tools=self._infos()), 0.0, False, False, {}
        self.info = {}
        self._awarded = 0.0
        self._running = False  # until the step has come to its end
        try:
            if isinstance(action, Say):
                observation = self._say(action)
            else:
                observation = call_tool(self, self.tools, action, self._thread, self.timeout_s)
            reward = self._awarded if self.rubric is None else self._grade(action, observation)
        finally:
            self._awarded = None
        self._running = not (self._terminated or self._truncated)
        return observation, reward, self._terminated, self._truncated, dict(self.info)

    def close(self) -> None:
        self._running = False
        for link in self._links:
            link.close()
        self._links = ()
        self._thread.close()
        self._grader.close()

    def snapshot(self) -> bytes:
        """The episode as bytes: every attribute but ``constants``. It has the private state: not for agents."""
        return save(self)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of such an environment; anything else is refused and changes nothing."""
        restore(self, snapshot)

    def fork(self) -> Self:
        """Another environment in the same state, by the rules of ``snapshot``. Both go on by themselves."""
        snapshot, other = self.snapshot(), type(self).__new__(type(self))
        kept = (NOT_STATE | {*self.constants}) - {"task", "rubric", "_thread", "_grader"}
        vars(other).update({name: value for name, value in vars(self).items() if name in kept})
        other.action_space, other.observation_space = deepcopy((self.action_space, self.observation_space))
        if "rubric" in vars(self):
            other.rubric = deepcopy(self.rubric)
        other.restore(snapshot)
        return other

    def has_wrapper_attr(self, name: str) -> bool:
        return name == "task" or super().has_wrapper_attr(name)

    def get_wrapper_attr(self, name: str) -> Any:
        # From outside, "task" is OpenEnv's Task API: the task itself has hidden fields that must stay here.
        return partial(answer, self.tasks) if name == "task" else super().get_wrapper_attr(name)

    def _choose(self, seed: int | None, options: Info) -> tuple[str, int, Task]:
        if not isinstance(self.tasks, Tasks):
            raise InvalidTask(f"{type(self).__name__}.tasks: expected Tasks(train=...), got {self.tasks!r:.80}.")
        for key in options.keys() - _CHOICES:  # authors have options of their own; one that is nearly ours is a mistake
            for meant in get_close_matches(str(key), _CHOICES, n=1, cutoff=0.8):
                raise InvalidTask(f"options: {key!r:.80} does not choose a task. Did you mean {meant!r}?")
        split = options.get("split")
        split = self.tasks.names[0] if split is None else split
        index = options.get("index")
        if index is None:
            # Not np_random: a task that seeds it would choose its successor too.
            if seed is not None or self._choices is None:
                self._choices = np.random.default_rng(None if seed is None else [seed, 1])
            index = self.tasks.draw(split, self._choices)
        index = int(index) if isinstance(index, np.integer) else index
        return split, index, self.tasks.get(split, index)

    def _say(self, action: Say) -> Observation:
        try:
            reply = self._run("listen", partial(self.listen, action.text), self.timeout_s)
            return Observation(content=check_blocks(reply))
        except ToolFailed as error:
            failure = tool_error("execution_error", str(error))
            return Observation(content=[Text(failure.message)], error=failure)
        except (TypeError, ValueError) as error:
            if isinstance(error, PaddockError):
                raise
            raise EpisodeFailed(f"listen() did not return content: {error}.") from error

    def _run(self, name: str, call: Any, timeout_s: float | None) -> Any:
        """Run ``begin`` or ``listen``: when the author's code fails, so does the episode."""
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
        """Reset the rubric. Each environment has a copy of its own: the class's may remember what happened."""
        if self._grader.busy:  # a rubric hangs, and is left behind with its thread
            self._grader = TimedThread()
            if self._rubric_copied:
                del self.rubric
        if "rubric" not in self.__dict__ and type(self).rubric is not None:
            self.rubric, self._rubric_copied = self._new_rubric(), True
        if self.rubric is not None:
            self.rubric.reset()

    def _new_rubric(self) -> Any:
        declared = self.rubric
        return declared() if isinstance(declared, type) else deepcopy(declared)

    def _settle_threads(self) -> None:
        limits = {tool.options.timeout_s for tool in self.tools.values()} - {"default"}
        # All in one thread or none: SQLite, for one, keeps to its own.
        self._thread.in_place = limits | {self.timeout_s, self.begin_timeout_s} == {None}
        self._grader.in_place = self.rubric_timeout_s is None

    def _grade(self, action: Action, observation: Observation) -> float:
        graded = GradedObservation.of(
            observation, task=self.task, terminated=self._terminated, truncated=self._truncated, info=dict(self.info)
        )
        result = grade(self.rubric, action, graded, timeout_s=self.rubric_timeout_s, thread=self._grader)
        self.info = {**self.info, "rubric": result.provenance()}
        return result.score

    def _open_servers(self) -> None:
        """Begin a session with each MCP server, and offer its tools beside the environment's own."""
        from paddock.agentic.mcp import Link

        kept = {id(link.server): link for link in self._links if link.server.keep}
        for link in self._links:
            if not link.server.keep:
                link.close()
        tools: dict[str, Any] = dict(type(self).tools)
        self._links = ()
        try:
            for server in self.servers:
                link = kept.get(id(server)) or Link(server)
                self._links = (*self._links, link)
                for tool in link.tools or link.open():
                    if tool.name in tools:
                        raise InvalidTool(f"Two tools are called {tool.name!r}. Pass prefix= to {server!r}.")
                    tools[tool.name] = tool
        except BaseException:
            for link in (*self._links, *kept.values()):
                link.close()
            self._links = ()
            raise
        self.tools = tools  # of this instance

    def _infos(self) -> list[ToolInfo]:
        return [tool.info for tool in self.tools.values()]


# A tool with one of these names would hide what every environment has.
_CHOICES = frozenset({"split", "index"})  # the options of reset that choose its task
_RESERVED = frozenset(name for name in dir(ToolEnv) if not name.startswith("_")) | {"state", "task", "options", "info"}


def open_conversation(begun: Any) -> tuple[list[Message], list[Text | Image]]:
    """Turn what ``begin`` returned into the first messages, and the content of the last one, which the agent answers.

    >>> open_conversation("Guess.")
    ([Message(role='user', content=[Text(text='Guess.')])], [Text(text='Guess.')])
    """
    if isinstance(begun, Message):
        begun = [begun]
    if isinstance(begun, (list, tuple)) and begun and all(isinstance(part, Message) for part in begun):
        messages = [Message(part.role, check_blocks(part.content)) for part in begun]
        return messages, list(messages[-1].content)
    content = [] if begun == "" else check_blocks(begun)
    return [Message("user", content)] if content else [], list(content)
