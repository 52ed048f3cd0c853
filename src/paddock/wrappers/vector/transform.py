"""The wrappers of n lanes that remember nothing: functions of whole batches, and the single wrappers over rows.

``func`` of TransformObservation, TransformAction and TransformReward gets all lanes at once. For a function of one lane
there are VectorizeTransformObservation and its siblings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

import paddock.wrappers as single
from paddock.core.env import Info
from paddock.core.problem import warn_user
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import VectorWrapper
from paddock.errors import InvalidLanes
from paddock.spaces import Space
from paddock.spaces.batch import batch_space
from paddock.wrappers.discretize import Bins
from paddock.wrappers.lanes import Lanes, take
from paddock.wrappers.logic import Logic, Wrapped, func_of
from paddock.wrappers.many_lanes import StatelessAction, StatelessObservation, StatelessReward
from paddock.wrappers.pixels import AddRender
from paddock.wrappers.rescale import Limit
from paddock.wrappers.reward import Bound, Transform
from paddock.wrappers.vector.vectorize import (
    VectorizeTransformAction,
    VectorizeTransformObservation,
    VectorizeTransformReward,
)

Array = np.ndarray[Any, Any]
AnyLanes = VectorEnv[Any, Any, Any]


@dataclass(frozen=True)
class BatchObservationLogic(Logic):
    """``func`` of all lanes' observations; ``inner`` and ``space`` are one lane's space before and after."""

    func: Callable[[Any], Any]
    space: Space[Any]
    inner: Space[Any]
    lanes: int

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        return self.space

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        if not isinstance(lanes, np.ndarray):
            return self.func(observation)
        # `func` may depend on the lane, so it gets a row for every lane; those of other lanes are repetitions.
        places = np.zeros(self.lanes, np.intp)
        places[lanes] = np.arange(len(lanes))
        return take(self.space, self.func(take(self.inner, observation, places)), lanes)


@dataclass(frozen=True)
class BatchActionLogic(Logic):
    """``func`` of all lanes' actions; ``space`` is what one lane's agent may do."""

    func: Callable[[Any], Any]
    space: Space[Any]

    def action_space(self, wrapped: Wrapped) -> Space[Any]:
        return self.space

    def act(self, memory: Any, lanes: Lanes, action: Any) -> Any:
        return self.func(action)


class TransformObservation(StatelessObservation):
    """The agent sees ``func(observations)``. Of the two spaces the batched one follows from the single one."""

    func: Callable[[Any], Any] = func_of("observations")

    def __init__(
        self,
        env: AnyLanes,
        func: Callable[[Any], Any],
        observation_space: Space[Any] | None = None,
        single_observation_space: Space[Any] | None = None,
    ) -> None:
        inner = env.single_observation_space
        seen = inner if single_observation_space is None else single_observation_space
        # The hook and not the function: an episode's last observations go the same way as all others.
        super().__init__(env, BatchObservationLogic(self.observations, seen, inner, env.num_envs))
        self.func = func
        if observation_space is not None:
            self.observation_space = observation_space
            _check_match(env, "observation", observation_space, self.single_observation_space)

    def observations(self, observations: Any) -> Any:
        return self.func(observations)


class TransformAction(StatelessAction):
    """The lanes get ``func(actions)``. Of the two spaces the batched one follows from the single one."""

    func: Callable[[Any], Any] = func_of("actions")

    def __init__(
        self,
        env: AnyLanes,
        func: Callable[[Any], Any],
        action_space: Space[Any] | None = None,
        single_action_space: Space[Any] | None = None,
    ) -> None:
        offered = env.single_action_space if single_action_space is None else single_action_space
        super().__init__(env, BatchActionLogic(func, offered))
        self.func = func
        if action_space is not None:
            self.action_space = action_space
            _check_match(env, "action", action_space, self.single_action_space)

    def actions(self, actions: Any) -> Any:
        return self.func(actions)


def _check_match(env: Any, what: str, batched: Space[Any], single: Space[Any]) -> None:
    expected = batch_space(single, env.num_envs)
    if batched != expected:
        warn_user(
            f"For {env}, the {what} space and the batched single {what} space don't match as expected, "
            f"{what}_space={batched}, batched single_{what}_space={expected}. Pass both, or only the single one."
        )


class TransformReward(StatelessReward):
    """The agent sees ``func(rewards)``, a function of all lanes' rewards at once: float64[n] to float64[n].

    A step that begins an episode has no reward to change: its 0 stays 0.
    """

    func: Callable[[Any], Any] = func_of("rewards")

    def __init__(self, env: AnyLanes, func: Callable[[Any], Any]) -> None:
        super().__init__(env, Transform(func))
        self.func = func

    def rewards(self, rewards: Any) -> Any:
        return self.func(rewards)


class ClipReward(VectorizeTransformReward):
    """Rewards within ``min_reward`` and ``max_reward``; None leaves that side open."""

    def __init__(self, env: AnyLanes, min_reward: Bound = None, max_reward: Bound = None) -> None:
        super().__init__(env, single.ClipReward, min_reward=min_reward, max_reward=max_reward)


class FilterObservation(VectorizeTransformObservation):
    """The agent sees only the parts ``filter_keys``: keys of a Dict, places in a Tuple."""

    def __init__(self, env: AnyLanes, filter_keys: Sequence[str | int]) -> None:
        super().__init__(env, single.FilterObservation, filter_keys=filter_keys)


class FlattenObservation(VectorizeTransformObservation):
    """The agent sees one flat row per lane; a Discrete part is one-hot in it."""

    def __init__(self, env: AnyLanes) -> None:
        super().__init__(env, single.FlattenObservation)


class GrayscaleObservation(VectorizeTransformObservation):
    """Pictures in grey; ``keep_dim`` leaves an axis of one channel."""

    def __init__(self, env: AnyLanes, keep_dim: bool = False) -> None:
        super().__init__(env, single.GrayscaleObservation, keep_dim=keep_dim)


class ResizeObservation(VectorizeTransformObservation):
    """Pictures of ``shape`` = (height, width). Needs OpenCV."""

    def __init__(self, env: AnyLanes, shape: tuple[int, ...]) -> None:
        super().__init__(env, single.ResizeObservation, shape=shape)


class ReshapeObservation(VectorizeTransformObservation):
    """Each lane's array in ``shape``, with as many numbers as before."""

    def __init__(self, env: AnyLanes, shape: int | tuple[int, ...]) -> None:
        super().__init__(env, single.ReshapeObservation, shape=shape)


class RescaleObservation(VectorizeTransformObservation):
    """Observations stretched from the Box's bounds to ``min_obs`` and ``max_obs``."""

    def __init__(self, env: AnyLanes, min_obs: Limit, max_obs: Limit) -> None:
        super().__init__(env, single.RescaleObservation, min_obs=min_obs, max_obs=max_obs)


class DtypeObservation(VectorizeTransformObservation):
    """Numbers of another ``dtype``; a Discrete or MultiBinary space becomes a Box."""

    def __init__(self, env: AnyLanes, dtype: Any) -> None:
        super().__init__(env, single.DtypeObservation, dtype=dtype)


class DiscretizeObservation(VectorizeTransformObservation):
    """Box observations as the numbers of their bins."""

    def __init__(self, env: AnyLanes, bins: Bins, multidiscrete: bool = False) -> None:
        super().__init__(env, single.DiscretizeObservation, bins=bins, multidiscrete=multidiscrete)


class AddRenderObservation(StatelessObservation):
    """The agent sees what each lane renders, alone or beside the observation. Resets the lanes once.

    Not under SAME_STEP: when such a step returns, the last frame of an episode that ended is gone.
    """

    def __init__(
        self,
        env: AnyLanes,
        render_only: bool = True,
        render_key: str = "pixels",
        obs_key: str = "state",
    ) -> None:
        if env.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP:
            raise InvalidLanes(
                "AddRenderObservation can't show an episode's last frame under SAME_STEP: the lane has begun again. "
                "Use NEXT_STEP, or wrap each lane: make_vec(..., wrappers=[AddRenderObservation])."
            )
        super().__init__(env, AddRender(render_only, render_key, obs_key, Wrapped.many(env)))


class ClipAction(VectorizeTransformAction):
    """Moves actions outside the Box to its bounds; the agent sees a Box without bounds."""

    def __init__(self, env: AnyLanes) -> None:
        super().__init__(env, single.ClipAction)


class RescaleAction(VectorizeTransformAction):
    """Actions between ``min_action`` and ``max_action``, stretched to the Box's bounds."""

    def __init__(self, env: AnyLanes, min_action: Limit, max_action: Limit) -> None:
        super().__init__(env, single.RescaleAction, min_action=min_action, max_action=max_action)


class DiscretizeAction(VectorizeTransformAction):
    """A Box of actions as the numbers of its bins; a lane gets the middle of one."""

    def __init__(self, env: AnyLanes, bins: Bins, multidiscrete: bool = False) -> None:
        super().__init__(env, single.DiscretizeAction, bins=bins, multidiscrete=multidiscrete)


# ── Infos as a list of one dict per lane instead of a dict of rows ──


class DictInfoToList(VectorWrapper[Any, Any, Any, Any, Any]):
    """``reset`` and ``step`` return a list of infos: what each lane's single environment would return.

    >>> info_list({"k": np.array([None, "yes"], object), "_k": np.array([False, True])}, 2)
    [{}, {'k': 'yes'}]
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, list[Info]]:  # type: ignore[override]
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations, info_list(infos, self.num_envs)

    def _on_the_way_out(self, result: Any) -> Any:
        return *result[:4], info_list(result[4], self.num_envs)


def info_list(infos: Info, num_envs: int) -> list[Info]:
    """One dict per lane, with the keys whose mask has the lane; a key without a mask is every lane's."""
    return _infos_of(infos, None, num_envs)


def _infos_of(infos: Info, lanes: Array | None, count: int) -> list[Info]:
    """The infos of these lanes (None: of all), ``count`` of them."""
    common: dict[str, Any] = {}
    partial: list[tuple[str, list[int], Any]] = []
    for key, rows in infos.items():
        if key.startswith("_"):
            continue
        mask = infos.get(f"_{key}")
        having = None if mask is None else mask if lanes is None else mask[lanes]
        if having is None or having.all():
            common[key] = _values_of(rows, lanes, count)
        elif having.any():
            places = having.nonzero()[0]
            those = places if lanes is None else lanes[places]
            partial.append((key, places.tolist(), _values_of(rows, those, len(places))))
    found: list[Info] = [] if common else [{} for _ in repeat(None, count)]
    for key, values in common.items():
        if not found:  # the first key makes the dicts: two thirds of the time of filling empty ones
            found = [{key: value} for value in values]
            continue
        for info, value in zip(found, values, strict=False):
            info[key] = value
    for key, places, values in partial:
        for place, value in zip(places, values, strict=True):
            found[place][key] = value
    return found


def _values_of(rows: Any, lanes: Array | None, count: int) -> Any:
    if isinstance(rows, dict):
        return _infos_of(rows, lanes, count)
    return rows if lanes is None else rows[lanes]
