"""FolderEnv: the environment of a folder in OpenEnv's shape, made in the worker that holds it.

Its ``server/app.py`` is imported, and what it gives to ``create_app`` is made. Where OpenEnv itself is not installed,
``import openenv`` means ours from then on; so this is for a process that holds nothing else.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from paddock.core.env import Info
from paddock.errors import DependencyNotInstalled, InvalidSpec
from paddock.openenv import install
from paddock.openenv.app import recording
from paddock.package import read_manifest
from paddock.package.openenv import OpenEnvFolder
from paddock.sources.openenv import AsEnv
from paddock.sources.openenv_classes import is_openenv


class FolderEnv(AsEnv):
    """``options`` go to what makes the environment; OpenEnv's own server gives it none."""

    _hidden = ("folder",)

    def __init__(self, folder: str, **options: Any) -> None:
        self._folder = folder
        with naming_what_is_missing(folder):
            found = import_folder(folder)
            super().__init__(*found[:4], reset_observation_cls=found.reset_observation_cls, **options)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[dict[str, Any], Info]:
        """As AsEnv; some environments import what they need only now."""
        with naming_what_is_missing(self._folder):
            return super().reset(seed=seed, options=options)


class ServerArguments(NamedTuple):
    """What a folder's app gives to the server, as far as an environment needs it."""

    env: Any
    action_cls: Any
    observation_cls: Any
    state_cls: Any = None
    reset_observation_cls: Any = None


@cache
def import_folder(folder: str) -> ServerArguments:
    """Import the folder's app, once per process, and return what its ``create_app`` was given."""
    declared = read_manifest(folder).openenv
    assert declared is not None
    os.environ.update(declared.variables)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)  # as under uvicorn: `server`, `models` and `client` are this folder's
    sys.meta_path.append(_FolderAsPackage(Path(folder), declared.packages))
    if importlib.util.find_spec("openenv") is None:
        install(bare_core=not any(Path(folder, name).exists() for name in ("core", "core.py")))
    if declared.app is None:
        return _find_classes(Path(folder), declared)
    with recording() as servers, _recording_the_real(servers):
        _import_app(declared.app.partition(":")[0], declared.packages, servers)
    if not servers:
        raise InvalidSpec(
            f"{declared.app} makes no environment: expected a call of create_app(...) when it is imported."
        )
    return ServerArguments(*(getattr(servers[-1], name) for name in ServerArguments._fields))


def _import_app(module: str, packages: Sequence[str], servers: list[Any]) -> None:
    """Import the app as a module of the folder, then as one of the package that the folder is.

    Only an import that leads above the top is a reason for the next try; what is reported is the first other error.
    """
    errors = []
    for name in (module, *(f"{package}.{module}" for package in packages)):
        servers.clear()
        try:
            import_module(name)
            return
        except ImportError as error:
            errors.append(error)
            if not any("relative import" in str(one) for one in _chain(error)):
                raise
    raise errors[0]


class _FolderAsPackage:
    """Finds the folder as a package under each of its names, alone and below ``envs``, wherever it is."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = {*names, *(f"envs.{name}" for name in names)}

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        place = str(self._folder) if fullname in self._names else None
        if place is None and fullname != "envs":
            return None
        first = self._folder / "__init__.py"
        if place is not None and first.is_file():
            return importlib.util.spec_from_file_location(fullname, first, submodule_search_locations=[place])
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [] if place is None else [place]
        return spec


@contextmanager
def _recording_the_real(servers: list[Any]) -> Iterator[None]:
    """If OpenEnv itself is installed, record what its HTTPEnvServer is given; ours records by itself."""
    cls = getattr(import_module("openenv.core.env_server.http_server"), "HTTPEnvServer", None)
    if cls is None or cls.__module__.startswith("paddock."):
        yield
        return
    init = cls.__init__

    @wraps(init)
    def record(self: Any, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(init).bind(self, *args, **kwargs).arguments
        servers.append(ServerArguments(*(given.get(name) for name in ServerArguments._fields)))
        init(self, *args, **kwargs)

    cls.__init__ = record
    try:
        yield
    finally:
        cls.__init__ = init


def _find_classes(folder: Path, declared: OpenEnvFolder) -> ServerArguments:
    """For a folder without an app: its one environment class, with the classes that the manifest names."""
    found: dict[str, Any] = {}
    package = declared.packages[0]
    for file in sorted(folder.glob("server/*.py")):
        module = import_module(f"{package}.server.{file.stem}" if file.stem != "__init__" else f"{package}.server")
        own = (one for one in vars(module).values() if is_openenv(one) and one.__module__ == module.__name__)
        found.update((one.__qualname__, one) for one in own)
    if len(found) != 1:
        raise InvalidSpec(f"{folder.name} has no server/app.py, and server/ has {len(found)} environments; expected 1.")
    models = import_module(f"{package}.models")
    action, observation = (getattr(models, name or "", None) for name in (declared.action, declared.observation))
    return ServerArguments(next(iter(found.values())), action, observation)


@contextmanager
def naming_what_is_missing(folder: str) -> Iterator[None]:
    """Turn the ModuleNotFoundError of a package that the folder lacks into one that says how to install it."""
    try:
        yield
    except ImportError as error:
        own = {path.stem for pattern in ("*", "server/*") for path in Path(folder).glob(pattern)}
        missing = (str(one.name).partition(".")[0] for one in _chain(error) if isinstance(one, ModuleNotFoundError))
        name = next((one for one in missing if one not in own and one not in ("None", "server")), None)
        if name is None:
            raise
        raise DependencyNotInstalled(
            f"{Path(folder).name} needs {name!r}, which is not installed. Install what the folder asks for with "
            f"`paddock serve {folder} --install` or make({folder!r}, install=True), or: pip install {name}"
        ) from error


def _chain(error: BaseException) -> Iterator[BaseException]:
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or at.__context__
