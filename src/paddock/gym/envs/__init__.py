"""``gymnasium.envs``. Modules that are Gymnasium's own, as ``envs.mujoco``, run from its files, over paddock's Env.

So a subclass of ``envs.mujoco.MujocoEnv`` is an Env of paddock with paddock's spaces. gymnasium itself is not imported.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from paddock.aliases import add_aliases
from paddock.errors import DependencyNotInstalled
from paddock.gym.envs.registration import make, pprint_registry, register, registry, spec

if TYPE_CHECKING:
    from gymnasium.envs import box2d as box2d
    from gymnasium.envs import mujoco as mujoco
    from gymnasium.envs import phys2d as phys2d
    from gymnasium.envs import tabular as tabular

    from paddock.gym.envs import classic_control as classic_control
    from paddock.gym.envs import toy_text as toy_text

__all__ = ["make", "pprint_registry", "register", "registry", "spec"]

ALIASES = {"functional_jax_env": {"paddock.gym.experimental.functional": "FunctionalJaxEnv FunctionalJaxVectorEnv"}}
add_aliases(__name__, ALIASES)

# Gymnasium's own modules, with all below them, and what to install for them.
_THEIRS = {
    "box2d": "gymnasium box2d pygame-ce",
    "mujoco": "'gymnasium[mujoco]'",
    "phys2d": "'gymnasium[jax]'",
    "tabular": "'gymnasium[jax]'",
    "classic_control.utils": "gymnasium",
}
_GYMNASIUM = re.compile(r"^gymnasium\b")


def __getattr__(name: str) -> Any:
    if name in ("classic_control", "toy_text", *_THEIRS):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _OverOurs(SourceFileLoader):
    """Run a file of Gymnasium's in which ``gymnasium`` means ``paddock.gym``. It leaves no compiled file behind."""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                node.module = _GYMNASIUM.sub("paddock.gym", node.module)
            elif isinstance(node, ast.Import):
                for one in (one for one in node.names if _GYMNASIUM.match(one.name)):
                    # `import gymnasium.spaces` binds `gymnasium`, which has it as an attribute.
                    name, one.asname = (one.name, one.asname) if one.asname else ("gymnasium", "gymnasium")
                    one.name = _GYMNASIUM.sub("paddock.gym", name)
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Theirs:
    """Find the modules of ``_THEIRS`` in the installed Gymnasium."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        below = name.removeprefix(f"{__name__}.")
        known = next((one for one in _THEIRS if below == one or below.startswith(f"{one}.")), None)
        if below == name or known is None:
            return None
        gymnasium = PathFinder.find_spec("gymnasium")  # where `gymnasium` is another name for paddock.gym, too
        if gymnasium is None or not gymnasium.submodule_search_locations:
            raise DependencyNotInstalled(
                f"{name} is Gymnasium's own and needs gymnasium, which is not installed. "
                f"To install: pip install {_THEIRS[known]}"
            )
        home = Path(gymnasium.submodule_search_locations[0], "envs", *below.split("."))
        folder = [str(home)] if home.is_dir() else None
        file = str(home / "__init__.py") if folder else f"{home}.py"
        if not Path(file).is_file():
            return None
        return spec_from_file_location(name, file, loader=_OverOurs(name, file), submodule_search_locations=folder)


sys.meta_path.insert(0, _Theirs)  # before the finder of files, which would run them as they are


def borrow(module: str) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a module of ours: names that only Gymnasium's module has are taken from there."""

    def __getattr__(name: str) -> Any:
        theirs = module.replace("paddock.gym", "gymnasium", 1)
        source: Any = None
        hint = ""
        if not name.startswith("__"):
            try:
                source = import_module(theirs)
            except ImportError:
                hint = f" {theirs} may have it: pip install gymnasium"
        if source is None or source.__name__ == module or not hasattr(source, name):
            raise AttributeError(f"module {module!r} has no attribute {name!r}.{hint}")
        return getattr(source, name)

    return __getattr__
