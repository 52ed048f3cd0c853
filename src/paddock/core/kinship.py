"""Env, Wrapper and the spaces are subclasses of Gymnasium's of the same name from the moment gymnasium is imported.

Trainers ask ``isinstance(env, gymnasium.Env)`` and ``isinstance(space, gymnasium.spaces.Box)``. Nothing here imports
gymnasium: whoever does, before or after paddock, makes the classes kin. What ours define is found before theirs.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# By module of ours: where theirs are, and the classes. Vector environments are not among them: their metadata has
# paddock's AutoresetMode, which code written for Gymnasium would compare with its own and take for another mode.
_CLASSES = {
    "paddock.core.env": ("gymnasium", ("Env",)),
    "paddock.core.wrapper": ("gymnasium", ("Wrapper", "ObservationWrapper", "ActionWrapper", "RewardWrapper")),
    "paddock.spaces": (
        "gymnasium.spaces",
        (
            "Space",
            "Box",
            "Dict",
            "Discrete",
            "Graph",
            "MultiBinary",
            "MultiDiscrete",
            "OneOf",
            "Sequence",
            "Text",
            "Tuple",
        ),
    ),
}


def join() -> None:
    """Put the classes of gymnasium, which is imported, among the bases of ours."""
    for module, (home, names) in _CLASSES.items():
        for name in names:
            ours = getattr(importlib.import_module(module), name)
            theirs = getattr(sys.modules.get(home), name, None)
            # Not issubclass(): of Dict and Tuple, Python would remember its "no". They are the same classes where
            # `gymnasium` is another name for paddock.gym, and none where a test has put something in its place.
            if isinstance(theirs, type) and theirs not in ours.__mro__:
                first, *others = ours.__bases__
                ours.__bases__ = (first, theirs, *others)


class Watch:
    """Finds no module itself; when gymnasium is found, ``join`` follows its import.

    If it was found before, and its import is going on (in another thread, or it loads a plugin that imports paddock),
    ``join`` follows when it looks for its next part.
    """

    _joined = False

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.startswith("gymnasium.") and not self._joined:
            self._joined = _join_if_ready()
        if name != "gymnasium":
            return None
        finders = (one for one in sys.meta_path if one is not self)
        spec = next((found for one in finders if (found := one.find_spec(name, path, target)) is not None), None)
        loader: Any = None if spec is None else spec.loader
        if hasattr(loader, "exec_module"):  # a folder that only looks like gymnasium has none
            execute = loader.exec_module

            def execute_and_join(module: ModuleType) -> None:
                execute(module)
                join()

            loader.exec_module = execute_and_join
        return spec


def _join_if_ready() -> bool:
    ready = hasattr(sys.modules.get("gymnasium"), "make")  # its classes are there before
    if ready:
        join()
    return ready


def watch_for_gymnasium() -> None:
    """Join now if gymnasium is imported, and otherwise when it is."""
    watch = Watch()
    sys.meta_path.insert(0, watch)  # before the look: another thread may be importing it
    if _join_if_ready():
        sys.meta_path.remove(watch)
