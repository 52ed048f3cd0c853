"""MuJoCo where there is no display, and its state as plain data.

A reader would save positions and velocities alone. But a step's reward often reads what the step before computed, and
the solver begins where it ended: so every array of floats that MuJoCo keeps is part of the state. Arrays of integers
are not: they are addresses and counts, which MuJoCo follows unchecked.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from paddock.errors import DependencyNotInstalled, InvalidSnapshot, SnapshotUnsupported
from paddock.sources.foreign import State, fits_in, is_finite

_DRAWING = ("egl", "disable")  # values of MUJOCO_GL, the better one first


def import_mujoco() -> None:
    """``import mujoco`` on a server, in a container or behind a wall.

    Left to itself it prepares to draw in a window, and the library for windows starts a program to learn its own
    version, which fails behind a wall. So without a display MuJoCo is told to draw off screen (EGL), or not at all
    where EGL is missing. Nothing changes if ``MUJOCO_GL`` is set or there is a display.
    """
    if "mujoco" in sys.modules or not sys.platform.startswith("linux"):
        return
    if "MUJOCO_GL" in os.environ or has_display():
        importlib.import_module("mujoco")
        return
    # Gymnasium's MuJoCo module imports GLFW whether it draws or not; with the file named it starts no program.
    glfw = find_spec("glfw")
    for place in (glfw.submodule_search_locations if glfw is not None else None) or ():
        if (file := Path(place, "x11", "libglfw.so")).is_file():
            os.environ.setdefault("PYGLFW_LIBRARY", str(file))
    for way in _DRAWING:
        os.environ["MUJOCO_GL"] = way
        try:
            importlib.import_module("mujoco")
            return
        except (ImportError, AttributeError, OSError):  # what PyOpenGL raises where a library is missing
            if way == _DRAWING[-1]:
                del os.environ["MUJOCO_GL"]
                raise
            for name in [name for name in sys.modules if name.partition(".")[0] in ("mujoco", "OpenGL")]:
                del sys.modules[name]


def has_display() -> bool:
    """Whether a window can be opened, as far as one can tell."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def refuse_windows(id: str, render_mode: Any) -> None:
    """Raise DependencyNotInstalled for "human" without a display: left alone, MuJoCo would end the whole process."""
    if render_mode == "human" and not has_display():
        raise DependencyNotInstalled(
            f"{id!r}: render_mode='human' opens a window, and this machine has no display (DISPLAY is not set). Use "
            f"render_mode='rgb_array'."
        )


class MuJoCo:
    """The Simulator over an ``MjData``. Contacts, constraint forces and all that is not a float are recomputed."""

    constants = frozenset(
        {
            *("model", "data", "mujoco_renderer", "viewer", "_viewers"),
            *("observation_structure", "fullpath", "width", "height"),
        }
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
        """A delayed signal is kept with its place in a buffer, and a sleeping body with the number of its neighbour."""
        sleep = getattr(self._mujoco.mjtEnableBit, "mjENBL_SLEEP", 0)
        if getattr(self._model, "nhistory", 0) or self._model.opt.enableflags & int(sleep):
            raise SnapshotUnsupported("A model with delays or sleeping bodies can't be saved; repeat its actions.")
