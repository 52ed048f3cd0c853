"""Single wrappers at work on n lanes: VectorizeTransformObservation, …Action and …Reward.

paddock's own wrappers run on all lanes at once; a function, or a subclass of yours, is called lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from paddock.core.env import Env
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import VectorWrapper
from paddock.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from paddock.errors import WrongClass
from paddock.spaces import Space
from paddock.wrappers.action import TransformAction
from paddock.wrappers.lanes import Lanes
from paddock.wrappers.logic import ActionMap, Logic, ObservationMap, SpaceMap
from paddock.wrappers.many_lanes import StatelessAction, StatelessObservation, StatelessReward
from paddock.wrappers.observation import TransformObservation
from paddock.wrappers.reward import ClipReward

AnyLanes = VectorEnv[Any, Any, Any]


class SingleLaneView(Env[Any, Any]):
    """What a single wrapper wraps: an environment that has the spaces of one lane and nothing else."""

    def __init__(self, env: AnyLanes) -> None:
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self.metadata = env.metadata


class _Observe(ObservationMap):
    """``observation`` of a wrapper, lane by lane."""

    def __init__(self, wrapper: ObservationWrapper[Any, Any, Any], source: Space[Any]) -> None:
        self._set_spaces(source, wrapper.observation_space, one=getattr(wrapper, "_shortcut", wrapper.observation))


class _Act(ActionMap):
    """``action`` of a wrapper, lane by lane."""

    def __init__(self, wrapper: ActionWrapper[Any, Any, Any], target: Space[Any]) -> None:
        self._set_spaces(wrapper.action_space, target, one=getattr(wrapper, "_shortcut", wrapper.action))


class _Reward(Logic):
    """``reward`` of a wrapper, lane by lane."""

    def __init__(self, wrapper: RewardWrapper[Any, Any]) -> None:
        self.one: Callable[[Any], Any] = getattr(wrapper, "_shortcut", wrapper.reward)

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        dtype = reward.dtype if reward.dtype.kind == "f" else np.float64
        # Plain numbers, as single environments return them.
        return np.fromiter(map(self.one, reward.tolist()), dtype, len(reward))


def _wrap_one(
    env: AnyLanes, wrapper: Callable[..., Any], kwargs: dict[str, Any], kind: type[Wrapper[Any, Any, Any, Any]]
) -> Any:
    single = wrapper(SingleLaneView(env), **kwargs)
    if not isinstance(single, kind):
        _refuse(wrapper, f"expected a subclass of {kind.__name__}")
    if getattr(single, "_memory", None) is not None:
        _refuse(wrapper, "it remembers, and lanes would share that. Use its form in paddock.wrappers.vector")
    return single


def _refuse(wrapper: Any, why: str) -> NoReturn:
    raise WrongClass(f"{getattr(wrapper, '__name__', wrapper)} can't be vectorized: {why}.")


def _is_unchanged(single: Any, logic: Any, hook: str, owner: type) -> bool:
    """Whether the wrapper does what its logic does: no subclass or caller has put something else in its place."""
    own = isinstance(logic, SpaceMap) and getattr(type(single), hook) is getattr(owner, hook)
    return own and single.func == logic.one


class VectorizeTransformObservation(StatelessObservation):
    """Each lane's observation as the single ``wrapper``, made with these arguments, would show it."""

    wrapper: Any
    same_out: bool  # whether the space stays the same

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)  # first: it refuses what is not a vector environment
        single = _wrap_one(env, wrapper, kwargs, ObservationWrapper)
        logic = getattr(single, "_logic", None)
        if not _is_unchanged(single, logic, "observation", TransformObservation):
            logic = _Observe(single, env.single_observation_space)
        StatelessObservation.__init__(self, env, logic)  # type: ignore[arg-type]
        self.wrapper, self.same_out = single, self.observation_space == env.observation_space

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """How lanes that ended begin again."""
        return self._mode


class VectorizeTransformAction(StatelessAction):
    """Each lane's action as the single ``wrapper``, made with these arguments, would pass it on."""

    wrapper: Any
    same_out: bool  # whether the space stays the same

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)
        single = _wrap_one(env, wrapper, kwargs, ActionWrapper)
        logic = getattr(single, "_logic", None)
        if not _is_unchanged(single, logic, "action", TransformAction):
            logic = _Act(single, env.single_action_space)
        StatelessAction.__init__(self, env, logic)  # type: ignore[arg-type]
        self.wrapper, self.same_out = single, self.action_space == env.action_space


class VectorizeTransformReward(StatelessReward):
    """Each lane's reward as the single ``wrapper``, made with these arguments, would show it."""

    wrapper: Any

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)
        single = _wrap_one(env, wrapper, kwargs, RewardWrapper)
        logic: Any = getattr(single, "_logic", None)
        at_once = type(single) is ClipReward and single.func == logic.clip_one
        StatelessReward.__init__(self, env, logic if at_once else _Reward(single))
        self.wrapper = single
