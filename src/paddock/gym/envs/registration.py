"""``gymnasium.envs.registration``: Gymnasium's signatures and its lenient rules over paddock's making.

Lenient: actions outside a Box and steps after the end go through to the environment, and registering an id again
with another entry point warns instead of raising. Ids that come with paddock are protected all the same.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Any

from paddock.core.env import Env
from paddock.core.registry import current_namespace as _current_namespace
from paddock.core.registry import full_id, namespace, versions_of
from paddock.core.registry import pprint_registry as _pprint_registry
from paddock.core.registry import register as _register
from paddock.core.registry import registry as _own
from paddock.core.spec import EnvCreator, EnvSpec, VectorEnvCreator, WrapperSpec, format_id, parse_id
from paddock.core.vector_env import VectorEnv
from paddock.core.wrapper import Wrapper
from paddock.errors import NameNotFound, NamespaceNotFound, PlanError, RegistryConflict, VersionNotFound
from paddock.making.build import build, build_one, load, resolve, with_vector_spec
from paddock.making.plan import Plan, default_isolation, plan
from paddock.making.target import Target, locate, write_down
from paddock.sources import families
from paddock.sources.families import family_of, imported_gymnasium, in_gymnasium, is_installed
from paddock.vector.loop import SyncVectorEnv

__all__ = [
    "EnvSpec",
    "VectorizeMode",
    "WrapperSpec",
    "current_namespace",
    "make",
    "make_vec",
    "namespace",
    "pprint_registry",
    "register",
    "register_envs",
    "registry",
    "spec",
]


class Registry(MutableMapping[str, EnvSpec]):
    """paddock's registry, and after it what Gymnasium has registered, where that is installed.

    gymnasium is imported when you look up one of its ids, or list all. What you register here is paddock's.
    """

    def __getitem__(self, id: str) -> EnvSpec:
        found = _own.get(id) or _from_gymnasium(id)
        if found is None:
            raise KeyError(id)
        return found

    def __setitem__(self, id: str, spec: EnvSpec) -> None:
        _own[id] = spec

    def __delitem__(self, id: str) -> None:
        if id not in _own and id in self:
            raise RegistryConflict(f"{id!r} is registered in Gymnasium: del gymnasium.registry[{id!r}] removes it.")
        del _own[id]

    def __iter__(self) -> Iterator[str]:
        yield from list(_own)
        if _has_gymnasium():
            from paddock.sources.gymnasium import known_ids

            yield from (id for id in known_ids() if id not in _own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """Remove what users registered; what is built in and what is Gymnasium's stays."""
        _own.clear()

    def popitem(self) -> tuple[str, EnvSpec]:
        return _own.popitem()

    def copy(self) -> dict[str, EnvSpec]:
        return dict(self)

    def __repr__(self) -> str:
        return repr(dict(self))


def _has_gymnasium() -> bool:
    return imported_gymnasium() is not None if "gymnasium" in sys.modules else is_installed("gymnasium")


def _from_gymnasium(id: Any) -> EnvSpec | None:
    """The spec of an id that Gymnasium may have, by its name or because gymnasium is imported and has it."""
    if not isinstance(id, str) or not (family_of(id) or in_gymnasium(id)) or not _has_gymnasium():
        return None
    from paddock.sources.gymnasium import known_spec

    return known_spec(id)


registry = Registry()


def spec(env_id: str) -> EnvSpec:
    """The registered spec of exactly this id, Gymnasium's ids included where that is installed."""
    try:
        return families.spec(env_id)
    except (NameNotFound, NamespaceNotFound, VersionNotFound):
        found = _from_gymnasium(env_id)
        if found is None:
            raise
        return found


def pprint_registry(
    print_registry: MutableMapping[str, EnvSpec] = registry,
    *,
    num_cols: int = 3,
    exclude_namespaces: list[str] | None = None,
    disable_print: bool = False,
) -> str | None:
    """All ids, a block for each namespace, printed or returned."""
    return _pprint_registry(
        dict(print_registry), num_cols=num_cols, exclude_namespaces=exclude_namespaces, disable_print=disable_print
    )


class VectorizeMode(Enum):
    """How ``make_vec`` steps its lanes."""

    ASYNC = "async"
    SYNC = "sync"
    VECTOR_ENTRY_POINT = "vector_entry_point"


def __getattr__(name: str) -> Any:
    if name == "current_namespace":  # a plain module variable in Gymnasium
        return _current_namespace()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(
    id: str,
    entry_point: EnvCreator | str | None = None,
    reward_threshold: float | None = None,
    nondeterministic: bool = False,
    max_episode_steps: int | None = None,
    order_enforce: bool = True,
    disable_env_checker: bool = False,
    additional_wrappers: tuple[WrapperSpec, ...] = (),
    vector_entry_point: VectorEnvCreator | str | None = None,
    kwargs: dict[str, Any] | None = None,
) -> None:
    """Register an id; one that is registered with other code is replaced with a warning, a built-in one never."""
    # The parameters are those of paddock's register; an id made full here is warned about once, at the caller's line.
    fields = {**locals(), "id": full_id(id)}
    try:
        _register(**fields)
    except RegistryConflict:
        _register(**fields, replace=True)
        warnings.warn(f"Overriding environment {fields['id']} already in registry.", stacklevel=2)


def make(
    id: str | EnvSpec, max_episode_steps: int | None = None, disable_env_checker: bool | None = None, **kwargs: Any
) -> Env[Any, Any]:
    """Make one environment; keywords beyond these go to it."""
    env = build(_plan_one(id, max_episode_steps, disable_env_checker, kwargs))
    assert isinstance(env, Env)
    return env


def make_vec(
    id: str | EnvSpec,
    num_envs: int = 1,
    vectorization_mode: VectorizeMode | str | None = None,
    vector_kwargs: dict[str, Any] | None = None,
    wrappers: Sequence[Callable[[Env[Any, Any]], Wrapper[Any, Any, Any, Any]]] | None = None,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any]:
    """Make ``num_envs`` lanes: by the id's own vector form if it has one in Gymnasium, else in a loop.

    ``vectorization_mode="vector_entry_point"`` steps the lanes of any built-in id together, compiled. ``wrappers`` and
    ``vector_kwargs`` are for lanes in a loop or in processes.
    """
    located = locate(id)
    if default_isolation(located, wrappers or ()) not in (None, "process"):
        return _make_elsewhere(located, num_envs, vector_kwargs, wrappers, kwargs)
    spec = resolve(located).spec
    assert spec is not None
    # A spec read back from a vector environment carries these four among its arguments.
    kwargs = {**spec.kwargs, **kwargs}
    num_envs = _pop_recorded(kwargs, "num_envs", num_envs, 1)
    mode = _pop_recorded(kwargs, "vectorization_mode", vectorization_mode, None)
    vector_kwargs = _pop_recorded(kwargs, "vector_kwargs", vector_kwargs, None)
    wrappers = _pop_recorded(kwargs, "wrappers", wrappers, None)
    if mode is None:
        # Built-in ids step together only if Gymnasium's do: programs count on `envs` where it has that.
        together = not _own.is_protected(spec.id) or spec.name == "CartPole" or spec.namespace is not None
        own = spec.vector_entry_point is not None and together
        plain = not (wrappers or vector_kwargs or spec.additional_wrappers)
        mode = VectorizeMode.VECTOR_ENTRY_POINT if own and plain else VectorizeMode.SYNC
    try:
        mode, spec = VectorizeMode(mode), replace(spec, kwargs={})
    except ValueError:
        valid = [member.value for member in VectorizeMode]
        raise PlanError(f"Invalid vectorization mode: {mode!r}, valid modes: {valid}") from None
    if mode is VectorizeMode.VECTOR_ENTRY_POINT:
        return _make_own_vector(spec, num_envs, vector_kwargs, wrappers, kwargs)
    lane = _plan_one(spec, kwargs.pop("max_episode_steps", None), None, kwargs, wrappers or ())
    fns = [partial(build_one, lane)] * num_envs
    if mode is VectorizeMode.SYNC:
        return with_vector_spec(SyncVectorEnv(fns, **(vector_kwargs or {})), lane, num_envs)
    from paddock.vector.processes import AsyncVectorEnv  # when first used: multiprocessing is slow to import

    return with_vector_spec(AsyncVectorEnv(fns, **(vector_kwargs or {})), replace(lane, backend="processes"), num_envs)


def register_envs(env_module: ModuleType) -> None:
    """Do nothing, but tell readers and linters that importing ``env_module`` registered its environments."""


def parse_env_id(env_id: str) -> tuple[str | None, str, int | None]:
    """Namespace, name and version of an id."""
    return parse_id(env_id)


def get_env_id(ns: str | None, name: str, version: int | None) -> str:
    """The id with these parts."""
    return format_id(ns, name, version)


def find_highest_version(ns: str | None, name: str) -> int | None:
    """The newest registered version of a name."""
    return max(versions_of(ns, name), default=None)


def load_env_creator(name: str) -> EnvCreator | VectorEnvCreator:
    """The callable that ``module:attribute`` names."""
    return load(name)


def _plan_one(
    id: str | EnvSpec,
    max_episode_steps: int | None,
    disable_env_checker: bool | None,
    kwargs: dict[str, Any],
    wrappers: Sequence[Any] = (),
) -> Plan:
    located = locate(id)
    write_down(located)
    return plan(
        resolve(located),
        validate=None if disable_env_checker is None else not disable_env_checker,
        strict=False,
        max_episode_steps=max_episode_steps,
        render_mode=kwargs.get("render_mode"),
        env_kwargs=kwargs,
        wrappers=wrappers,
    )


def _make_elsewhere(
    target: Target, num_envs: int, vector_kwargs: dict[str, Any] | None, wrappers: Any, kwargs: dict[str, Any]
) -> VectorEnv[Any, Any, Any]:
    """Lanes behind a wall, where the user's settings want code of others."""
    if vector_kwargs:
        raise PlanError(f"vector_kwargs= can't be used with {target.text!r}, whose lanes are behind a wall. Drop it.")
    return _build_lanes(target, num_envs, kwargs, wrappers=wrappers or ())


def _make_own_vector(
    spec: EnvSpec, num_envs: int, vector_kwargs: dict[str, Any] | None, wrappers: Any, kwargs: dict[str, Any]
) -> VectorEnv[Any, Any, Any]:
    for name, value in (("vector_kwargs", vector_kwargs), ("wrappers", wrappers)):
        if value:
            raise PlanError(
                f"`{name}` can't be used with vectorization_mode='vector_entry_point': the environment steps all "
                f"lanes itself. Use 'sync', or wrap the result."
            )
    return _build_lanes(locate(spec), num_envs, kwargs, backend="compiled")


def _build_lanes(target: Target, num_envs: int, kwargs: dict[str, Any], **options: Any) -> VectorEnv[Any, Any, Any]:
    made = plan(
        target,
        num_envs=num_envs,
        strict=False,
        max_episode_steps=kwargs.pop("max_episode_steps", None),
        render_mode=kwargs.pop("render_mode", None),
        env_kwargs=kwargs,
        **options,
    )
    env = build(made)
    assert isinstance(env, VectorEnv)
    return env


def _pop_recorded(kwargs: dict[str, Any], name: str, value: Any, default: Any) -> Any:
    recorded = kwargs.pop(name, default)
    return recorded if value == default else value
