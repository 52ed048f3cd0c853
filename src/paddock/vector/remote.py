"""RemoteVectorEnv: n lanes at a server, all stepped by one message. The far end holds them as one environment.

The server is not trusted: a result that breaks the rules is an EnvironmentViolation and ends the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.lane import lane_seeds, masked_lanes, reset_mask, value_per_lane
from paddock.core.state import State
from paddock.core.vector_env import VectorEnv
from paddock.errors import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from paddock.hosting import messages as m
from paddock.hosting.channel import Channel
from paddock.hosting.client import kill_because
from paddock.hosting.judge import Judge, WallRules, check_description, check_spaces, check_spec, walled_error
from paddock.hosting.untrusted import check_size, describe_value, violation
from paddock.seeding import to_seed
from paddock.spaces.batch import batch_space
from paddock.vector.judge import BatchJudge, check_autoreset_mode

Array = np.ndarray[Any, Any]
Result = tuple[Any, Array, Array, Array, Info]

_NUMBER = 0  # the session holds one environment, which is all lanes


class RemoteVectorEnv(VectorEnv[Any, Any, Array]):
    """The lanes that ``what`` asks for, made by the Host behind ``channel``; closing them closes the channel.

    ``name``: what to call it in a repr. rewards: float64[n]; terminations, truncations: bool[n]. Results are copies.
    """

    def __init__(self, channel: Channel, what: dict[str, Any], rules: WallRules, *, name: str = "") -> None:
        self._channel, self._name, self._rules = channel, name, rules
        self._begun = False
        self._pending = False
        try:
            channel.send(m.Make(_NUMBER, what))
            self._read(channel.recv(), partial(self._adopt, rules=rules, num_envs=what["num_envs"]))
        except BaseException:
            channel.close()
            raise

    def _adopt(self, value: Any, *, rules: WallRules, num_envs: int) -> None:
        described = check_description(value, rules)
        if described.num_envs != num_envs:
            raise violation("num_envs", f"{describe_value(described.num_envs)} lanes were made, expected {num_envs}")
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = check_spaces(described, rules)
        for space, path in (
            (self.single_observation_space, "observation_space"),
            (self.single_action_space, "action_space"),
        ):
            check_size(space, path, limit=rules.lanes_bytes, count=num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.autoreset_mode = check_autoreset_mode(described.metadata)
        self.metadata = {**described.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = described.render_mode
        self.lane_spec = check_spec(described)
        self._judge = BatchJudge(self.single_observation_space, num_envs, rules)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        reset_mask(options, self.num_envs, begun=self._begun)  # raises here for a mistake in it
        if seed is None or not hasattr(seed, "__len__"):
            request: m.Request = m.Reset(_NUMBER, None if seed is None else to_seed(seed), options)
        else:
            seeds = lane_seeds(seed, self.num_envs)
            request = m.Call(_NUMBER, "reset", [], {"seed": seeds, "options": options})
        found: tuple[Any, Info] = self._ask(request, self._judge.reset)
        self._begun = True
        return found

    def step(self, actions: Any) -> Result:
        return self._ask(m.Step([_NUMBER], [actions]), self._judge.step)  # type: ignore[no-any-return]

    def send(self, actions: Any) -> None:
        self._check_free()
        self._channel.send(m.Step([_NUMBER], [actions]))
        self._pending = True

    def recv(self) -> Result:
        if not self._pending:
            raise NoAsyncCallError("recv() has no step to wait for. Call send(actions) first.", "recv")
        self._pending = False
        return self._read(self._channel.recv(), self._judge.step)  # type: ignore[no-any-return]

    def hold(self, lanes: Array) -> None:
        masked_lanes(lanes, self.num_envs)
        self._ask(m.Call(_NUMBER, "hold", [lanes]), _ignore)

    def render(self) -> tuple[Any, ...] | None:
        read = partial(self._judge.frames, mode=self.render_mode)
        return self._ask(m.Render(_NUMBER), read)  # type: ignore[no-any-return]

    def state(self) -> tuple[State, ...]:
        return self._ask(m.State(_NUMBER), self._judge.states)  # type: ignore[no-any-return]

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes made alike, here or there."""
        return self._ask(m.Snapshot(_NUMBER), self._judge.snapshot)  # type: ignore[no-any-return]

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else is refused."""
        self._ask(m.Restore(_NUMBER, snapshot), _ignore)
        self._begun = True

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        request = m.Call(_NUMBER, "call", [name, *args], kwargs)
        return self._ask(request, partial(self._judge.values, name=name))  # type: ignore[no-any-return]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        request = m.Call(_NUMBER, "get_attr", [name])
        return self._ask(request, partial(self._judge.values, name=name))  # type: ignore[no-any-return]

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one per lane."""
        value_per_lane(values, self.num_envs)  # raises here for a mistake in it
        self._ask(m.Call(_NUMBER, "set_attr", [name, values]), _ignore)

    def close_extras(self, **kwargs: Any) -> None:
        self._channel.close()

    def _check_free(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("These lanes are closed. Make them again.")
        if self._pending:
            raise AlreadyPendingCallError("A step is under way. Receive it with recv() first, or close().", "step")

    def _ask(self, request: m.Request, read: Callable[[Any], Any]) -> Any:
        self._check_free()
        self._channel.send(request)
        return self._read(self._channel.recv(), read)

    def _read(self, reply: m.Reply, read: Callable[[Any], Any]) -> Any:
        try:
            if isinstance(reply, m.Failed):
                raise walled_error(reply, server=self._rules.server)
            return read(reply.value)
        except Judge.ends as error:
            raise kill_because(error, self._channel) from None

    def __repr__(self) -> str:
        return f"RemoteVectorEnv({self._name}, num_envs={self.num_envs}, wire paddock.v1)"


def _ignore(value: Any) -> None:
    """Read a reply whose value does not matter."""
