"""Manifest: what a folder's ``paddock.toml`` declares. Reading it runs and imports nothing of the folder, ever.

What a reader would get wrong: permissions are what the package *asks* for. Who runs it grants them, or does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import InvalidId, InvalidManifest, InvalidPolicy
from paddock.package.fields import Fields, shown
from paddock.package.module_files import leads_out, module_file, parse_entry, top_level
from paddock.package.toml_file import read_toml
from paddock.sandbox.paths import covers
from paddock.sandbox.policy import Policy

FILE = "paddock.toml"
MAX_ENVS = 1000
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}(?:/[A-Za-z0-9][\w.-]{0,99})?", re.ASCII)
_VERSION = re.compile(r"[0-9][\w.+-]{0,63}", re.ASCII)
# Paths that a package may name from its own folder on: it can't know where it will lie.
_OWN_PATHS = ("read", "write", "programs")  # and "cassette", which is one path
_MAX_WORKSPACES_DEEP = 4
_OUR_WRAPPERS = "paddock.wrappers"


@dataclass(frozen=True)
class ManifestEnv:
    """One ``[[env]]``. ``reward_range`` is None if it declares none."""

    spec: EnvSpec
    deterministic: bool = True
    resettable: bool = True
    reward_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Manifest:
    """A folder's declaration. ``folder`` is its real path: absolute, without symlinks."""

    name: str
    version: str
    description: str
    envs: tuple[ManifestEnv, ...]
    permissions: Policy
    folder: Path

    def env(self, id: str | None = None) -> ManifestEnv:
        """The environment of this id; without one, the only one."""
        ids = [one.spec.id for one in self.envs]
        if id is None and len(ids) == 1:
            return self.envs[0]
        if id not in ids:
            wanted = "has several environments; name one" if id is None else f"has no environment {shown(id)}"
            below = os.path.relpath(self.folder)
            place = self.folder if below.startswith("..") else "." if below == "." else f"./{below}"
            raise InvalidManifest(
                f"{self.folder / FILE} {wanted}. There are: {', '.join(ids)}. The target is then {place}:{ids[0]}."
            )
        return self.envs[ids.index(id)]

    def spec(self, id: str | None = None) -> EnvSpec:
        """The spec of this id; without one, of the only environment."""
        return self.env(id).spec

    def permissions_of(self, id: str | None = None) -> Policy:
        """What this environment asks for: the package's permissions, with a reward range of its own if it has one."""
        declared = self.env(id).reward_range
        return self.permissions if declared is None else replace(self.permissions, reward_range=declared)

    def modules(self, id: str | None = None) -> dict[str, Path]:
        """The top-level modules that the spec names, and the file or package folder of each: what a worker needs."""
        spec = self.spec(id)
        entries = [str(spec.entry_point), *(wrapper.entry_point for wrapper in spec.additional_wrappers)]
        names = [parse_entry(entry)[0] for entry in entries]
        return {name.partition(".")[0]: top_level(self.folder, name) for name in names if not _ours(name)}

    def permissions_of_all(self) -> Policy:
        """What suffices for each of the environments."""
        ranges = [self.permissions_of(one.spec.id).reward_range for one in self.envs]
        return replace(self.permissions, reward_range=(min(low for low, _ in ranges), max(high for _, high in ranges)))

    def portable(self, policy: Policy, folder: str = "/@folder") -> Policy:
        """The policy as if the package lay in ``folder``: two versions of it lie in two places."""
        return _moved(policy, str(self.folder), folder)


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Read ``paddock.toml`` of the folder. InvalidManifest names the file, the key and what was expected."""
    real = Path(os.path.realpath(Path(folder).expanduser()))
    file = real / FILE
    if not real.is_dir():
        raise InvalidManifest(f"There is no folder {shown(str(folder))}.")
    if not os.path.lexists(file):
        raise InvalidManifest(
            f"There is no {FILE} in {shown(str(folder))}. It names the environments: docs/secure-environments.md"
        )
    if leads_out(real, file):
        raise InvalidManifest(f"{file} is a link that leads out of the folder. Copy the file.")
    whole = Fields(str(file), read_toml(file))
    package = Fields(f"{file}: [package]", whole.take("package", dict, required=True))
    name = _matching(package, "name", _NAME, "letters, digits, '_', '-' and '.', as 'maze' or 'acme/maze'")
    version = _matching(package, "version", _VERSION, "a version, as '1.2.0'")
    description = package.take("description", str, "")
    package.finish()
    envs = _envs(whole, real)
    permissions = _permissions(Fields(f"{file}: [permissions]", whole.take("permissions", dict, {})), real)
    whole.finish()
    return Manifest(name, version, description, envs, permissions, real)


def _matching(fields: Fields, key: str, pattern: re.Pattern[str], expected: str) -> str:
    text: str = fields.take(key, str, required=True)
    if not pattern.fullmatch(text):
        raise fields.refuse(key, f"{shown(text)} is not {expected}.")
    return text


def _envs(whole: Fields, folder: Path) -> tuple[ManifestEnv, ...]:
    tables = whole.tables("env")
    if not 1 <= len(tables) <= MAX_ENVS:
        raise whole.refuse("[[env]]", f"there are {len(tables)}; expected 1 to {MAX_ENVS:,}.")
    envs: dict[str, ManifestEnv] = {}
    for fields in tables:
        env = _env(fields, folder)
        if env.spec.id in envs:
            raise fields.refuse("id", f"{shown(env.spec.id)} is taken by another [[env]]. Give each its own.")
        envs[env.spec.id] = env
    return tuple(envs.values())


def _env(fields: Fields, folder: Path) -> ManifestEnv:
    deterministic: bool = fields.take("deterministic", bool, True)
    varies: bool = fields.take("nondeterministic", bool, not deterministic)
    if "deterministic" in fields.values and varies == deterministic:
        raise fields.refuse("nondeterministic", "says the opposite of 'deterministic'. Drop one of them.")
    try:
        spec = EnvSpec(
            id=fields.take("id", str, required=True),
            entry_point=_entry(fields, folder),
            reward_threshold=fields.number("reward_threshold"),
            nondeterministic=varies,
            max_episode_steps=fields.count("max_episode_steps"),
            order_enforce=fields.take("order_enforce", bool, True),
            kwargs=fields.plain("kwargs"),
            additional_wrappers=tuple(_wrapper(one, folder) for one in fields.tables("wrappers")),
        )
    except InvalidId as error:
        raise fields.refuse("id", str(error)) from None
    env = ManifestEnv(spec, not varies, fields.take("resettable", bool, True), fields.interval("reward_range"))
    fields.finish()
    return env


def _wrapper(fields: Fields, folder: Path) -> WrapperSpec:
    entry = _entry(fields, folder, or_ours=True)
    wrapper = WrapperSpec(entry.rpartition(":")[2], entry, fields.plain("kwargs"))
    fields.finish()
    return wrapper


def _entry(fields: Fields, folder: Path, *, or_ours: bool = False) -> str:
    text: str = fields.take("entry", str, required=True)
    try:
        module, _ = parse_entry(text)
        if not (or_ours and _ours(module)):
            module_file(folder, module)
    except ValueError as error:
        if isinstance(error, InvalidManifest):  # which is a ValueError too
            raise fields.refuse("entry", f"{shown(text)}: {error}") from None
        raise fields.refuse("entry", f"{shown(text)} is not 'module:Name', as 'maze_env:Maze'.") from None
    return text


def _ours(module: str) -> bool:
    return module == _OUR_WRAPPERS or module.startswith(_OUR_WRAPPERS + ".")


def _permissions(fields: Fields, folder: Path) -> Policy:
    try:
        return Policy.from_dict(_absolute(fields, fields.values, folder, 0))
    except InvalidPolicy as error:
        raise InvalidManifest(f"{fields.place}: {error}") from None


def _absolute(fields: Fields, plain: Mapping[str, Any], folder: Path, depth: int) -> dict[str, Any]:
    """The table with its relative paths made absolute; a workspace's too."""
    if depth > _MAX_WORKSPACES_DEEP:
        raise fields.refuse("workspace", f"is nested deeper than {_MAX_WORKSPACES_DEEP}.")
    given = dict(plain)
    for key in _OWN_PATHS:
        if type(given.get(key)) is list:
            given[key] = [_path(fields, key, one, folder) for one in given[key]]
    if "cassette" in given:
        given["cassette"] = _path(fields, "cassette", given["cassette"], folder)
    if type(given.get("workspace")) is dict:
        given["workspace"] = _absolute(fields, given["workspace"], folder, depth + 1)
    return given


def _path(fields: Fields, key: str, text: Any, folder: Path) -> Any:
    if type(text) is not str or text.startswith("/"):
        return text  # Policy has the words for what is wrong with it, if anything is
    if text.startswith("~"):
        raise fields.refuse(key, f"{shown(text)} is another folder for each user. Begin with '/' or './'.")
    if "\0" in text:
        raise fields.refuse(key, f"{shown(text)} is no path.")
    path = folder / os.path.normpath(text)
    if leads_out(folder, path):
        raise fields.refuse(key, f"{shown(text)} leads out of the package's folder. Name such a path from '/' on.")
    return str(path)


def _moved(policy: Policy, old: str, new: str) -> Policy:
    def moved(path: str) -> str:
        return new + path[len(old) :] if covers(old, path) else path

    changed: dict[str, Any] = {key: tuple(map(moved, getattr(policy, key))) for key in _OWN_PATHS}
    if policy.cassette is not None:
        changed["cassette"] = moved(policy.cassette)
    if policy.workspace is not None:
        changed["workspace"] = _moved(policy.workspace, old, new)
    return replace(policy, **changed)
