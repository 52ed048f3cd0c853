"""OpenEnv's environments around an agent's own program: a step is one message to it and its answer (its RFC 005).

The program starts where the environment runs: behind the wall when paddock makes or serves it, and nowhere else when
you construct it yourself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from enum import Enum
from importlib import import_module
from typing import IO, Any, Literal
from uuid import uuid4

from paddock.errors import DependencyNotInstalled
from paddock.openenv.environment import MCPEnvironment, list_server_tools
from paddock.openenv.harness import refuse_reserved
from paddock.openenv.types import (
    Action,
    BaseModel,
    CallToolAction,
    ConfigDict,
    Field,
    ListToolsAction,
    Observation,
    State,
    Tool,
    model_validator,
)

LOG = logging.getLogger("paddock.openenv")


class HarnessError(Exception):
    """The agent's program failed."""


class HarnessStartupError(HarnessError):
    """It did not start, or was not ready in time."""


class HarnessNotRunningError(HarnessError):
    """It does not run."""


class HarnessTurnTimeoutError(HarnessError):
    """It did not answer in time."""


class HarnessTransport(str, Enum):
    """How the program is spoken to."""

    STDIO = "stdio"
    STREAMABLE_HTTP = "http"
    MCP = "mcp"


class HarnessConfig(BaseModel):
    """How to start the agent's program. ``session_timeout_s`` is for one turn."""

    model_config = ConfigDict(extra="forbid")

    name: str
    command: list[str]
    working_directory: str = "/workspace"
    env_vars: dict[str, str] = Field(default_factory=dict)
    transport: HarnessTransport = HarnessTransport.STDIO
    mcp_config_path: str | None = None
    startup_timeout_s: float = 30.0
    session_timeout_s: float = 600.0
    model: str | None = None
    api_key_env_var: str | None = None

    @model_validator(mode="after")
    def _has_a_command(self) -> HarnessConfig:
        if not self.command:
            raise ValueError("command must contain at least one element")
        return self


class HarnessEventType(str, Enum):
    """What happens in a turn."""

    LLM_REQUEST = "llm_request"
    LLM_RESPONSE = "llm_response"
    LLM_CHUNK = "llm_chunk"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    TEXT_OUTPUT = "text_output"
    ERROR = "error"
    TURN_COMPLETE = "turn_complete"


class HarnessEvent(BaseModel):
    """Something that happened in a turn; ``data`` depends on the type."""

    type: HarnessEventType
    timestamp: float = Field(default_factory=time.time)
    data: dict[str, Any] = Field(default_factory=dict)


class HarnessResponse(BaseModel):
    """The answer of a turn."""

    response: str
    events: list[HarnessEvent] = Field(default_factory=list)
    done: bool = False


class HarnessClientMessage(BaseModel):
    """A client's frame on ``/harness``."""

    type: Literal["message"]
    content: str


class HarnessProtocolError(BaseModel):
    """The answer to a frame that does not fit; the client may send another."""

    type: Literal["protocol_error"] = "protocol_error"
    data: dict[str, Any]


def events_to_metadata(events: list[HarnessEvent]) -> list[dict[str, Any]]:
    """Return the events as plain data, for an observation's metadata."""
    return [event.model_dump(mode="json") for event in events]


def resolve_tool_conflicts(
    env_tools: list[Tool], harness_builtin_tools: Collection[str], prefix: str = "env_"
) -> list[Tool]:
    """Return the tools; those that are called as a tool of the program itself get the prefix."""
    names, builtin = [tool.name for tool in env_tools], set(harness_builtin_tools)
    refuse_reserved(names)
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ValueError(f"Duplicate environment tool name: {name}")
        if name in builtin and prefix + name in builtin.union(names):
            raise ValueError(
                f"Cannot resolve tool name conflict: '{name}' collides with a harness built-in tool and "
                f"'{prefix}{name}' is also taken"
            )
    return [
        tool.model_copy(update={"name": prefix + tool.name if tool.name in builtin else tool.name})
        for tool in env_tools
    ]


class AgenticHarnessAdapter(ABC):
    """Speaks with one agent's program. ``stop`` must be safe to call at any time, and twice."""

    BUILTIN_TOOL_NAMES: frozenset[str] = frozenset()

    def __init__(self, config: HarnessConfig) -> None:
        self.config = config

    @abstractmethod
    async def start(self, working_directory: str) -> None:
        """Start the program; HarnessStartupError if that fails."""

    @abstractmethod
    async def stop(self) -> None:
        """End it."""

    @abstractmethod
    async def inject_tools(self, tools: list[Tool], bridge_url: str | None = None) -> None:
        """Make the environment's tools known to the program, before it starts."""

    @abstractmethod
    def send_message_streaming(self, message: str) -> AsyncIterator[HarnessEvent]:
        """Run a turn; the last event is TURN_COMPLETE, with ``response`` and perhaps ``done``."""

    @abstractmethod
    async def is_alive(self) -> bool:
        """Whether the program runs."""

    async def send_message(self, message: str) -> HarnessResponse:
        """Run a turn, and return its answer with all events."""
        events = [event async for event in self.send_message_streaming(message)]
        if not events or events[-1].type is not HarnessEventType.TURN_COMPLETE:
            raise HarnessError("harness event stream ended without a TURN_COMPLETE event")
        last = events[-1].data
        return HarnessResponse(response=str(last.get("response", "")), events=events, done=bool(last.get("done")))


class HarnessProcess:
    """A program that is spoken to in lines. It works in any event loop, because threads read its pipes."""

    def __init__(
        self,
        command: list[str],
        cwd: str,
        env_vars: dict[str, str] | None = None,
        startup_timeout_s: float = 30.0,
        terminate_grace_s: float = 5.0,
    ) -> None:
        self.command, self.cwd, self.env_vars = list(command), cwd, dict(env_vars or {})
        self.startup_timeout_s, self.terminate_grace_s = startup_timeout_s, terminate_grace_s
        self._proc: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()  # None: there are no more
        self._errors: deque[str] = deque(maxlen=50)
        self._reader_threads: list[threading.Thread] = []

    def is_running(self) -> bool:
        return self._proc is not None and self._proc.poll() is None

    def drain_stderr(self) -> str:
        """Return the last lines of its standard error."""
        return "".join(self._errors)

    async def start(self, ready_check: Callable[[str], bool] | None = None) -> None:
        """Start it; with ``ready_check``, wait for a line that passes it."""
        if self.is_running():
            raise HarnessStartupError("harness process is already running")
        await self.stop()
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        environment = {**os.environ, **self.env_vars}
        try:
            process = self._proc = subprocess.Popen(  # noqa: S603 - the environment's own agent
                self.command,
                cwd=self.cwd,
                env=environment,
                encoding="utf-8",
                errors="replace",
                bufsize=1,
                start_new_session=True,
                **pipes,  # type: ignore[call-overload]
            )
        except OSError as error:
            raise HarnessStartupError(f"failed to spawn harness process: {error}") from error
        lines = self._lines = queue.Queue()
        errors = self._errors = deque(maxlen=50)
        readers = [
            (process.stdout, lambda line: lines.put(line.rstrip("\n")), lambda: lines.put(None)),
            (process.stderr, errors.append, lambda: None),
        ]
        self._reader_threads = [threading.Thread(target=_read, args=arguments, daemon=True) for arguments in readers]
        for reader in self._reader_threads:
            reader.start()
        try:
            if ready_check is not None:
                await self._wait_until(ready_check)
        except BaseException:
            await self.stop()
            raise

    async def _wait_until(self, ready_check: Callable[[str], bool]) -> None:
        end = time.monotonic() + self.startup_timeout_s
        while (left := end - time.monotonic()) > 0:
            line = await self.read_line(timeout_s=min(left, 0.2))
            if line is not None and ready_check(line):
                return
            if line is None and not self.is_running():
                code = self._proc and self._proc.poll()
                raise HarnessStartupError(f"harness exited with code {code} during startup")
        raise HarnessStartupError(f"harness did not become ready within {self.startup_timeout_s}s")

    async def stop(self) -> None:
        """End it and all that it started: politely, then by force. Safe to call twice."""
        process, self._proc = self._proc, None
        if process is not None:
            await asyncio.to_thread(self._stop, process)

    def _stop(self, process: subprocess.Popen[str]) -> None:
        # Its group may outlive it, so the group is what has to be gone.
        end = time.monotonic() + self.terminate_grace_s
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
            while time.monotonic() < end:
                process.poll()
                os.killpg(process.pid, 0)
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # if its group was out of reach
        process.wait()
        for reader in self._reader_threads:
            reader.join(2.0)
        self._reader_threads = []
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()

    async def write_line(self, text: str) -> None:
        process = self._proc
        if process is None or process.poll() is not None:
            raise HarnessNotRunningError("cannot write to harness process: it is not running")
        pipe: Any = process.stdin

        def write() -> None:
            try:
                pipe.write(text if text.endswith("\n") else f"{text}\n")
                pipe.flush()
            except (ValueError, OSError) as error:
                raise HarnessNotRunningError(f"harness process stdin is closed: {error}") from error

        await asyncio.to_thread(write)

    async def read_line(self, timeout_s: float | None = None) -> str | None:
        """Return the next line; None if there is none in time, or none at all."""
        lines = self._lines

        def read() -> str | None:
            with suppress(queue.Empty):
                line = lines.get(timeout=timeout_s)
                if line is None:
                    lines.put(None)  # for the next reader
                return line
            return None

        return await asyncio.to_thread(read)


def _read(pipe: IO[str], take: Callable[[str], None], end: Callable[[], None]) -> None:
    with pipe, suppress(ValueError, OSError):
        for line in pipe:
            take(line)
    end()


class HarnessMCPBridge:
    """An environment's tools as an MCP server on this machine's loopback, for the agent's program.

    Behind the wall nothing else can reach it. It has the tools alone: no reset, no step.
    """

    def __init__(self, mcp_server: Any, host: str = "127.0.0.1") -> None:
        self._mcp_server, self._host = mcp_server, host
        self._url: str | None = None
        self._server: Any = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str | None:
        return self._url

    def start(self, timeout_s: float = 10.0) -> str:
        """Return the URL, when the server answers there."""
        if self._url is not None:
            return self._url
        uvicorn = import_module("uvicorn")  # FastMCP brings it
        link = socket.create_server((self._host, 0))
        config = uvicorn.Config(self._mcp_server.http_app(), log_level="warning", lifespan="on")
        config.timeout_graceful_shutdown = 1
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [link]}, daemon=True)
        self._thread.start()
        end = time.monotonic() + timeout_s
        while not self._server.started:
            if time.monotonic() > end or not self._thread.is_alive():
                self.stop()
                raise HarnessError(f"MCP bridge did not start within {timeout_s}s")
            time.sleep(0.01)
        self._url = f"http://{self._host}:{link.getsockname()[1]}/mcp"
        return self._url

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the server. If it does not end in time, call this again."""
        if self._thread is not None:
            self._server.should_exit = True
            self._thread.join(timeout_s / 2)
            self._server.force_exit = True
            self._thread.join(timeout_s / 2)
            if self._thread.is_alive():
                raise HarnessError(f"MCP bridge did not stop within {timeout_s}s")
        self._url = self._server = self._thread = None


async def build_bridge_server(mcp_server: Any, renames: dict[str, str]) -> Any:
    """Return a server with the same tools, some under other names: ``{new name: name}``."""
    if not renames:
        return mcp_server
    missing = sorted(set(renames.values()) - {tool.name for tool in await list_server_tools(mcp_server)})
    if missing:
        raise HarnessError(f"Cannot rename tools that the MCP server does not expose: {', '.join(missing)}")
    view = type(mcp_server)(f"{mcp_server.name}-harness-view")
    view.mount(mcp_server, tool_names={old: new for new, old in renames.items()})
    return view


class HarnessAction(Action):
    """A message to the agent."""

    message: str


class HarnessEnvironment(MCPEnvironment):
    """An environment around an agent's program: ``reset`` starts it, a HarnessAction is one turn with it.

    The agent decides what it does in a turn; the rubric grades the turn afterwards. Tools of ``mcp`` are offered to the
    agent by a HarnessMCPBridge, except those of one mode, which only the environment can call.
    """

    SUPPORTS_CONCURRENT_SESSIONS = False

    def __init__(
        self, adapter: AgenticHarnessAdapter, mcp: Any = None, rubric: Any = None, transform: Any = None
    ) -> None:
        if mcp is None:
            try:
                from fastmcp import FastMCP
            except ImportError as error:
                raise DependencyNotInstalled("HarnessEnvironment needs fastmcp: pip install fastmcp") from error
            mcp = FastMCP("harness-env-tools")
        super().__init__(mcp, transform=transform)
        self.adapter, self.rubric = adapter, rubric
        self._state, self._trajectory, self._active = State(), list[HarnessEvent](), False
        self._bridge: HarnessMCPBridge | None = None

    @property
    def state(self) -> State:
        return self._state

    @property
    def trajectory(self) -> list[HarnessEvent]:
        """All events of this episode."""
        return list(self._trajectory)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        return self._loop.run(self.reset_async(seed=seed, episode_id=episode_id, **kwargs))

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        """Start the program again, with an empty conversation."""
        self._active, starting = False, None
        try:
            await self.adapter.stop()
            if self._bridge is not None:
                await asyncio.to_thread(self._bridge.stop)
            tools = await self._bridged_tools()
            offered, url = resolve_tool_conflicts(tools, self.adapter.BUILTIN_TOOL_NAMES), None
            if offered:
                renames = {new.name: old.name for new, old in zip(offered, tools, strict=True) if new.name != old.name}
                self._bridge = HarnessMCPBridge(await build_bridge_server(self.mcp_server, renames))
                starting = asyncio.ensure_future(asyncio.to_thread(self._bridge.start))
                url = await asyncio.shield(starting)
            await self.adapter.inject_tools(offered, url)
            await self.adapter.start(self.adapter.config.working_directory)
            self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
            self._trajectory = []
            await self._reset_rubric_async()
        except BaseException:
            if starting is not None:  # only what has started can be stopped
                await asyncio.wait([starting])
            await self._end()
            raise
        self._active = True
        metadata = {"episode_id": self._state.episode_id, "injected_tools": [tool.name for tool in offered]}
        return self._apply_transform(Observation(done=False, reward=0.0, metadata=metadata))

    async def _bridged_tools(self) -> list[Tool]:
        listed = await super().step_async(ListToolsAction())
        if listed.metadata.get("error"):
            raise HarnessError(f"Failed to enumerate environment tools: {listed.metadata['error']}")
        own = sorted(tool.name for tool in listed.tools if tool.name in self._own_tools)
        if own:
            LOG.warning("tools of one mode are not offered to %s: %s", self.adapter.config.name, ", ".join(own))
        return [tool for tool in listed.tools if tool.name not in own]

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        if isinstance(action, (ListToolsAction, CallToolAction)):
            return await super().step_async(action, timeout_s=timeout_s, **kwargs)
        return await self._turn(action, timeout_s)

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return self._loop.run(self._turn(action, timeout_s))

    async def _turn(self, action: Action, timeout_s: float | None) -> Observation:
        if not isinstance(action, HarnessAction):
            raise TypeError(
                "HarnessEnvironment only accepts HarnessAction, ListToolsAction, or CallToolAction; "
                f"got {type(action).__name__}"
            )
        if not self._active:
            raise HarnessNotRunningError("No active episode; call reset() before step()")
        seconds = self.adapter.config.session_timeout_s if timeout_s is None else timeout_s
        try:
            if not await self.adapter.is_alive():
                return await self._fail("harness process is not running", "harness_crashed")
            answer = await asyncio.wait_for(self.adapter.send_message(action.message), seconds)
            self._trajectory.extend(answer.events)
            self._state.step_count += 1
            metadata = {
                "response": answer.response,
                "turn_events": events_to_metadata(answer.events),
                "turn_number": self._state.step_count,
            }
            observation = Observation(done=answer.done, reward=0.0, metadata=metadata)
            if self.rubric is not None:
                observation.reward = await self._apply_rubric_async(action, observation)
            return self._apply_transform(observation)
        except asyncio.TimeoutError:
            return await self._fail(f"harness turn exceeded {seconds} seconds", "turn_timeout")
        except HarnessError as error:
            late = isinstance(error, HarnessTurnTimeoutError)
            return await self._fail(str(error), "turn_timeout" if late else "harness_crashed")
        except BaseException:
            await self._end()
            raise

    async def _fail(self, message: str, kind: str) -> Observation:
        """End the episode with an observation that says why."""
        await self._end()
        event = HarnessEvent(type=HarnessEventType.ERROR, data={"message": message, "recoverable": False})
        self._trajectory.append(event)
        metadata = {"error": message, "error_type": kind, "turn_events": events_to_metadata([event])}
        return self._apply_transform(Observation(done=True, reward=0.0, metadata=metadata))

    async def _end(self) -> None:
        self._active = False
        with suppress(Exception):
            await asyncio.shield(self.adapter.stop())  # goes on if the caller is cancelled meanwhile
        if self._bridge is not None:
            with suppress(Exception):
                await asyncio.to_thread(self._bridge.stop)

    def close(self) -> None:
        if self.mcp_server is not None:
            self._loop.run(self._end())
            self._bridge = None
            super().close()
