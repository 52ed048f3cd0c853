"""OpenEnv's Environment, MCPEnvironment and Transform. Nothing here checks the order of calls or returned types.

A rubric is anything that can be called with an action and an observation; its ``reset``, if any, goes with the episode.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from paddock.errors import DependencyNotInstalled, NotPermitted
from paddock.hosting.private_loop import PrivateLoop
from paddock.openenv.types import (
    RESERVED_TOOL_NAMES,
    Action,
    CallToolAction,
    CallToolObservation,
    EnvironmentMetadata,
    ListToolsAction,
    ListToolsObservation,
    Message,
    Observation,
    State,
    Tool,
    ToolError,
    ToolErrorType,
)
from paddock.sandbox.workspaces import has_workspaces

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
StateT = TypeVar("StateT", bound=State)
T = TypeVar("T")


class ModelTokenizer(Protocol):
    """What an environment over tokens needs of a tokenizer."""

    def apply_chat_template(
        self, conversation: list[Message], tokenize: bool = True, return_tensors: str | None = None, **kwargs: Any
    ) -> Any:
        """The conversation as one text or its tokens."""

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str:
        """Tokens as text."""


class TaskProvider(Protocol):
    """What an environment with tasks has; it need not inherit from this. A task is chosen by reset's arguments."""

    def list_splits(self) -> list[Any]:
        """Names of splits, or dicts with a name and a type."""

    def list_tasks(self, split: str) -> list[Any]:
        """The tasks of a split."""

    def num_tasks(self, split: str) -> int:
        """How many there are."""

    def get_task(self, split: str, index: int) -> Any:
        """One of them; IndexError if there is none."""

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
        """Some of them, as a slice."""


class Transform(ABC, Generic[ObsT]):
    """Changes an observation before it is returned: adds a reward, say."""

    @abstractmethod
    def __call__(self, observation: ObsT) -> ObsT:
        """The observation to return, the same object or another."""


class CompositeTransform(Transform[ObsT]):
    """Several, in this order."""

    def __init__(self, transforms: list[Transform[ObsT]]) -> None:
        self.transforms = transforms

    def __call__(self, observation: ObsT) -> ObsT:
        for transform in self.transforms:
            observation = transform(observation)
        return observation


class NullTransform(Transform[ObsT]):
    """Changes nothing."""

    def __call__(self, observation: ObsT) -> ObsT:
        return observation


class Environment(ABC, Generic[ActT, ObsT, StateT]):
    """An environment in OpenEnv's form: subclasses write reset, step and the property state.

    ``SUPPORTS_CONCURRENT_SESSIONS`` says that several at once share nothing. In paddock each session has a process of
    its own, so this only matters for what is outside of it.

    >>> class Count(Environment[Action, Observation, State]):
    ...     def reset(self, seed=None, episode_id=None, **kwargs):
    ...         self.steps = 0
    ...         return Observation()
    ...     def step(self, action, timeout_s=None, **kwargs):
    ...         self.steps += 1
    ...         return Observation(reward=1.0, done=self.steps == 3)
    ...     @property
    ...     def state(self):
    ...         return State(step_count=self.steps)
    >>> env = Count()
    >>> _ = env.reset()
    >>> env.step(Action()).reward, env.state.step_count
    (1.0, 1)
    """

    SUPPORTS_CONCURRENT_SESSIONS: bool = False
    REQUIRES_SINGLE_THREAD_EXECUTOR: bool = False

    rubric: Callable[[ActT, ObsT], Any] | None

    def __init__(
        self, transform: Transform[ObsT] | None = None, rubric: Callable[[ActT, ObsT], Any] | None = None
    ) -> None:
        self.transform, self.rubric = transform, rubric

    @abstractmethod
    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ObsT:
        """Begin an episode."""

    @abstractmethod
    def step(self, action: ActT, timeout_s: float | None = None, **kwargs: Any) -> ObsT:
        """Advance by one action."""

    @property
    @abstractmethod
    def state(self) -> StateT:
        """Where the episode is."""

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ObsT:
        """Begin an episode; a class that overrides this is served by it."""
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    async def step_async(self, action: ActT, timeout_s: float | None = None, **kwargs: Any) -> ObsT:
        """Advance by one action; a class that overrides this is served by it."""
        return self.step(action, timeout_s=timeout_s, **kwargs)

    def get_metadata(self) -> EnvironmentMetadata:
        name = type(self).__name__
        return EnvironmentMetadata(name=name, description=f"{name} environment", version="1.0.0")

    def close(self) -> None:
        """Free what the environment holds."""

    def render_web(self, observation: dict[str, Any]) -> str | None:
        """Return HTML for a page that shows the observation; None for the page's own form."""
        return None

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Return labels of buttons, each with its action, for such a page."""
        return []

    def _apply_transform(self, observation: ObsT) -> ObsT:
        return observation if self.transform is None else self.transform(observation)

    def _apply_rubric(self, action: ActT, observation: ObsT) -> float:
        return 0.0 if self.rubric is None else self.rubric(action, observation)

    async def _apply_rubric_async(self, action: ActT, observation: ObsT) -> float:
        score: Any = self._apply_rubric(action, observation)
        return await score if inspect.isawaitable(score) else score  # type: ignore[no-any-return]

    def _reset_rubric(self) -> None:
        reset = getattr(self.rubric, "reset", None)
        if reset is not None:
            reset()

    async def _reset_rubric_async(self) -> None:
        reset = getattr(self.rubric, "reset_async", None) or getattr(self.rubric, "reset", None)
        done = None if reset is None else reset()
        if inspect.isawaitable(done):
            await done


MCP_TOOL_CALL_TIMEOUT = 30.0  # seconds

_JSON_TYPES = {int: "integer", float: "number", bool: "boolean", "int": "integer", "float": "number", "bool": "boolean"}
# As in OpenEnv, the words of a failure tell its kind.
_BY_WORDS = {
    ToolErrorType.TOOL_NOT_FOUND: ("not found", "unknown tool"),
    ToolErrorType.INVALID_ARGS: ("invalid", "argument"),
}


class MCPEnvironment(Environment[Action, Observation, Any]):
    """An environment whose tools are those of a FastMCP server, which you bring along.

    Subclasses write reset, state, and ``_step_impl`` for actions other than the two for tools. New environments are
    better written as ``paddock.agentic.ToolEnv``, whose tools have rewards and ends.
    """

    def __init__(self, mcp_server: Any, transform: Any = None) -> None:
        super().__init__(transform=transform)
        self._loop = PrivateLoop()
        self.mcp_server: Any = mcp_server
        try:
            from fastmcp import Client
        except ImportError as error:
            raise DependencyNotInstalled(
                f"MCPEnvironment({type(mcp_server).__name__}) needs fastmcp: pip install fastmcp. Or write a "
                "paddock.agentic.ToolEnv, which needs nothing."
            ) from error
        self.mcp_client: Any = Client(mcp_server)
        self._own_tools: dict[str, dict[str | None, Callable[..., Any]]] = {}
        _check_tool_names([tool.name for tool in self._loop.run(self._server_tools())])

    @property
    def supports_code_mode(self) -> bool:
        """Whether ``execute_code`` has somewhere to run code."""
        return has_workspaces()

    def execute_code(self, code: str) -> Observation:
        """Run an agent's code, with the tools as functions, in a workspace: behind a wall, with limits and a deadline.

        What it assigns to ``result`` is in ``metadata["result"]``, as plain data; what went wrong, in
        ``metadata["error"]``. Tools run here, in the environment; the code never does.
        """
        if not self.supports_code_mode:
            raise NotPermitted(
                f"{type(self).__name__} may not start workspaces, where code mode runs. Serve it with create_app, "
                "which grants them to a class that has execute_code, or pass isolation=Policy(workspaces=…, …)."
            )
        from paddock.agentic.envs.coding.workspace import run_with_tools

        tools = {name: partial(self._call_function, function) for name, function in self.get_callables().items()}
        kind, value = run_with_tools(code, tools)
        return Observation(done=False, reward=0.0, metadata={kind: value})

    def _call_function(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async def wait(result: Any) -> Any:
            return await result

        result = function(*arguments, **named)
        return self._loop.run(wait(result)) if inspect.isawaitable(result) else result

    @asynccontextmanager
    async def mcp_session(self) -> AsyncIterator[Any]:
        if self.mcp_client is None:
            raise RuntimeError("MCP client is not available; environment is closed")
        async with self.mcp_client:
            yield self.mcp_client

    def tool(self, mode: str | None = None) -> Callable[[Callable[..., Any]], Any]:
        """A decorator for tools; with a mode, "production" or "simulation", for those that only it has."""
        if mode not in (None, "production", "simulation"):
            raise ValueError(f"Invalid mode '{mode}'. Mode must be 'production', 'simulation', or None.")

        def register(function: Callable[..., Any]) -> Any:
            _check_tool_names([function.__name__])
            if mode is None:
                return self.mcp_server.tool()(function)
            self._own_tools.setdefault(function.__name__, {})[mode] = function
            return function

        return register

    def get_callables(self) -> dict[str, Callable[..., Any]]:
        """The tools of the current mode as plain functions."""
        tools = self._loop.run(self._server_tools())
        found = {tool.name: tool.fn for tool in tools if callable(getattr(tool, "fn", None))}
        return {**found, **self._mode_tools()}

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        if isinstance(action, (ListToolsAction, CallToolAction)):
            return self._loop.run(self.step_async(action, timeout_s=timeout_s))
        return self._step_impl(action, timeout_s=timeout_s, **kwargs)

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        if isinstance(action, ListToolsAction):
            return await self._answer_list()
        if isinstance(action, CallToolAction):
            return await self._answer_call(action, MCP_TOOL_CALL_TIMEOUT if timeout_s is None else timeout_s)
        return self._step_impl(action, timeout_s=timeout_s, **kwargs)

    @abstractmethod
    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """Any other action."""

    def close(self) -> None:
        self.mcp_client = self.mcp_server = None
        self._loop.close()

    def _mode_tools(self) -> dict[str, Callable[..., Any]]:
        mode = getattr(self, "_mode", None)
        return {name: by_mode[mode] for name, by_mode in self._own_tools.items() if mode in by_mode}

    async def _server_tools(self) -> list[Any]:
        return await list_server_tools(self.mcp_server)

    async def _answer_list(self) -> ListToolsObservation:
        try:
            async with self.mcp_session() as client:
                tools = await client.list_tools()
        except Exception as error:
            return ListToolsObservation(tools=[], metadata={"error": str(error), "error_type": "list_tools_failed"})
        found = []
        for one in tools:
            schema = getattr(one, "input_schema", None) or getattr(one, "inputSchema", None)  # FastMCP's two spellings
            if one.name not in self._own_tools:
                schema = schema if isinstance(schema, dict) else {}
                found.append(Tool(name=one.name, description=one.description or "", input_schema=schema))
        own = [
            Tool(name=name, description=function.__doc__ or "", input_schema=_schema_of(function))
            for name, function in self._mode_tools().items()
        ]
        return ListToolsObservation(tools=found + own)

    async def _answer_call(self, action: CallToolAction, timeout_s: float) -> CallToolObservation:
        name = action.tool_name
        try:
            if name in self._own_tools:
                return CallToolObservation(tool_name=name, result=await self._call_own(name, action.arguments))
            async with self.mcp_session() as client:
                result = await asyncio.wait_for(client.call_tool(name, action.arguments), timeout_s)
            return CallToolObservation(tool_name=name, result=result)
        except asyncio.TimeoutError:
            kind, words = ToolErrorType.TIMEOUT, f"Tool '{name}' timed out after {timeout_s} seconds"
        except Exception as error:
            words = str(error)
            kind = next(
                (kind for kind, parts in _BY_WORDS.items() if any(part in words.lower() for part in parts)),
                ToolErrorType.EXECUTION_ERROR,
            )
        return CallToolObservation(tool_name=name, error=ToolError(error_type=kind, message=words))

    async def _call_own(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool of one mode; the result has the form that FastMCP's client returns."""
        function = self._mode_tools().get(name)
        if function is None:
            raise LookupError(f"Unknown tool: '{name}' is not available in {getattr(self, '_mode', None)} mode")
        result = function(**arguments)
        result = await result if inspect.isawaitable(result) else result
        return {
            "content": [{"type": "text", "text": str(result), "annotations": None, "meta": None}],
            "structured_content": {"result": result},
            "meta": None,
            "data": result,
            "is_error": False,
        }


def _check_tool_names(names: list[str]) -> None:
    conflicts = sorted(RESERVED_TOOL_NAMES.intersection(names))
    if conflicts:
        raise ValueError(
            f"MCP tools cannot use reserved names: {conflicts}. Reserved names are: {sorted(RESERVED_TOOL_NAMES)}"
        )


def _schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what OpenEnv makes of a tool of one mode: only the simple types."""
    parameters = inspect.signature(function).parameters
    return {
        "type": "object",
        "properties": {name: {"type": _JSON_TYPES.get(one.annotation, "string")} for name, one in parameters.items()},
        "required": [name for name, one in parameters.items() if one.default is one.empty],
    }


def overrides_method(method: Any, base_method: Any) -> bool:
    """Whether a bound method is another than this function of a base class."""
    return getattr(method, "__func__", method) is not base_method


def get_server_tools(mcp_server: Any) -> dict[str, Any]:
    """Return the tools of a FastMCP server by name."""
    return {tool.name: tool for tool in run_async_safely(list_server_tools(mcp_server))}


async def list_server_tools(mcp_server: Any) -> list[Any]:
    """Return the tools of a FastMCP server, of its version 2 or 3."""
    listed = getattr(mcp_server, "list_tools", None) or mcp_server.get_tools
    tools = await listed()
    return list(tools.values()) if isinstance(tools, dict) else list(tools)


def run_async_safely(coro: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine to its end; where a loop runs already, in another thread, while the caller waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coro)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coro).result()
