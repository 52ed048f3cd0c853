"""OpenEnv's clients: the same methods wait in plain code and are awaited in async code, but one client does only one.

``with``, ``async with`` and ``sync()`` decide which; else the first call does: in a running event loop the methods
return awaitables. Whoever looks at such a result without ``await``, as in a notebook, decides for plain code.
None of this needs pydantic or the environment's package.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
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
    too_large,
)
from paddock.hosting.private_loop import PrivateLoop
from paddock.hosting.websocket.asynchronous import AsyncConnection
from paddock.hosting.websocket.events import ABNORMAL, TOO_LARGE, Closed, Event, Text, WebSocketError

if TYPE_CHECKING:
    from typing_extensions import Self


ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")
T = TypeVar("T")
ClientT = TypeVar("ClientT", bound="EnvClient[Any, Any, Any]")

Record = dict[str, Any]
Steps: TypeAlias = "Generator[Any, Any, T]"

_MODES = ("simulation", "production")
# Arguments of the factories that are the client's; all others are the provider's.
_CLIENT_OPTIONS = (
    "connect_timeout_s",
    "message_timeout_s",
    "max_message_size_mb",
    "websocket_ping_interval_s",
    "websocket_ping_timeout_s",
    "mode",
    "headers",
)


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
        """``base_url``: the server's; or a ``provider`` that starts one at the first call and stops it at ``close``.

        ``mode``: 'simulation', the default, or 'production' for clients that only call tools; also the variable
        OPENENV_CLIENT_MODE. ``max_message_size_mb``: the largest answer. ``headers``: only Authorization.
        """
        if base_url is None and provider is None:
            raise PlanError("EnvClient requires either base_url=, the server's URL, or a provider= that starts one.")
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
        self._sync: SyncEnvClient[Any, Any, Any] | None = None
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
        return self._carry_out(self._new_session())

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Return the same client for plain code, even inside a running event loop."""
        if self._sync is None:
            self._sync = SyncEnvClient(self)
        return self._sync

    def __enter__(self) -> Self:
        self._claim("sync")
        return _wait(self._enter())

    def __exit__(self, *error: object) -> None:
        _wait(self._close())

    async def __aenter__(self) -> Self:
        self._claim("async")
        return await _await(self._enter())

    async def __aexit__(self, *error: object) -> None:
        await _await(self._close())

    @classmethod
    def from_docker_image(cls, image: str, provider: Any = None, **kwargs: Any) -> Starting[Self]:
        """Run an image and connect to it: ``await`` the result, or call its ``sync()``. Closing stops the container.

        ``provider``: a ContainerProvider, by default LocalDockerProvider. Arguments that are not the client's, such as
        ``port`` and ``env_vars``, go to its ``start_container``.
        """
        from paddock.openenv.containers import ImageRuntime  # when first used: most clients connect to a URL

        options = {name: kwargs.pop(name) for name in _CLIENT_OPTIONS if name in kwargs}
        runtime = ImageRuntime(image, provider, **kwargs)
        return Starting(runtime, lambda url: cls(base_url=url, provider=runtime, **options))

    @classmethod
    def from_env(cls, repo_id: str, *, use_docker: bool = True, provider: Any = None, **kwargs: Any) -> Starting[Self]:
        """Run the image of a Hugging Face Space and connect to it, as ``from_docker_image`` does; ``tag``: "latest".

        ``use_docker=False``: run a folder of this machine with uv, ``project_path=``. Nothing is downloaded for that.
        """
        from paddock.openenv.containers import UVProvider, image_of_space

        if use_docker:
            tag = kwargs.pop("tag", "latest")
            return cls.from_docker_image(image_of_space(repo_id, tag), provider, **kwargs)
        options = {name: kwargs.pop(name) for name in _CLIENT_OPTIONS if name in kwargs}
        at_start = {name: kwargs.pop(name) for name in ("port", "env_vars", "workers") if name in kwargs}
        if provider is not None and kwargs:
            raise ValueError(f"provider_kwargs cannot be used when supplying a provider instance: {', '.join(kwargs)}.")
        if provider is None and "project_path" not in kwargs:
            raise PlanError(
                f"from_env({repo_id!r:.80}, use_docker=False) would download code and run it here with all your "
                "rights. Download the folder and use paddock.make('./folder'), which runs it behind a wall, or pass "
                "project_path='./folder' if you trust it. Or connect to a server that has it: base_url='https://…'."
            )
        runs = UVProvider(**kwargs) if provider is None else provider
        bound = SimpleNamespace(
            start=lambda: runs.start(**at_start), stop=runs.stop, wait_for_ready=runs.wait_for_ready
        )
        return Starting(bound, lambda url: cls(base_url=url, provider=runs, **options))

    @classmethod
    def from_hub(cls, repo_id: str, **kwargs: Any) -> Starting[Self]:
        """Do what ``from_env`` does."""
        return cls.from_env(repo_id, **kwargs)

    def _claim(self, kind: str) -> None:
        line = self._line if isinstance(self._line, AsyncLine) else None
        if self._kind == "async" and kind == "sync" and not (line is not None and line.in_running_loop()):
            # Its event loop has ended, as after asyncio.run(Client.from_env(…)), and the session ends with it.
            if line is not None:
                line.cut()
                self._was_lost, self._line = True, None
        elif self._kind not in (None, kind):
            raise RuntimeError(
                f"This client is already being used in {self._kind} mode. Create another one for {kind} code."
            )
        self._kind = kind

    def _decide(self) -> str:
        here = "sync" if asyncio._get_running_loop() is None else "async"
        if self._kind is None or (self._kind, here) == ("async", "sync"):
            self._claim(here)
        assert self._kind is not None
        return self._kind

    def _result(self, value: Any) -> Any:
        """Return a result; as an awaitable in async code, and if a coroutine of a subclass awaits it."""
        return _ready(value) if self._bridged or self._kind == "async" else value

    def _carry_out(self, steps: Steps[Any]) -> Any:
        if self._kind is None and asyncio._get_running_loop() is not None:
            return Undecided(self, steps)
        return _await(steps) if self._decide() == "async" else self._result(_wait(steps))

    def _aside(self, function: Callable[[], Any]) -> Any:
        """Call what blocks: in async code in a thread, so that other tasks and their pings go on."""
        return asyncio.to_thread(function) if self._kind == "async" else function()

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
            base_url = self._server.base_url or (yield self._aside(self._server.start))
            every_s, answer_s = self._pings
            endpoint = endpoint_of(base_url, self._headers)
            line = Line(endpoint, self._connect_s, self._answer_s, every_s, answer_s, self._max_bytes, base_url)
            try:
                self._line = yield (AsyncLine.open(line) if self._kind == "async" else BlockingLine(line))
            except OSError as error:
                with suppress(Exception):
                    yield from self._stop_server()
                if isinstance(error, Unreachable):
                    raise
                place = f"{endpoint.display_name}{endpoint.path}"
                raise Unreachable(f"Failed to connect to {place}: {error}") from error
        return self

    def _enter(self) -> Steps[Self]:
        try:
            return (yield from self._connect())
        except BaseException:  # no one else can close it
            with suppress(Exception):
                yield from self._close()
            raise

    def _new_session(self) -> Steps[Self]:
        base_url = self._server.base_url or (yield self._aside(self._server.start))
        other = copy.copy(self)
        other._server = ProvidedServer(None, base_url)
        other._line, other._others, other._asking, other._was_lost, other._sync = None, [], False, False, None
        yield from other._connect()
        self._others.append(other)
        return other

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
            yield from self._stop_server()

    def _stop_server(self) -> Steps[None]:
        if self._server.runs:
            yield self._aside(self._server.stop)


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


class Lazy(Coroutine[Any, Any, T]):
    """A coroutine that begins when it is first driven: one that is dropped has done nothing, and is not warned of."""

    _coroutine: Coroutine[Any, Any, T] | None = None

    @abstractmethod
    def _begin(self) -> Coroutine[Any, Any, T]:
        """Return the coroutine."""

    def _driven(self) -> Coroutine[Any, Any, T]:
        if self._coroutine is None:
            self._coroutine = self._begin()
        return self._coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        return self._driven().__await__()

    def send(self, value: Any) -> Any:
        return self._driven().send(value)

    def throw(self, *error: Any) -> Any:
        return self._driven().throw(*error)

    def close(self) -> None:
        if self._coroutine is not None:
            self._coroutine.close()


class Undecided(Lazy[Any]):
    """The result of a call in a running event loop: awaiting it decides for async code, looking at it for plain."""

    def __init__(self, client: EnvClient[Any, Any, Any], steps: Steps[Any]) -> None:
        self._client, self._steps = client, steps

    async def _begin(self) -> Any:
        self._client._claim("async")
        return await _await(self._steps)

    def _found(self) -> Any:
        if not hasattr(self, "_value"):
            self._client._claim("sync")
            self._value = _wait(self._steps)
        return self._value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._found(), name)

    def __bool__(self) -> bool:
        return bool(self._found())

    def __repr__(self) -> str:
        return repr(self._value) if hasattr(self, "_value") else "<not carried out yet: await it, or use the result>"


class Starting(Lazy[ClientT]):
    """A client whose server is not started yet: ``await`` it in async code, or call ``sync()`` in plain code. Once."""

    def __init__(self, provider: Any, make: Callable[[str], ClientT]) -> None:
        self._server: ProvidedServer | None = ProvidedServer(provider, None)
        self._make = make

    def _take(self) -> ProvidedServer:
        server, self._server = self._server, None
        if server is None:
            raise RuntimeError("This client was started already. Call the factory again for another one.")
        return server

    async def _begin(self) -> ClientT:
        server, client = self._take(), None
        try:
            client = self._make(await asyncio.to_thread(server.start))
        finally:
            if client is None:
                await asyncio.to_thread(server.stop)
        return await client.__aenter__()

    def sync(self) -> SyncEnvClient[Any, Any, Any]:
        """Start the server and connect, in plain code."""
        server, client = self._take(), None
        try:
            client = self._make(server.start())
        finally:
            if client is None:
                server.stop()
        return client.sync().__enter__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: await it, or call sync()>"


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


class HTTPEnvClient(EnvClient[ActT, ObsT, Any]):
    """The client of OpenEnv before 0.2, with its type parameters and arguments. Unlike that one, it keeps one session.

    Environments of that time are still around.
    """

    def __init__(
        self,
        base_url: str | None = None,
        request_timeout_s: float = 15.0,
        default_headers: dict[str, str] | None = None,
        provider: Any = None,
    ) -> None:
        super().__init__(base_url, message_timeout_s=request_timeout_s, headers=default_headers, provider=provider)


class SyncEnvClient(Generic[ActT, ObsT, StateT]):
    """An EnvClient for plain code, even inside a running event loop. Other attributes are those of the client.

    Calling a coroutine function of a subclass runs the coroutine to its end.
    """

    def __init__(self, async_client: EnvClient[ActT, ObsT, StateT]) -> None:
        async_client._claim("sync")
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
        _wait(self._client._enter())
        return self

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


def convert_to_ws_url(url: str) -> str:
    """Return the ws:// or wss:// form of an address, without a slash at its end.

    >>> convert_to_ws_url("https://host:8000/")
    'wss://host:8000'
    """
    url = url.rstrip("/")
    if url.startswith(("http://", "https://")):
        return f"ws{url.removeprefix('http')}"
    return url if url.startswith(("ws://", "wss://")) else f"ws://{url}"


class ProvidedServer:
    """The server of a client: one that runs already, or that a provider starts. The provider is stopped with it.

    ``provider`` has ``start_container`` (without arguments) or ``start``, which return the URL, as OpenEnv's have.
    """

    def __init__(self, provider: Any, base_url: str | None) -> None:
        self._provider, self.base_url = provider, base_url
        self._starts = base_url is None
        self.runs = provider is not None and not self._starts  # whether there is something to stop
        self._lock = threading.Lock()  # a start that is not awaited any more goes on in its thread

    def start(self) -> str:
        """Return the server's URL; the first call starts it."""
        with self._lock:
            if self.base_url is None:
                self.runs = True  # before: what fails halfway may leave something to stop
                try:
                    self.base_url = _start(self._provider)
                except BaseException:
                    with suppress(Exception):
                        self._stop()
                    raise
            return self.base_url

    def stop(self) -> None:
        """Stop what the provider has started; if that fails, the next call tries again."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self.runs:
            (self._provider.stop_container if hasattr(self._provider, "stop_container") else self._provider.stop)()
            self.runs = False
            if self._starts:
                self.base_url = None


def _start(provider: Any) -> str:
    name = type(provider).__name__
    if hasattr(provider, "start_container"):
        parameters = inspect.signature(provider.start_container).parameters.values()
        varied = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = [one.name for one in parameters if one.default is one.empty and one.kind not in varied]
        if needed:
            raise PlanError(
                f"{name} does not support provider-owned startup because start_container() requires "
                f"{', '.join(needed)}. Give base_url=, or use from_docker_image."
            )
        base_url: str = provider.start_container()
        provider.wait_for_ready(base_url)
    elif hasattr(provider, "start"):
        base_url = provider.start()
        if hasattr(provider, "wait_for_ready"):
            provider.wait_for_ready()
    else:
        raise TypeError(f"provider must define start_container() or start(), and {name} has neither.")
    return base_url


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
        self._closed_silently = self._too_large = False
        self._loop = asyncio.get_running_loop()
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
        self._too_large = isinstance(why, WebSocketError) and why.close_code == TOO_LARGE
        self._came.put_nowait(why if isinstance(why, Closed) else Closed(ABNORMAL, str(why)))

    def usable(self) -> bool:
        if self._closed_silently:
            self._abort()
        return self.live

    def in_running_loop(self) -> bool:
        return self._loop.is_running()

    def cut(self) -> None:
        """End it, although its event loop does not run any more."""
        self.live = False
        if self._connection is not None:
            self._connection.cut()

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
        if isinstance(event, Closed) and self._too_large:
            raise too_large(kind, self._line.max_bytes)
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
