"""HostedEnv: an Env whose other half is a Host at the far end of a Channel. None of its code runs here.

AsyncHostedEnv is the same for asyncio: ``await env.step(a)``. It is not an Env: code that expects one would call
``step`` and get a coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.state import State
from paddock.errors import ClosedEnvironmentError, PaddockError, ResetNeeded, SnapshotUnsupported, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.channel import Channel
from paddock.hosting.judge import Judge, WallRules, read_spec
from paddock.hosting.messages import V2
from paddock.seeding import to_seed
from paddock.spaces import Space

if TYPE_CHECKING:
    from typing_extensions import Self

_NOT_MADE = "This environment can't be forked: it was not made by paddock.make()."
_NUMBER = 0  # the channel holds this environment alone
_OWN_NAMES = {"observation_space", "action_space", "metadata", "render_mode", "spec", "np_random"}


class HostedEnv(Env[Any, Any]):
    """The environment that ``what`` describes, made by the Host behind ``channel``; closing it closes the channel.

    Pass ``spaces`` (observation, action) of a user's own class, which have no form on the wire. With ``wall`` the far
    end is not trusted: if it breaks these rules it is killed, and EnvironmentViolation raised.
    """

    def __init__(
        self,
        channel: Channel,
        what: dict[str, Any],
        *,
        spaces: tuple[Space[Any], Space[Any]] | None = None,
        wall: WallRules | None = None,
    ) -> None:
        self._channel = channel
        self._closed = False
        self._another: Callable[[], Any] | None = None  # makes an environment like this one
        self._ordered = wall is not None and wall.ordered
        self._needs_reset = self._ordered
        self._judge = Judge(rules=wall)
        try:
            self._ask(m.Make(_NUMBER, what), partial(_adopt, self, spaces=spaces))
        except BaseException:
            channel.close()
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        # What Env and this class define belongs to this side; anything else would change a copy that is never read.
        if name.startswith("_") or name in _OWN_NAMES:
            super().__setattr__(name, value)
        else:
            raise AttributeError(
                f"{name!r} belongs to the environment, which runs elsewhere. Use env.set_wrapper_attr({name!r}, value)."
            )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{name!r} is only available where the environment runs. Use env.get_wrapper_attr({name!r}), or env.call."
        )

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        found: tuple[Any, Info] = self._ask(m.Reset(_NUMBER, None if seed is None else to_seed(seed), options))
        self._needs_reset = False
        return found

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        if self._needs_reset:
            raise ResetNeeded("Cannot call `env.step()` before `env.reset()`, nor after the end of an episode.")
        result = self._ask(self._judge.request_step(action))
        if self._ordered and (result[2] or result[3]):
            self._needs_reset = True
        return result  # type: ignore[no-any-return]

    def render(self) -> Any:
        return self._ask(m.Render(_NUMBER))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.close()

    def abandon(self) -> None:
        """Kill the far end at once, from any thread: a call that waits for an answer raises WorkerLost."""
        self._channel.kill("was ended: its answer is no longer needed")

    def worker_output(self) -> str:
        """What its worker has printed, if that is kept: it is behind a wall, elsewhere it goes to stderr."""
        read = getattr(self._channel, "worker_output", None)
        return "" if read is None else read()

    def state(self) -> State:
        """The state at the far end. See :func:`paddock.state`."""
        return State(*self._ask(m.State(_NUMBER)))

    def episode(self) -> tuple[str | None, int | None]:
        """The episode's id and the steps taken in it."""
        episode_id, step_count, _ = self._ask(m.State(_NUMBER))
        return episode_id, step_count

    def public_state(self) -> Any:
        """What the environment chose to show."""
        return self._ask(m.State(_NUMBER))[2]

    def snapshot(self) -> bytes:
        return self._ask(m.Snapshot(_NUMBER))  # type: ignore[no-any-return]

    def restore(self, snapshot: bytes) -> None:
        self._ask(m.Restore(_NUMBER, snapshot))
        self._needs_reset = False  # whether it had ended when it was taken, only the far end knows

    def fork(self) -> Self:
        """Another environment in the same state, with a far end of its own."""
        if self._another is None:
            raise SnapshotUnsupported(_NOT_MADE)
        snapshot = self.snapshot()
        other: Self = self._another()
        try:
            other.restore(snapshot)
        except BaseException:
            other.close()
            raise
        return other

    def has_wrapper_attr(self, name: str) -> bool:
        return hasattr(self, name) or bool(self._find(name))

    def get_wrapper_attr(self, name: str) -> Any:
        """An attribute of the environment at the far end; a method there is a function here that calls it."""
        if hasattr(type(self), name) or name in self.__dict__:
            return getattr(self, name)
        if self._find(name) == "callable":
            return partial(self.call, name)
        return self._get(name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        return self._ask(m.Call(_NUMBER, name, [value], {"force": force}, "set"))  # type: ignore[no-any-return]

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The far end's attribute, called with the arguments if it is callable."""
        return self._ask(m.Call(_NUMBER, name, list(args), kwargs))

    @property
    def np_random(self) -> np.random.Generator:
        """A copy of the far end's generator: drawing from it leaves the environment alone."""
        return self._get("np_random")  # type: ignore[no-any-return]

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.set_wrapper_attr("np_random", value)

    @property
    def np_random_seed(self) -> int:
        return self._get("np_random_seed")  # type: ignore[no-any-return]

    def _find(self, name: str) -> str:
        return self._ask(m.Call(_NUMBER, name, how="has"))  # type: ignore[no-any-return]

    def _get(self, name: str) -> Any:
        return self._ask(m.Call(_NUMBER, name, how="get"))

    def _ask(self, request: m.Request, then: Callable[[Any], None] | None = None) -> Any:
        """What came of a request; ``then`` takes it too, and may still find it false."""
        if self._closed:
            raise ClosedEnvironmentError("This environment is closed. Make it again.")
        try:
            self._channel.send(request)
        except WorkerLost as error:
            raise WorkerLost(_with_advice(str(error)), cause=error.cause) from None
        reply = self._channel.recv()
        try:
            found = self._judge.read(request, reply)
            if then is not None:
                then(found)
            return found
        except self._judge.ends as error:
            raise kill_because(error, self._channel) from None


def _with_advice(text: str) -> str:
    if text.endswith("Begin a new session."):
        return text
    gap = "\n" if "\n" in text else " "  # it ends with what the worker printed, and this is not part of that
    return f"{text}{gap}Make the environment again."


def kill_because(error: PaddockError, channel: Channel | AsyncChannel) -> PaddockError:
    """Kill the far end of a channel because of what it said; returns the error to raise."""
    text, cause = str(error).rstrip("."), getattr(error, "cause", "ended")
    lost = channel.kill(text if cause == "memory" else f"was ended: {text}", cause=cause)
    return lost if isinstance(error, WorkerLost) else error


class AsyncChannel(Protocol):
    """What AsyncHostedEnv needs of a channel."""

    async def ask(self, request: m.Request, timeout: float | None = None) -> m.StepReply:
        """Send a request and wait for its reply."""

    def kill(self, reason: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """Kill the far end at once; returns what later calls will raise."""

    async def close(self) -> None:
        """Free the far end."""


class AsyncHostedEnv:
    """HostedEnv for asyncio, made by ``await AsyncHostedEnv.make(…)``.

    Calls are carried out in their order, whichever task they come from.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    spec: EnvSpec | None

    def __init__(self, channel: AsyncChannel, rules: WallRules | None) -> None:
        self._channel, self._judge = channel, Judge(rules=rules)
        self._another: Callable[[], Awaitable[AsyncHostedEnv]] | None = None  # makes an environment like this one
        self._closed = False

    @classmethod
    async def make(
        cls, channel: AsyncChannel, what: dict[str, Any], *, wall: WallRules | None = None
    ) -> AsyncHostedEnv:
        """Make the environment that ``what`` describes; closes the channel if that fails. ``wall``: see HostedEnv."""
        env = cls(channel, wall)
        try:
            await env._ask(m.Make(_NUMBER, what), partial(_adopt, env))
        except BaseException:
            await channel.close()
            raise
        return env

    async def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode: observation and info."""
        return await self._ask(m.Reset(_NUMBER, None if seed is None else to_seed(seed), options))  # type: ignore[no-any-return]

    async def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """Observation, reward, terminated, truncated, info."""
        return await self._ask(self._judge.request_step(action))  # type: ignore[no-any-return]

    async def render(self) -> Any:
        """What the environment's ``render`` returned."""
        return await self._ask(m.Render(_NUMBER))

    async def state(self) -> State:
        """The state at the far end. See :func:`paddock.state`."""
        return State(*await self._ask(m.State(_NUMBER)))

    async def snapshot(self) -> bytes:
        """What ``restore`` goes on from."""
        return await self._ask(m.Snapshot(_NUMBER))  # type: ignore[no-any-return]

    async def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot."""
        await self._ask(m.Restore(_NUMBER, snapshot))

    async def fork(self) -> AsyncHostedEnv:
        """Another environment in the same state, with a far end of its own."""
        if self._another is None:
            raise SnapshotUnsupported(_NOT_MADE)
        snapshot = await self.snapshot()
        other = await self._another()
        try:
            await other.restore(snapshot)
        except BaseException:
            await other.close()
            raise
        return other

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The far end's attribute, called with the arguments if it is callable."""
        return await self._ask(m.Call(_NUMBER, name, list(args), kwargs))

    async def close(self) -> None:
        """Close the environment and its channel; safe to call twice."""
        if not self._closed:
            self._closed = True
            await self._channel.close()

    async def __aenter__(self) -> AsyncHostedEnv:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        where = getattr(self._channel, "address", None)
        return "AsyncHostedEnv()" if where is None else f"AsyncHostedEnv({where}, wire {_wire(self._channel)})"

    async def _ask(self, request: m.Request, then: Callable[[Any], None] | None = None) -> Any:
        if self._closed:
            raise ClosedEnvironmentError("This environment is closed. Make it again.")
        reply = await self._channel.ask(request)
        try:
            found = self._judge.read(request, reply)
            if then is not None:
                then(found)
            return found
        except self._judge.ends as error:
            raise kill_because(error, self._channel) from None


def _adopt(
    env: HostedEnv | AsyncHostedEnv, described: m.Description, *, spaces: tuple[Space[Any], Space[Any]] | None = None
) -> None:
    """Give ``env`` what the reply to its Make describes."""
    rows = _wire(env._channel) == V2
    env.observation_space, env.action_space = env._judge.spaces(described, spaces, rows=rows)
    env.spec = read_spec(described, env._judge.rules)
    env.metadata, env.render_mode = described.metadata, described.render_mode


def _wire(channel: Channel | AsyncChannel) -> str:
    return getattr(channel, "wire", V2)  # only a server may speak an older one
