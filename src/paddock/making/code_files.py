"""Where a module's code lies, found without importing it. What comes with the interpreter needs no finding."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path

from paddock.errors import PlanError


def code_of(module: str) -> dict[str, str]:
    """Name and path of the top-level module or package that ``module`` is part of; empty if any worker has it anyway.

    Never imports: the finders look at files, and only the top-level name is looked for.
    """
    name = module.partition(".")[0]
    if name == "__main__":
        raise PlanError(
            "Code in the program's own file (__main__) can't be shown to a sandbox alone. Put the environment into a "
            "module of its own."
        )
    if name == "paddock" or name in sys.stdlib_module_names:
        return {}
    path = _path_of(module, name)
    return {} if _is_installed(path) else {name: path}


def loaded_beside(paths: Iterable[str]) -> dict[str, str]:
    """What this process has imported from the folders that ``paths`` lie in, by top-level name: code of one project."""
    folders = {Path(path).parent for path in paths}
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if "." in name or name == "__main__" or not isinstance(origin, str):
            continue
        place = Path(origin).resolve()
        place = place.parent if place.name == "__init__.py" else place
        if place.parent in folders and place.exists() and not _is_installed(str(place)):
            found[name] = str(place)
    return found


def _path_of(module: str, name: str) -> str:
    try:
        found = importlib.util.find_spec(name)
    except ValueError:  # in sys.modules without a spec
        found = None
    if found is None:
        raise ModuleNotFoundError(
            f"No module named {name!r}. Environment registration via importing a module failed. "
            f"Check whether '{module}' contains env registration and can be imported."
        )
    if found.submodule_search_locations:  # empty for a file that acts as a package, as six
        return str(_folder_of(found, module).resolve())
    if found.origin is None or not Path(found.origin).is_file():
        raise PlanError(f"The code of {name!r} is not a file ({found.origin}), so it can't be shown to a sandbox.")
    return str(Path(found.origin).resolve())


def _folder_of(found: ModuleSpec, module: str) -> Path:
    """The package's folder; of one in several parts (a namespace package) the part that holds this module."""
    folders = [Path(one) for one in found.submodule_search_locations or ()]
    inner = module.split(".")[1:]
    for folder in folders:
        place = folder.joinpath(*inner)
        if place.is_dir() or place.with_name(place.name + ".py").is_file():
            return folder
    return folders[0]


def _is_installed(path: str) -> bool:
    places = {sysconfig.get_path(one) for one in ("purelib", "platlib", "stdlib", "platstdlib")}
    return any(Path(path).is_relative_to(Path(place).resolve()) for place in places if place)
