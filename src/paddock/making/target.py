"""Target: what make() was asked for, and where its code comes from. Locating imports and runs nothing."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from paddock.core.ids import parse_id
from paddock.core.registry import origin_of
from paddock.core.spec import EnvSpec
from paddock.errors import InvalidId, NameNotFound, NamespaceNotFound, PlanError, VersionNotFound
from paddock.making.declared import declared
from paddock.sources.lookup import find_spec

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy

Kind = Literal["built in", "registered", "plugin", "spec", "module", "source", "folder", "package", "url"]

_URL = re.compile(r"(?P<scheme>https?|wss?|http\+unix)://(?:[^/?#]*@)?", re.IGNORECASE)
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<id>.+)", re.ASCII)
_PACKAGE = re.compile(r"[\w.-]+(?:/[\w.-]+)?@[\w.+-]+", re.ASCII)


@dataclass(frozen=True)
class Target:
    """A located target. ``spec`` is None while only the code itself could tell (a module, a library, a server).

    Of a "source" the ``module`` is the prefix: one of ``sources.families.SOURCES``, a library that knows the id.
    """

    text: str
    kind: Kind
    spec: EnvSpec | None = None
    module: str | None = None
    id: str | None = None
    folder: str | None = None  # the absolute path of a folder with a manifest
    asked: Policy | None = None  # the permissions that its manifest asks for, or that paddock declares for its own code
    url: str | None = field(default=None, repr=False)  # of a server, as it was given: with the token, so never shown


def locate(target: str | os.PathLike[str] | EnvSpec) -> Target:
    """Say what a target is. An id that nobody registered raises with a suggestion."""
    if isinstance(target, EnvSpec):
        return Target(target.id, "spec", spec=target, id=target.id, asked=declared(target))
    if type(target).__name__ == "EnvSpec" and hasattr(target, "to_json"):  # Gymnasium's own
        return locate(EnvSpec.from_json(target.to_json()))
    if not isinstance(target, (str, os.PathLike)):
        raise PlanError(f"A target is an id, a path, a URL or an EnvSpec; got {type(target).__name__}: {target!r}.")
    text = str(target)
    if url := _URL.match(text):
        return Target(f"{url['scheme']}://{text[url.end() :]}", "url", url=text)
    if isinstance(target, os.PathLike) or text.startswith((".", "/", "~")):
        return _folder_target(text)
    if _PACKAGE.fullmatch(text):
        return Target(text, "package")
    if ":" in text:
        return _module_target(text)
    try:
        spec = find_spec(text)
    except (NameNotFound, NamespaceNotFound, VersionNotFound) as error:
        from paddock.making.folder_name import has_manifest

        if has_manifest(text):  # a path that begins like an id
            said = str(error).rstrip(".")
            raise type(error)(f"{said}. Did you mean ./{text}? There is such a folder here.") from None
        from paddock.sources.families import family_of, in_gymnasium

        if family_of(text) is None and not in_gymnasium(text):
            raise
        return Target(text, "source", module="gymnasium", id=text)
    return Target(text, origin_of(spec.id), spec=spec, id=spec.id, asked=declared(spec))


def _module_target(text: str) -> Target:
    match = _MODULE.fullmatch(text)
    if match is None:
        raise InvalidId(f"Malformed target: {ascii(text)[:80]}. Expected 'module:Id-v0'.")
    from paddock.sources.families import SOURCES

    kind: Kind = "source" if match["module"] in SOURCES else "module"
    return Target(text, kind, module=match["module"], id=str(parse_id(match["id"])))


def _folder_target(text: str) -> Target:
    from paddock.making.folder_name import absolute, split_folder
    from paddock.package.manifest import read_manifest

    folder, name = split_folder(text) or (text, None)
    path = absolute(folder)
    manifest = read_manifest(path)
    spec = manifest.spec(name)
    return Target(text, "folder", spec=spec, id=spec.id, folder=path, asked=manifest.permissions_of(spec.id))
