"""Modules that only re-export names from elsewhere: one table per package instead of one file per module.

They are real modules without a file. The package's ``__path__`` gets one more entry, which ``import``, ``importlib``
and ``pkgutil`` follow. Type checkers read nothing but files, so the wheel holds a stub for each (``hatch_build.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Exports = str | Mapping[str, str]
Fallback = Callable[[str], Callable[[str], Any]]

_ENTRY = "<aliases>."  # begins an entry of __path__; the package's name follows
_aliases: dict[str, tuple[Exports, Fallback | None]] = {}


def add_aliases(
    package: str, table: Mapping[str, Exports], *, at_once: Iterable[str] = (), fallback: Fallback | None = None
) -> None:
    """Give ``package`` the modules in ``table``: ``{"env_server.types": {"home.module": "Name Other"}}``.

    A home without names stands for everything in it: the alias is that very module, or, if there are aliases below it,
    looks names up there on use. A home is imported when its alias is. Write the table as a literal named ``ALIASES``,
    because the stubs are made from the source. ``fallback(alias)`` returns the
    ``__getattr__`` of that module, for names that its homes don't have. Aliases ``at_once`` are attributes of the
    package from its first import on.
    """
    _aliases.update({f"{package}.{below}": (exports, fallback) for below, exports in table.items()})
    sys.modules[package].__path__.append(_ENTRY + package)
    for below in at_once:
        import_module(f"{package}.{below}")


class _Finder:
    """Finds the aliases directly below one package, and fills them."""

    def __init__(self, entry: str) -> None:
        if not entry.startswith(_ENTRY):
            raise ImportError(f"{entry!r} was not made by add_aliases.")
        self._below = f"{entry.removeprefix(_ENTRY)}."

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in _aliases:
            return None
        spec = ModuleSpec(fullname, self, origin=__name__)  # type: ignore[arg-type]  # typeshed wants load_module
        spec.submodule_search_locations = [_ENTRY + fullname] if _is_package(fullname) else None
        return spec

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """What pkgutil lists: (name, is it a package?) of each."""
        for alias in sorted(_aliases):
            parent, dot, name = alias.rpartition(".")
            if parent + dot == self._below:
                yield prefix + name, _is_package(alias)

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        exports, fallback = _aliases[module.__name__]
        names = vars(module)
        if isinstance(exports, str):
            home = import_module(exports)
            if not _is_package(module.__name__):
                sys.modules[module.__name__] = home  # the import system returns what is there
                return

            def look_up(name: str) -> Any:
                below = f"{module.__name__}.{name}"  # first: a home's own module may have the name of an alias
                return import_module(below) if below in _aliases else getattr(home, name)

            names.update(__getattr__=look_up, __dir__=lambda: dir(home))
            return
        for source, listed in exports.items():
            home = import_module(source)
            names.update((name, getattr(home, name)) for name in listed.split())
        names["__all__"] = [name for name in " ".join(exports.values()).split() if not name.startswith("_")]
        if fallback is not None:
            names["__getattr__"] = fallback(module.__name__)


def _is_package(alias: str) -> bool:
    return any(other.startswith(f"{alias}.") for other in _aliases)


sys.path_hooks.append(_Finder)
