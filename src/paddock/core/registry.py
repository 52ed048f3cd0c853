"""The registry: ids to EnvSpecs. Registering, finding and listing import no environment code; only make() does.

Ids that come with paddock or with a package are protected: nothing, not even the dict's own methods, replaces them or
their code. The registry hands out its own specs, not copies: a field that you set takes effect in make().

A plugin is an entry point of another distribution in the group ``paddock.envs``. Its name is the environment's id and
its value ``module:attribute`` the class, so a plugin is listed from metadata alone and its code runs in ``make``. The
id needs a namespace, and ``paddock/`` is not one that a plugin may take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Literal, TypeAlias

from paddock.core.problem import warn_user
from paddock.core.spec import (
    EnvCreator,
    EnvId,
    EnvSpec,
    VectorEnvCreator,
    WrapperSpec,
    check_namespace,
    parse_id,
    public_path,
    seal,
)
from paddock.errors import (
    DeprecatedEnv,
    NameNotFound,
    NamespaceNotFound,
    PaddockError,
    RegistrationError,
    RegistryConflict,
    VersionNotFound,
)
from paddock.trust.names import RESERVED, find_lookalike, skeleton

Origin: TypeAlias = Literal["built in", "registered", "plugin"]

GROUP = "paddock.envs"
# Namespaces of other libraries, and prefixes of targets: no plugin may offer ids that look like theirs.
_TAKEN = (*RESERVED, "gym", "ALE", "dm_control", "dm_env", "gym3", "gymnax", "pettingzoo", "envpool", "bsuite")
TAKEN_NAMESPACES = (*_TAKEN, "browsergym", "Meta-World", "procgen")

_namespace: ContextVar[str | None] = ContextVar("paddock_namespace", default=None)


class Registry(dict[str, EnvSpec]):
    """A dict of specs in which protected ids can be neither replaced nor removed, nor given other code."""

    def __init__(self) -> None:
        super().__init__()
        self._protected: set[str] = getattr(self, "_protected", set())
        self._shapes: dict[str, str] = getattr(self, "_shapes", {})  # what protected names look like
        self.replaced: list[tuple[EnvSpec, EnvSpec]] = []  # old and new, until `make` has written them down

    def protect(self, specs: list[EnvSpec]) -> None:
        """Add specs that nothing may replace: those that paddock ships, and those of a verified package."""
        for spec in specs:
            self[spec.id] = spec
            seal(spec)
        self._protected.update(spec.id for spec in specs)
        self._shapes.update((skeleton(spec.name), spec.name) for spec in specs if spec.namespace is None)

    def is_protected(self, id: str) -> bool:
        """Whether the id can never be replaced."""
        return id in self._protected

    def is_built_in(self, id: str, entry_point: str) -> bool:
        """Whether the id comes with paddock and the entry point is its own, in whichever file that was."""
        own = self[id].entry_point if self.is_protected(id) else None
        return isinstance(own, str) and own.startswith("paddock.") and public_path(own) == public_path(entry_point)

    def name_like(self, parts: EnvId) -> str | None:
        """Return the protected name that a name without a namespace could be taken for, if it is another one."""
        near = self._shapes.get(skeleton(parts.name)) if parts.namespace is None else None
        return None if near == parts.name else near

    def _writable(self, id: str) -> str:
        id = str.__str__(id)  # a subclass of str could answer == as it likes
        if id in self._protected:
            raise RegistryConflict(
                f"{id!r} is built in and can't be replaced. Register yours under a namespace, as 'me/{id}'."
            )
        return id

    def __setitem__(self, id: str, spec: EnvSpec) -> None:
        if not isinstance(spec, EnvSpec) or str(parse_id(id)) != spec.id:
            raise RegistrationError(f"registry[{id!r}] takes an EnvSpec of that id, got {spec!r}.")
        if (near := self.name_like(parse_id(id))) is not None:
            raise RegistryConflict(
                f"{id!r} can be taken for {near!r}, which is built in. Register yours under a namespace, as 'me/{id}'."
            )
        super().__setitem__(self._writable(id), spec)

    def __delitem__(self, id: str) -> None:
        super().__delitem__(self._writable(id))

    def pop(self, id: str, *default: Any) -> Any:
        return super().pop(self._writable(id), *default)

    def setdefault(self, id: str, spec: EnvSpec) -> EnvSpec:
        if id not in self:
            self[id] = spec
        return self[id]

    def update(self, *args: Any, **kwargs: EnvSpec) -> None:
        for id, spec in dict(*args, **kwargs).items():
            self[id] = spec

    def __ior__(self, other: Any) -> Registry:  # type: ignore[override,misc]
        self.update(other)
        return self

    def popitem(self) -> tuple[str, EnvSpec]:
        for id in reversed(self):
            if id not in self._protected:
                return id, self.pop(id)
        raise KeyError("every id in the registry is built in")

    def clear(self) -> None:
        """Remove what users registered; what is built in stays."""
        for id in [id for id in self if id not in self._protected]:
            del self[id]


registry = Registry()
_MOST_REPLACED = 1000


@contextmanager
def namespace(ns: str) -> Iterator[None]:
    """Register everything inside the block under ``ns``, also when the block raises."""
    token = _namespace.set(check_namespace(ns))
    try:
        yield
    finally:
        _namespace.reset(token)


def current_namespace() -> str | None:
    """The namespace of the innermost ``with namespace(...)`` block."""
    return _namespace.get()


def register(
    id: str,
    entry_point: EnvCreator | str | None = None,
    *,
    reward_threshold: float | None = None,
    nondeterministic: bool = False,
    max_episode_steps: int | None = None,
    order_enforce: bool = True,
    disable_env_checker: bool = False,
    additional_wrappers: tuple[WrapperSpec, ...] = (),
    vector_entry_point: VectorEnvCreator | str | None = None,
    kwargs: dict[str, Any] | None = None,
    replace: bool = False,
) -> None:
    """Give an environment an id.

    Registering the same id with the same entry points again does nothing, so that a notebook cell can run twice; with
    other entry points it raises unless ``replace``. Protected ids are never replaced.

    >>> import paddock
    >>> paddock.register("me/Maze-v0", "my_maze:Maze", max_episode_steps=100)
    """
    fields = {**locals(), "id": full_id(id), "kwargs": dict(kwargs or {})}
    del fields["replace"]
    add_spec(EnvSpec(**{**fields, "additional_wrappers": tuple(additional_wrappers)}), replace=replace)


def add_spec(spec: EnvSpec, *, replace: bool = False) -> None:
    """Put a spec into the registry, or raise and change nothing."""
    entry_points = (spec.entry_point, spec.vector_entry_point)
    if entry_points == (None, None):
        raise RegistrationError(
            f"Either `entry_point` or `vector_entry_point` (or both) must be provided, {spec.id!r} has neither."
        )
    for value in entry_points:
        if isinstance(value, str):
            check_entry_point(value)
        elif value is not None and not callable(value):
            raise RegistrationError(f"{spec.id!r}: an entry point is 'module:attribute' or a callable, got {value!r}.")
    known = registry.get(spec.id)
    if known is None:
        _check_versioning(spec)
    elif not (
        replace
        or registry.is_protected(spec.id)  # which raises below
        or [*map(_code_name, entry_points)] == [*map(_code_name, (known.entry_point, known.vector_entry_point))]
    ):
        raise RegistryConflict(
            f"{spec.id!r} is registered with entry point {known.entry_point!r}; this one is {spec.entry_point!r}. "
            f"Choose another id or version, or pass replace=True."
        )
    registry[spec.id] = spec
    if known is not None and known.entry_point != spec.entry_point:
        registry.replaced = [*registry.replaced, (known, spec)][-_MOST_REPLACED:]


def full_id(id: str) -> str:
    """The id under the current namespace, which wins over one that the id names."""
    parts, ns = parse_id(id), current_namespace()
    if ns is None or parts.namespace == ns:
        return str(parts)
    if parts.namespace is not None:
        warn_user(
            f"Custom namespace `{parts.namespace}` is being overridden by namespace `{ns}`. "
            f"If you are developing a plugin you shouldn't specify a namespace in `register` calls."
        )
    return str(parts._replace(namespace=ns))


def origin_of(id: str) -> Origin:
    """Where a known id comes from. One that is not in the registry comes from a plugin's metadata."""
    if id not in registry:
        return "plugin"
    return "built in" if registry.is_protected(id) else "registered"


def versions_of(namespace: str | None, name: str) -> list[int]:
    """The versions registered for a name, lowest first."""
    return sorted(
        spec.version
        for spec in registry.values()
        if spec.namespace == namespace and spec.name == name and spec.version is not None
    )


def _offered_versions(parts: EnvId) -> list[int]:
    """The versions of a name, lowest first; of a protected name only those that are protected too."""
    versions = versions_of(parts.namespace, parts.name)
    own = [one for one in versions if registry.is_protected(str(parts._replace(version=one)))]
    return own or versions


def check_entry_point(text: str) -> tuple[str, str]:
    """Module and attribute of ``module:attribute``; private and dunder attributes are refused."""
    module, _, attribute = text.partition(":")
    # The main script counts as a module: what it defines can be found, in this process at least.
    dotted = [*(() if module == "__main__" else module.split(".")), *attribute.split(".")]
    if not all(part.isidentifier() and part.isascii() and not part.startswith("__") for part in dotted):
        raise RegistrationError(f"{text!r} is not an entry point. Expected 'package.module:Class'.")
    return module, attribute


def _check_versioning(spec: EnvSpec) -> None:
    plain = str(EnvId(spec.namespace, spec.name, None))
    if spec.version is not None and plain in registry:
        raise RegistrationError(
            f"Can't register the versioned environment `{spec.id}` when the unversioned environment `{plain}` "
            f"of the same name already exists"
        )
    versions = versions_of(spec.namespace, spec.name)
    if spec.version is None and versions:
        raise RegistrationError(
            f"Can't register the unversioned environment `{spec.id}` when the versioned environment "
            f"`{spec.id}-v{versions[-1]}` of the same name already exists"
        )


def _code_name(entry_point: Any) -> Any:
    # A class defined in a notebook cell is a new object each time the cell runs; its name stays.
    if isinstance(entry_point, str) or entry_point is None:
        return entry_point
    if getattr(entry_point, "__name__", "") == "<lambda>":
        return entry_point.__code__  # all lambdas of a module share one name; equal code is the same code
    return f"{getattr(entry_point, '__module__', '')}:{getattr(entry_point, '__qualname__', id(entry_point))}"


def spec(env_id: str) -> EnvSpec:
    """The registered spec of exactly this id."""
    found: EnvSpec | None = registry.get(env_id) if isinstance(env_id, str) else None
    if found is None:
        found = plugin_specs().get(str(parse_id(env_id)))
    if found is None:
        raise not_found(parse_id(env_id))
    return found


def find_spec(env_id: str) -> EnvSpec:
    """The spec that ``make(env_id)`` takes: the newest if the id has no version. Warns if a newer version exists."""
    parts = parse_id(env_id)
    versions = _offered_versions(parts)
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
    """The error for an id that is not registered: which part of it is wrong, and what the caller may have meant.

    ``names`` and ``namespaces``: more that can be made, though they are not registered.
    """
    registered = {known.namespace for known in registry.values()}
    for fault in plugin_faults():
        if fault.startswith(f"plugin {str(parts)!r}"):  # there is one, and it is not offered
            return (NameNotFound if parts.namespace in registered else NamespaceNotFound)(fault)
    if parts.namespace is not None and parts.namespace not in registered:
        known = sorted(ns for ns in (*registered, *namespaces) if ns is not None)
        hint = suggestion(parts.namespace, known) or f" Have you installed the proper package for {parts.namespace}?"
        by_module = f" Was its module imported? make('module:{parts}') does that."
        return NamespaceNotFound(f"Namespace {parts.namespace} not found.{hint}{by_module}")
    named = {known.name for known in registry.values() if known.namespace == parts.namespace}
    if parts.name not in named:
        where = f" in namespace {parts.namespace}" if parts.namespace else ""
        hint = suggestion(parts.name, sorted({*named, *(() if parts.namespace else names)}))
        return NameNotFound(f"Environment `{parts.name}` doesn't exist{where}.{hint} List all: paddock list")
    versions = _offered_versions(parts)
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
    """A sentence that names the known word nearest to this one, or nothing."""
    from difflib import get_close_matches

    lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(lower), n=1)
    return f" Did you mean: `{lower[close[0]]}`?" if close else ""


def plugin_specs() -> dict[str, EnvSpec]:
    """Specs of all well-formed plugins whose ids don't mean a registered environment: a plugin replaces nothing.

    An id without a version means the newest registered one.
    """
    return {
        id: spec
        for id, spec in _read_plugins()[0].items()
        if id not in registry and (spec.version is not None or not versions_of(spec.namespace, spec.name))
    }


def plugin_faults() -> list[str]:
    """What is wrong with plugins that can't be listed, one sentence for each."""
    return _read_plugins()[1]


def _read_plugins() -> tuple[dict[str, EnvSpec], list[str]]:
    from importlib.metadata import entry_points  # 20 ms: only when an id is not in the registry, or to list

    found: dict[str, set[str]] = {}
    faults: list[str] = []
    for entry in entry_points(group=GROUP):
        try:
            parts = parse_id(entry.name)
            check_entry_point(entry.value)
        except RegistrationError as error:
            faults.append(f"plugin {entry.name!a}: {error}")
            continue
        id, space = str(parts), parts.namespace
        near = registry.name_like(parts) if space is None else find_lookalike(space, TAKEN_NAMESPACES)
        if space is None or space in TAKEN_NAMESPACES or near is not None:
            like = "" if near is None else f" It can be taken for {near!r}."
            own = f"acme/{parts._replace(namespace=None)}"
            faults.append(f"plugin {id!r}: its id needs a namespace of its own, as {own!r}.{like}")
            continue
        if owners := _owners(space):
            faults.append(
                f"plugin {id!r}: {space!r} belongs to the key {owners}, and a plugin is not signed, so it can't be "
                f"{space}'s. Install the signed package: paddock install"
            )
            continue
        found.setdefault(id, set()).add(entry.value)
    specs: dict[str, EnvSpec] = {}
    shapes: dict[str, str] = {}
    alike = {id for id in found if shapes.setdefault(_shape(id), id) != id}
    alike |= {shapes[_shape(id)] for id in alike}
    for id, values in found.items():  # which of two was meant nobody knows, so neither is offered
        if len(values) > 1:
            faults.append(f"plugin {id!r} is offered twice: {' and '.join(map(repr, sorted(values)))}. Remove one.")
        elif id in alike:
            others = ", ".join(sorted(repr(one) for one in alike - {id} if _shape(one) == _shape(id)))
            faults.append(f"plugin {id!r} can be taken for {others}. Remove one of their distributions.")
        else:
            specs[id] = _plugin_spec(id, min(values))
    return specs, faults


def _owners(space: str) -> str:
    """Return the fingerprints of the keys that a namespace is bound to here."""
    from paddock.trust.keyring import load_keyring  # here: only where a plugin has a namespace

    return " or ".join(one.key.fingerprint for one in load_keyring().bound_to(space))


def _shape(id: str) -> str:
    parts = parse_id(id)
    return f"{skeleton(parts.namespace or '')}/{skeleton(parts.name)}-{parts.version}"


@cache
def _plugin_spec(id: str, entry_point: str) -> EnvSpec:
    """The same object each time, so that a field that you set takes effect in make()."""
    return EnvSpec(id, entry_point=entry_point)


def pprint_registry(
    print_registry: dict[str, EnvSpec] = registry,
    *,
    num_cols: int = 3,
    exclude_namespaces: list[str] | None = None,
    disable_print: bool = False,
) -> str | None:
    """Print ids in columns under the family they belong to, or return that text."""
    excluded = set(exclude_namespaces or ())
    width = max((len(id) for id in print_registry), default=0)
    blocks = []
    for family, ids in families(print_registry).items():
        if family not in excluded:
            rows = [ids[at : at + num_cols] for at in range(0, len(ids), num_cols)]
            lines = [" ".join(id.ljust(width) for id in row).rstrip() for row in rows]
            blocks.append("\n".join([f"===== {family} =====", *lines]))
    text = "\n".join(blocks)
    if disable_print:
        return text
    print(text)
    return None


def families(specs: dict[str, EnvSpec]) -> dict[str, Sequence[str]]:
    """Sorted ids by family: the namespace, or for ids without one the package that the entry point names."""
    found: dict[str, list[str]] = {}
    for spec in specs.values():
        found.setdefault(family_of(spec), []).append(spec.id)
    return {family: sorted(ids) for family, ids in found.items()}


def family_of(spec: EnvSpec) -> str:
    """The namespace, or the folder below ``envs`` in the entry point, or the entry point's package."""
    if spec.namespace is not None:
        return spec.namespace
    module = spec.entry_point.partition(":")[0] if isinstance(spec.entry_point, str) else ""
    parts = module.removeprefix("paddock.sources.").split(".")  # an environment of another library: that library
    if "envs" in parts[:-1]:
        return parts[parts.index("envs") + 1]
    return parts[0] if parts[0] else str(None)
