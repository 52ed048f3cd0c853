"""AutoEnv and AutoAction: clients and actions by the name of an environment whose package is installed.

Packages are found by their metadata. One is imported, which runs its code here, only when you ask for its class by
name. Unlike OpenEnv's, nothing is ever installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from paddock.errors import PaddockError, PlanError, Unreachable
from paddock.hosting.remote_address import is_loopback
from paddock.hosting.websocket.events import UpgradeRefused
from paddock.openenv.client import GenericAction, GenericEnvClient
from paddock.openenv.containers import ImageRuntime, get_health, hf_space_subdomain, image_of_space, is_healthy

_SPACE_S = 5.0
_SERVER_S = 2.0
_MANIFEST_BYTES = 1 << 16
_SCALAR = re.compile(
    r"^(name|description|spec_version|action|observation):[ \t]*(['\"]?)([^#\n]*?)\2[ \t]*(?:#.*)?$", re.M
)


@dataclass(frozen=True)
class EnvironmentInfo:
    """An installed environment, as its metadata and its ``openenv.yaml`` describe it."""

    env_key: str
    name: str
    package_name: str
    version: str
    description: str
    client_module_path: str
    client_class_name: str
    action_class_name: str
    observation_class_name: str
    default_image: str
    spec_version: int | None = None

    def get_client_class(self) -> Any:
        """Import the package and return its client."""
        return self._class(self.client_class_name)

    def get_action_class(self) -> Any:
        """Import the package and return its action."""
        return self._class(self.action_class_name)

    def get_observation_class(self) -> Any:
        """Import the package and return its observation."""
        return self._class(self.observation_class_name)

    def _class(self, name: str) -> Any:
        try:
            return getattr(import_module(self.client_module_path), name)
        except (ImportError, AttributeError) as error:
            raise ImportError(
                f"{self.package_name} is installed, but {self.client_module_path} gives no {name}: {error}"
            ) from error


def discover() -> dict[str, EnvironmentInfo]:
    """Find the installed packages named ``openenv-…``, by key: "echo" for openenv-echo-env. Imports none of them."""
    return {info.env_key: info for info in _installed()}


def _installed() -> Iterator[EnvironmentInfo]:
    for package in metadata.distributions():
        name = package.metadata["Name"] or ""
        plain = re.sub("[-_.]+", "-", name).lower()
        if not plain.startswith("openenv-") or plain == "openenv-core":
            continue
        module = plain.removeprefix("openenv-").replace("-", "_")
        written = _manifest(module)
        env_name = written.get("name") or module
        env_name = env_name if env_name.endswith("_env") else f"{env_name}_env"
        key = env_name.removesuffix("_env")
        camel = "".join(word.capitalize() for word in key.split("_"))
        version = written.get("spec_version", "")
        yield EnvironmentInfo(
            env_key=key,
            name=env_name,
            package_name=name,
            version=package.version,
            description=written.get("description") or f"{env_name} environment",
            client_module_path=f"{module}.client",
            client_class_name=f"{camel}Env",
            action_class_name=written.get("action") or f"{camel}Action",
            observation_class_name=written.get("observation") or f"{camel}Observation",
            default_image=f"{env_name.replace('_', '-')}:latest",
            spec_version=int(version) if version.isdecimal() else None,
        )


def _manifest(module: str) -> dict[str, str]:
    """Return the texts that are needed of a package's ``openenv.yaml``. Finding a package does not import it."""
    try:
        found = find_spec(module)
        for folder in (found and found.submodule_search_locations) or ():
            file = Path(folder, "openenv.yaml")
            if file.is_file() and file.stat().st_size <= _MANIFEST_BYTES:
                return {key: value for key, _, value in _SCALAR.findall(file.read_text("utf-8"))}
    except (ImportError, OSError, ValueError):
        pass  # a broken package is listed by its name
    return {}


class _Factory:
    """Has only class methods."""

    def __init__(self) -> None:
        raise TypeError(
            f"{type(self).__name__} is a factory class and should not be instantiated directly. "
            f"Use {type(self).__name__}.from_env()."
        )

    @classmethod
    def _find(cls, name: str) -> EnvironmentInfo:
        """Return the installed environment of that name, or of a Space's; PlanError if there is none."""
        installed = discover()
        key = re.sub("[-_]env$", "", name.rstrip("/").rpartition("/")[2]).replace("-", "_")
        if key in installed:
            return installed[key]
        if "/" in name:
            cls._refuse_to_install(name)
        if not installed:
            raise PlanError(f"No OpenEnv environments found: no package openenv-… is installed, {name!r:.80} neither.")
        near = get_close_matches(key, installed, n=3)
        hint = f" Did you mean: {', '.join(near)}?" if near else ""
        raise PlanError(
            f"Unknown environment '{name[:80]}'.{hint} Available environments: {', '.join(sorted(installed))}"
        )

    @classmethod
    def _refuse_to_install(cls, name: str) -> NoReturn:
        raise PlanError(
            f"{cls.__name__}.from_env({name!r:.100}) would install a package from a hub and run its code here with "
            "all your rights. paddock does not, whatever trust_remote_code= says. Safe ways: skip_install=True talks "
            "to the Space, or to its container; or download the folder and use paddock.make('./folder'), which runs it "
            "behind a wall; or serve it elsewhere and use paddock.make(url). If you trust the package, install it "
            "yourself first."
        )


class AutoEnv(_Factory):
    """Makes the client of an environment: ``AutoEnv.from_env("echo", base_url="http://localhost:8000")``."""

    @classmethod
    def from_env(
        cls,
        name: str,
        base_url: str | None = None,
        docker_image: str | None = None,
        container_provider: Any = None,
        wait_timeout: float = 30.0,
        env_vars: dict[str, str] | None = None,
        trust_remote_code: bool = False,
        skip_install: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return the client of an installed environment, or of a Hugging Face Space ``org/name``; not connected yet.

        It is for the server at ``base_url``, else for the Space if that answers, else for a container of
        ``docker_image`` or the environment's own image; a container is also started if ``base_url`` is on this machine
        and does not answer. ``skip_install``: use GenericEnvClient, and none of the environment's code.
        ``trust_remote_code`` changes nothing. ``kwargs`` are the client's, ``port`` the container's.
        """
        image = docker_image
        if skip_install:
            client_class: Any = GenericEnvClient
        else:
            found = cls._find(name)
            client_class, image = found.get_client_class(), docker_image or found.default_image
        if "/" in name and base_url is None and docker_image is None:
            repo_id = "/".join(name.rstrip("/").split("/")[-2:])
            space = f"https://{hf_space_subdomain(repo_id)}.hf.space"
            base_url, image = (space, None) if is_healthy(space, _SPACE_S) else (None, image_of_space(repo_id))
        if base_url is not None and _answers(base_url):
            return client_class(base_url=base_url, **kwargs)
        if base_url is not None and (image is None or not is_loopback(urlsplit(base_url).hostname or "")):
            raise _unavailable(base_url)
        if image is None:
            raise PlanError(
                f"skip_install=True can't find {name!r:.80} by itself. Pass base_url= or docker_image= too."
            )
        options = {"env_vars": env_vars or {}, **{key: kwargs.pop(key) for key in ("port",) if key in kwargs}}
        runtime = ImageRuntime(image, container_provider, ready_s=wait_timeout, **options)
        try:
            url = runtime.start()
            runtime.wait_for_ready()
            return client_class(base_url=url, provider=runtime, **kwargs)
        except BaseException:
            runtime.stop()
            raise

    @classmethod
    def from_hub(cls, name: str, *args: Any, **kwargs: Any) -> Any:
        """Do what ``from_env`` does."""
        return cls.from_env(name, *args, **kwargs)

    @classmethod
    def get_env_class(cls, name: str) -> Any:
        """Import the package of an environment and return its client class."""
        return cls._find(name).get_client_class()

    @classmethod
    def get_env_info(cls, name: str) -> dict[str, Any]:
        """Describe an installed environment, without importing it."""
        info = cls._find(name)
        return {
            "env_key": info.env_key,
            "name": info.name,
            "package": info.package_name,
            "version": info.version,
            "description": info.description,
            "env_class": info.client_class_name,
            "action_class": info.action_class_name,
            "observation_class": info.observation_class_name,
            "module": info.client_module_path,
            "default_image": info.default_image,
            "spec_version": info.spec_version,
        }

    @classmethod
    def list_environments(cls) -> None:
        """Print the installed environments."""
        found = discover()
        print("Available OpenEnv Environments:")
        for key, info in sorted(found.items()):
            print(f"  {key:<15}: {info.description} (v{info.version}), package {info.package_name}")
        print(f"Total: {len(found)} environments")


class AutoAction(_Factory):
    """Finds the action class of an environment: ``AutoAction.from_env("echo")``."""

    @classmethod
    def from_env(cls, name: str, skip_install: bool = False) -> Any:
        """Import the package of an environment and return its action class; GenericAction for ``skip_install``."""
        return GenericAction if skip_install else cls._find(name).get_action_class()

    @classmethod
    def from_hub(cls, env_name: str, skip_install: bool = False) -> Any:
        """Do what ``from_env`` does."""
        return cls.from_env(env_name, skip_install)

    @classmethod
    def get_action_info(cls, name: str) -> dict[str, Any]:
        """Describe the actions of an installed environment, without importing it."""
        info = cls._find(name)
        return {
            "env_key": info.env_key,
            "env_name": info.name,
            "package": info.package_name,
            "action_class": info.action_class_name,
            "observation_class": info.observation_class_name,
            "module": info.client_module_path,
        }

    @classmethod
    def list_actions(cls) -> None:
        """Print the action classes of the installed environments."""
        found = discover()
        print("Available Action Classes:")
        for key, info in sorted(found.items()):
            print(f"  {key:<15}: {info.action_class_name}, package {info.package_name}")
        print(f"Total: {len(found)} action classes")


def _answers(base_url: str) -> bool:
    """Whether a server is there, whatever it answers: not all have /health below an environment's path."""
    try:
        get_health(base_url, _SERVER_S)
    except UpgradeRefused as error:
        return error.status != 0
    except (Unreachable, OSError):
        return False
    except PaddockError:
        pass
    return True


def _unavailable(base_url: str) -> Unreachable:
    place = urlsplit(base_url).netloc.rpartition("@")[2]
    return Unreachable(f"Server not available at {place}. Start it, or drop base_url= to run a container.")
