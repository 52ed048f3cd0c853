"""Logic: what a wrapper does, written once for one lane and for n; OneLane: the shells that run it around one Env.

A logic need not know autoreset or info masks. ``lanes`` is None for one environment with plain values. Otherwise it is
``ALL`` or an array of lane numbers, and every value has a row for each of these lanes and no others: a logic must not
assume that row i is lane i. The shells for n lanes are in ``many_lanes``.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Final, SupportsFloat, TypeAlias

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.problem import kind
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from paddock.errors import InvalidSnapshot, SnapshotUnsupported
from paddock.spaces import Space

ALL: Final = slice(None)  # as an index it gives a view of the memory's arrays, not a copy
Lanes: TypeAlias = "slice | np.ndarray[Any, Any] | None"
First: TypeAlias = tuple[Any, Info]  # what a reset returns
Step: TypeAlias = tuple[Any, Any, Any, Any, Info]  # what a step returns
_PLAIN = (type(None), bool, int, float, str)


@dataclass(frozen=True)
class Wrapped:
    """What a wrapper wraps: the spaces of one lane, the number of lanes (None: one Env), the environment itself."""

    observation_space: Space[Any]
    action_space: Space[Any]
    lanes: int | None
    env: Any  # an Env or a VectorEnv, depending on `lanes`


class Logic:
    """Subclass it as a frozen dataclass: its fields are the wrapper's arguments in a spec. Write what you need:

    * ``act`` for actions, ``observe`` for observations, ``reward`` for rewards, each on its own, or
    * ``begin`` and ``advance`` (and ``act``) where one depends on the other, or on where an episode begins and ends.

    What ``begin`` and ``advance`` return belongs to the caller: return new values or the ones you were passed, never
    the memory's own. To add to the info, write ``info[key] = value`` for one lane and
    ``info.tell(numbers, {key: rows})`` for n lanes, with the numbers of the lanes it is about. Don't change the flags.
    """

    # False: `begin` and `advance` get None for observations, and the agent sees those of the environment. Saves
    # ManyLanes from taking rows of what may be images.
    looks: ClassVar[bool] = True
    # True: `advance` leaves rewards alone, and `begin` overwrites all that is remembered of a lane. Then lanes that are
    # about to begin may be advanced with the others, to no effect, which is faster than leaving them out.
    forgets: ClassVar[bool] = False
    # Its name in snapshots: the class's, or the one that snapshots have had since before the class was renamed.
    layer: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.layer = vars(cls).get("layer", cls.__name__)

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        """One lane's observation space, as the agent sees it."""
        return wrapped.observation_space

    def action_space(self, wrapped: Wrapped) -> Space[Any]:
        """One lane's action space, as the agent sees it."""
        return wrapped.action_space

    def batched(self, wrapped: Wrapped) -> bool:
        """Whether the functions have a form for n lanes; if not, each lane goes through the form for one lane."""
        return True

    def memory(self, wrapped: Wrapped) -> Any:
        """What to remember of one lane, or of n: a Memory of your own subclass, or None for nothing."""
        return None

    def act(self, memory: Any, lanes: Lanes, action: Any) -> Any:
        """The action that the environment gets."""
        return action

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        """The observation that the agent sees, whether it is the first of an episode or a later one."""
        return observation

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        """The reward that the agent sees."""
        return reward

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        """Begin episodes in these lanes."""
        return first

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        """Take these lanes one step on; an observation that ends an episode is its last, in every autoreset mode."""
        return step


def overrides(logic: Logic, *parts: str) -> bool:
    """Whether the logic has one of these functions of its own."""
    return any(getattr(type(logic), part) is not getattr(Logic, part) for part in parts)


class OneLane(Wrapper[Any, Any, Any, Any]):
    """Runs the ``begin`` and ``advance`` of ``logic`` around ``env``. Hot: one frame per step."""

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
        self._memory._assign(values)
        return None


# The base class named first gives these their reset and step, which call the hook.


class OneLaneObservation(ObservationWrapper[Any, Any, Any], OneLane):
    """For a logic that writes ``observe``; users may override ``observation``."""

    def observation(self, observation: Any) -> Any:
        """The observation that the agent sees instead of ``observation``."""
        return self._logic.observe(self._memory, None, observation)


class OneLaneAction(ActionWrapper[Any, Any, Any], OneLane):
    """For a logic that writes ``act``, perhaps with ``begin`` and ``advance``; users may override ``action``."""

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        result = self.env.step(self.action(action))
        return self._logic.advance(self._memory, None, result) if self._advances else result

    def action(self, action: Any) -> Any:
        """The action that the environment gets instead of ``action``."""
        return self._logic.act(self._memory, None, action)


class OneLaneReward(RewardWrapper[Any, Any], OneLane):
    """For a logic that writes ``reward``; users may override ``reward``."""

    def reward(self, reward: SupportsFloat) -> SupportsFloat:
        """The reward that the agent sees instead of ``reward``."""
        return self._logic.reward(self._memory, None, reward)  # type: ignore[no-any-return]


class Memory:
    """What a logic remembers, as attributes; write one subclass per logic.

    Attributes without a leading underscore are part of snapshots. They may be numbers, text, arrays, deques of these,
    dicts and tuples of all these, and memories.
    """

    # Not a SimpleNamespace: its attributes take three times as long, and every step reads them.
    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def _values(self) -> dict[str, Any]:
        """What a snapshot holds."""
        return {name: value for name, value in vars(self).items() if name[0] != "_"}

    def _assign(self, values: dict[str, Any]) -> None:
        """Go on from what a snapshot held."""
        vars(self).update(values)


def pack_memory(memory: Memory | None) -> dict[str, Any]:
    """What a snapshot holds of a memory, as plain data."""
    return {} if memory is None else {name: _pack(name, value) for name, value in memory._values().items()}


def unpack_memory(memory: Memory | None, data: dict[str, Any]) -> dict[str, Any]:
    """New values for what a memory holds; the memory itself is not changed.

    Snapshots may come from anywhere, so a value must be of the same kind as the one that the memory has.
    """
    held = {} if memory is None else memory._values()
    if held.keys() != data.keys():
        raise InvalidSnapshot(f"This snapshot remembers {sorted(data)}, expected {sorted(held)}.")
    return {name: _unpack(name, held[name], data[name]) for name in held}


def _pack(name: str, value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return {"dtype": value.dtype.str, "shape": list(value.shape), "bytes": value.tobytes()}
    if isinstance(value, deque):
        return [_pack(name, one) for one in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {"parts": {key: _pack(name, one) for key, one in value.items()}}
    if isinstance(value, Memory):
        return {"memory": pack_memory(value)}
    if type(value) is tuple:
        return {"tuple": [_pack(name, one) for one in value]}
    if type(value) in _PLAIN:
        return value
    raise SnapshotUnsupported(f"A wrapper remembers {name}={type(value).__name__}, which has no form as plain data.")


def _unpack(name: str, old: Any, data: Any) -> Any:
    """``data`` as a value like ``old``; where that is None or a number, of any kind that can be packed."""
    try:
        value = _value(old, data)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidSnapshot(f"This snapshot's {name} is malformed.") from None
    alike = isinstance(value, type(old)) or old is None or value is None
    numbers = (int, float, np.generic)
    if not alike and not (isinstance(value, numbers) and isinstance(old, numbers)):
        raise InvalidSnapshot(f"This snapshot's {name} is {kind(value)}, expected {type(old).__name__}.")
    if isinstance(old, np.ndarray) and value is not None and (old.shape, old.dtype) != (value.shape, value.dtype):
        raise InvalidSnapshot(
            f"This snapshot's {name} is {value.dtype}{list(value.shape)}, expected {old.dtype}{list(old.shape)}."
        )
    return value


def _value(old: Any, data: Any) -> Any:
    if isinstance(old, deque):
        return deque((_value(None, one) for one in data), maxlen=old.maxlen)
    if not isinstance(data, dict):
        if type(data) not in _PLAIN:
            raise TypeError
        return data
    if "parts" in data:
        parts = data["parts"]
        if isinstance(old, dict):
            return {key: _unpack(key, old[key], parts[key]) for key in old}
        return {str(key): _value(None, one) for key, one in parts.items()}
    if "memory" in data:
        restored = copy(old)
        restored._assign(unpack_memory(old, data["memory"]))
        return restored
    if "tuple" in data:
        parts = old if isinstance(old, tuple) else (None,) * len(data["tuple"])
        return tuple(_unpack("part", one, new) for one, new in zip(parts, data["tuple"], strict=True))
    dtype = np.dtype(data["dtype"])
    if dtype.hasobject:
        raise TypeError
    array = np.frombuffer(data["bytes"], dtype).reshape(data["shape"]).copy()
    return array if array.ndim else array[()]
