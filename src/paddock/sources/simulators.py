"""The state of a simulator as plain data: all of MuJoCo's, all of the ALE's. Neither is imported here.

A reader would save MuJoCo's positions and velocities alone. But a step's reward often reads what the step before
computed, and the solver begins where it ended: so every array of floats that the simulator keeps is part of it. None of
integers is: they are addresses and counts, which MuJoCo follows without a look.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

from paddock.errors import InvalidSnapshot, SnapshotUnsupported
from paddock.sources.ale_state import generators, is_laid_out
from paddock.sources.snapshot_value import fits_in, is_finite
from paddock.sources.sticky_actions import watch, watched

State = dict[str, Any]


class Simulator(Protocol):
    """One environment's simulator. ``constants`` are fields of the environment that no snapshot needs.

    ``settings`` are those that it was made with: a snapshot of one that was made otherwise is refused.
    """

    constants: frozenset[str]
    settings: frozenset[str]

    def state(self) -> State:
        """All of it, as plain data."""

    def check(self, state: State) -> Any:
        """What ``enter`` takes, or InvalidSnapshot; changes nothing."""

    def enter(self, checked: Any) -> None:
        """Be in that state; or, with an InvalidSnapshot, still in the one before."""


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
    """An ``MjData``. Contacts, constraint forces and whatever is no float are computed anew."""

    constants = frozenset(
        (
            "model",
            "data",
            "mujoco_renderer",
            "viewer",
            "_viewers",
            "observation_structure",
            "fullpath",
            "width",
            "height",
        )
    )
    settings = frozenset(("frame_skip",))

    def __init__(self, mujoco: Any, model: Any, data: Any) -> None:
        self._mujoco, self._model, self._data = mujoco, model, data
        self._kind = mujoco.mjtState.mjSTATE_INTEGRATION

    def state(self) -> State:
        self._require_no_places()
        size = self._mujoco.mj_stateSize(self._model, self._kind)
        numbers = np.empty(size)
        self._mujoco.mj_getState(self._model, self._data, numbers, self._kind)
        arrays = {name: np.array(getattr(self._data, name)) for name in self._names()}
        return {"simulator": "MuJoCo", "numbers": numbers, "arrays": arrays}

    def check(self, state: State) -> Any:
        self._require_no_places()
        numbers: Any = state.get("numbers")
        arrays: Any = state.get("arrays")
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
        unfit = [name for name, array in {"state": numbers, **arrays}.items() if not is_finite(array)]
        if unfit:
            raise InvalidSnapshot(f"This snapshot has numbers that are not finite, in {', '.join(unfit)}.")
        return numbers, arrays

    def enter(self, checked: Any) -> None:
        before = self.state()
        try:
            self._write(*checked)
        except Exception as error:  # mujoco.FatalError, or what a plugin raises
            self._write(before["numbers"], before["arrays"])
            raise InvalidSnapshot(f"MuJoCo can't go on from this snapshot: {error}.") from None

    def _write(self, numbers: Any, arrays: dict[str, Any]) -> None:
        self._mujoco.mj_setState(self._model, self._data, numbers, self._kind)
        self._mujoco.mj_forward(self._model, self._data)
        # Over what was just computed: between two steps MuJoCo holds what belongs to the beginning of the last one.
        for name, array in arrays.items():
            getattr(self._data, name)[...] = array

    def _names(self) -> list[str]:
        """Arrays of floats that keep their size: those of a fresh state without contacts."""
        fresh = self._mujoco.MjData(self._model)
        names = [name for name in dir(fresh) if not name.startswith(("_", "plugin"))]
        found = {name: getattr(fresh, name, None) for name in names}
        arrays = {name: array for name, array in found.items() if isinstance(array, np.ndarray) and array.size}
        return [name for name, array in arrays.items() if array.dtype.kind == "f"]

    def _require_no_places(self) -> None:
        """A delayed signal is kept with its place in a buffer, and what sleeps with the number of its neighbour."""
        sleep = getattr(self._mujoco.mjtEnableBit, "mjENBL_SLEEP", 0)
        if getattr(self._model, "nhistory", 0) or self._model.opt.enableflags & int(sleep):
            raise SnapshotUnsupported("A model with delays or sleeping bodies can't be saved; repeat its actions.")


class Ale:
    """An AtariEnv. The picture is drawn by a step: right after ``restore``, ``render`` still shows an older one."""

    constants = frozenset(("ale", "_action_set", "step"))
    settings = frozenset(("_game", "_game_mode", "_game_difficulty", "_frameskip", "_obs_type", "continuous"))

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
        if not is_laid_out(bits, self._env.ale.cloneState(include_rng=True).serialize()):
            raise InvalidSnapshot("This is no state of the ALE: it is not laid out as those of this game are.")
        try:
            return self._ale.ALEState(bits), bits, held
        except Exception as error:  # its C++ raises what it likes
            raise InvalidSnapshot(f"This is no state of the ALE: {error}.") from None

    def enter(self, checked: Any) -> None:
        state, bits, held = checked
        ale, sticky = self._env.ale, watched(self._env)
        before = ale.cloneState(include_rng=True)
        try:
            ale.restoreState(state)
            whole = generators(ale.cloneState(include_rng=True).serialize()) == generators(bits)
        except Exception:  # its C++ raises what it likes, and has taken half of it by then
            whole = False
        if not whole:
            ale.restoreState(before)
            raise InvalidSnapshot("The ALE can't go on from this snapshot: its state is broken.")
        if sticky is not None:
            sticky.hold(held, state)

    @property
    def _game(self) -> str:
        return str(getattr(self._env, "_game", ""))
