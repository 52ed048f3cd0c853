"""Target: what make() was asked for, and where its code comes from. Locating imports and runs nothing."""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from paddock.core.problem import warn_user
from paddock.core.registry import origin_of, registry
from paddock.core.spec import EnvSpec, WrapperSpec, entry_point_text, parse_id
from paddock.envs.catalog import PERMISSIONS
from paddock.errors import InvalidId, InvalidManifest, NameNotFound, NamespaceNotFound, PlanError, VersionNotFound
from paddock.sources.families import find_spec
from paddock.trust.log import note

if TYPE_CHECKING:
    from paddock.package.openenv import OpenEnvFolder
    from paddock.package.store import Installed
    from paddock.sandbox.policy import Policy


Kind = Literal["built in", "registered", "plugin", "spec", "module", "source", "folder", "package", "url"]

_URL = re.compile(r"(?P<scheme>https?|wss?|http\+unix)://(?:[^/?#]*@)?", re.IGNORECASE)
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<id>.+)", re.ASCII)
_PACKAGE = re.compile(r"(?P<name>[\w.-]+(?:/[\w.-]+)?)@(?P<version>[\w.+-]+)(?::(?P<id>.+))?", re.ASCII)


@dataclass(frozen=True)
class Target:
    """A located target. ``spec`` is None as long as only the code itself knows it (a module, a library, a server).

    The ``module`` of a "source" is its prefix: one of ``sources.families.SOURCES``, a library that knows the id.
    """

    text: str
    kind: Kind
    spec: EnvSpec | None = None
    module: str | None = None
    id: str | None = None
    folder: str | None = None  # the absolute path of a folder with a manifest
    openenv: bool = False  # whether that is OpenEnv's
    dependencies: tuple[str, ...] = ()  # what its paddock.toml declares, for pip
    libraries: str | None = None  # where the folder's dependencies were installed, if they were
    notes: tuple[tuple[str, str], ...] = ()  # what else its files say, as rows for `explain`
    # The permissions that its manifest asks for, that paddock declares for its own code, or that a package was granted.
    asked: Policy | None = None
    package: Installed | None = None
    url: str | None = field(default=None, repr=False)  # of a server; it may hold the token, so never print it

    @property
    def third_party(self) -> bool:
        """Whether its code is neither paddock's nor what this program itself has registered."""
        return self.url is None and (self.spec is None or not (is_own(self.spec) or _is_registered(self.spec)))

    @property
    def folders(self) -> tuple[str, ...]:
        """What a worker sees and imports from: the folder, and its dependencies."""
        return tuple(one for one in (self.folder, self.libraries) if one is not None)


def locate(target: str | os.PathLike[str] | EnvSpec) -> Target:
    """Say what a target is. An id that is not registered raises with a suggestion."""
    if isinstance(target, EnvSpec):
        return Target(target.id, "spec", spec=target, id=target.id, asked=declared_permissions(target))
    if type(target).__name__ == "EnvSpec" and hasattr(target, "to_json"):  # Gymnasium's own
        return locate(EnvSpec.from_json(target.to_json()))
    if not isinstance(target, (str, os.PathLike)):
        raise PlanError(f"A target is an id, a path, a URL or an EnvSpec; got {type(target).__name__}: {target!r}.")
    text = str(target)
    if url := _URL.match(text):
        return Target(f"{url['scheme']}://{text[url.end() :]}", "url", url=text)
    if isinstance(target, os.PathLike) or text.startswith((".", "/", "~")):
        from paddock.package import read_manifest

        folder, name = split_folder(text) or (text, None)
        path = str(Path(folder).expanduser().resolve())
        manifest = read_manifest(path)
        spec = manifest.spec(name)
        asked, needs = manifest.permissions_of(spec.id), manifest.dependencies
        located = Target(text, "folder", spec=spec, id=spec.id, folder=path, asked=asked, dependencies=needs)
        if manifest.openenv is not None:
            located = _as_openenv(located, manifest.openenv)
        return _with_dependencies(located) if located.openenv or manifest.dependencies else located
    if package := split_package(text):
        return _locate_package(text, *package)
    if ":" in text:
        match = _MODULE.fullmatch(text)
        if match is None:
            raise InvalidId(f"Malformed target: {ascii(text)[:80]}. Expected 'module:Id-v0'.")
        from paddock.sources.families import SOURCES

        kind: Kind = "source" if match["module"] in SOURCES else "module"
        return Target(text, kind, module=match["module"], id=str(parse_id(match["id"])))
    try:
        spec = find_spec(text)
    except (InvalidId, NameNotFound, NamespaceNotFound, VersionNotFound) as error:
        if has_manifest(text):  # a path that begins like an id
            said = str(error).rstrip(".")
            raise type(error)(f"{said}. Did you mean ./{text}? There is such a folder here.") from None
        if "/" in text:
            from paddock.package.store import installed_packages

            if versions := [one.version for one in installed_packages() if one.name == text]:
                known = f"The package {text} is installed: {text}@{versions[-1]}"
                raise type(error)(f"There is no id {text!r}. {known}") from None
        from paddock.sources.families import family_of, in_gymnasium

        if isinstance(error, InvalidId) or (family_of(text) is None and not in_gymnasium(text)):
            raise
        return Target(text, "source", module="gymnasium", id=text)
    return Target(text, origin_of(spec.id), spec=spec, id=spec.id, asked=declared_permissions(spec))


def _locate_package(text: str, name: str, version: str, id: str | None) -> Target:
    """Find an installed package, and read all of it again: what is not as it was signed is not used."""
    from paddock.package import read_manifest
    from paddock.package.store import use_installed
    from paddock.sandbox.policy import quote

    if "/" not in name:
        raise PlanError(f"{text!r} names no owner. A package is owner/name@version, as acme/maze@1.2.")
    found = use_installed(name, version)
    manifest = read_manifest(found.folder)
    ids = [one.spec.id for one in manifest.envs]
    if id not in ids and (id is not None or len(ids) > 1):
        example = f"{name}@{version}:{ids[0]}"
        raise PlanError(f"{text!r}: the package has the environments {', '.join(ids)}; name one, as {example}.")
    spec = manifest.spec(id)
    signers = ", ".join(one.fingerprint[:16] for one in found.signers)
    note = f"{name} {found.version}, digest {found.digest}, signed by {signers}"
    notes = [("package", note), ("trusted", found.how)]
    if manifest.description:
        notes.append(("description", quote(manifest.description)))
    return Target(
        text,
        "package",
        spec=spec,
        id=spec.id,
        folder=str(manifest.folder),
        dependencies=manifest.dependencies,
        libraries=found.libraries,
        notes=tuple(notes),
        asked=manifest.permissions_of(spec.id),
        package=found,
    )


def _as_openenv(target: Target, declared: OpenEnvFolder) -> Target:
    call = ", ".join(f"{name}={text}" for name, text in declared.call.items())
    notes = [("openenv app", f"{declared.app or 'none'}{f', create_app({call})' if call else ''}")]
    if declared.variables:
        notes.append(("variables", ", ".join(f"{name}={text!r}" for name, text in declared.variables.items())))
    if declared.web:
        from paddock.hosting.openenv.http_bodies import NO_WEB

        warn_user(f"{target.text}: create_app's {', '.join(declared.web)} has no effect. {NO_WEB}")
    return replace(target, openenv=True, notes=tuple(notes))


def _with_dependencies(target: Target) -> Target:
    from paddock.package.dependencies import find_wanted

    assert target.folder is not None
    libraries = None
    try:
        wanted = find_wanted(target.folder)
        libraries = str(wanted.place) if wanted.place.is_dir() else None
        missing = f"not installed for it, as --install would: {', '.join(wanted.names)}" if wanted.lines else "none"
        note = libraries or missing
    except InvalidManifest as error:
        note = f"can't be installed: {error}"
    return replace(target, libraries=libraries, notes=(*target.notes, ("dependencies", note)))


def spread(text: str) -> list[str]:
    """Return the targets of all environments that a folder or a package has; any other target is the only one."""
    from paddock.package import read_manifest

    package = split_package(text)
    if text.startswith((".", "/", "~")) and (folder := Path(text).expanduser()).is_dir():
        return [f"{text}:{env.spec.id}" for env in read_manifest(folder).envs]
    if package and package[2] is None and "/" in package[0]:
        from paddock.package.store import find_installed

        found = find_installed(*package[:2])  # the wall is put up later, after a check
        return [f"{text}:{env.spec.id}" for env in read_manifest(found.folder).envs]
    return [text]


def split_folder(text: str) -> tuple[str, str | None] | None:
    """Split ``./maze:Maze-v0`` into folder and id; None if it isn't a folder. A folder's name may have a colon too."""
    if not text.startswith((".", "/", "~")):
        return None
    if ":" not in text or Path(text).expanduser().exists():
        return text, None
    folder, _, id = text.rpartition(":")
    return folder, id


def split_package(text: str) -> tuple[str, str, str | None] | None:
    """Split ``acme/maze@1.2:Maze-v0`` into name, version and id; None if it isn't an installed package."""
    match = _PACKAGE.fullmatch(text)
    return None if match is None else (match["name"], match["version"], match["id"])


def has_manifest(folder: str) -> bool:
    """Whether the folder has a manifest: paddock's own or OpenEnv's."""
    return any((Path(folder) / name).is_file() for name in ("paddock.toml", "openenv.yaml"))


def code_of(target: Target) -> tuple[str | None, str | None]:
    """Return the module that has a target's code, and its file; None for what only the code itself knows.

    Files are looked at, and none is imported.
    """
    from paddock.package import find_module, module_file

    entry = None if target.spec is None else target.spec.entry_point
    module = target.module if entry is None else entry_point_text(entry).partition(":")[0]
    if target.folder is not None and module is not None:
        return module, None if target.openenv else str(module_file(Path(target.folder), module))
    found = None if module is None else find_module(module)
    if found is not None and found.is_dir():
        found = found / "__init__.py"
    return module, str(found) if found is not None and found.is_file() else None


def file_digest(path: str | None) -> str | None:
    """Return the SHA-256 of a file, None without one."""
    return None if path is None else sha256(Path(path).read_bytes()).hexdigest()


def write_down(target: Target) -> None:
    """Note in the user's log which code an id of others means, when that is new, and which ids got other code."""
    while registry.replaced:
        old, new = (entry_point_text(one.entry_point or one.vector_entry_point or "") for one in registry.replaced[0])
        note("override", registry.replaced.pop(0)[1].id, before=old, now=new)
    if target.id is None or target.kind not in ("registered", "plugin", "module", "folder", "spec"):
        return
    entry = (
        None if target.spec is None or target.spec.entry_point is None else entry_point_text(target.spec.entry_point)
    )
    if (target.text, entry) not in _WRITTEN:
        _WRITTEN.add((target.text, entry))
        module, file = code_of(target)
        note("registration", target.id, kind=target.kind, module=module, file=file, digest=file_digest(file))


_WRITTEN: set[tuple[str, str | None]] = set()  # by this process


def is_own(spec: EnvSpec) -> bool:
    """Whether a spec names only code that comes with paddock, under the id that it has there."""
    entry, vector = spec.entry_point, spec.vector_entry_point
    if not isinstance(entry, str) or not registry.is_protected(spec.id) or not registry.is_built_in(spec.id, entry):
        return False
    same_lanes = vector is None or vector == registry[spec.id].vector_entry_point
    return same_lanes and all(map(is_own_wrapper, spec.additional_wrappers))


def _is_registered(spec: EnvSpec) -> bool:
    """Whether code that runs in this process has registered just this under the id."""
    known = registry.get(spec.id)
    if known is None or registry.is_protected(spec.id):
        return False
    same = (spec.entry_point, spec.vector_entry_point) == (known.entry_point, known.vector_entry_point)
    return same and all(is_own_wrapper(one) or one in known.additional_wrappers for one in spec.additional_wrappers)


def is_own_wrapper(wrapper: WrapperSpec) -> bool:
    """Whether a wrapper as data names a class of ``paddock.wrappers``."""
    return re.fullmatch(r"paddock\.wrappers(\.\w+)*:\w+", wrapper.entry_point, re.ASCII) is not None


def declared_permissions(spec: EnvSpec) -> Policy | None:
    """Return the permissions that paddock declares for its own environments. They need no grant.

    None if it declares none, and for anyone else's code, whatever id its spec has.
    """
    text = PERMISSIONS.get(spec.id)
    if text is None or not is_own(spec):  # wrappers run in the same worker
        return None
    module, _, name = text.partition(":")
    policy: Policy = getattr(importlib.import_module(module), name)()
    return policy
