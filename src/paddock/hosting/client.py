"""HostedEnv: an Env whose other half is a Host at the far end of a Channel. Nothing of its code runs here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, SupportsFloat

import msgspec
import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec_json import decode_spec
from paddock.core.state import State
from paddock.errors import BadFrame, ClosedEnvironmentError, PaddockError, ResetNeeded, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.channel import Channel, Losable
from paddock.hosting.reply_reader import UNWALLED, ReplyReader
from paddock.hosting.wall import Wall
from paddock.hosting.wall_description import checked_description, checked_spaces, checked_spec
from paddock.hosting.wall_rules import WallRules
from paddock.seeding import to_seed
from paddock.spaces import Discrete, Space
from paddock.spaces.json_form import from_json

_NUMBER = 0  # a channel of its own holds one environment
_NOTHING = Discrete(1)  # until it is made nothing is observed
_OURS = {"observation_space", "action_space", "metadata", "render_mode", "spec", "np_random"}


class HostedEnv(Env[Any, Any]):
    """The environment that ``what`` describes, made by the Host behind ``channel``; closing it closes the channel.

    ``spaces`` (observation, action) are for those of a user's own class, which have no form on the wire. With ``wall``
    nothing of what the far end says is believed: what breaks these rules is an EnvironmentViolation, and it is ended.
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
        self._ordered = wall is not None and wall.ordered
        self._needs_reset = self._ordered
        self._gate: ReplyReader = UNWALLED if wall is None else Wall(_NOTHING, wall)
        try:
            self._ask(m.Make(_NUMBER, what), partial(self._adopt, spaces=spaces, wall=wall))
        except BaseException:
            channel.close()
            raise

    def _adopt(self, value: Any, *, spaces: tuple[Space[Any], Space[Any]] | None, wall: WallRules | None) -> None:
        if wall is None:
            described = read_description(value)
            self.observation_space, self.action_space = spaces or described_spaces(described)
            self.spec = None if described.spec is None else decode_spec(described.spec)
        else:
            described = checked_description(value, wall)
            self.observation_space, self.action_space = spaces or checked_spaces(described, wall)
            self.spec = checked_spec(described)
            self._gate = Wall(self.observation_space, wall)
        self.metadata = described.metadata
        self.render_mode = described.render_mode

    def __setattr__(self, name: str, value: Any) -> None:
        # What Env and this class define is this side's; anything else would change a copy that nobody reads.
        if name.startswith("_") or name in _OURS:
            super().__setattr__(name, value)
        else:
            raise AttributeError(
                f"{name!r} is the environment's, and that is elsewhere. Use env.set_wrapper_attr({name!r}, value)."
            )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{name!r} is not on this side of the environment. Use env.get_wrapper_attr({name!r}), or env.call."
        )

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        found: tuple[Any, Info] = self._ask(
            m.Reset(_NUMBER, None if seed is None else to_seed(seed), options), self._gate.reset
        )
        self._needs_reset = False
        return found

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        if self._needs_reset:
            raise ResetNeeded("Cannot call `env.step()` before `env.reset()`, nor after the end of an episode.")
        result = self._ask(m.Step([_NUMBER], [action]), self._gate.step)
        self._needs_reset = self._ordered and (result[2] or result[3])
        return result  # type: ignore[no-any-return]

    def render(self) -> Any:
        return self._ask(m.Render(_NUMBER), partial(self._gate.render, mode=self.render_mode))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.close()

    def abandon(self) -> None:
        """End the far end at once, from any thread: whoever waits there for an answer gets WorkerLost."""
        if isinstance(self._channel, Losable):
            self._channel.lose("was ended: nobody waits for it any more")
        else:
            self.close()

    def printed(self) -> str:
        """What its worker has printed, as far as that is kept; behind a wall it is, elsewhere it goes to stderr."""
        kept = getattr(self._channel, "printed", None)
        return "" if kept is None else kept()

    def state(self) -> State:
        """The state at the far end. See :func:`paddock.state`."""
        return State(*self._ask(m.State(_NUMBER), self._gate.state))

    def episode(self) -> tuple[str | None, int | None]:
        """The episode's id and the steps taken in it."""
        episode_id, step_count, _ = self._ask(m.State(_NUMBER), self._gate.state)
        return episode_id, step_count

    def public_state(self) -> Any:
        """What the environment chose to show."""
        return self._ask(m.State(_NUMBER), self._gate.state)[2]

    def snapshot(self) -> bytes:
        return self._ask(m.Snapshot(_NUMBER), self._gate.snapshot)  # type: ignore[no-any-return]

    def restore(self, snapshot: bytes) -> None:
        self._ask(m.Restore(_NUMBER, snapshot), _nothing)
        self._needs_reset = False  # whether it had ended when it was taken, only the far end knows

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
        return self._call(name, [value], {"force": force}, how="set")  # type: ignore[no-any-return]

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The far end's attribute, called with the arguments if it is callable."""
        return self._call(name, list(args), kwargs)

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
        return self._ask(m.Call(_NUMBER, name, how="has"), self._gate.found)  # type: ignore[no-any-return]

    def _get(self, name: str) -> Any:
        return self._call(name, [], {}, how="get")

    def _call(
        self, name: str, args: list[Any], kwargs: dict[str, Any], how: Literal["call", "get", "set"] = "call"
    ) -> Any:
        # What setting returns is no value of the attribute.
        read_as = f"set_wrapper_attr({name!r})" if how == "set" else name
        return self._ask(m.Call(_NUMBER, name, args, kwargs, how), partial(self._gate.value, name=read_as))

    def _ask(self, request: m.Request, read: Callable[[Any], Any]) -> Any:
        if self._closed:
            raise ClosedEnvironmentError("This environment is closed. Make it anew.")
        try:
            self._channel.send(request)
        except WorkerLost as error:
            raise WorkerLost(f"{error} Make the environment anew.", cause=error.cause) from None
        reply = self._channel.recv()
        try:
            if isinstance(reply, m.Failed):
                raise self._gate.failure(reply)
            return read(reply.value)
        except self._gate.ends as error:
            raise ended_by(error, self._channel) from None


def ended_by(error: PaddockError, channel: Channel) -> PaddockError:
    """End the far end of a channel because of what it said; what to raise."""
    if not isinstance(channel, Losable):
        channel.close()
        return error
    text, cause = str(error).rstrip("."), getattr(error, "cause", "ended")
    lost = channel.lose(text if cause == "memory" else f"was ended: {text}", cause=cause)
    return lost if isinstance(error, WorkerLost) else error


def _nothing(value: Any) -> None:
    """A reply in which only that it came matters."""


def read_description(value: Any) -> m.Description:
    """The Description in the reply to a Make."""
    try:
        return msgspec.convert(value, m.Description)
    except msgspec.ValidationError as error:
        raise BadFrame(f"Not the description of an environment: {error}.") from None


def described_spaces(described: m.Description) -> tuple[Space[Any], Space[Any]]:
    """Observation and action space, rebuilt here."""
    observations, actions = described.observation_space, described.action_space
    if observations is None or actions is None:
        raise BadFrame(f"The environment has spaces of its own classes ({described.custom}), which have no wire form.")
    return from_json(observations), from_json(actions)
