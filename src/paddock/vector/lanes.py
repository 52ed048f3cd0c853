"""What lanes of every kind share: spaces, actions, observations, snapshots, and HostedLanes, their form in a Host."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Generic

import numpy as np

from paddock.core.env import ActType, Info, ObsType
from paddock.core.lane import masked_lanes
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.core.vector_env import AutoresetMode, VectorEnv, lane_infos_to_wire
from paddock.core.vector_wrapper import VectorWrapper
from paddock.errors import InvalidAction, InvalidLanes, InvalidSnapshot, PaddockError
from paddock.spaces import Dict, Space, Tuple, rows
from paddock.spaces.batch import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate
from paddock.spaces.flatten import is_space_dtype_shape_equiv

Array = np.ndarray[Any, Any]


class SeparateLanes(VectorEnv[ObsType, ActType, Array], Generic[ObsType, ActType]):
    """Lanes that are environments of their own, made by ``env_fns``: in a loop, or in processes."""

    def __init__(
        self,
        env_fns: Sequence[Any],
        copy: bool,
        observation_mode: str | tuple[Space[Any], Space[Any]],
        autoreset_mode: str | AutoresetMode,
    ) -> None:
        if not env_fns:
            raise InvalidLanes("A vector environment needs at least one env function.")
        self.env_fns, self.num_envs = env_fns, len(env_fns)
        self.copy, self.observation_mode = copy, observation_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self._begun = False
        self._held: frozenset[int] = frozenset()

    def _adopt_spaces(self, spaces: Sequence[tuple[Space[Any], Space[Any]]]) -> None:
        """Take the spaces of each lane: equal, or alike enough. InvalidLanes names the lane that does not fit."""
        (observations, actions), mode = zip(*spaces, strict=True), self.observation_mode
        if not isinstance(mode, tuple) and mode not in ("same", "different"):
            raise InvalidLanes(f"observation_mode={mode!r}; expected 'same', 'different' or a pair.")
        self.single_observation_space = single = mode[1] if isinstance(mode, tuple) else observations[0]
        alike: Callable[[Any, Any], bool] = operator.eq if mode == "same" else is_space_dtype_shape_equiv
        for lane, space in enumerate(actions):
            if space != actions[0]:
                raise InvalidLanes(f"lane {lane}: action space {space} is not {actions[0]}.")
        for lane, space in enumerate(observations):
            if not alike(space, single):
                text = f"observation space {space} does not fit {single} (observation_mode={mode!r})."
                raise InvalidLanes(f"lane {lane}: {text}")
        self.single_action_space = actions[0]
        self.action_space = batch_space(actions[0], self.num_envs)
        if isinstance(mode, tuple):
            self.observation_space = mode[0]
        elif mode == "same":
            self.observation_space = batch_space(single, self.num_envs)
        else:
            self.observation_space = batch_differing_spaces(list(observations))

    def hold(self, lanes: Array) -> None:
        self._held = masked_lanes(lanes, self.num_envs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        raise NotImplementedError

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return self.call(name)

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.get_attr("np_random_seed")


def lane_actions(space: Space[Any], actions: Any, count: int) -> list[Any]:
    """Split a batch of actions by lane; InvalidAction unless there are ``count``. Values and dtypes are not checked."""
    each = list(iterate(space, actions))
    if len(each) != count:
        text = f"{len(each)} actions for {count} lanes. Expected one per lane."
        raise InvalidAction(text, action=actions, space=space)
    return each


class LaneObservations:
    """The last observation of each of ``num_envs`` lanes; a lane that fails keeps its last good one.

    Arrays where the space has a fixed size, else one object per lane.
    """

    def __init__(self, space: Space[Any], num_envs: int, *, copy: bool) -> None:
        self._space, self._num_envs, self._copy = space, num_envs, copy
        self._arrays = rows.empty(space, num_envs)
        self._each = [] if self._arrays is not None else _blanks(space, num_envs)
        self._flat = isinstance(self._arrays, np.ndarray)
        self._nested = isinstance(space, (Dict, Tuple))

    @property
    def fixed(self) -> bool:
        """Whether there are arrays for all lanes."""
        return self._arrays is not None

    def put(self, lane: int, observation: Any) -> None:
        """Store one lane's observation; NumPy raises if it does not fit the space."""
        if self._arrays is None:
            if self._nested:  # one that lacks a part would break the batch of all lanes
                concatenate(self._space, [observation], create_empty_array(self._space, n=1))
            self._each[lane] = observation
        else:
            rows.put(self._arrays, lane, observation)

    def put_part(self, part: slice, values: Any) -> None:
        """Store observations of neighbouring lanes, nested like the space. Hot: runs once per step and worker."""
        if self._flat and self._arrays.dtype != np.bool_:
            self._arrays[part] = values
        else:
            rows.each(lambda all_rows, some: _copy(all_rows, part, some), self._arrays, values)

    def put_row(self, lane: int, values: Any, row: int) -> None:
        """Store one lane's observation from a row of a block."""
        rows.each(lambda all_rows, some: _copy(all_rows, lane, some[row]), self._arrays, values)

    def batch(self) -> Any:
        """All lanes: a copy, or with ``copy=False`` the buffers that the next step overwrites."""
        if self._flat:
            return self._arrays.copy() if self._copy else self._arrays
        if self._arrays is not None:
            return rows.each(np.copy, self._arrays) if self._copy else self._arrays
        batch = concatenate(self._space, self._each, create_empty_array(self._space, n=self._num_envs))
        return deepcopy(batch) if self._copy else batch

    def some(self, lanes: Sequence[int]) -> Any:
        """These lanes, in this order; always a copy."""
        if self._arrays is not None:
            return rows.each(lambda one: one[list(lanes)], self._arrays)
        chosen = [self._each[lane] for lane in lanes]
        return deepcopy(concatenate(self._space, chosen, create_empty_array(self._space, n=len(lanes))))


def _copy(all_rows: np.ndarray[Any, Any], place: Any, some: Any) -> None:
    # A worker may write any byte; one that is neither 0 nor 1 is not a bool.
    all_rows[place] = np.asarray(some).view(np.uint8) != 0 if all_rows.dtype == np.bool_ else some


def _blanks(space: Space[Any], count: int) -> list[Any]:
    """What lanes show that fail before they have an observation; None for spaces of a user's own class."""
    try:
        blanks = list(iterate(batch_space(space, count), create_empty_array(space, n=count)))
    except (PaddockError, TypeError):
        return [None] * count
    return blanks if len(blanks) == count else [None] * count


def seal_lanes(begun: bool, each: Sequence[bytes]) -> bytes:
    """The snapshot of n lanes from one per lane; ``begun``: they have been reset.

    There is one form, so lanes in a loop and in processes restore each other's snapshots.
    """
    return seal_snapshot("lanes", begun, seal_snapshot("each", each, b""))


def open_lanes(snapshot: bytes, num_envs: int) -> tuple[bool, list[bytes]]:
    """What ``seal_lanes`` was given; InvalidSnapshot for anything else, or for another number of lanes."""
    begun, inner = open_snapshot("lanes", snapshot, bool)
    each, _ = open_snapshot("each", inner, list[bytes])
    if len(each) != num_envs:
        raise InvalidSnapshot(f"This snapshot has {len(each)} lanes, expected {num_envs}.")
    return begun, each


class HostedLanes(VectorWrapper[Any, Any, Any, Any, Array]):
    """n lanes of any kind as a Host holds them, stepped by one request.

    Infos of lanes may hold arrays of objects, which have no form on a wire. They travel as lists, and
    ``lane_infos_from_wire`` turns them back into arrays.
    """

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations, lane_infos_to_wire(infos)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        return observations, rewards, terminations, truncations, lane_infos_to_wire(infos) if infos else infos

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(super().call(_check_public(name), *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        return tuple(super().get_attr(_check_public(name)))

    def set_attr(self, name: str, values: Any) -> None:
        super().set_attr(_check_public(name), values)


def _check_public(name: Any) -> str:
    # The caller may be far away. The name of its call was checked; the attribute's, an argument, was not.
    if not isinstance(name, str) or name.startswith("_"):
        raise AttributeError("Names that begin with an underscore are private to the environment.")
    return name
