"""Modules by name from the one file or folder that each is in. Nothing beside that file can be imported.

No name that paddock or Python's own library has can be taken.
"""

# ruff: noqa: PTH112, PTH113, PTH118 - pathlib takes longer to import than the wall to put up
from __future__ import annotations

import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)

from paddock.sandbox.inside import LockFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

Loader = type[ExtensionFileLoader] | type[SourceFileLoader] | type[SourcelessFileLoader]
LOADERS: dict[str, Loader] = {
    **dict.fromkeys(EXTENSION_SUFFIXES, ExtensionFileLoader),
    **dict.fromkeys(SOURCE_SUFFIXES, SourceFileLoader),
    **dict.fromkeys(BYTECODE_SUFFIXES, SourcelessFileLoader),
}


class NamedModules:
    """A finder for ``sys.meta_path``: top-level name to a file (``.py``, ``.so``) or a package's folder."""

    def __init__(self, places: Mapping[str, str], *, paddock: str) -> None:
        for name in places:
            if name == "paddock" or name in sys.stdlib_module_names or not name.isidentifier():
                raise LockFailed(f"a module cannot be called {name!r}: paddock or Python's own library has that name")
        self.places = {**places, "paddock": paddock}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Parts of a package are found by Python itself, in the folder that the package's spec names."""
        place = self.places.get(name)
        return None if place is None else spec_of(name, place)


def spec_of(name: str, place: str) -> ModuleSpec | None:
    """None where there is neither a file that Python can load nor a folder."""
    if not os.path.isdir(place):
        return _from_file(name, place)
    for suffix in LOADERS:
        first = os.path.join(place, f"__init__{suffix}")
        if os.path.isfile(first):
            return _from_file(name, first, folder=place)
    spec = ModuleSpec(name, None, is_package=True)  # a namespace package: folders only
    spec.submodule_search_locations = [place]
    return spec


def _from_file(name: str, file: str, folder: str | None = None) -> ModuleSpec | None:
    # What importlib.util.spec_from_file_location does, without the time that importing importlib.util takes.
    for suffix, loader in LOADERS.items():
        if file.endswith(suffix):
            spec = ModuleSpec(name, loader(name, file), origin=file, is_package=folder is not None)
            spec.has_location = True  # sets __file__ and has the compiled form kept beside it
            if folder is not None:
                spec.submodule_search_locations = [folder]
            return spec
    return None
