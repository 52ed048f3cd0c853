"""Import MuJoCo where no display is: on servers, in containers, behind a wall.

Left to itself it prepares to draw in a window, and the library for windows starts a program only to learn its own
version, which fails behind a wall. So without a display MuJoCo is told to draw without one (EGL), or not at all where
that is missing, and the library where its file lies.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paddock.errors import DependencyNotInstalled

_WAYS = ("egl", "disable")


def import_mujoco() -> None:
    """``import mujoco``. Where the caller chose by ``MUJOCO_GL``, or has a display, nothing is changed."""
    if "mujoco" in sys.modules or not sys.platform.startswith("linux"):
        return
    if "MUJOCO_GL" in os.environ or has_display():
        importlib.import_module("mujoco")
        return
    _name_glfw()
    for way in _WAYS:
        os.environ["MUJOCO_GL"] = way
        try:
            importlib.import_module("mujoco")
            return
        except (ImportError, AttributeError, OSError):  # what PyOpenGL raises where a library is missing
            if way == _WAYS[-1]:
                del os.environ["MUJOCO_GL"]
                raise
            for name in [name for name in sys.modules if name.partition(".")[0] in ("mujoco", "OpenGL")]:
                del sys.modules[name]


def has_display() -> bool:
    """Whether a window can be opened, as far as one can tell."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def refuse_windows(id: str, render_mode: Any) -> None:
    """DependencyNotInstalled for MuJoCo's "human" where no display is: left alone it would end the whole process."""
    if render_mode == "human" and not has_display():
        raise DependencyNotInstalled(
            f"{id!r}: render_mode='human' opens a window, and this machine has no display (DISPLAY is not set). Use "
            f"render_mode='rgb_array'."
        )


def _name_glfw() -> None:
    """Gymnasium's MuJoCo module imports GLFW whether it draws or not."""
    found = find_spec("glfw")
    places = (found.submodule_search_locations if found is not None else None) or ()
    files = [file for place in places if (file := Path(place) / "x11" / "libglfw.so").is_file()]
    if files:
        os.environ.setdefault("PYGLFW_LIBRARY", str(files[0]))
