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
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from paddock.hosting import messages as m
from paddock.hosting.channel import Channel
from paddock.hosting.client import kill_because
from paddock.hosting.judge import Judge, WallRules, read_spec
from paddock.hosting.messages import V2
from paddock.hosting.untrusted import describe_value, violation
from paddock.seeding import to_seed
from paddock.spaces.batch import batch_space

Array = np.ndarray[Any, Any]
Result = tuple[Any, Array, Array, Array, Info]

_NUMBER = 0  # the session holds one environment, which is all lanes


class RemoteVectorEnv(VectorEnv[Any, Any, Array]):
    """The lanes that ``what`` asks for, made by the Host behind ``channel``; closing them closes the channel.

    ``name``: what to call it in a repr. rewards: float64[n]; terminations, truncations: bool[n]. Results are copies.
    """

    def __init__(self, channel: Channel, what: dict[str, Any], rules: WallRules, *, name: str = "") -> None:
        self._channel, self._name = channel, name
        self._begun = False
        self._pending: m.Request | None = None  # a step that is under way
        try:
            self._judge = Judge(rules=rules, count=what["num_envs"])
            self._wire = getattr(channel, "wire", V2)
            self._ask(m.Make(_NUMBER, what), partial(self._adopt, num_envs=what["num_envs"]))
        except BaseException:
            channel.close()
            raise

    def _adopt(self, described: m.Description, *, num_envs: int) -> None:
        if described.num_envs != num_envs:
            raise violation("num_envs", f"{describe_value(described.num_envs)} lanes were made, expected {num_envs}")
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = self._judge.spaces(described, rows=self._wire == V2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        mode = described.metadata.get("autoreset_mode")
        try:
            self.autoreset_mode = AutoresetMode(mode)
        except ValueError:
            problem = f"{describe_value(mode)} is not an autoreset mode"
            raise violation("metadata['autoreset_mode']", problem) from None
        self.metadata = {**described.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = described.render_mode
        self.lane_spec = read_spec(described, self._judge.rules)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        reset_mask(options, self.num_envs, begun=self._begun)  # raises here for a mistake in it
        if seed is None or not hasattr(seed, "__len__"):
            request: m.Request = m.Reset(_NUMBER, None if seed is None else to_seed(seed), options)
        else:
            seeds = lane_seeds(seed, self.num_envs)
            request = m.Call(_NUMBER, "reset", [], {"seed": seeds, "options": options})
        found: tuple[Any, Info] = self._ask(request)
        self._begun = True
        return found

    def step(self, actions: Any) -> Result:
        return self._ask(self._judge.request_step(actions))  # type: ignore[no-any-return]

    def send(self, actions: Any) -> None:
        self._check_free()
        self._pending = self._judge.request_step(actions)
        self._channel.send(self._pending)

    def recv(self) -> Result:
        if self._pending is None:
            raise NoAsyncCallError("recv() has no step to wait for. Call send(actions) first.", "recv")
        request, self._pending = self._pending, None
        return self._recv(request)  # type: ignore[no-any-return]

    def hold(self, lanes: Array) -> None:
        masked_lanes(lanes, self.num_envs)
        self._ask(m.Call(_NUMBER, "hold", [lanes]))

    def render(self) -> tuple[Any, ...] | None:
        return self._ask(m.Render(_NUMBER))  # type: ignore[no-any-return]

    def state(self) -> tuple[State, ...]:
        return tuple(State(*one) for one in self._ask(m.State(_NUMBER)))

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes made alike, here or there."""
        return self._ask(m.Snapshot(_NUMBER))  # type: ignore[no-any-return]

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else is refused."""
        self._ask(m.Restore(_NUMBER, snapshot))
        self._begun = True

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        return self._ask(m.Call(_NUMBER, "call", [name, *args], kwargs))  # type: ignore[no-any-return]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return self._ask(m.Call(_NUMBER, "get_attr", [name]))  # type: ignore[no-any-return]

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one per lane."""
        value_per_lane(values, self.num_envs)  # raises here for a mistake in it
        self._ask(m.Call(_NUMBER, "set_attr", [name, values]))

    def close_extras(self, **kwargs: Any) -> None:
        self._channel.close()

    def _check_free(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("These lanes are closed. Make them again.")
        if self._pending is not None:
            raise AlreadyPendingCallError("A step is under way. Receive it with recv() first, or close().", "step")

    def _ask(self, request: m.Request, then: Callable[[Any], None] | None = None) -> Any:
        self._check_free()
        self._channel.send(request)
        return self._recv(request, then)

    def _recv(self, request: m.Request, then: Callable[[Any], None] | None = None) -> Any:
        reply = self._channel.recv()
        try:
            found = self._judge.read(request, reply)
            if then is not None:
                then(found)
            return found
        except self._judge.ends as error:
            raise kill_because(error, self._channel) from None

    def __repr__(self) -> str:
        return f"RemoteVectorEnv({self._name}, num_envs={self.num_envs}, wire {self._wire})"
