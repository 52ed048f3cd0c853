"""VectorEnv: n lanes with a leading axis. It is not an Env: what it takes and returns is always a batch."""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

import numpy as np

from paddock.core.env import ActType, Info, ObsType, Root
from paddock.errors import InvalidLanes, NoAsyncCallError
from paddock.seeding import np_random

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from paddock.core.spec import EnvSpec
    from paddock.core.state import State
    from paddock.spaces import Space

    ArrayType = TypeVar("ArrayType", default=np.ndarray[Any, Any])
else:
    from typing import TypeVar

    ArrayType = TypeVar("ArrayType")

# What happens to a lane that fails: its error is raised, it begins a new episode, or it is frozen.
OnFault: TypeAlias = Literal["raise", "restart", "mask"]


class AutoresetMode(Enum):
    """When a lane whose episode ended begins the next one.

    NEXT_STEP: the step after the end ignores the lane's action and returns the first observation, reward 0.
    SAME_STEP: the ending step returns the next episode's first observation; the last one is ``info["final_obs"]``.
    DISABLED: never; the caller resets lanes with ``reset(options={"reset_mask": mask})``.
    """

    NEXT_STEP = "NextStep"
    SAME_STEP = "SameStep"
    DISABLED = "Disabled"


class VectorEnv(Root, Generic[ObsType, ActType, ArrayType]):
    """The contract of n lanes. ``step`` is ``send`` and then ``recv``; a subclass writes those two, or ``step``."""

    metadata: dict[str, Any] = {}
    spec: EnvSpec | None = None
    render_mode: str | None = None
    closed: bool = False

    observation_space: Space[ObsType]
    action_space: Space[ActType]
    single_observation_space: Space[Any]
    single_action_space: Space[Any]

    num_envs: int

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsType, Info]:
        """Begin an episode in every lane, or in those of ``options["reset_mask"]``. Lane i is seeded with seed + i."""
        if seed is not None:
            self._np_random, self._np_random_seed = np_random(seed)
        return None  # type: ignore[return-value]  # as Env.reset

    def step(self, actions: ActType) -> tuple[ObsType, ArrayType, ArrayType, ArrayType, Info]:
        """Step every lane: observations, rewards, terminations, truncations, infos."""
        self.send(actions)
        return self.recv()

    _sent: Any = None  # what `send` left for `recv`

    def _take_sent(self) -> Any:
        sent, self._sent = self._sent, None
        if sent is None:
            raise NoAsyncCallError("recv() has no step to bring back. Call send(actions) first.", "recv")
        return sent

    def send(self, actions: ActType) -> None:
        """Begin a step; ``recv`` brings its result."""
        raise NotImplementedError

    def recv(self) -> tuple[ObsType, ArrayType, ArrayType, ArrayType, Info]:
        """The result of the step begun by ``send``."""
        raise NotImplementedError

    def hold(self, lanes: np.ndarray[Any, Any]) -> None:
        """Leave these lanes, bool[n], alone in the next step: same observation, reward 0, flags False, no info.

        Their actions are ignored, ended lanes stay ended, and the step after that moves all lanes again. Wrappers that
        take several steps at once need it, for lanes that are done before the others.
        """
        raise InvalidLanes(f"{type(self).__name__} can't hold lanes while others move: it defines no hold().")

    def render(self) -> tuple[Any, ...] | None:
        """One frame per lane."""
        raise NotImplementedError

    def state(self) -> tuple[State, ...]:
        """The state of each lane. See :func:`paddock.state`."""
        raise NotImplementedError

    def close(self, **kwargs: Any) -> None:
        """Close every lane, once."""
        if not self.closed:
            self.close_extras(**kwargs)
            self.closed = True

    def close_extras(self, **kwargs: Any) -> None:
        """What a subclass has to free."""

    @property
    def unwrapped(self) -> VectorEnv[Any, Any, Any]:
        """The vector environment under all wrappers."""
        return self

    def _add_info(self, vector_infos: Info, env_info: Info, env_num: int) -> Info:
        return add_info(vector_infos, env_info, env_num, self.num_envs)

    def __repr__(self) -> str:
        name = type(self).__name__
        where = f"num_envs={self.num_envs}" if hasattr(self, "num_envs") else ""
        return f"{name}({where})" if self.spec is None else f"{name}({self.spec.id}, {where})"


# ── Infos of n lanes as one dict: each key an array with a row per lane, ``_key`` a mask of the lanes that have it ──
#
# A value never changes on the way in: when a lane brings another type, the array widens instead of rounding it.

_OBJECT = np.dtype(object)
_ROWS_BYTES = 1 << 30
_AXIS = 1 << 40
_NUMBERS = (bool, int, float, np.number, np.bool_)


def add_info(batch: dict[str, Any], info: dict[str, Any], lane: int, num_envs: int) -> dict[str, Any]:
    """Put one lane's info into the batch, and return the batch."""
    for key, value in info.items():
        mask = batch.get(f"_{key}")
        if mask is None:
            mask = np.zeros(num_envs, dtype=np.bool_)
        rows = batch.get(key)
        if isinstance(value, dict) and key != "final_obs" and not isinstance(rows, np.ndarray):
            rows = add_info(rows or {}, value, lane, num_envs)
        else:
            known = rows
            if isinstance(rows, dict):  # other lanes brought dicts under this key: one object per lane from now on
                known = _empty(num_envs, _OBJECT, ())
                for other in np.flatnonzero(mask).tolist():
                    known[other] = info_of(rows, other)
            rows = _widen(known, value, num_envs, whole=key == "final_obs")
            rows[lane] = value
        mask[lane] = True
        batch[key], batch[f"_{key}"] = rows, mask
    return batch


def _widen(rows: Any, value: Any, num_envs: int, *, whole: bool) -> np.ndarray[Any, Any]:
    """An array that holds what ``rows`` holds and can take ``value`` without changing it, ``whole`` as one object."""
    dtype, shape = (_OBJECT, ()) if whole else _row_type(value)
    if not isinstance(rows, np.ndarray):
        return _empty(num_envs, dtype, shape)
    if rows.dtype == dtype and rows.shape[1:] == shape:
        return rows
    common = _OBJECT
    # True is not 1 and text is not a number: only numbers of one shape share an array.
    if rows.dtype.kind in "iufc" and dtype.kind in "iufc" and rows.shape[1:] == shape:
        wider = np.result_type(rows.dtype, dtype)
        if _fits(rows, wider) and _fits(np.asarray(value, dtype), wider):
            common = wider
    if common == rows.dtype:
        return rows
    wide = _empty(num_envs, common, rows.shape[1:] if common.kind != "O" else ())
    wide[:] = list(rows) if common.kind == "O" else rows
    return wide


def _row_type(value: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return _OBJECT, ()
    if isinstance(value, _NUMBERS):
        return np.dtype(type(value)), ()
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    return _OBJECT, ()


def _fits(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> bool:
    """Whether the values stay what they are: an integer past 2**53 may not be a float."""
    if values.dtype.kind not in "iu" or dtype.kind not in "fc":
        return True
    with np.errstate(invalid="ignore"):
        return np.array_equal(values.astype(dtype).real.astype(values.dtype), values)


def info_of(infos: Info, lane: int) -> Info:
    """One lane's part of the batched infos, as its single environment would return it."""
    found: Info = {}
    for key, rows in infos.items():
        mask = infos.get(f"_{key}")
        if (mask is None and key.startswith("_")) or (mask is not None and not mask[lane]):
            continue
        found[key] = info_of(rows, lane) if isinstance(rows, dict) else rows[lane]
    return found


def _empty(num_envs: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    large = dtype.kind != "O" and num_envs * math.prod(shape) * dtype.itemsize > _ROWS_BYTES
    if large or max(shape, default=0) > _AXIS:
        dtype, shape = _OBJECT, ()  # one lane's array may be large; n times that would be too much
    return np.full(num_envs, None, dtype) if dtype.kind == "O" else np.zeros((num_envs, *shape), dtype)


def lane_infos_to_wire(infos: Info) -> Info:
    """Infos of lanes with lists in place of arrays of objects."""
    plain: Info = {}
    for key, value in infos.items():
        if type(value) is dict:
            plain[key] = lane_infos_to_wire(value)
        else:
            plain[key] = value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind == "O" else value
    return plain


def lane_infos_from_wire(infos: Info, num_envs: int) -> Info:
    """What ``lane_infos_to_wire`` was given: a list with one entry per lane and a mask beside it was an array."""
    found: Info = {}
    for key, value in infos.items():
        found[key] = value
        if f"_{key}" not in infos:
            continue
        if type(value) is dict:
            found[key] = lane_infos_from_wire(value, num_envs)
        elif type(value) is list and len(value) == num_envs:
            found[key] = array = np.empty(num_envs, dtype=object)
            for lane, one in enumerate(value):  # one by one: NumPy would make an array of arrays of it
                array[lane] = one
    return found
