"""HostedEnv: an Env whose other half is a Host at the far end of a Channel. Nothing of its code runs here."""

from __future__ import annotations

from functools import partial
from typing import Any, SupportsFloat

import msgspec
import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec_json import decode_spec
from paddock.core.state import State
from paddock.errors import BadFrame, ClosedEnvironmentError, WorkerLost
from paddock.hosting import messages as m
from paddock.hosting.channel import Channel
from paddock.hosting.failure import to_error
from paddock.seeding import to_seed
from paddock.spaces import Space
from paddock.spaces.json_form import from_json

_NUMBER = 0  # a channel of its own holds one environment
_OURS = {"observation_space", "action_space", "metadata", "render_mode", "spec", "np_random"}


class HostedEnv(Env[Any, Any]):
    """The environment that ``what`` describes, made by the Host behind ``channel``; closing it closes the channel.

    ``spaces`` (observation, action) are for those of a user's own class, which have no form on the wire.
    """

    def __init__(
        self, channel: Channel, what: dict[str, Any], *, spaces: tuple[Space[Any], Space[Any]] | None = None
    ) -> None:
        self._channel = channel
        self._closed = False
        try:
            described = read_description(self._ask(m.Make(_NUMBER, what)))
            self.observation_space, self.action_space = spaces or described_spaces(described)
            self.spec = None if described.spec is None else decode_spec(described.spec)
        except BaseException:
            channel.close()
            raise
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
        observation, info = self._ask(m.Reset(_NUMBER, None if seed is None else to_seed(seed), options))
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        (result,) = self._ask(m.Step([_NUMBER], [action]))
        if isinstance(result, m.Failed):
            raise to_error(result)
        observation, reward, terminated, truncated, info = result
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        return self._ask(m.Render(_NUMBER))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.close()

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

    def has_wrapper_attr(self, name: str) -> bool:
        return hasattr(self, name) or bool(self._ask(m.Call(_NUMBER, name, how="has")))

    def get_wrapper_attr(self, name: str) -> Any:
        """An attribute of the environment at the far end; a method there is a function here that calls it."""
        if hasattr(type(self), name) or name in self.__dict__:
            return getattr(self, name)
        if self._ask(m.Call(_NUMBER, name, how="has")) == "callable":
            return partial(self.call, name)
        return self._ask(m.Call(_NUMBER, name, how="get"))

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        return self._ask(m.Call(_NUMBER, name, [value], {"force": force}, "set"))  # type: ignore[no-any-return]

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The far end's attribute, called with the arguments if it is callable."""
        return self._ask(m.Call(_NUMBER, name, list(args), kwargs))

    @property
    def np_random(self) -> np.random.Generator:
        """A copy of the far end's generator: drawing from it leaves the environment alone."""
        return self._ask(m.Call(_NUMBER, "np_random", how="get"))  # type: ignore[no-any-return]

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.set_wrapper_attr("np_random", value)

    @property
    def np_random_seed(self) -> int:
        return self._ask(m.Call(_NUMBER, "np_random_seed", how="get"))  # type: ignore[no-any-return]

    def _ask(self, request: m.Request) -> Any:
        if self._closed:
            raise ClosedEnvironmentError("This environment is closed. Make it anew.")
        try:
            self._channel.send(request)
        except WorkerLost as error:
            raise WorkerLost(f"{error} Make the environment anew.") from None
        reply = self._channel.recv()
        if isinstance(reply, m.Failed):
            raise to_error(reply)
        return reply.value


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
