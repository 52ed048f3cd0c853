"""Logic: what a wrapper does, written once for one lane and for n lanes. It need not know autoreset or info masks.

``lanes`` is None for one environment with plain values. Otherwise it is ``ALL`` or an array of lane numbers, and every
value has a row for each of these lanes and no others: a logic must not assume that row i is lane i.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from paddock.core.env import Info
from paddock.core.problem import kind
from paddock.errors import InvalidSnapshot, SnapshotUnsupported
from paddock.spaces import Space
from paddock.wrappers.lanes import Lanes

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


class Memory:
    """What a logic remembers, as attributes; write one subclass per logic.

    Attributes without a leading underscore are part of snapshots. They may be numbers, text, arrays, deques of these,
    dicts and tuples of all these, and memories.
    """

    # Not a SimpleNamespace: its attributes take three times as long, and every step reads them.
    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)


def pack_memory(memory: Any) -> dict[str, Any]:
    """The attributes without an underscore, each as plain data."""
    return {name: _pack(name, value) for name, value in _public(memory).items()}


def unpack_memory(memory: Any, data: dict[str, Any]) -> dict[str, Any]:
    """New values for the attributes of a memory, which itself is not changed.

    Snapshots may come from anywhere, so a value must be of the same kind as the one that the memory has.
    """
    public = _public(memory)
    if public.keys() != data.keys():
        raise InvalidSnapshot(f"This snapshot remembers {sorted(data)}, expected {sorted(public)}.")
    return {name: _unpack(name, public[name], data[name]) for name in public}


def _public(memory: Any) -> dict[str, Any]:
    return {} if memory is None else {name: value for name, value in vars(memory).items() if name[0] != "_"}


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
        vars(restored).update(unpack_memory(old, data["memory"]))
        return restored
    if "tuple" in data:
        parts = old if isinstance(old, tuple) else (None,) * len(data["tuple"])
        return tuple(_unpack("part", one, new) for one, new in zip(parts, data["tuple"], strict=True))
    dtype = np.dtype(data["dtype"])
    if dtype.hasobject:
        raise TypeError
    array = np.frombuffer(data["bytes"], dtype).reshape(data["shape"]).copy()
    return array if array.ndim else array[()]


class Forwarded:
    """An attribute of a wrapper that lives in its logic or its memory, by default under the same name."""

    def __init__(self, place: str, name: str | None) -> None:
        self.place, self.name = place, name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        return self if wrapper is None else getattr(getattr(wrapper, self.place), self.name or "")

    def __set__(self, wrapper: Any, value: Any) -> None:
        setattr(getattr(wrapper, self.place), self.name or "", value)


def of_logic(name: str | None = None) -> Any:
    """An argument of the wrapper. Any: the class attribute's annotation has the type."""
    return Forwarded("_logic", name)


def of_memory(name: str | None = None) -> Any:
    """Something that the wrapper remembers."""
    return Forwarded("_memory", name)
