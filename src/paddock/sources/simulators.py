"""The state of a simulator as plain data: all of MuJoCo's, all of the ALE's. Neither is imported here.

A reader would save MuJoCo's positions and velocities alone. But a step's reward often reads what the step before
computed, and the solver begins where it ended: so every array that the simulator keeps is part of it.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

from paddock.errors import InvalidSnapshot
from paddock.sources.snapshot_value import fits_in
from paddock.sources.sticky_actions import watch, watched

State = dict[str, Any]


class Simulator(Protocol):
    """One environment's simulator. ``constants`` are fields of the environment that no snapshot needs."""

    constants: frozenset[str]

    def state(self) -> State:
        """All of it, as plain data."""

    def check(self, state: State) -> Any:
        """What ``enter`` takes, or InvalidSnapshot; changes nothing."""

    def enter(self, checked: Any) -> None:
        """Be in that state."""


def simulator_of(env: Any) -> Simulator | None:
    """The simulator of an unwrapped environment, if it is one whose state can be saved."""
    mujoco, ale = sys.modules.get("mujoco"), sys.modules.get("ale_py")
    if mujoco is not None and isinstance(getattr(env, "data", None), mujoco.MjData):
        return MuJoCo(mujoco, env.model, env.data)
    if ale is not None and isinstance(getattr(env, "ale", None), ale.ALEInterface):
        return Ale(ale, env)
    return None


def prepare_snapshots(env: Any) -> None:
    """Begin to remember what the simulator itself would not tell. Steps that others took before are not known."""
    if isinstance(simulator_of(env), Ale):
        watch(env)


class MuJoCo:
    """An ``MjData``. Contacts and constraint forces have no lasting place in it; they are computed anew."""

    constants = frozenset(("model", "data", "mujoco_renderer", "viewer", "_viewers", "observation_structure"))

    def __init__(self, mujoco: Any, model: Any, data: Any) -> None:
        self._mujoco, self._model, self._data = mujoco, model, data
        self._kind = mujoco.mjtState.mjSTATE_INTEGRATION

    def state(self) -> State:
        size = self._mujoco.mj_stateSize(self._model, self._kind)
        numbers = np.empty(size)
        self._mujoco.mj_getState(self._model, self._data, numbers, self._kind)
        arrays = {name: np.array(getattr(self._data, name)) for name in self._names()}
        return {"simulator": "MuJoCo", "numbers": numbers, "arrays": arrays}

    def check(self, state: State) -> Any:
        numbers, arrays = state.get("numbers"), state.get("arrays")
        size = self._mujoco.mj_stateSize(self._model, self._kind)
        wanted = {name: getattr(self._data, name) for name in self._names()}
        fits = (
            state.get("simulator") == "MuJoCo"
            and fits_in(numbers, np.empty(size))
            and isinstance(arrays, dict)
            and arrays.keys() == wanted.keys()
            and all(fits_in(arrays[name], like) for name, like in wanted.items())
        )
        if not fits:
            raise InvalidSnapshot("This snapshot is of another model, or of another version of MuJoCo.")
        return numbers, arrays

    def enter(self, checked: Any) -> None:
        numbers, arrays = checked
        self._mujoco.mj_setState(self._model, self._data, numbers, self._kind)
        self._mujoco.mj_forward(self._model, self._data)
        # Over what was just computed: between two steps MuJoCo holds what belongs to the beginning of the last one.
        for name, array in arrays.items():
            getattr(self._data, name)[...] = array

    def _names(self) -> list[str]:
        """Arrays that keep their size: those of a fresh state without contacts. Not the addresses of plugins."""
        fresh = self._mujoco.MjData(self._model)
        names = [name for name in dir(fresh) if not name.startswith(("_", "plugin"))]
        found = {name: getattr(fresh, name, None) for name in names}
        return [name for name, array in found.items() if isinstance(array, np.ndarray) and array.size]


class Ale:
    """An AtariEnv. The picture is drawn by a step: right after ``restore``, ``render`` still shows an older one."""

    constants = frozenset(("ale", "_action_set", "step"))

    def __init__(self, ale: Any, env: Any) -> None:
        self._ale, self._env = ale, env

    def state(self) -> State:
        bits = self._env.ale.cloneState(include_rng=True).serialize()
        sticky = watched(self._env)
        return {"simulator": "ALE", "game": self._game, "bits": bits, "held": None if sticky is None else sticky.held()}

    def check(self, state: State) -> Any:
        bits, held = state.get("bits"), state.get("held")
        if state.get("simulator") != "ALE" or state.get("game") != self._game or not isinstance(bits, bytes):
            raise InvalidSnapshot(f"This snapshot is not of {self._game}, which is played here.")
        if held is not None and not (type(held) is int and 0 <= held < len(self._env._action_set)):
            raise InvalidSnapshot("This snapshot holds down an action that there is not.")
        try:
            return self._ale.ALEState(bits), held
        except Exception as error:  # its C++ raises what it likes
            raise InvalidSnapshot(f"This is no state of the ALE: {error}.") from None

    def enter(self, checked: Any) -> None:
        state, held = checked
        sticky = watched(self._env)
        if sticky is None:
            self._env.ale.restoreState(state)
        else:
            sticky.hold(held, state)

    @property
    def _game(self) -> str:
        return str(getattr(self._env, "_game", ""))
