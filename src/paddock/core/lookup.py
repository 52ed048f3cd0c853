"""Finding a spec by id: exact, newest version, plugin, or one error with a suggestion. Imports no environment code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paddock.core.ids import EnvId, parse_id
from paddock.core.plugins import plugin_specs
from paddock.core.registry import registry, versions_of
from paddock.core.spec import EnvSpec
from paddock.core.warning import warn_user
from paddock.errors import DeprecatedEnv, NameNotFound, NamespaceNotFound, PaddockError, VersionNotFound


def spec(env_id: str) -> EnvSpec:
    """The registered spec of exactly this id."""
    found: EnvSpec | None = registry.get(env_id) if isinstance(env_id, str) else None
    if found is None:
        found = plugin_specs().get(str(parse_id(env_id)))
    if found is None:
        raise not_found(parse_id(env_id))
    return found


def find_spec(env_id: str) -> EnvSpec:
    """The spec that ``make(env_id)`` means: without a version the newest, and a warning if a newer one exists."""
    parts = parse_id(env_id)
    versions = versions_of(parts.namespace, parts.name)
    if parts.version is None and versions and env_id not in registry:
        newest = str(parts._replace(version=versions[-1]))
        warn_user(
            f"Using the latest versioned environment `{newest}` instead of the unversioned environment `{env_id}`."
        )
        return registry[newest]
    if parts.version is not None and versions and versions[-1] > parts.version:
        warn_user(
            f"The environment {env_id} is out of date. You should consider upgrading to version `v{versions[-1]}`.",
            DeprecationWarning,
        )
    return spec(env_id)


def not_found(parts: EnvId, *, names: Iterable[str] = (), namespaces: Iterable[str] = ()) -> PaddockError:
    """The error for an id that nobody registered: which part of it is wrong, and what was perhaps meant.

    ``names`` and ``namespaces``: those that can be made without being registered, and so may be meant too.
    """
    registered = {known.namespace for known in registry.values()}
    if parts.namespace is not None and parts.namespace not in registered:
        known = [ns for ns in (*registered, *namespaces) if ns is not None]
        hint = (
            suggestion(parts.namespace, sorted(known))
            or f" Have you installed the proper package for {parts.namespace}?"
        )
        by_module = f" Was its module imported? make('module:{parts}') does that."
        return NamespaceNotFound(f"Namespace {parts.namespace} not found.{hint}{by_module}")
    named = {known.name for known in registry.values() if known.namespace == parts.namespace}
    if parts.name not in named:
        where = f" in namespace {parts.namespace}" if parts.namespace else ""
        hint = suggestion(parts.name, sorted({*named, *(() if parts.namespace else names)}))
        return NameNotFound(f"Environment `{parts.name}` doesn't exist{where}.{hint} List all: paddock list")
    return _version_error(parts)


def _version_error(parts: EnvId) -> PaddockError:
    versions = versions_of(parts.namespace, parts.name)
    plain = str(parts._replace(version=None))
    if versions and parts.version is not None and parts.version < versions[-1]:
        return DeprecatedEnv(
            f"Environment version v{parts.version} for `{plain}` is deprecated. "
            f"Please use `{plain}-v{versions[-1]}` instead."
        )
    has = f"versioned environments: [ {', '.join(f'`v{v}`' for v in versions)} ]" if versions else "no version"
    return VersionNotFound(
        f"Environment version `v{parts.version}` for environment `{plain}` doesn't exist. It provides {has}."
    )


def suggestion(word: str, known: Sequence[str]) -> str:
    """A sentence that names the known word that was perhaps meant, or nothing."""
    from difflib import get_close_matches

    lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(lower), n=1)
    return f" Did you mean: `{lower[close[0]]}`?" if close else ""
