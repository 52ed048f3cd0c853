"""The wrappers for vector environments: ``gymnasium.wrappers.vector``, and those that Gymnasium has for one env only.

A class here does for n lanes what the single wrapper of the same name in ``paddock.wrappers`` does for one. Those that
remember nothing are functions of whole batches: ``func`` of TransformObservation, TransformAction and TransformReward
gets all lanes at once, and the Vectorize wrappers take a single wrapper, paddock's own for all lanes at once, a
function or a subclass of yours lane by lane. Those that remember run their logic in ManyLanes.

Normalizing has two meanings here. ``shared=True``, as in Gymnasium: all lanes share one running statistic, so what a
lane sees depends on the others. ``shared=False``: one statistic per lane, exactly n single environments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from types import ModuleType
from typing import Any

import numpy as np

import paddock.wrappers as single
from paddock.core.env import Env, Info
from paddock.core.problem import warn_user
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.vector_wrapper import VectorActionWrapper, VectorObservationWrapper, VectorWrapper, shortcut
from paddock.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, forwarded
from paddock.errors import InvalidLanes, WrongClass
from paddock.spaces import Space
from paddock.spaces.batch import batch_space
from paddock.wrappers.arrays import ConvertsArrays, Device
from paddock.wrappers.discretize import Bins
from paddock.wrappers.episode import EpisodeStatistics, key_exists
from paddock.wrappers.history import Delay, FrameStack, WithTime
from paddock.wrappers.logic import ALL, Lanes, Logic, Step
from paddock.wrappers.many_lanes import (
    NO_LANES,
    LaneInfos,
    ManyLanes,
    ManyLanesAction,
    ManyLanesObservation,
    ManyLanesReward,
    any_true,
    autoreset_mode_of,
    copy_batch,
    final_rows,
    lane_numbers,
    map_rows,
    put,
    restarted_lanes,
    take,
    with_final_rows,
)
from paddock.wrappers.normalize import (
    LaneStatistics,
    ReturnsMemory,
    RunningMeanStd,
    ScaledReward,
    ScaledTogether,
    Standardized,
    StandardizedTogether,
)
from paddock.wrappers.pixels import frame_adder
from paddock.wrappers.repeat import Duration, MaxAndSkip, Repeat, Sticky, WindowOfManyLanes
from paddock.wrappers.rescale import Limit
from paddock.wrappers.transform import Bound, HookFunction
from paddock.wrappers.vector_rendering import AddWhiteNoise as AddWhiteNoise
from paddock.wrappers.vector_rendering import HumanRendering as HumanRendering
from paddock.wrappers.vector_rendering import ObstructView as ObstructView
from paddock.wrappers.vector_rendering import RecordVideo as RecordVideo

Array = np.ndarray[Any, Any]
AnyLanes = VectorEnv[Any, Any, Any]


class _BatchObservation(VectorObservationWrapper[Any, Any, Any, Array]):
    """What TransformObservation and VectorizeTransformObservation are; neither is a kind of the other."""

    func: Callable[[Any], Any] = HookFunction("observations")  # type: ignore[assignment]

    def __init__(
        self,
        env: AnyLanes,
        func: Callable[[Any], Any],
        observation_space: Space[Any] | None = None,
        single_observation_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(env)
        self.autoreset_mode = autoreset_mode_of(env)
        self.func = func
        _set_spaces(self, "observation", observation_space, single_observation_space)

    @shortcut
    def step(self, actions: Any) -> Step:
        result = self.env.step(actions)
        observations, rewards, terminations, truncations, infos = result
        if "_final_obs" in infos:
            return self._on_the_way_out(result)
        return self.observations(observations), rewards, terminations, truncations, infos

    def _on_the_way_out(self, result: Step) -> Step:
        observations, rewards, terminations, truncations, infos = result
        if len(lanes := restarted_lanes(self.autoreset_mode, infos)):
            finals = final_rows(self.env.single_observation_space, infos, lanes)
            rows = self._change_finals(observations, infos["_final_obs"], finals)
            infos = with_final_rows(infos, self.single_observation_space, rows, lanes)
        return self.observations(observations), rewards, terminations, truncations, infos

    def _change_finals(self, observations: Any, ended: Array, finals: Any) -> Any:
        """The last observations of the lanes that ended, bool[n], as the agent sees them."""
        # A batch of all lanes, though only some ended: what `func` does may depend on the lane.
        inner, lanes = self.env.single_observation_space, lane_numbers(ended)
        batch = put(inner, copy_batch(inner, observations), lanes, finals)
        return take(self.single_observation_space, self.final_observations(batch, ended), lanes)

    def observations(self, observations: Any) -> Any:
        return self.func(observations)


class _BatchAction(VectorActionWrapper[Any, Any, Any, Array]):
    """The same for actions."""

    func: Callable[[Any], Any] = HookFunction("actions")  # type: ignore[assignment]

    def __init__(
        self,
        env: AnyLanes,
        func: Callable[[Any], Any],
        action_space: Space[Any] | None = None,
        single_action_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(env)
        self.func = func
        _set_spaces(self, "action", action_space, single_action_space)

    @shortcut
    def step(self, actions: Any) -> Step:
        return self.env.step(self.actions(actions))

    def actions(self, actions: Any) -> Any:
        return self.func(actions)


def _set_spaces(wrapper: Any, what: str, batched: Space[Any] | None, one: Space[Any] | None) -> None:
    """Give the wrapper these spaces of observations or actions; None: the one that follows from the other."""
    env = wrapper.env
    if one is not None and one is not getattr(env, f"single_{what}_space"):
        setattr(wrapper, f"single_{what}_space", one)
        setattr(wrapper, f"{what}_space", batch_space(one, env.num_envs))
    if batched is None:
        return
    setattr(wrapper, f"{what}_space", batched)
    expected = batch_space(getattr(wrapper, f"single_{what}_space"), env.num_envs)
    if batched != expected:
        warn_user(
            f"For {env}, the {what} space and the batched single {what} space don't match as expected, "
            f"{what}_space={batched}, batched single_{what}_space={expected}. Pass both, or only the single one."
        )


class _RewardFunction(Logic):
    """``func`` of all lanes' rewards."""

    layer = "Transform"

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        return self.func(reward)


class _BatchReward(ManyLanesReward):
    """The same for rewards. A step that begins an episode or holds a lane has none to change: its 0 stays 0."""

    func: Callable[[Any], Any] = HookFunction("rewards")  # type: ignore[assignment]

    def __init__(self, env: AnyLanes, func: Callable[[Any], Any]) -> None:
        super().__init__(env, _RewardFunction(func))
        self.func = func

    @shortcut
    def step(self, actions: Any) -> Step:
        # The way of ManyLanes without what it keeps track of for logics with a memory.
        result = self.env.step(actions)
        if self._held is not None:
            return self._on_the_way_out(result)
        observations, rewards, terminations, truncations, infos = result
        begun, self._ended = self._ended, None
        if self._tracks and (any_true(terminations) or any_true(truncations)):
            self._ended = terminations | truncations
        changed = self.rewards(rewards) if begun is None else self._reward_except(rewards, lane_numbers(begun))
        return observations, changed, terminations, truncations, infos

    def rewards(self, rewards: Any) -> Any:
        return self.func(rewards)


class TransformObservation(_BatchObservation):
    """The agent sees ``func(observations)``. Of the two spaces the batched one follows from the single one."""


class TransformAction(_BatchAction):
    """The lanes get ``func(actions)``. Of the two spaces the batched one follows from the single one."""


class TransformReward(_BatchReward):
    """The agent sees ``func(rewards)``, a function of all lanes' rewards at once: float64[n] to float64[n].

    A step that begins an episode has no reward to change: its 0 stays 0.
    """


class _SingleLaneView(Env[Any, Any]):
    """What a single wrapper wraps: an environment that has the spaces of one lane and nothing else."""

    def __init__(self, env: AnyLanes) -> None:
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self.metadata = env.metadata


def _wrap_one(env: AnyLanes, wrapper: Callable[..., Any], kwargs: dict[str, Any], kind: type) -> Any:
    """The single wrapper, made around one lane's spaces, whose functions its form for n lanes calls."""
    one = wrapper(_SingleLaneView(env), **kwargs)
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
    if hook == getattr(one, "_one", None):
        return one._rows  # type: ignore[no-any-return]
    return partial(map_rows, hook, *spaces) if spaces else partial(_map_rewards, hook)


def _map_rewards(function: Callable[[Any], Any], rewards: Array) -> Array:
    dtype = rewards.dtype if rewards.dtype.kind == "f" else np.float64
    # Plain numbers, as single environments return them.
    return np.fromiter(map(function, rewards.tolist()), dtype, len(rewards))


class VectorizeTransformObservation(_BatchObservation):
    """Each lane's observation as the single ``wrapper``, made with these arguments, would show it."""

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)  # first: it refuses what is not a vector environment
        self.wrapper = one = _wrap_one(env, wrapper, kwargs, ObservationWrapper)
        self._rows = _rows_of(one, one.observation, env.single_observation_space, one.observation_space)
        super().__init__(env, self._rows, None, one.observation_space)
        self.same_out = self.observation_space == env.observation_space  # whether the space stays the same

    def _change_finals(self, observations: Any, ended: Array, finals: Any) -> Any:
        if self.observations is self._rows:  # the same for all lanes
            return self._rows(finals)
        return super()._change_finals(observations, ended, finals)


class VectorizeTransformAction(_BatchAction):
    """Each lane's action as the single ``wrapper``, made with these arguments, would pass it on."""

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)
        self.wrapper = one = _wrap_one(env, wrapper, kwargs, ActionWrapper)
        rows = _rows_of(one, one.action, one.action_space, env.single_action_space)
        super().__init__(env, rows, None, one.action_space)
        self.same_out = self.action_space == env.action_space  # whether the space stays the same


class VectorizeTransformReward(_BatchReward):
    """Each lane's reward as the single ``wrapper``, made with these arguments, would show it."""

    def __init__(self, env: AnyLanes, wrapper: type[Any], **kwargs: Any) -> None:
        VectorWrapper.__init__(self, env)
        self.wrapper = one = _wrap_one(env, wrapper, kwargs, RewardWrapper)
        rows = _rows_of(one, one.reward)
        super().__init__(env, rows)
        self._logic.layer = "_Reward" if isinstance(rows, partial) else "Clip"  # type: ignore[misc]


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


class AddRenderObservation(_BatchObservation):
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
        func, space = frame_adder(env, env.single_observation_space, partial(_render_lanes, env), *keys)
        super().__init__(env, func, None, space)


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


class TimeAwareObservation(ManyLanes):
    """Observations with the number of steps that the lane has taken in its episode; flat by default."""

    flatten: bool = forwarded("_logic", "flatten")
    normalize_time: bool = forwarded("_logic", "normalize_time")
    max_timesteps: int = forwarded("_memory", "_limit")
    timesteps: Array = forwarded("_memory", "timesteps")

    def __init__(
        self,
        env: AnyLanes,
        flatten: bool = True,
        normalize_time: bool = False,
        *,
        dict_time_key: str = "time",
    ) -> None:
        super().__init__(env, WithTime(flatten, normalize_time, dict_time_key))


class DelayObservation(ManyLanes):
    """The agent sees each lane's observations ``delay`` steps late, and zeros before the first."""

    delay: int = forwarded("_logic", "delay")

    def __init__(self, env: AnyLanes, delay: int) -> None:
        super().__init__(env, Delay(delay))


class NormalizeObservation(ManyLanesObservation):
    """Observations centred and scaled by running statistics, as float32; ``update_running_mean = False`` freezes them.

    ``shared``: one mean and variance for all lanes. Without it ``obs_rms`` has a row per lane.
    """

    obs_rms: RunningMeanStd | LaneStatistics = forwarded("_memory", "_statistics")
    update_running_mean: bool = forwarded("_memory", "_updating")
    epsilon: float = forwarded("_logic", "epsilon")

    def __init__(self, env: AnyLanes, epsilon: float = 1e-8, *, shared: bool = True) -> None:
        super().__init__(env, StandardizedTogether(epsilon) if shared else Standardized(epsilon))
        self.shared = shared


class NormalizeReward(ManyLanes):
    """Rewards scaled so that discounted returns have about unit variance; ``update_running_mean = False`` freezes it.

    ``shared``: one statistic of all lanes' returns. Without it ``return_rms`` has a row per lane.
    """

    return_rms: RunningMeanStd | LaneStatistics = forwarded("_memory", "_statistics")
    update_running_mean: bool = forwarded("_memory", "_updating")
    accumulated_reward: Array = forwarded("_memory", "returns")
    gamma: float = forwarded("_logic", "gamma")
    epsilon: float = forwarded("_logic", "epsilon")

    _memory: ReturnsMemory

    def __init__(self, env: AnyLanes, gamma: float = 0.99, epsilon: float = 1e-8, *, shared: bool = True) -> None:
        super().__init__(env, ScaledTogether(gamma, epsilon) if shared else ScaledReward(gamma, epsilon))
        self.shared = shared

    def _advance_step(self, result: Step, begun: Array | None, held: Array | None) -> Step:
        # Twice as fast as taking rows of the lanes that moved, which are most. Its plain twin is the one of ManyLanes.
        if not self.shared:
            return super()._advance_step(result, begun, held)
        observations, rewards, terminations, truncations, infos = result
        resting = begun if held is None else held if begun is None else begun | held
        logic: Any = self._logic
        rewards = logic.scale_moved(self._memory, rewards, None if resting is None else resting.nonzero()[0])
        beginning = restarted_lanes(self._mode, infos) if begun is None else begun
        self._memory.returns[beginning] = 0.0
        return observations, rewards, terminations, truncations, infos

    def normalize(self, reward: Any) -> Any:
        """Scale a reward, or one per lane; the statistics count the running returns once more."""
        logic: Any = self._logic
        return logic.scale(self._memory, ALL, reward, self._memory.returns)


class FrameStackObservation(ManyLanes):
    """The last ``stack_size`` observations of each lane as one: [n, stack_size, …]."""

    def __init__(self, env: AnyLanes, stack_size: int, *, padding_type: Any = "reset") -> None:
        super().__init__(env, FrameStack(stack_size, padding_type))
        self.stack_size = stack_size


class MaxAndSkipObservation(WindowOfManyLanes):
    """Each action is taken ``skip`` times; the observation is the element-wise maximum of a lane's last two."""

    _skip: int = forwarded("_logic", "skip")

    def __init__(self, env: AnyLanes, skip: int = 4) -> None:
        super().__init__(env, MaxAndSkip(skip), skip, pools=True)


class StickyAction(ManyLanesAction):
    """Each lane repeats its own last action with a probability, drawn from the lane's random stream."""

    repeat_action_probability: float = forwarded("_logic", "repeat_action_probability")
    repeat_action_duration_range: tuple[int, int] = forwarded("_logic", "repeat_action_duration_range")

    def __init__(self, env: AnyLanes, repeat_action_probability: float, repeat_action_duration: Duration = 1) -> None:
        super().__init__(env, Sticky(repeat_action_probability, repeat_action_duration))


class RepeatAction(WindowOfManyLanes):
    """Each action is taken ``num_repeats`` times, in each lane until its episode ends; rewards add up."""

    num_repeats: int = forwarded("_logic", "num_repeats")

    def __init__(self, env: AnyLanes, num_repeats: int) -> None:
        super().__init__(env, Repeat(num_repeats), num_repeats)


class RecordEpisodeStatistics(ManyLanes):
    """Adds return, length and seconds of an episode to its last infos, under SAME_STEP to final_info as well.

    The queues and the count are of all lanes together.
    """

    episode_count: int = forwarded("_memory", "episode_count")
    episode_returns: Array = forwarded("_memory", "episode_returns")
    episode_lengths: Array = forwarded("_memory", "episode_lengths")
    episode_start_times: Array = forwarded("_memory", "_started")
    return_queue: deque[float] = forwarded("_memory", "return_queue")
    length_queue: deque[int] = forwarded("_memory", "length_queue")
    time_queue: deque[float] = forwarded("_memory", "time_queue")
    _stats_key: str = forwarded("_logic", "stats_key")

    _logic: EpisodeStatistics

    def __init__(self, env: AnyLanes, buffer_length: int = 100, stats_key: str = "episode") -> None:
        super().__init__(env, EpisodeStatistics(buffer_length, stats_key))

    def _on_the_way_out(self, result: Step) -> Step:
        # Two thirds of the time of its plain twin, that of ManyLanes, which the rare cases still take.
        if self._held is not None or self._mode is AutoresetMode.SAME_STEP:
            return super()._on_the_way_out(result)
        observations, rewards, terminations, truncations, infos = result
        logic, memory = self._logic, self._memory
        memory.episode_returns += rewards
        memory.episode_lengths += 1
        if self._ended is not None:
            logic.begin(memory, lane_numbers(self._ended), (None, {}))
        self._ended = None
        if any_true(terminations) or any_true(truncations):
            over = terminations | truncations
            self._ended = over if self._tracks else None
            added = LaneInfos(len(over))
            logic.end(memory, lane_numbers(over), added)
            infos = self._add_infos(infos, added, NO_LANES)
        return observations, rewards, terminations, truncations, infos

    def _add_infos(self, infos: Info, added: Info, again: Array) -> Info:
        if added and self._stats_key in infos:
            raise key_exists(self._stats_key, infos)
        return super()._add_infos(infos, added, again)


class ArrayConversion(ConvertsArrays, VectorWrapper[Any, Any, Any, Any, Any]):
    """Lanes whose arrays are of ``env_xp``, for an agent whose arrays are of ``target_xp``.

    Libraries are modules or their names. ``reset_mask`` and the other options are the agent's arrays too.
    """

    def __init__(
        self,
        env: AnyLanes,
        env_xp: ModuleType | str,
        target_xp: ModuleType | str,
        env_device: Device | None = None,
        target_device: Device | None = None,
    ) -> None:
        super().__init__(env)
        self._set_libraries(env_xp, target_xp, env_device, target_device)

    def _on_the_way_in(self, actions: Any) -> Any:
        return self._to_env(actions)

    def _on_the_way_out(self, result: Step) -> Step:
        observations, rewards, terminations, truncations = map(self._to_agent, result[:4])
        return observations, rewards, terminations, truncations, self._info_to_agent(result[4])


class JaxToNumpy(ArrayConversion):
    """Lanes of JAX arrays for an agent of NumPy's. Observations share JAX's memory and are read-only."""

    def __init__(self, env: AnyLanes) -> None:
        super().__init__(env, "jax.numpy", "numpy")


class JaxToTorch(ArrayConversion):
    """Lanes of JAX arrays for an agent of tensors. They share JAX's memory: ``clone()`` before writing."""

    def __init__(self, env: AnyLanes, device: Device | None = None) -> None:
        super().__init__(env, "jax.numpy", "torch", target_device=device)
        self.device = device


class NumpyToTorch(ArrayConversion):
    """Lanes of NumPy arrays for an agent of tensors. On the CPU they share their memory."""

    def __init__(self, env: AnyLanes, device: Device | None = None) -> None:
        super().__init__(env, "numpy", "torch", target_device=device)
        self.device = device


class TorchToNumpy(ArrayConversion):
    """Lanes of tensors, which live on ``device``, for an agent of NumPy arrays."""

    def __init__(self, env: AnyLanes, device: Device | None = None) -> None:
        super().__init__(env, "torch", "numpy", env_device=device)
        self.device = device


class DictInfoToList(VectorWrapper[Any, Any, Any, Any, Any]):
    """``reset`` and ``step`` return a list of infos: what each lane's single environment would return.

    >>> info_list({"k": np.array([None, "yes"], object), "_k": np.array([False, True])}, 2)
    [{}, {'k': 'yes'}]
    """

    def __init__(self, env: AnyLanes) -> None:
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


__all__ = sorted(
    name
    for name, value in globals().items()
    if name[0] != "_" and isinstance(value, type) and value.__module__.startswith(__name__)
)
