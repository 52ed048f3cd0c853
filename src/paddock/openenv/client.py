"""OpenEnv's clients: the same methods wait in plain code and are awaited in async code, but one client does only one.

``with``, ``async with`` and ``sync()`` decide which; else the first call does: in a running event loop the methods
return awaitables. None of this needs pydantic or the environment's package.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from paddock.errors import PlanError, Unreachable
from paddock.hosting.openenv.client import (
    BlockingLine,
    Line,
    ServerError,
    answer,
    connection_lost,
    endpoint_of,
    outcome_unknown,
    question,
    session_gone,
)
from paddock.hosting.private_loop import PrivateLoop
from paddock.hosting.websocket.asynchronous import AsyncConnection
from paddock.hosting.websocket.events import ABNORMAL, Closed, Event, Text

if TYPE_CHECKING:
    from typing_extensions import Self


ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")
T = TypeVar("T")

Record = dict[str, Any]
Steps: TypeAlias = "Generator[Any, Any, T]"

_MODES = ("simulation", "production")


@dataclass
class StepResult(Generic[ObsT]):
    """What a reset or a step gave."""

    observation: ObsT
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None


class EnvClient(ABC, Generic[ActT, ObsT, StateT]):
    """A session with an OpenEnv server, or with paddock's at an environment's URL; subclasses know its types.

    An answer that does not come within ``message_timeout_s`` is an OutcomeUnknown and ends the session: OpenEnv's
    frames have no numbers, so a late answer could be taken for another. Then only ``reset`` works, in a new session.
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
        self._server = ProvidedServer(provider, base_url)
        self._headers = dict(headers or {})
        self._connect_s, self._answer_s = connect_timeout_s, message_timeout_s
        self._pings = websocket_ping_interval_s, websocket_ping_timeout_s
        self._max_bytes = int(max_message_size_mb * 1024 * 1024)
        self._mode = (os.environ.get("OPENENV_CLIENT_MODE", "simulation") if mode is None else mode).lower()
        if self._mode not in _MODES:
            raise ValueError(
                f"Invalid mode: '{self._mode[:60]}'. Must be 'simulation' or 'production' (mode=, OPENENV_CLIENT_MODE)."
            )
        self._kind: str | None = None  # "sync" or "async" once that is decided
        self._line: BlockingLine | AsyncLine | None = None
        self._asking = False
        self._was_lost = False
        self._bridged = False  # a coroutine of a subclass runs for SyncEnvClient, and awaits our results
        self._others: list[EnvClient[Any, Any, Any]] = []
        if base_url is not None:
            endpoint_of(base_url, headers)  # raises for a mistake in it now, not at the first call

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
        return self._server.base_url

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode: a StepResult. The arguments are the environment's own."""
        return self._ask("reset", kwargs, self._parse_result)

    def step(self, action: ActT, **kwargs: Any) -> Any:
        """Advance by one action: a StepResult. Further arguments have no place on the wire, as in OpenEnv."""
        return self._ask("step", self._step_payload(action), self._parse_result)

    def state(self) -> Any:
        return self._ask("state", None, self._parse_state)

    def connect(self) -> Any:
        """Connect now rather than at the first call: this client."""
        return self._carry_out(self._connect())

    def disconnect(self) -> Any:
        """End the session; the next call would begin another."""
        return self._carry_out(self._disconnect())

    def close(self) -> Any:
        """End the session and what a provider started. Safe to call twice."""
        return self._carry_out(self._close())

    def new_session(self) -> Any:
        """Return another client of the same server with a session of its own; it is closed with this one."""
        self._decide()
        other = copy.copy(self)
        other._server = ProvidedServer(None, self._server.base_url)
        other._line, other._others, other._asking, other._was_lost = None, [], False, False
        self._others.append(other)
        return self._carry_out(other._connect())

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Return the same client for plain code, even inside a running event loop."""
        return SyncEnvClient(self)

    def __enter__(self) -> Self:
        self._claim("sync")
        _wait(self._connect())
        return self

    def __exit__(self, *error: object) -> None:
        _wait(self._close())

    async def __aenter__(self) -> Self:
        self._claim("async")
        return await _await(self._connect())

    async def __aexit__(self, *error: object) -> None:
        await _await(self._close())

    @classmethod
    def from_docker_image(cls, image: str, provider: Any = None, **kwargs: Any) -> Self:
        """Return a client of a container that ``provider`` starts with its ``start_container``."""
        if provider is None:
            raise PlanError(
                f"from_docker_image({image!r:.80}) needs a provider= that starts containers. "
                "Or start it yourself and pass base_url=: docker run -p 127.0.0.1:8000:8000 IMAGE"
            )
        options: dict[str, Any] = {name: kwargs.pop(name) for name in ("port", "env_vars") if name in kwargs}

        def start() -> Any:
            base_url = provider.start_container(image, **options)
            provider.wait_for_ready(base_url)
            return base_url

        return cls(provider=SimpleNamespace(start=start, stop=lambda: provider.stop_container()), **kwargs)

    @classmethod
    def from_env(cls, repo_id: str, **kwargs: Any) -> Self:
        """Refuse: it would install a stranger's code."""
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
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                self._claim("sync")
            else:
                self._claim("async")
        assert self._kind is not None
        return self._kind

    def _result(self, value: Any) -> Any:
        """Return a result; as an awaitable in async code, and if a coroutine of a subclass awaits it."""
        return _ready(value) if self._bridged or self._kind == "async" else value

    def _carry_out(self, steps: Steps[Any]) -> Any:
        return _await(steps) if self._decide() == "async" else self._result(_wait(steps))

    def _ask(self, kind: str, data: Any, read: Callable[[dict[str, Any]], Any]) -> Any:
        return self._carry_out(self._exchange(kind, data, read))

    # Generators, written once for plain and async code: they yield what async code has to await.

    def _exchange(self, kind: str, data: Any, read: Callable[[dict[str, Any]], Any]) -> Steps[Any]:
        if self._asking:
            raise RuntimeError(f"{kind} while another call waits for its answer. One client has one call at a time.")
        if self._was_lost and kind != "reset":
            raise session_gone(kind)
        self._asking, self._was_lost = True, False
        if kind == "reset" and self._line is not None and not self._line.usable():
            self._line = None  # a new episode needs nothing of the old connection
        try:
            yield from self._connect()
            assert self._line is not None
            return read((yield self._line.ask(kind, data)))
        finally:
            self._asking = False
            if self._line is not None and not self._line.live:
                self._line, self._was_lost = None, True

    def _connect(self) -> Steps[Self]:
        if self._line is None:
            base_url = self._server.start()
            every_s, answer_s = self._pings
            endpoint = endpoint_of(base_url, self._headers)
            line = Line(endpoint, self._connect_s, self._answer_s, every_s, answer_s, self._max_bytes, base_url)
            try:
                self._line = yield (AsyncLine.open(line) if self._kind == "async" else BlockingLine(line))
            except Unreachable:
                raise
            except OSError as error:
                place = f"{endpoint.display_name}{endpoint.path}"
                raise Unreachable(f"Failed to connect to {place}: {error}") from error
        return self

    def _disconnect(self) -> Steps[None]:
        line, self._line = self._line, None
        if line is not None:
            yield line.close()

    def _close(self) -> Steps[None]:
        others, self._others = self._others, []
        for other in others:
            yield from other._close()
        try:
            yield from self._disconnect()
        finally:
            self._server.stop()


def _wait(steps: Steps[T]) -> T:
    try:
        value = next(steps)
        while True:
            value = steps.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _await(steps: Steps[T]) -> T:
    try:
        waiting = next(steps)
        while True:
            try:
                value = await waiting
            except BaseException as error:
                waiting = steps.throw(error)
            else:
                waiting = steps.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _ready(value: Any) -> Any:
    return value


class GenericAction(Record):
    """A dict made of keywords, to say in code that this is an action.

    >>> GenericAction(code="print(1)")
    GenericAction(code='print(1)')
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)

    def __repr__(self) -> str:
        return f"GenericAction({', '.join(f'{name}={value!r}' for name, value in self.items())})"


class GenericEnvClient(EnvClient[Record, Record, Record]):
    """A client for any server: observations and states are dicts; actions may be dicts, models or plain objects."""

    def _step_payload(self, action: Any) -> Record:
        if isinstance(action, dict):
            return action
        if hasattr(action, "model_dump"):
            return action.model_dump()  # type: ignore[no-any-return]
        return dict(vars(action)) if hasattr(action, "__dict__") else dict(action)

    def _parse_result(self, payload: Record) -> StepResult[Record]:
        return StepResult(
            payload.get("observation", {}), payload.get("reward"), payload.get("done", False), payload.get("metadata")
        )

    def _parse_state(self, payload: Record) -> Record:
        return payload


class SyncEnvClient(Generic[ActT, ObsT, StateT]):
    """An EnvClient for plain code, even inside a running event loop. Other attributes are those of the client.

    Calling a coroutine function of a subclass runs the coroutine to its end.
    """

    def __init__(self, async_client: EnvClient[ActT, ObsT, StateT]) -> None:
        if async_client._kind == "async" and async_client._line is not None:
            raise RuntimeError("This client is connected in async code. disconnect() it there, or make another one.")
        async_client._kind = "sync"
        self._client = async_client
        self._loop = PrivateLoop()

    @property
    def async_client(self) -> EnvClient[ActT, ObsT, StateT]:
        return self._client

    def connect(self) -> Self:
        _wait(self._client._connect())
        return self

    def disconnect(self) -> None:
        _wait(self._client._disconnect())

    def reset(self, **kwargs: Any) -> StepResult[ObsT]:
        return self._client.reset(**kwargs)  # type: ignore[no-any-return]

    def step(self, action: ActT, **kwargs: Any) -> StepResult[ObsT]:
        return self._client.step(action, **kwargs)  # type: ignore[no-any-return]

    def state(self) -> StateT:
        return self._client.state()  # type: ignore[no-any-return]

    def new_session(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        return SyncEnvClient(self._client.new_session())

    def close(self) -> None:
        try:
            _wait(self._client._close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name in ("_client", "_loop"):  # not made yet
            raise AttributeError(name)
        found = getattr(self._client, name)
        if not inspect.iscoroutinefunction(found):
            return found

        @functools.wraps(found)
        def waiting(*args: Any, **kwargs: Any) -> Any:
            self._client._bridged = True
            try:
                return self._loop.run(found(*args, **kwargs))
            finally:
                self._client._bridged = False

        return waiting


class ProvidedServer:
    """The server that a provider starts for a client, and stops with it; or one that runs already.

    ``provider`` has ``start`` (the URL), ``stop`` and perhaps ``wait_for_ready``, as OpenEnv's have.
    """

    def __init__(self, provider: Any, base_url: str | None) -> None:
        self._provider, self.base_url = provider, base_url
        self._started = False

    def start(self) -> str:
        """Return the server's URL; the first call starts it."""
        if self.base_url is None:
            if not hasattr(self._provider, "start"):
                raise PlanError(
                    f"{type(self._provider).__name__} has no start(). Give base_url=, or use from_docker_image."
                )
            base_url = self._provider.start()
            self._started = True
            if not isinstance(base_url, str):
                raise PlanError(f"{type(self._provider).__name__}.start() returned {base_url!r:.80}, expected a URL.")
            if hasattr(self._provider, "wait_for_ready"):
                self._provider.wait_for_ready()
            self.base_url = base_url
        return self.base_url

    def stop(self) -> None:
        if self._started:
            self._started = False
            self._provider.stop()
            self.base_url = None


# ── One question and its answer at a time over a websocket, for asyncio. Pings are answered at any time ──
#
# A cancelled call leaves an answer owed, so it closes the connection, like a call that timed out.


class AsyncLine:
    """Made by ``open``. After an error other than a ServerError it is closed, and ``live`` is False."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._connection: AsyncConnection | None = None
        self._came: asyncio.Queue[Text | Closed] = asyncio.Queue()
        self._heard_s = 0.0
        self._closed_silently = False
        self.live = True

    @classmethod
    async def open(cls, line: Line) -> AsyncLine:
        """Connect: UpgradeRefused, OSError or TimeoutError if it can't within ``line.connect_s``."""
        made = cls(line)
        made._connection = await AsyncConnection.connect(
            line.endpoint,
            made._on_event,
            made._on_end,
            timeout_s=line.connect_s,
            max_bytes=line.max_bytes,
            context=line.context,
        )
        return made

    def _on_event(self, event: Event) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        if isinstance(event, Text):
            self._came.put_nowait(event)

    def _on_end(self, why: BaseException | Closed) -> None:
        self._closed_silently = self._came.empty()
        self._came.put_nowait(why if isinstance(why, Closed) else Closed(ABNORMAL, str(why)))

    def usable(self) -> bool:
        if self._closed_silently:
            self._abort()
        return self.live

    async def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        text = question(kind, data)
        try:
            return answer(kind, await self._exchange(kind, text))
        except ServerError as error:
            if error.ends:
                self._abort()
            raise
        except BaseException:
            self._abort()
            raise

    async def _exchange(self, kind: str, text: str) -> str:
        if not self.live or self._connection is None:
            raise connection_lost(kind, "it was closed before")
        early = not self._came.empty()  # the server spoke first: it refuses, or it broke the protocol
        if not early:
            self._connection.send_text(text)
        event = await self._next(kind, self._connection)
        if isinstance(event, Closed):
            raise connection_lost(kind, f"closed by the server with code {event.code} {event.reason}".rstrip())
        if early and '"error"' not in event.text[:20]:
            raise connection_lost(kind, "the server sent an answer without a request")
        return event.text

    async def _next(self, kind: str, connection: AsyncConnection) -> Text | Closed:
        """The next message, within the time for an answer; raises if the server does not answer a ping."""
        line, loop = self._line, asyncio.get_running_loop()
        began_s = loop.time()
        ends_s, every_s = began_s + line.answer_s, line.ping_every_s
        patience_s = line.answer_s if line.ping_answer_s is None else line.ping_answer_s
        pinged_s: float | None = None
        while (now_s := loop.time()) < ends_s:
            if pinged_s is not None and self._heard_s >= pinged_s:
                pinged_s = None
            if pinged_s is not None and now_s - pinged_s >= patience_s:
                raise connection_lost(kind, f"no answer to a ping within {patience_s:g} s")
            if every_s is not None and pinged_s is None and now_s - max(self._heard_s, began_s) >= every_s:
                connection.ping()
                pinged_s = now_s
            wait_s = ends_s - now_s if every_s is None else min(ends_s - now_s, every_s, patience_s)
            with suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(self._came.get(), wait_s)
        raise outcome_unknown(kind, line.answer_s)

    def _abort(self) -> None:
        self.live = False
        if self._connection is not None:
            self._connection.abort()

    async def close(self) -> None:
        """Say "close" as OpenEnv's clients do, then close the connection. Safe to call twice."""
        if self.live and self._connection is not None:
            self.live = False
            if self._came.empty():
                self._connection.send_text(question("close"))
            await self._connection.close()
