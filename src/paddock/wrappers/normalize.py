"""Observations and rewards normalized by running statistics, which each lane has of its own or all lanes share.

Statistics are in float64. Their arrays are replaced, never written to: ``rms.mean``, once read, does not change, and
the same formulas serve one value and a row per lane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.wrapper import forwarded
from paddock.errors import InvalidBound, InvalidSpace
from paddock.spaces import Box, Space
from paddock.wrappers.logic import First, Lanes, Logic, Memory, OneLane, OneLaneObservation, Step, Wrapped

Array = np.ndarray[Any, Any]
Moments = tuple[Any, Any, Any]  # mean, variance, count


class RunningMeanStd:
    """Mean, variance and count of all values so far; at first 0, 1 and ``epsilon``, a small count.

    >>> rms = RunningMeanStd(shape=(2,))
    >>> rms.update(np.array([[1.0, 10.0], [3.0, 30.0]]))
    >>> rms.mean.round(2)
    array([ 2., 20.])
    """

    def __init__(self, epsilon: float = 1e-4, shape: tuple[int, ...] = (), dtype: Any = np.float64) -> None:
        self.mean: Any = np.zeros(shape, dtype=dtype)
        self.var: Any = np.ones(shape, dtype=dtype)
        self.count: Any = epsilon

    def update(self, x: Array) -> None:
        """Add a batch: values along the first axis."""
        values, axis = lay_out(x)
        mean, var = (part.reshape(np.shape(x)[1:])[()] for part in moments(values, axis))
        self.update_from_moments(mean, var, len(x))

    def update_from_moments(self, batch_mean: Any, batch_var: Any, batch_count: int) -> None:
        """Add a batch of which only mean, variance and count are known."""
        self.mean, self.var, self.count = update_mean_var_count_from_moments(
            self.mean, self.var, self.count, batch_mean, batch_var, batch_count
        )


class FewNumbers(RunningMeanStd):
    """The same for a small array, value by value in Python floats: NumPy takes longer to start than these in all."""

    MOST = 8

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        super().__init__(shape=shape)

    @property
    def mean(self) -> Any:
        return np.array(self._mean).reshape(self.shape)

    @mean.setter
    def mean(self, value: Any) -> None:
        self._mean: list[float] = np.asarray(value, np.float64).ravel().tolist()

    @property
    def var(self) -> Any:
        return np.array(self._var).reshape(self.shape)

    @var.setter
    def var(self, value: Any) -> None:
        self._var: list[float] = np.asarray(value, np.float64).ravel().tolist()

    def standardize(self, value: Any, epsilon: float) -> Any:
        """Add ``value`` and return it centred and scaled, with the bits of ``add_value`` and the division after it."""
        count = self.count
        total = count + 1
        weight = count / total
        means, variances, scaled = [], [], []
        for x, mean, var in zip(np.ravel(value).tolist(), self._mean, self._var, strict=True):
            delta = x - mean
            var = (var * count + delta * delta * count / total) / total
            means.append(mean + delta / total)
            variances.append(var)
            scaled.append(delta * weight / math.sqrt(var + epsilon))
        self._mean, self._var, self.count = means, variances, total
        return np.array(scaled, np.float32).reshape(self.shape)[()]


class LaneStatistics:
    """A mean, a variance and a count per lane: rows of what its RunningMeanStd would hold."""

    def __init__(self, lanes: int, shape: tuple[int, ...] = (), epsilon: float = 1e-4) -> None:
        self.mean: Array = np.zeros((lanes, *shape))
        self.var: Array = np.ones((lanes, *shape))
        self.count: Array = np.full(lanes, epsilon)

    def of(self, lanes: Any) -> Moments:
        """The rows of these lanes, counts shaped to go with the others."""
        count = self.count[lanes]
        return self.mean[lanes], self.var[lanes], count.reshape(-1, *(1,) * (self.mean.ndim - 1))

    def put(self, lanes: Any, found: Moments) -> None:
        """Replace the rows of these lanes."""
        mean, var, count = found
        if isinstance(lanes, slice):
            self.mean, self.var, self.count = mean, var, count.reshape(-1)
            return
        self.mean, self.var, self.count = self.mean.copy(), self.var.copy(), self.count.copy()
        self.mean[lanes], self.var[lanes], self.count[lanes] = mean, var, count.reshape(-1)


def update_mean_var_count_from_moments(
    mean: Any, var: Any, count: Any, batch_mean: Any, batch_var: Any, batch_count: Any
) -> Moments:
    """Mean, variance and count of two groups of values together, from those of each."""
    total = count + batch_count
    share = batch_count / total
    delta = batch_mean - mean
    spread = var * count + batch_var * batch_count + delta * delta * (count * share)
    return mean + delta * share, spread / total, total


def add_value(mean: Any, var: Any, count: Any, value: Any) -> tuple[Any, Any, Any, Any]:
    """Mean, variance and count with ``value`` as well, and how far it is from that mean. Hot: ten operations.

    All is element by element: rows of n lanes, with a count each, have the very bits of n calls.
    """
    total = count + 1
    delta = value - mean
    # In Gymnasium's order, so that rewards have its bits.
    var = (var * count + delta * delta * count / total) / total
    return mean + delta / total, var, total, delta * (count / total)


def lay_out(batch: Any) -> tuple[Array, int]:
    """The batch as a table in float64 with its longer side last, and the axis along which its values lie.

    NumPy's inner loops run along the last axis: at [1024, 4] that takes a fifth of the time.
    """
    table = np.asarray(batch)
    table = table.reshape(len(table), -1)
    if table.shape[1] >= table.shape[0]:
        return table.astype(np.float64), 0
    turned = np.empty(table.shape[::-1])
    turned[...] = table.T
    return turned, 1


def moments(values: Array, axis: int) -> tuple[Array, Array]:
    """Mean and variance along ``axis``, which stays with length one."""
    count = values.shape[axis]
    mean = np.add.reduce(values, axis=axis, keepdims=True) / count
    away = values - mean
    away *= away
    return mean, np.add.reduce(away, axis=axis, keepdims=True) / count


class StatisticsMemory(Memory):
    """Statistics that users may read, replace, share and freeze; a snapshot holds mean, variance and count."""

    _statistics: Any  # anything with mean, var and count: users assign another wrapper's to share it
    _updating = True

    def _values(self) -> dict[str, Any]:
        known = self._statistics
        moments = {name: np.asarray(getattr(known, name), np.float64)[()] for name in ("mean", "var", "count")}
        return {**super()._values(), "moments": moments}

    def _assign(self, values: dict[str, Any]) -> None:
        for name, value in values.pop("moments").items():
            setattr(self._statistics, name, value)
        super()._assign(values)


@dataclass(frozen=True)
class Standardized(Logic):
    """Observations with mean 0 and variance 1, each lane by its own statistics, the first ones far off.

    ``epsilon`` keeps the division from zero.
    """

    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise InvalidBound(f"`epsilon` should be strictly positive. Received {self.epsilon}")

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        return Box(-np.inf, np.inf, _shape(wrapped.observation_space), np.float32)

    def memory(self, wrapped: Wrapped) -> Any:
        shape = _shape(wrapped.observation_space)
        if wrapped.lanes is None:
            few = math.prod(shape) <= FewNumbers.MOST
            return StatisticsMemory(_statistics=FewNumbers(shape) if few else RunningMeanStd(shape=shape))
        return StatisticsMemory(_statistics=LaneStatistics(wrapped.lanes, shape))

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        known = memory._statistics
        if lanes is not None:
            mean, var, count = known.of(lanes)
            if memory._updating:
                mean, var, count, away = add_value(mean, var, count, observation)
                known.put(lanes, (mean, var, count))
            else:
                away = observation - mean
            return (away / np.sqrt(var + self.epsilon)).astype(np.float32)
        if memory._updating:
            if type(known) is FewNumbers:
                return known.standardize(observation, self.epsilon)
            known.mean, known.var, known.count, away = add_value(known.mean, known.var, known.count, observation)
        else:
            away = observation - known.mean
        return (away / np.sqrt(known.var + self.epsilon)).astype(np.float32)


@dataclass(frozen=True)
class StandardizedTogether(Standardized):
    """All lanes by the same statistics, which count each observation once, the last of an episode included."""

    def memory(self, wrapped: Wrapped) -> Any:
        return StatisticsMemory(_statistics=RunningMeanStd(shape=_shape(wrapped.observation_space)))

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        known, (values, axis) = memory._statistics, lay_out(observation)
        shape = np.shape(observation)[1:]
        if memory._updating:
            mean, var = (part.reshape(shape) for part in moments(values, axis))
            known.mean, known.var, known.count = update_mean_var_count_from_moments(
                known.mean, known.var, known.count, mean, var, len(observation)
            )
        beside = (-1, 1) if axis else (1, -1)
        values -= np.reshape(known.mean, beside)
        scaled = np.empty(np.shape(observation), np.float32)
        table = scaled.reshape(len(scaled), -1)
        root = np.sqrt(known.var + self.epsilon).reshape(beside)
        np.divide(values, root, out=table.T if axis else table, casting="same_kind")
        return scaled


def _shape(space: Space[Any]) -> tuple[int, ...]:
    if space.shape is None:
        raise InvalidSpace(
            f"NormalizeObservation wrapper requires the observation space to have a shape, got {space}. "
            "FlattenObservation makes one array of a Dict or a Tuple."
        )
    return space.shape


class NormalizeObservation(OneLaneObservation):
    """Observations centred and scaled by running statistics, as float32; ``update_running_mean = False`` freezes them.

    ``obs_rms`` holds mean, var and count, in float64. To share them: ``test.obs_rms = train.obs_rms``.
    """

    obs_rms: RunningMeanStd = forwarded("_memory", "_statistics")
    update_running_mean: bool = forwarded("_memory", "_updating")
    epsilon: float = forwarded("_logic", "epsilon")

    def __init__(self, env: Env[Any, Any], epsilon: float = 1e-8) -> None:
        super().__init__(env, Standardized(epsilon))


class ReturnsMemory(StatisticsMemory):
    """Statistics of returns, and the return of the running episode (per lane)."""

    returns: Any


@dataclass(frozen=True)
class ScaledReward(Logic):
    """Rewards divided by the standard deviation of returns, discounted by ``gamma``, each lane by its own statistics.

    The mean stays: shifting rewards would change the task. A return belongs to one episode: the last step's reward is
    part of it, and the next episode begins at zero, however the one before ended.
    """

    gamma: float = 0.99
    epsilon: float = 1e-8
    looks = False

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise InvalidBound(f"`gamma` should be in the interval [0, 1]. Received {self.gamma}")
        if not self.epsilon > 0:
            raise InvalidBound(f"`epsilon` should be strictly positive. Received {self.epsilon}")

    def memory(self, wrapped: Wrapped) -> Any:
        if wrapped.lanes is None:
            return ReturnsMemory(_statistics=RunningMeanStd(), returns=0.0)
        return ReturnsMemory(_statistics=LaneStatistics(wrapped.lanes), returns=np.zeros(wrapped.lanes))

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        if lanes is None:
            memory.returns = 0.0
        else:
            memory.returns[lanes] = 0.0
        return first

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        observation, reward, terminated, truncated, info = step
        if lanes is not None:
            memory.returns[lanes] = returns = memory.returns[lanes] * self.gamma + reward
            return observation, self.scale(memory, lanes, reward, returns), terminated, truncated, info
        known, reward = memory._statistics, float(reward)
        memory.returns = returns = memory.returns * self.gamma + reward
        if memory._updating:
            known.mean, known.var, known.count, _ = add_value(known.mean, known.var, known.count, returns)
        return observation, reward / math.sqrt(known.var + self.epsilon), terminated, truncated, info

    def scale(self, memory: Any, lanes: Any, rewards: Any, returns: Any) -> Any:
        """Add these lanes' returns to the statistics and scale their rewards."""
        known = memory._statistics
        mean, var, count = known.of(lanes)
        if memory._updating:
            mean, var, count, _ = add_value(mean, var, count, returns)
            known.put(lanes, (mean, var, count))
        return rewards / np.sqrt(var + self.epsilon)


@dataclass(frozen=True)
class ScaledTogether(ScaledReward):
    """All lanes by the same statistics of returns; each lane has a return of its own."""

    def memory(self, wrapped: Wrapped) -> Any:
        return ReturnsMemory(_statistics=RunningMeanStd(), returns=np.zeros(wrapped.lanes or 1))

    def scale(self, memory: Any, lanes: Any, rewards: Any, returns: Any) -> Any:
        self._learn(memory, returns, None)
        return rewards / math.sqrt(memory._statistics.var + self.epsilon)

    def scale_moved(self, memory: Any, rewards: Any, resting: np.ndarray[Any, Any] | None) -> Any:
        """Advance all lanes but the few that rest: all at once, and those are put right afterwards."""
        returns = memory.returns * self.gamma
        returns += rewards
        if resting is None:
            memory.returns = returns
            return self.scale(memory, None, rewards, returns)
        returns[resting] = 0.0
        self._learn(memory, returns, resting)
        scaled = rewards / math.sqrt(memory._statistics.var + self.epsilon)
        scaled[resting] = rewards[resting]
        returns[resting] = memory.returns[resting]
        memory.returns = returns
        return scaled

    def _learn(self, memory: Any, returns: Any, resting: np.ndarray[Any, Any] | None) -> None:
        """Add these returns to the statistics, except for lanes that rest, where they must be 0."""
        count = len(returns) if resting is None else len(returns) - len(resting)
        if not memory._updating or not count:
            return
        mean = np.add.reduce(returns) / count
        away = returns - mean
        if resting is not None:
            away[resting] = 0.0
        away *= away
        var = np.add.reduce(away) / count
        known = memory._statistics
        known.mean, known.var, known.count = update_mean_var_count_from_moments(
            known.mean, known.var, known.count, mean, var, count
        )


class NormalizeReward(OneLane):
    """Rewards scaled so that discounted returns have about unit variance.

    ``update_running_mean = False`` freezes the scale. ``return_rms`` holds mean, var and count of the returns.
    """

    return_rms: RunningMeanStd = forwarded("_memory", "_statistics")
    update_running_mean: bool = forwarded("_memory", "_updating")
    gamma: float = forwarded("_logic", "gamma")
    epsilon: float = forwarded("_logic", "epsilon")

    _memory: ReturnsMemory

    def __init__(self, env: Env[Any, Any], gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env, ScaledReward(gamma, epsilon))

    @property
    def discounted_reward(self) -> np.ndarray[Any, Any]:
        """The return of the running episode: float64[1]."""
        return np.array([self._memory.returns])

    @discounted_reward.setter
    def discounted_reward(self, value: Any) -> None:
        self._memory.returns = float(np.asarray(value).reshape(()))
