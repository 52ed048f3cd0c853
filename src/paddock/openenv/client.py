"""OpenEnv's clients: the same methods wait in plain code and are awaited in async code. One kind for each client.

Which kind is decided by ``with``, ``async with`` and ``sync()``, else by the first call: within a running event loop
the methods return awaitables.
"""

from __future__ import annotations

import asyncio
import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from paddock.errors import PlanError
from paddock.hosting.openenv.async_line import AsyncLine
from paddock.hosting.openenv.blocking_line import BlockingLine
from paddock.hosting.openenv.conversation import Line, endpoint_of, gone
from paddock.openenv.provided import Provided

if TYPE_CHECKING:
    from typing_extensions import Self

    from paddock.openenv.sync_client import SyncEnvClient

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")

_MODES = ("simulation", "production")


@dataclass
class StepResult(Generic[ObsT]):
    """What a reset or a step gave."""

    observation: ObsT
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None


class EnvClient(ABC, Generic[ActT, ObsT, StateT]):
    """A session with an OpenEnv server, or with paddock's under an environment's URL; subclasses know its types.

    An answer that does not come in ``message_timeout_s`` is an OutcomeUnknown and ends the session: OpenEnv's frames
    have no numbers, so a late answer could be taken for another's. Then only ``reset`` goes on, in a new session.
    """

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float = 60.0,
        max_message_size_mb: float = 100.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Any = None,
        mode: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        if base_url is None and provider is None:
            raise PlanError("EnvClient needs base_url=, the server's URL, or a provider= that starts one.")
        self._provided = Provided(provider, base_url)
        self._headers = dict(headers or {})
        self._connect_s, self._answer_s = connect_timeout_s, message_timeout_s
        self._pings = websocket_ping_interval_s, websocket_ping_timeout_s
        self._max_bytes = int(max_message_size_mb * 1024 * 1024)
        self._mode = _mode_of(mode)
        self._kind: str | None = None  # "sync" or "async" once that is decided
        self._line: BlockingLine | AsyncLine | None = None
        self._asking = False
        self._was_lost = False
        self._bridged = False  # a coroutine of a subclass runs for SyncEnvClient, and awaits our results
        self._others: list[EnvClient[Any, Any, Any]] = []
        if base_url is not None:
            endpoint_of(base_url, headers)  # a mistake in it is told here, not at the first call

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_mode" and hasattr(self, "_mode"):
            raise AttributeError("Cannot modify mode after initialization")
        super().__setattr__(name, value)

    @abstractmethod
    def _step_payload(self, action: ActT) -> dict[str, Any]:
        """An action as its fields."""

    @abstractmethod
    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """What a reset or a step gave, from ``observation``, ``reward`` and ``done``."""

    @abstractmethod
    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        """The state from its fields."""

    @property
    def base_url(self) -> str | None:
        """The server's URL; None until a provider has started one."""
        return self._provided.base_url

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode: a StepResult. The arguments are the environment's own."""
        return self._ask("reset", kwargs, self._parse_result)

    def step(self, action: ActT, **kwargs: Any) -> Any:
        """Advance by one action: a StepResult. Further arguments have no place on the wire, as in OpenEnv."""
        return self._ask("step", self._step_payload(action), self._parse_result)

    def state(self) -> Any:
        """The state of the episode."""
        return self._ask("state", None, self._parse_state)

    def connect(self) -> Any:
        """Connect now rather than at the first call: this client."""
        return self._connect_async() if self._decide() == "async" else self._done(self._connect())

    def disconnect(self) -> Any:
        """End the session; the next call would begin another."""
        if self._decide() == "async":
            return self._disconnect_async()
        self._disconnect()
        return self._done(None)

    def close(self) -> Any:
        """End the session and what a provider started. Safe to call twice."""
        if self._decide() == "async":
            return self._close_async()
        self._close()
        return self._done(None)

    def new_session(self) -> Any:
        """Another client of the same server with a session of its own; it is closed with this one."""
        other = copy.copy(self)
        other._provided = Provided(None, self._provided.base_url)
        other._line, other._others, other._asking, other._was_lost = None, [], False, False
        self._others.append(other)
        return other._connect_async() if self._decide() == "async" else self._done(other._connect())

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """The same client for plain code, also where an event loop runs."""
        from paddock.openenv.sync_client import SyncEnvClient

        return SyncEnvClient(self)

    def __enter__(self) -> Self:
        self._claim("sync")
        self._connect()
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    async def __aenter__(self) -> Self:
        self._claim("async")
        await self._connect_async()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._close_async()

    @classmethod
    def from_docker_image(cls, image: str, provider: Any = None, **kwargs: Any) -> Self:
        """A client of a container that ``provider`` starts with its ``start_container``."""
        if provider is None:
            raise PlanError(
                f"from_docker_image({image!r:.80}) needs a provider= that starts containers. "
                "Or start it yourself and pass base_url=: docker run -p 127.0.0.1:8000:8000 IMAGE"
            )
        options: dict[str, Any] = {name: kwargs.pop(name) for name in ("port", "env_vars") if name in kwargs}
        return cls(provider=_Image(provider, image, options), **kwargs)

    @classmethod
    def from_env(cls, repo_id: str, **kwargs: Any) -> Self:
        """Not here: it would install a stranger's code."""
        raise PlanError(
            f"from_env({repo_id!r:.80}) would download and run code. Connect to a server that runs it: "
            f"{cls.__name__}(base_url='https://…')"
        )

    def _claim(self, kind: str) -> None:
        if self._kind not in (None, kind):
            raise RuntimeError(f"This client is already used in {self._kind} code. Make another one for {kind} code.")
        self._kind = kind

    def _decide(self) -> str:
        if self._kind is None:
            self._claim("async" if _in_a_loop() else "sync")
        assert self._kind is not None
        return self._kind

    def _done(self, value: Any) -> Any:
        """A result of plain code; awaitable where a coroutine of a subclass awaits it."""
        return _ready(value) if self._bridged else value

    def _settled(self, value: Any) -> Any:
        """A result that is here already, in the form that a call of this client has."""
        return _ready(value) if self._decide() == "async" else self._done(value)

    def _ask(self, kind: str, data: Any, read: Callable[[dict[str, Any]], Any]) -> Any:
        if self._decide() == "async":
            return self._ask_async(kind, data, read)
        self._begin(kind)
        try:
            line = self._connect()._line
            assert isinstance(line, BlockingLine)
            return self._done(read(line.ask(kind, data)))
        finally:
            self._end()

    async def _ask_async(self, kind: str, data: Any, read: Callable[[dict[str, Any]], Any]) -> Any:
        self._begin(kind)
        try:
            line = (await self._connect_async())._line
            assert isinstance(line, AsyncLine)
            return read(await line.ask(kind, data))
        finally:
            self._end()

    def _begin(self, kind: str) -> None:
        if self._asking:
            raise RuntimeError(f"{kind} while another call waits for its answer. One client has one call at a time.")
        if self._was_lost and kind != "reset":
            raise gone(kind)
        self._asking, self._was_lost = True, False
        if kind == "reset" and self._line is not None and not self._line.usable():
            self._line = None  # a new episode needs nothing of the old connection

    def _end(self) -> None:
        self._asking = False
        if self._line is not None and not self._line.live:
            self._line, self._was_lost = None, True

    def _line_of(self) -> Line:
        base_url = self._provided.start()
        every_s, answer_s = self._pings
        endpoint = endpoint_of(base_url, self._headers)
        return Line(endpoint, self._connect_s, self._answer_s, every_s, answer_s, self._max_bytes, base_url)

    def _connect(self) -> Self:
        if self._line is None:
            line = self._line_of()
            try:
                self._line = BlockingLine(line)
            except OSError as error:
                raise _unreachable(line, error) from error
        return self

    async def _connect_async(self) -> Self:
        if self._line is None:
            line = self._line_of()
            try:
                self._line = await AsyncLine.open(line)
            except OSError as error:
                raise _unreachable(line, error) from error
        return self

    def _disconnect(self) -> None:
        line, self._line = self._line, None
        if isinstance(line, BlockingLine):
            line.close()

    async def _disconnect_async(self) -> None:
        line, self._line = self._line, None
        if isinstance(line, AsyncLine):
            await line.close()

    def _close(self) -> None:
        others, self._others = self._others, []
        for other in others:
            other._close()
        try:
            self._disconnect()
        finally:
            self._provided.stop()

    async def _close_async(self) -> None:
        others, self._others = self._others, []
        for other in others:
            await other._close_async()
        try:
            await self._disconnect_async()
        finally:
            self._provided.stop()


class _Image:
    """A provider of containers, for one image, as a provider of one server."""

    def __init__(self, provider: Any, image: str, options: dict[str, Any]) -> None:
        self._provider, self._image, self._options = provider, image, options

    def start(self) -> Any:
        base_url = self._provider.start_container(self._image, **self._options)
        self._provider.wait_for_ready(base_url)
        return base_url

    def stop(self) -> None:
        self._provider.stop_container()


def _mode_of(mode: str | None) -> str:
    chosen = (os.environ.get("OPENENV_CLIENT_MODE", "simulation") if mode is None else mode).lower()
    if chosen not in _MODES:
        raise ValueError(
            f"Invalid mode: '{chosen[:60]}'. Must be 'simulation' or 'production' (mode=, OPENENV_CLIENT_MODE)."
        )
    return chosen


def _unreachable(line: Line, error: Exception) -> ConnectionError:
    from paddock.errors import Unreachable

    if isinstance(error, Unreachable):
        return error
    return Unreachable(f"Failed to connect to {line.endpoint.shown}{line.endpoint.path}: {error}")


async def _ready(value: Any) -> Any:
    return value


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
