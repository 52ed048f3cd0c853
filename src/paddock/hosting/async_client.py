"""AsyncHostedEnv: HostedEnv for asyncio, with the same messages and the same reading of replies. ``await env.step(a)``.

It is no Env: code that expects one would call ``step`` and get a coroutine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Protocol, SupportsFloat, TypeVar

from paddock.core.env import Info
from paddock.core.spec import EnvSpec
from paddock.core.spec_json import decode_spec
from paddock.core.state import State
from paddock.errors import ClosedEnvironmentError, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.client import described_spaces, read_description
from paddock.hosting.reply_reader import UNWALLED, ReplyReader
from paddock.hosting.wall import Wall
from paddock.hosting.wall_description import checked_description, checked_spaces, checked_spec
from paddock.hosting.wall_rules import WallRules
from paddock.seeding import to_seed
from paddock.spaces import Discrete, Space

_NUMBER = 0  # a channel of its own holds one environment
_NOTHING = Discrete(1)  # until it is made nothing is observed

Read = TypeVar("Read")


class AsyncChannel(Protocol):
    """What AsyncHostedEnv needs of a channel."""

    async def ask(self, request: m.Request, timeout: float | None = None) -> m.Reply:
        """Send a request and wait for its reply."""

    def lose(self, how: str | None = None, *, cause: str | None = None) -> WorkerLost:
        """End the far end at once."""

    async def close(self) -> None:
        """Free the far end."""


class AsyncHostedEnv:
    """The environment that ``what`` describes, made by the Host behind ``channel`` in ``await AsyncHostedEnv.make(…)``.

    With ``wall`` nothing of what the far end says is believed, see HostedEnv. Calls are carried out in their order,
    whichever task they come from.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    spec: EnvSpec | None

    def __init__(self, channel: AsyncChannel, gate: ReplyReader) -> None:
        self._channel, self._gate = channel, gate
        self._closed = False

    @classmethod
    async def make(
        cls, channel: AsyncChannel, what: dict[str, Any], *, wall: WallRules | None = None
    ) -> AsyncHostedEnv:
        """Make the environment; the channel is closed if that fails."""
        env = cls(channel, UNWALLED if wall is None else Wall(_NOTHING, wall))
        try:
            await env._ask(m.Make(_NUMBER, what), partial(env._adopt, wall=wall))
        except BaseException:
            await channel.close()
            raise
        return env

    def _adopt(self, value: Any, *, wall: WallRules | None) -> None:
        if wall is None:
            described = read_description(value)
            self.observation_space, self.action_space = described_spaces(described)
            self.spec = None if described.spec is None else decode_spec(described.spec)
        else:
            described = checked_description(value, wall)
            self.observation_space, self.action_space = checked_spaces(described, wall)
            self.spec = checked_spec(described)
            self._gate = Wall(self.observation_space, wall)
        self.metadata, self.render_mode = described.metadata, described.render_mode

    async def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode: observation and info."""
        request = m.Reset(_NUMBER, None if seed is None else to_seed(seed), options)
        return await self._ask(request, self._gate.reset)

    async def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """Observation, reward, terminated, truncated, info."""
        return await self._ask(m.Step([_NUMBER], [action]), self._gate.step)

    async def render(self) -> Any:
        """What the environment's ``render`` returned."""
        return await self._ask(m.Render(_NUMBER), partial(self._gate.render, mode=self.render_mode))

    async def state(self) -> State:
        """The state at the far end. See :func:`paddock.state`."""
        return State(*await self._ask(m.State(_NUMBER), self._gate.state))

    async def snapshot(self) -> bytes:
        """What ``restore`` goes on from."""
        return await self._ask(m.Snapshot(_NUMBER), self._gate.snapshot)

    async def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot."""
        await self._ask(m.Restore(_NUMBER, snapshot), lambda value: None)

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The far end's attribute, called with the arguments if it is callable."""
        request = m.Call(_NUMBER, name, list(args), kwargs)
        return await self._ask(request, partial(self._gate.value, name=name))

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
        return f"AsyncHostedEnv({where}, wire paddock.v1)" if where is not None else "AsyncHostedEnv()"

    async def _ask(self, request: m.Request, read: Callable[[Any], Read]) -> Read:
        if self._closed:
            raise ClosedEnvironmentError("This environment is closed. Make it anew.")
        reply = await self._channel.ask(request)
        try:
            if isinstance(reply, m.Failed):
                raise self._gate.failure(reply)
            return read(reply.value)
        except self._gate.ends as error:
            cause = getattr(error, "cause", "ended")
            lost = self._channel.lose(str(error) if cause == "memory" else f"was ended: {error}", cause=cause)
            raise (lost if isinstance(error, WorkerLost) else error) from None
