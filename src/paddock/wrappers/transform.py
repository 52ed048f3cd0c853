"""Values changed one by one: observations, actions and rewards, by a function of yours or by one of these.

None of these wrappers remembers anything. A subclass of TransformObservation or TransformAction writes ``_one`` for a
value of one lane and, where that is faster than lane by lane, ``_rows`` for those of many: its form for n lanes, in
``paddock.wrappers.vector``, calls that. The space that you pass is not checked against your function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env
from paddock.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper
from paddock.errors import InvalidBound, InvalidSpace
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.flatten import flatten, flatten_space, parts
from paddock.wrappers.many_lanes import map_rows

Array = np.ndarray[Any, Any]
Bound = float | Array | None
_WITH_COLUMNS = (Box, MultiBinary, Discrete, MultiDiscrete)


class HookFunction:
    """``func`` of the Transform wrappers, which their ``hook`` calls.

    Hot: the hook of a wrapper is ``func`` itself, a frame less, unless a subclass has a hook of its own.
    """

    def __init__(self, hook: str) -> None:
        self.hook = hook

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner = owner

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        return self if wrapper is None else wrapper._func

    def __set__(self, wrapper: Any, func: Any) -> None:
        wrapper._func = func
        if getattr(type(wrapper), self.hook) is getattr(self.owner, self.hook):
            setattr(wrapper, self.hook, func)


class TransformObservation(ObservationWrapper[Any, Any, Any]):
    """The agent sees ``func(observation)``, a member of ``observation_space`` (None: the environment's).

    ``VectorizeTransformObservation`` makes a subclass of this work on lanes.
    """

    func: Callable[[Any], Any] = HookFunction("observation")  # type: ignore[assignment]

    def __init__(self, env: Env[Any, Any], func: Callable[[Any], Any], observation_space: Space[Any] | None) -> None:
        self._record_arguments(func=func, observation_space=observation_space)
        super().__init__(env)
        self.func = func
        if observation_space is not None:
            self.observation_space = observation_space

    def observation(self, observation: Any) -> Any:
        return self.func(observation)


class FilterObservation(TransformObservation):
    """The agent sees only the parts ``filter_keys``: keys of a Dict, places in a Tuple. Values are not copied."""

    def __init__(self, env: Env[Any, Any], filter_keys: Sequence[str | int]) -> None:
        self._record_arguments(filter_keys=filter_keys)
        keys, space = filter_keys, env.observation_space
        if not isinstance(keys, Sequence) or isinstance(keys, str):
            raise InvalidSpace(f"Expects `filter_keys` to be a Sequence, actual type: {type(keys)}")
        if isinstance(space, Dict):
            _check_names(keys, space)
            target: Space[Any] = Dict({key: space.spaces[key] for key in keys}, sort_keys=space.sort_keys)  # type: ignore[misc,index]
        elif isinstance(space, Tuple):
            _check_places(keys, space)
            target = Tuple(space.spaces[key] for key in keys)  # type: ignore[index]
        else:
            raise InvalidSpace(
                "FilterObservation wrapper is only usable with `Dict` and `Tuple` observations, "
                f"actual type: {type(space)}"
            )
        if not len(keys):
            raise InvalidSpace("The observation space is empty due to filtering all of the keys.")
        self.filter_keys, self._named = filter_keys, isinstance(space, Dict)
        super().__init__(env, self._one, target)

    def _one(self, value: Any) -> Any:
        if not self._named:
            return tuple([value[key] for key in self.filter_keys])
        chosen = {}
        for key in self.filter_keys:  # not a comprehension: before Python 3.12 that is another frame
            chosen[key] = value[key]
        return chosen

    _rows = _one  # rows nest as members do


def _check_names(keys: Sequence[Any], space: Dict) -> None:
    if not all(isinstance(key, str) for key in keys):
        raise InvalidSpace(f"All filter keys must be strings for a Dict space, got {keys}")
    if missing := [key for key in keys if key not in space.spaces]:
        raise InvalidSpace(
            "All the `filter_keys` must be included in the observation space.\n"
            f"Filter keys: {keys}\nObservation keys: {list(space.spaces)}\nMissing keys: {missing}"
        )


def _check_places(keys: Sequence[Any], space: Tuple) -> None:
    if not all(isinstance(key, int) for key in keys):
        raise InvalidSpace(f"All filter keys must be integers for a Tuple space, got {keys}")
    length = len(space.spaces)
    if missing := [key for key in keys if not -length <= key < length]:
        raise InvalidSpace(
            "All the `filter_keys` must be included in the length of the observation space.\n"
            f"Filter keys: {keys}, length of observation: {length}, missing indexes: {missing}"
        )
    if len({key % length for key in keys}) != len(keys):
        raise InvalidSpace(f"Duplicate keys exist, filter_keys: {keys}")


class FlattenObservation(TransformObservation):
    """The agent sees one flat array; a Discrete part is one-hot in it.

    Where one array is not possible (Graph, Sequence) the structure stays and its parts are flat.
    """

    def __init__(self, env: Env[Any, Any]) -> None:
        self._record_arguments()
        self._source = space = env.observation_space
        self._boxed = type(space) is Box  # the common case
        self._by_columns = _has_columns(space)  # rows can be flattened all at once
        super().__init__(env, self._one, flatten_space(space))

    def _one(self, value: Any) -> Any:
        if self._boxed:
            return np.asarray(value, self._source.dtype).flatten()
        return flatten(self._source, value)

    def _rows(self, values: Any) -> Any:
        if not self._by_columns:
            return map_rows(self._one, self._source, self.observation_space, values)
        flat = _columns(self._source, values)
        return flat.copy() if self._boxed else flat  # as `flatten` does: the agent may write to what it sees


def _has_columns(space: Space[Any]) -> bool:
    if isinstance(space, (Dict, Tuple)):
        return bool(len(space.spaces)) and all(_has_columns(part) for part in parts(space))
    return type(space) in _WITH_COLUMNS


def _columns(space: Space[Any], rows: Any) -> Array:
    """The flat rows: [n, flatdim]."""
    if isinstance(space, Dict):
        return np.concatenate([_columns(part, rows[key]) for key, part in space.spaces.items()], axis=1)
    if isinstance(space, Tuple):
        return np.concatenate([_columns(part, rows[i]) for i, part in enumerate(space.spaces)], axis=1)
    rows = np.asarray(rows, space.dtype)
    if isinstance(space, (Box, MultiBinary)):
        return np.reshape(rows, (len(rows), math.prod(space.shape)))
    if isinstance(space, Discrete):
        return _one_hot(rows[:, None], np.array([space.start]), np.array([space.n]), space)
    assert isinstance(space, MultiDiscrete), "see _WITH_COLUMNS"
    return _one_hot(rows.reshape(len(rows), -1), space.start.reshape(-1), space.nvec.reshape(-1), space)


def _one_hot(rows: Array, start: Array, counts: Array, space: Space[Any]) -> Array:
    # In int64: for small dtypes neither the difference nor the offsets need fit.
    ends = np.cumsum(counts, dtype=np.int64)
    chosen = rows.astype(np.int64) - start.astype(np.int64) + (ends - counts)
    hot = np.zeros((len(rows), int(ends[-1])), space.dtype)
    np.put_along_axis(hot, chosen, 1, axis=1)
    return hot


class ReshapeObservation(TransformObservation):
    """Arrays of ``shape``, with as many numbers as before."""

    def __init__(self, env: Env[Any, Any], shape: int | tuple[int, ...]) -> None:
        space = env.observation_space
        if not isinstance(space, Box):
            raise InvalidSpace(f"ReshapeObservation requires a Box observation space, got {type(space)}")
        self.shape = sides = check_sides("ReshapeObservation", shape)
        if math.prod(sides) != math.prod(space.shape):
            raise InvalidSpace(
                "ReshapeObservation requires the product of the new shape to match the original shape: "
                f"{space.shape} has {math.prod(space.shape)} numbers, {sides} {math.prod(sides)}"
            )
        self._record_arguments(shape=sides)
        super().__init__(env, self._one, Box(space.low.reshape(sides), space.high.reshape(sides), sides, space.dtype))

    def _one(self, value: Any) -> Array:
        return np.asarray(value).reshape(self.shape)

    def _rows(self, values: Array) -> Array:
        return values.reshape(len(values), *self.shape)


def check_sides(wrapper: str, shape: Any) -> tuple[int, ...]:
    """``shape`` as a tuple of positive integers, or an InvalidSpace in the name of the wrapper."""
    if not isinstance(shape, (tuple, list)):  # a list is a tuple that has been through JSON
        raise InvalidSpace(f"{wrapper} requires shape to be a tuple, got {type(shape)}")
    if not all(isinstance(side, (int, np.integer)) and not isinstance(side, bool) for side in shape):
        raise InvalidSpace(f"{wrapper} requires shape elements to be integers, got {shape}")
    if any(side < 1 for side in shape):
        raise InvalidSpace(f"{wrapper} requires shape elements to be greater than 0, got {shape}")
    return tuple(int(side) for side in shape)


class DtypeObservation(TransformObservation):
    """Numbers of another ``dtype``, cut off as NumPy's casts do; a Discrete or MultiBinary space becomes a Box."""

    def __init__(self, env: Env[Any, Any], dtype: Any) -> None:
        self._record_arguments(dtype=dtype)
        self.dtype = dtype
        target = _with_dtype(env.observation_space, dtype)
        self._kind: Any = target.dtype
        super().__init__(env, self._one, target)

    def _one(self, value: Any) -> Any:
        if type(value) is np.ndarray and value.ndim:
            return value.astype(self._kind)
        return self._kind.type(value)

    def _rows(self, values: Array) -> Array:
        return values.astype(self._kind)


def _with_dtype(space: Space[Any], dtype: Any) -> Space[Any]:
    match space:
        case Box() if np.dtype(dtype).kind == "f":
            with np.errstate(over="ignore"):  # a bound past the dtype's range becomes infinite
                return Box(space.low.astype(dtype), space.high.astype(dtype), space.shape, dtype)
        case Box():
            return Box(space.low, space.high, space.shape, dtype)
        case Discrete():
            return Box(space.start, space.start + space.n - 1, (), dtype)
        case MultiDiscrete():
            return MultiDiscrete(space.nvec, dtype=dtype, start=space.start)
        case MultiBinary():
            return Box(0, 1, space.shape, dtype)
    raise InvalidSpace(
        f"DtypeObservation requires a Box, Discrete, MultiDiscrete, or MultiBinary space, got {type(space)}"
    )


class TransformAction(ActionWrapper[Any, Any, Any]):
    """The environment gets ``func(action)``; the agent may do ``action_space`` (None: the environment's)."""

    func: Callable[[Any], Any] = HookFunction("action")  # type: ignore[assignment]

    def __init__(self, env: Env[Any, Any], func: Callable[[Any], Any], action_space: Space[Any] | None) -> None:
        self._record_arguments(func=func, action_space=action_space)
        super().__init__(env)
        self.func = func
        if action_space is not None:
            self.action_space = action_space

    def action(self, action: Any) -> Any:
        return self.func(action)


class ClipAction(TransformAction):
    """Moves actions outside the Box to its bounds; the agent sees a Box without bounds."""

    def __init__(self, env: Env[Any, Any]) -> None:
        self._record_arguments()
        space = env.action_space
        if not isinstance(space, Box):
            raise InvalidSpace(f"ClipAction requires a Box action space, got {type(space)}")
        self._low, self._high = space.low, space.high
        super().__init__(env, self._one, Box(-np.inf, np.inf, space.shape, space.dtype))

    def _one(self, value: Any) -> Any:
        return np.minimum(np.maximum(value, self._low), self._high)  # np.clip's answer, in half its time

    _rows = _one


class TransformReward(RewardWrapper[Any, Any]):
    """The agent sees ``func(reward)``. A step that begins an episode has no reward to change: its 0 stays 0."""

    func: Callable[[Any], Any] = HookFunction("reward")  # type: ignore[assignment]

    def __init__(self, env: Env[Any, Any], func: Callable[[SupportsFloat], SupportsFloat]) -> None:
        self._record_arguments(func=func)
        super().__init__(env)
        self.func = func

    def reward(self, reward: SupportsFloat) -> SupportsFloat:
        return self.func(reward)  # type: ignore[no-any-return]


class ClipReward(TransformReward):
    """Rewards within ``min_reward`` and ``max_reward``; None leaves that side open."""

    def __init__(self, env: Env[Any, Any], min_reward: Bound = None, max_reward: Bound = None) -> None:
        self._record_arguments(min_reward=min_reward, max_reward=max_reward)
        if min_reward is None and max_reward is None:
            raise InvalidBound("Both `min_reward` and `max_reward` cannot be None")
        if (
            min_reward is not None
            and max_reward is not None
            and np.any(np.asarray(max_reward) < np.asarray(min_reward))
        ):
            raise InvalidBound(f"Min reward ({min_reward}) must be smaller than max reward ({max_reward})")
        self._bounds = min_reward, max_reward
        super().__init__(env, self._one)

    def _one(self, reward: Any) -> Any:
        """One reward within the bounds: np.clip's answer, in a fraction of its time."""
        low, high = self._bounds
        if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
            return np.clip(reward, low, high)
        if low is not None and reward < low:
            reward = float(low)
        if high is not None and reward > high:
            reward = float(high)
        return reward

    def _rows(self, rewards: Array) -> Array:
        return np.clip(rewards, *self._bounds)
