"""The registry: ids to EnvSpecs. Registering, listing and looking up import no environment code; only make() does.

Ids that come with paddock or with a package are protected: no door, not even the dict's own methods, replaces them or
their code. A spec that the registry gives out is its own object: a field that is set there takes effect in make().
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

from paddock.core.ids import EnvId, check_namespace, parse_id
from paddock.core.spec import EnvCreator, EnvSpec, VectorEnvCreator, WrapperSpec, seal
from paddock.core.warning import warn_user
from paddock.errors import RegistrationError, RegistryConflict

Origin: TypeAlias = Literal["built in", "registered", "plugin"]

_namespace: ContextVar[str | None] = ContextVar("paddock_namespace", default=None)


class Registry(dict[str, EnvSpec]):
    """A dict of specs in which protected ids can be neither replaced nor removed, nor given other code."""

    def __init__(self) -> None:
        super().__init__()
        self._protected: set[str] = getattr(self, "_protected", set())

    def protect(self, specs: list[EnvSpec]) -> None:
        """Add specs that nothing may replace: what paddock ships, and what a verified package brings."""
        for spec in specs:
            self[spec.id] = spec
            seal(spec)
        self._protected.update(spec.id for spec in specs)

    def is_protected(self, id: str) -> bool:
        """Whether the id can never be replaced."""
        return id in self._protected

    def _writable(self, id: str) -> str:
        id = str.__str__(id)  # a subclass of str could answer == as it likes
        if id in self._protected:
            raise RegistryConflict(
                f"{id!r} is built in and can't be replaced. Register yours under a namespace, as 'me/{id}'."
            )
        return id

    def __setitem__(self, id: str, spec: EnvSpec) -> None:
        if not isinstance(spec, EnvSpec) or str(parse_id(id)) != spec.id:
            raise RegistrationError(f"registry[{id!r}] is to be an EnvSpec of that id, got {spec!r}.")
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

    The same id with the same entry points again is silent, so that a notebook cell can run twice; with others it
    raises unless ``replace``. Protected ids are never replaced.

    >>> import paddock
    >>> paddock.register("me/Maze-v0", "my_maze:Maze", max_episode_steps=100)
    """
    spec = EnvSpec(
        id=full_id(id),
        entry_point=entry_point,
        reward_threshold=reward_threshold,
        nondeterministic=nondeterministic,
        max_episode_steps=max_episode_steps,
        order_enforce=order_enforce,
        disable_env_checker=disable_env_checker,
        kwargs=dict(kwargs or {}),
        additional_wrappers=tuple(additional_wrappers),
        vector_entry_point=vector_entry_point,
    )
    add_spec(spec, replace=replace)


def add_spec(spec: EnvSpec, *, replace: bool = False) -> None:
    """Put a spec into the registry, or raise and change nothing."""
    _check_entry_points(spec)
    known = registry.get(spec.id)
    if known is None:
        _check_versioning(spec)
    elif not replace and not registry.is_protected(spec.id) and not _same_code(known, spec):
        raise RegistryConflict(
            f"{spec.id!r} is registered with entry point {known.entry_point!r}; this one is {spec.entry_point!r}. "
            f"Choose another id or version, or pass replace=True."
        )
    registry[spec.id] = spec


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
    """Where a known id comes from; one that is not in the registry is known from a plugin's metadata."""
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


def _check_entry_points(spec: EnvSpec) -> None:
    if spec.entry_point is None and spec.vector_entry_point is None:
        raise RegistrationError(
            f"Either `entry_point` or `vector_entry_point` (or both) must be provided, {spec.id!r} has neither."
        )
    for value in (spec.entry_point, spec.vector_entry_point):
        if isinstance(value, str):
            check_entry_point(value)
        elif value is not None and not callable(value):
            raise RegistrationError(f"{spec.id!r}: an entry point is 'module:attribute' or a callable, got {value!r}.")


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


def _same_code(one: EnvSpec, other: EnvSpec) -> bool:
    pairs = ((one.entry_point, other.entry_point), (one.vector_entry_point, other.vector_entry_point))
    return all(_code_name(known) == _code_name(new) for known, new in pairs)


def _code_name(entry_point: Any) -> Any:
    # A class defined in a notebook cell is a new object each time the cell runs; its name stays.
    if isinstance(entry_point, str) or entry_point is None:
        return entry_point
    if getattr(entry_point, "__name__", "") == "<lambda>":
        return entry_point.__code__  # all lambdas of a module share one name; equal code is the same code
    return f"{getattr(entry_point, '__module__', '')}:{getattr(entry_point, '__qualname__', id(entry_point))}"
