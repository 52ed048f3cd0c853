"""The shells that make a Logic a Wrapper of one environment. Hot: each adds one Python frame per step.

``OneLane`` runs ``begin`` and ``advance``; the other three give their logic Gymnasium's base class and its hook.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, SupportsFloat

from paddock.core.env import Env, Info
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from paddock.wrappers.logic import Logic, Wrapped, overrides, pack_memory, unpack_memory


class OneLane(Wrapper[Any, Any, Any, Any]):
    """Runs the ``begin`` and ``advance`` of ``logic`` around ``env``."""

    def __init__(self, env: Env[Any, Any], logic: Logic) -> None:
        super().__init__(env)
        wrapped = Wrapped(env.observation_space, env.action_space, None, env)
        self._logic = logic
        self._memory = logic.memory(wrapped)
        self._advances = overrides(logic, "advance")
        if is_dataclass(logic):  # its fields are the arguments of the wrapper's entry in a spec
            self._record_arguments(**{one.name: getattr(logic, one.name) for one in fields(logic) if one.init})
        # Unless they differ, the spaces stay the environment's, which may change them later.
        if (seen := logic.observation_space(wrapped)) is not wrapped.observation_space:
            self.observation_space = seen
        if (offered := logic.action_space(wrapped)) is not wrapped.action_space:
            self.action_space = offered

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        return self._logic.begin(self._memory, None, self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        return self._logic.advance(self._memory, None, self.env.step(action))

    def snapshot(self) -> bytes:
        if self._memory is None:
            return self.env.snapshot()
        return seal_snapshot(self._logic.layer, pack_memory(self._memory), self.env.snapshot())

    def restore(self, snapshot: bytes) -> None:
        if self._memory is None:
            return self.env.restore(snapshot)
        data, inner = open_snapshot(self._logic.layer, snapshot, dict[str, Any])
        values = unpack_memory(self._memory, data)
        self.env.restore(inner)
        vars(self._memory).update(values)
        return None


class OneLaneObservation(OneLane, ObservationWrapper[Any, Any, Any]):
    """For a logic that writes ``observe``; users may override ``observation``."""

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self.observation(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.observation(observation), reward, terminated, truncated, info

    def observation(self, observation: Any) -> Any:
        """The observation that the agent sees instead of ``observation``."""
        return self._logic.observe(self._memory, None, observation)


class OneLaneAction(OneLane, ActionWrapper[Any, Any, Any]):
    """For a logic that writes ``act``, perhaps with ``begin`` and ``advance``; users may override ``action``."""

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        result = self.env.step(self.action(action))
        return self._logic.advance(self._memory, None, result) if self._advances else result

    def action(self, action: Any) -> Any:
        """The action that the environment gets instead of ``action``."""
        return self._logic.act(self._memory, None, action)


class OneLaneReward(OneLane, RewardWrapper[Any, Any]):
    """For a logic that writes ``reward``; users may override ``reward``."""

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self.reward(reward), terminated, truncated, info

    def reward(self, reward: SupportsFloat) -> SupportsFloat:
        """The reward that the agent sees instead of ``reward``."""
        return self._logic.reward(self._memory, None, reward)  # type: ignore[no-any-return]
