"""The wrappers of n lanes that remember nothing: functions of whole batches, and the single wrappers over rows.

``func`` of TransformObservation, TransformAction and TransformReward gets all lanes at once. The Vectorize wrappers
take a single wrapper: paddock's own run on all lanes at once; a function, or a subclass of yours, lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

import paddock.wrappers as single
from paddock.core.env import Env, Info
from paddock.core.problem import warn_user
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import VectorActionWrapper, VectorObservationWrapper, VectorWrapper
from paddock.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper
from paddock.errors import InvalidLanes, WrongClass
from paddock.spaces import Space
from paddock.spaces.batch import batch_space
from paddock.wrappers.discretize import Bins
from paddock.wrappers.lanes import (
    Lanes,
    any_true,
    copy_batch,
    final_rows,
    lane_numbers,
    map_rows,
    put,
    restarted_lanes,
    take,
    with_final_rows,
)
from paddock.wrappers.logic import Logic, Step
from paddock.wrappers.many_lanes import ManyLanesReward, autoreset_mode_of
from paddock.wrappers.pixels import frame_adder
from paddock.wrappers.rescale import Limit
from paddock.wrappers.transform import Bound, HookFunction

Array = np.ndarray[Any, Any]
AnyLanes = VectorEnv[Any, Any, Any]


class BatchObservation(VectorObservationWrapper[Any, Any, Any, Array]):
    """The agent sees ``func(observations)``, for each lane a member of ``space`` (None: the lanes')."""

    func: Callable[[Any], Any] = HookFunction("observations")  # type: ignore[assignment]
    _shortcut: Callable[[Any], Any]

    def __init__(self, env: AnyLanes, func: Callable[[Any], Any], space: Space[Any] | None) -> None:
        super().__init__(env)
        self.autoreset_mode = autoreset_mode_of(env)
        self.func = func
        if space is not None and space is not env.single_observation_space:
            self.single_observation_space, self.observation_space = space, batch_space(space, env.num_envs)

    # Hot: each of the two ways is one frame.

    def step(self, actions: Any) -> Step:
        result = self.env.step(actions)
        observations, rewards, terminations, truncations, infos = result
        if "_final_obs" in infos:
            return self._on_the_way_out(result)
        return self._shortcut(observations), rewards, terminations, truncations, infos

    def send(self, actions: Any) -> None:
        self.env.send(actions)

    def recv(self) -> Step:
        return self._on_the_way_out(self.env.recv())

    def _on_the_way_out(self, result: Step) -> Step:
        observations, rewards, terminations, truncations, infos = result
        if len(lanes := restarted_lanes(self.autoreset_mode, infos)):
            finals = final_rows(self.env.single_observation_space, infos, lanes)
            rows = self._change_finals(observations, infos["_final_obs"], finals)
            infos = with_final_rows(infos, self.single_observation_space, rows, lanes)
        return self._shortcut(observations), rewards, terminations, truncations, infos

    def _change_finals(self, observations: Any, ended: Array, finals: Any) -> Any:
        """The last observations of the lanes that ended, bool[n], as the agent sees them."""
        # A batch of all lanes, though only some ended: what `func` does may depend on the lane.
        inner, lanes = self.env.single_observation_space, lane_numbers(ended)
        batch = put(inner, copy_batch(inner, observations), lanes, finals)
        return take(self.single_observation_space, self.final_observations(batch, ended), lanes)

    def observations(self, observations: Any) -> Any:
        return self.func(observations)


class BatchAction(VectorActionWrapper[Any, Any, Any, Array]):
    """The lanes get ``func(actions)``; each lane's agent may do ``space`` (None: what the lane takes)."""

    func: Callable[[Any], Any] = HookFunction("actions")  # type: ignore[assignment]
    _shortcut: Callable[[Any], Any]

    def __init__(self, env: AnyLanes, func: Callable[[Any], Any], space: Space[Any] | None) -> None:
        super().__init__(env)
        self.func = func
        if space is not None and space is not env.single_action_space:
            self.single_action_space, self.action_space = space, batch_space(space, env.num_envs)

    def step(self, actions: Any) -> Step:
        return self.env.step(self._shortcut(actions))

    def send(self, actions: Any) -> None:
        self.env.send(self._shortcut(actions))

    def recv(self) -> Step:
        return self.env.recv()

    def actions(self, actions: Any) -> Any:
        return self.func(actions)


class RewardLogic(Logic):
    """``func`` of all lanes' rewards; ``layer`` is its name in snapshots."""

    def __init__(self, func: Callable[[Any], Any], layer: str) -> None:
        self.func, self.layer = func, layer  # type: ignore[misc]

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        return self.func(reward)


class BatchReward(ManyLanesReward):
    """The agent sees ``func(rewards)``, except where an episode begins or a lane is held: 0 stays 0."""

    func: Callable[[Any], Any] = HookFunction("rewards")  # type: ignore[assignment]
    _shortcut: Callable[[Any], Any]

    def __init__(self, env: AnyLanes, func: Callable[[Any], Any], layer: str) -> None:
        super().__init__(env, RewardLogic(func, layer))
        self.func = func

    def step(self, actions: Any) -> Step:
        # Hot: the way of ManyLanes without what it keeps track of for logics with a memory.
        result = self.env.step(actions)
        if self._held is not None:
            return self._on_the_way_out(result)
        observations, rewards, terminations, truncations, infos = result
        begun, self._ended = self._ended, None
        if self._tracks and (any_true(terminations) or any_true(truncations)):
            self._ended = terminations | truncations
        changed = self._shortcut(rewards) if begun is None else self._reward_except(rewards, lane_numbers(begun))
        return observations, changed, terminations, truncations, infos

    def send(self, actions: Any) -> None:
        self.env.send(actions)

    def recv(self) -> Step:
        return self._on_the_way_out(self.env.recv())

    def rewards(self, rewards: Any) -> Any:
        return self.func(rewards)


class TransformObservation(BatchObservation):
    """The agent sees ``func(observations)``. Of the two spaces the batched one follows from the single one."""

    def __init__(
        self,
        env: AnyLanes,
        func: Callable[[Any], Any],
        observation_space: Space[Any] | None = None,
        single_observation_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(env, func, single_observation_space)
        if observation_space is not None:
            self.observation_space = observation_space
            _check_match(env, "observation", observation_space, self.single_observation_space)


class TransformAction(BatchAction):
    """The lanes get ``func(actions)``. Of the two spaces the batched one follows from the single one."""

    def __init__(
        self,
        env: AnyLanes,
        func: Callable[[Any], Any],
        action_space: Space[Any] | None = None,
        single_action_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(env, func, single_action_space)
        if action_space is not None:
            self.action_space = action_space
            _check_match(env, "action", action_space, self.single_action_space)


def _check_match(env: Any, what: str, batched: Space[Any], single: Space[Any]) -> None:
    expected = batch_space(single, env.num_envs)
    if batched != expected:
        warn_user(
            f"For {env}, the {what} space and the batched single {what} space don't match as expected, "
            f"{what}_space={batched}, batched single_{what}_space={expected}. Pass both, or only the single one."
        )


class TransformReward(BatchReward):
    """The agent sees ``func(rewards)``, a function of all lanes' rewards at once: float64[n] to float64[n].

    A step that begins an episode has no reward to change: its 0 stays 0.
    """

    def __init__(self, env: AnyLanes, func: Callable[[Any], Any]) -> None:
        super().__init__(env, func, "Transform")


class SingleLaneView(Env[Any, Any]):
    """What a single wrapper wraps: an environment that has the spaces of one lane and nothing else."""

    def __init__(self, env: AnyLanes) -> None:
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self.metadata = env.metadata


def _wrap_one(env: AnyLanes, wrapper: Callable[..., Any], kwargs: dict[str, Any], kind: type) -> Any:
    """The single wrapper, made around one lane's spaces, whose functions its form for n lanes calls."""
    one = wrapper(SingleLaneView(env), **kwargs)
    name, why = getattr(wrapper, "__name__", wrapper), ""
    if not isinstance(one, kind):
        why = f"expected a subclass of {kind.__name__}"
    elif getattr(one, "_memory", None) is not None:
        why = "it remembers, and lanes would share that. Use its form in paddock.wrappers.vector"
    if why:
        raise WrongClass(f"{name} can't be vectorized: {why}.")
    return one


def _rows_of(one: Any, hook: Callable[[Any], Any], *spaces: Space[Any]) -> Callable[[Any], Any]:
    """What the single wrapper does to many rows: lane by lane, if a subclass or caller has replaced its ``_one``."""
    function = getattr(one, "_shortcut", hook)
    if function == getattr(one, "_one", None):
        return one._rows  # type: ignore[no-any-return]
    return partial(map_rows, function, *spaces) if spaces else partial(_map_rewards, function)


def _map_rewards(function: Callable[[Any], Any], rewards: Array) -> Array:
    dtype = rewards.dtype if rewards.dtype.kind == "f" else np.float64
    # Plain numbers, as single environments return them.
    return np.fromiter(map(function, rewards.tolist()), dtype, len(rewards))


class VectorizeTransformObservation(BatchObservation):
    """Each lane's observation as the single ``wrapper``, made with these arguments, would show it."""

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)  # first: it refuses what is not a vector environment
        self.wrapper = one = _wrap_one(env, wrapper, kwargs, ObservationWrapper)
        self._rows = _rows_of(one, one.observation, env.single_observation_space, one.observation_space)
        super().__init__(env, self._rows, one.observation_space)
        self.same_out = self.observation_space == env.observation_space  # whether the space stays the same

    def _change_finals(self, observations: Any, ended: Array, finals: Any) -> Any:
        if self._shortcut is self._rows:  # the same for all lanes
            return self._rows(finals)
        return super()._change_finals(observations, ended, finals)


class VectorizeTransformAction(BatchAction):
    """Each lane's action as the single ``wrapper``, made with these arguments, would pass it on."""

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)
        self.wrapper = one = _wrap_one(env, wrapper, kwargs, ActionWrapper)
        rows = _rows_of(one, one.action, one.action_space, env.single_action_space)
        super().__init__(env, rows, one.action_space)
        self.same_out = self.action_space == env.action_space  # whether the space stays the same


class VectorizeTransformReward(BatchReward):
    """Each lane's reward as the single ``wrapper``, made with these arguments, would show it."""

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)
        self.wrapper = one = _wrap_one(env, wrapper, kwargs, RewardWrapper)
        rows = _rows_of(one, one.reward)
        super().__init__(env, rows, "_Reward" if isinstance(rows, partial) else "Clip")


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


class AddRenderObservation(BatchObservation):
    """The agent sees what each lane renders, alone or beside the observation. Resets the lanes once.

    Not under SAME_STEP: when such a step returns, the last frame of an episode that ended is gone.
    """

    def __init__(
        self, env: AnyLanes, render_only: bool = True, render_key: str = "pixels", obs_key: str = "state"
    ) -> None:
        if env.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP:
            raise InvalidLanes(
                "AddRenderObservation can't show an episode's last frame under SAME_STEP: the lane has begun again. "
                "Use NEXT_STEP, or wrap each lane: make_vec(..., wrappers=[AddRenderObservation])."
            )
        keys = (None, None) if render_only else (render_key, obs_key)
        super().__init__(env, *frame_adder(env, env.single_observation_space, partial(_render_lanes, env), *keys))


def _render_lanes(env: AnyLanes) -> Array:
    return np.stack(env.render())  # type: ignore[arg-type]


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
