"""Find a module's file in a folder by looking, not by importing. A symlink that leads out of the folder is refused."""

from __future__ import annotations

import os
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from paddock.errors import InvalidManifest

_PART = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def parse_entry(text: str) -> tuple[str, str]:
    """Module and attribute of ``package.module:Name``; ValueError for anything else, private names included."""
    module, _, attribute = text.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    if not all(_PART.fullmatch(part) and not part.startswith("__") for part in parts):
        raise ValueError(text)
    return module, attribute


def module_file(folder: Path, module: str) -> Path:
    """The file that ``import module`` would run, given that ``folder`` were the only place to look in.

    ``folder`` is a real path: absolute and without symlinks. InvalidManifest says what was looked for.
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "paddock":
        raise InvalidManifest(
            f"the module {top!r} has the name of one that Python or paddock brings. Name it otherwise."
        )
    *packages, last = module.split(".")
    place = folder
    for name in packages:
        place = place / name
        if _inside(folder, place / "__init__.py") is None:
            raise InvalidManifest(f"the package {_named(folder, place)} with an __init__.py is not in the folder.")
    names = [f"{last}/__init__.py", f"{last}.py", *(f"{last}{suffix}" for suffix in EXTENSION_SUFFIXES)]
    for name in names:
        if (found := _inside(folder, place / name)) is not None:
            return found
    raise InvalidManifest(
        f"the module {module!r} is not in the folder: there is no {' or '.join(_shown(folder, place, names))}."
    )


def top_level(folder: Path, module: str) -> Path:
    """What a worker must be shown to import ``module``: the file, or the folder of its outermost package."""
    file = module_file(folder, module)
    top = module.partition(".")[0]
    return folder / top if (folder / top / "__init__.py").is_file() else file


def leads_out(folder: Path, path: Path) -> bool:
    """Whether the path, its symlinks followed, is outside the folder."""
    real = Path(os.path.realpath(path))
    return real != folder and folder not in real.parents


def _inside(folder: Path, file: Path) -> Path | None:
    if not file.is_file():
        return None
    if leads_out(folder, file):
        raise InvalidManifest(f"{_named(folder, file)} is a link that leads out of the folder. Copy the file.")
    return file


def _named(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _shown(folder: Path, place: Path, names: list[str]) -> list[str]:
    return [_named(folder, place / name) for name in reversed(names[:2])]
