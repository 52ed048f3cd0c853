"""HostedLanes: n lanes as a Host holds them, stepped by one request. What they say crosses as arrays and plain data.

A reader would get wrong: infos of lanes may hold arrays of objects, which have no form on a wire. They go as lists, and
``lane_infos_from_wire`` makes them what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.core.vector_wrapper import VectorWrapper

Array = np.ndarray[Any, Any]


class HostedLanes(VectorWrapper[Any, Any, Any, Any, Array]):
    """Around lanes of any kind, in the process that holds them."""

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        observations, infos = self.env.reset(seed=seed, options=options)
        return observations, lane_infos_to_wire(infos)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        return observations, rewards, terminations, truncations, lane_infos_to_wire(infos) if infos else infos

    def snapshot(self) -> bytes:
        """All lanes as bytes."""
        return self._own("snapshot")()  # type: ignore[no-any-return]

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot."""
        self._own("restore")(snapshot)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called if it is callable."""
        return tuple(self._own("call")(_public(name), *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return tuple(self._own("get_attr")(_public(name)))

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute in every lane."""
        self._own("set_attr")(_public(name), values)

    def _own(self, name: str) -> Callable[..., Any]:
        """A method that lanes of ours have, and those of others need not."""
        found = getattr(self.env, name, None)
        if found is None:
            raise AttributeError(f"These lanes are the environment's own vector form, which has no {name}().")
        return found  # type: ignore[no-any-return]


def _public(name: Any) -> str:
    # Who asks may be far away, and asks by a call whose own name was looked at; this one was not.
    if not isinstance(name, str) or name.startswith("_"):
        raise AttributeError("Names that begin with an underscore are the environment's own.")
    return name


def lane_infos_to_wire(infos: Info) -> Info:
    """Infos of lanes with lists in place of arrays of objects."""
    return {key: _to_wire(value) for key, value in infos.items()}


def _to_wire(value: Any) -> Any:
    if type(value) is dict:
        return lane_infos_to_wire(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return value.tolist()
    return value


def lane_infos_from_wire(infos: Info, num_envs: int) -> Info:
    """What ``lane_infos_to_wire`` was given: a list with an entry a lane and a mask beside it was an array."""
    return {key: _from_wire(infos, key, value, num_envs) for key, value in infos.items()}


def _from_wire(infos: Info, key: str, value: Any, num_envs: int) -> Any:
    if type(value) is dict and f"_{key}" in infos:
        return lane_infos_from_wire(value, num_envs)
    if type(value) is list and len(value) == num_envs and f"_{key}" in infos:
        array: Array = np.empty(num_envs, dtype=object)
        for lane, one in enumerate(value):  # one by one: NumPy would make an array of arrays of it
            array[lane] = one
        return array
    return value
