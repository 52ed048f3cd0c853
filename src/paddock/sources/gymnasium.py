"""FromGymnasium: an environment of Gymnasium, or of any package that registers there, as an Env.

Results pass through uncopied. A reader would expect Gymnasium's own limit, order check and checker around it as well:
``make`` leaves those three out, because the guard does all three, and keeps every other wrapper that the id is
registered with.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, SupportsFloat, cast

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import InvalidId, InvalidSnapshot, InvalidSpec, SnapshotUnsupported, WrongClass
from paddock.sources.atari import Ale, watch_actions
from paddock.sources.families import FAMILIES, GYMNASIUM, Family, family_or_gymnasium, installed_family, is_paddocks
from paddock.sources.foreign import (
    OURS,
    ForeignEnv,
    Simulator,
    class_of,
    fields_fit,
    open_value,
    seal_value,
    to_ours,
    translate_errors,
)
from paddock.sources.mujoco import MuJoCo, import_mujoco, refuse_windows
from paddock.wrappers.guard import Guard

if TYPE_CHECKING:
    import gymnasium


_ENTRY_POINT = "paddock.sources.gymnasium:FromGymnasium"
_LAYER = "gymnasium"  # of a snapshot
# Fields that are set when an environment is made, and that no episode changes.
_CONSTANTS = frozenset(("env", "spec", "metadata", "render_mode", "_cached_spec", "_saved_kwargs", "_np_random"))


class FromGymnasium(ForeignEnv):
    """Steps ``gymnasium_env``, with its own random stream."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = to_ours(env.observation_space)
        self.action_space = to_ours(env.action_space)
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        if isinstance(simulator_of(env.unwrapped), Ale):
            watch_actions(env.unwrapped)

    @property
    def gymnasium_env(self) -> gymnasium.Env[Any, Any]:
        """The environment inside, with Gymnasium's own wrappers."""
        return self.inner

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Registered:
        """Return what makes the environment that this spec's id names."""
        return Registered(spec.id)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        return self.inner.step(action)  # type: ignore[no-any-return]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        # int(): Gymnasium refuses NumPy's integers as seeds.
        return self.inner.reset(seed=None if seed is None else int(seed), options=options)  # type: ignore[no-any-return]

    def snapshot(self) -> bytes:
        """The simulator's whole state, the environment's fields and its random stream; for MuJoCo and the ALE."""
        return save_snapshot(self.inner)

    def restore(self, snapshot: bytes) -> None:
        restore_snapshot(self.inner, snapshot)

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's own stream."""
        return self.inner.unwrapped.np_random  # type: ignore[no-any-return]

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.inner.unwrapped.np_random = value

    @property
    def np_random_seed(self) -> int:
        """The seed of that stream; -1 if it is not known."""
        return self.inner.unwrapped.np_random_seed  # type: ignore[no-any-return]

    @property
    def _np_random(self) -> np.random.Generator | None:  # type: ignore[override]
        return self.inner.unwrapped._np_random  # type: ignore[no-any-return]

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set the attribute where it exists; a new one goes to the environment inside."""
        if name in vars(self) or hasattr(type(self), name):
            setattr(self, name, value)
            return True
        layer: Any = self.inner
        while not hasattr(layer, name) and layer is not layer.unwrapped:
            layer = layer.env
        if force or hasattr(layer, name):
            setattr(layer, name, value)
            return True
        return False

    def __getattr__(self, name: str) -> Any:
        if name in OURS or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.inner.get_wrapper_attr(name)


class FromGymnasiumGraphs(FromGymnasium):
    """FromGymnasium for spaces with graphs: each library knows only its own class of them."""

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, *rest = self.inner.step(_with_graphs("gymnasium.spaces", action))
        return (_with_graphs("paddock.spaces", observation), *rest)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observation, info = super().reset(seed=seed, options=options)
        return _with_graphs("paddock.spaces", observation), info


def from_gymnasium(env: gymnasium.Env[Any, Any], *, validate: bool = True) -> Env[Any, Any]:
    """Return a ``gymnasium.Env``, wrapped or not, as an Env in its guard.

    Actions are checked unless ``validate`` is False; results are passed on as they are. One that ``to_gymnasium`` made
    is unpacked, and paddock's own Env is returned unchanged. For lanes, a wall or a server, name it instead:
    ``paddock.make("gymnasium:ID")``.
    """
    inner = env if isinstance(env, Env) else getattr(env, "paddock_env", None)
    if isinstance(inner, Env):
        return inner
    GYMNASIUM.check_installed_for("from_gymnasium()")
    return Guard(_as_env(env), validate=validate)


def spec_of(id: str) -> EnvSpec:
    """Return our spec for an id that Gymnasium has registered, or registers once its family's module is imported.

    ``module:Id-v0`` imports that module first, as in Gymnasium. Arguments are the registered ones.
    """
    module, _, _ = id.rpartition(":")
    return _shared_spec(_find_spec(id), module)


def known_ids() -> list[str]:
    """Return what Gymnasium has registered, with all installed families, without paddock's own ids."""
    for family in FAMILIES:
        _import(family)
    import gymnasium

    return [id for id, one in gymnasium.registry.items() if not is_paddocks(one)]


def known_spec(id: str) -> EnvSpec | None:
    """Return our spec for exactly this id, even if it can't be made here; None if Gymnasium has no such id."""
    _import(family_or_gymnasium(id))
    import gymnasium

    theirs = gymnasium.registry.get(id)
    return None if theirs is None or is_paddocks(theirs) else _shared_spec(theirs)


def _import(family: Family) -> None:
    """Have the family register its ids. A package that can't be imported has no environments to make."""
    if family.module and not family.missing:
        with suppress(Exception):
            importlib.import_module(family.module)


# By id: the spec as it was read, and the one that was given out, whose fields may have been set since.
_SPECS: dict[str, tuple[EnvSpec, EnvSpec]] = {}


def _shared_spec(theirs: Any, module: str = "") -> EnvSpec:
    """Return our spec for one of Gymnasium's. The same object until theirs changes, so fields set on it take effect."""
    id = f"{module}:{theirs.id}" if module else theirs.id
    spec = _our_spec(theirs, id, disable_env_checker=theirs.disable_env_checker)
    known = _SPECS.get(id)
    if known is None or known[0] != spec:
        known = _SPECS[id] = (deepcopy(spec), spec)
    return known[1]


def _our_spec(theirs: Any, id: str, **more: Any) -> EnvSpec:
    return EnvSpec(
        id,
        entry_point=_ENTRY_POINT,
        reward_threshold=theirs.reward_threshold,
        nondeterministic=theirs.nondeterministic,
        max_episode_steps=theirs.max_episode_steps,
        order_enforce=theirs.order_enforce,
        kwargs=deepcopy(theirs.kwargs),
        **more,
    )


@dataclass(frozen=True)
class Registered:
    """Makes the environment with this id in Gymnasium's registry, with the wrappers that it is registered with."""

    id: str

    @property
    def metadata(self) -> dict[str, Any]:
        """Return what the environment's class declares: its render modes, say."""
        from gymnasium.envs.registration import load_env_creator

        entry_point = _find_spec(self.id).entry_point
        with translate_errors(family_or_gymnasium(self.id), self.id):
            creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
        return cast("dict[str, Any]", getattr(creator, "metadata", {}))

    def __call__(self, **kwargs: Any) -> FromGymnasium:
        import gymnasium

        spec, family = _find_spec(self.id), family_or_gymnasium(self.id)
        if "mujoco" in family.needs:
            refuse_windows(self.id, kwargs.get("render_mode"))
        bare = replace(deepcopy(spec), max_episode_steps=None, order_enforce=False, disable_env_checker=True)
        with translate_errors(family, self.id):
            env = gymnasium.make(bare, **kwargs)
        return _as_env(env)


def _as_env(env: Any) -> FromGymnasium:
    import gymnasium

    if not isinstance(env, gymnasium.Env):
        raise WrongClass(f"from_gymnasium() takes one gymnasium.Env, got {type(env).__name__}.")
    made = FromGymnasium(env)
    from paddock.sources.gymnasium_spaces import has_graphs

    if has_graphs(made.observation_space) or has_graphs(made.action_space):
        made = FromGymnasiumGraphs(env)
    if env.spec is not None:
        # By it ``paddock.make`` makes such an environment again, without wrappers that others put around it.
        with suppress(InvalidSpec, InvalidId):
            made.spec = _our_spec(env.spec, env.spec.id)
    return made


def _find_spec(id: str) -> Any:
    """Return Gymnasium's spec; without a version, the newest."""
    module, _, name = id.rpartition(":")
    family = installed_family("gymnasium", id)
    import gymnasium

    with translate_errors(family, id):
        if "mujoco" in family.needs:
            import_mujoco()
        for wanted in (family.module, module):
            if wanted:
                importlib.import_module(wanted)
        versions = [one for one in gymnasium.registry.values() if one.id == f"{name}-v{one.version}"]
        return max(versions, key=lambda one: one.version) if versions else gymnasium.spec(name)


def _with_graphs(library: str, value: Any) -> Any:
    from paddock.sources.gymnasium_spaces import convert_graphs

    return convert_graphs(importlib.import_module(library).GraphInstance, value)


# Snapshots and copies. Gymnasium's own ``deepcopy`` and ``pickle`` restart many environments; these go on from where
# the environment is, or say that it can't be done.


def save_snapshot(env: Any) -> bytes:
    """Return all that an episode changes: the simulator, the fields of each layer and the random stream.

    SnapshotUnsupported if part of it can't be plain data.
    """
    simulator = _require_simulator(env)
    value = {
        "who": _identity(env),
        "state": simulator.state(),
        "fields": [_fields(layer, simulator) for layer in _layers(env)],
        "random": env.unwrapped._np_random,
    }
    return seal_value(_LAYER, value, name=_name(env))


def restore_snapshot(env: Any, snapshot: bytes) -> None:
    """Go on from what ``save_snapshot`` returned for such an environment; refuse anything else and change nothing."""
    simulator = _require_simulator(env)
    value = open_value(_LAYER, snapshot)
    layers = list(_layers(env))
    fields = value.get("fields") if isinstance(value, dict) else None
    fits = (
        isinstance(fields, list)
        and len(fields) == len(layers)
        and all(
            isinstance(new, dict)
            and all(_changes(name, value, simulator) for name, value in new.items())
            and fields_fit(new, layer, _fields(layer, simulator), simulator.settings)
            for new, layer in zip(fields, layers, strict=True)
        )
        and isinstance(value.get("state"), dict)
        and isinstance(value.get("random"), (np.random.Generator, type(None)))
    )
    if not fits or value.get("who") != _identity(env):
        raise InvalidSnapshot(f"This is not a snapshot of {_name(env)} with the same wrappers and settings.")
    checked = simulator.check(value["state"])
    simulator.enter(checked)
    for layer, fields in zip(layers, value["fields"], strict=True):
        vars(layer).update(fields)
    env.unwrapped._np_random = value["random"]


def copy_env(env: Any) -> Any:
    """Return another environment that goes on from where this one is and shares nothing with it."""
    simulator = simulator_of(env.unwrapped)
    if simulator is not None:
        other = deepcopy(env)  # a new one, made with the same arguments
        other.unwrapped.spec = deepcopy(env.unwrapped.spec)
        if isinstance(simulator, Ale):
            watch_actions(other.unwrapped)
        restore_snapshot(other, save_snapshot(env))
        return other
    made: dict[int, Any] = {}
    try:
        # By their fields: EzPickle would restart it. The innermost first, because the others hold it.
        for layer in reversed(list(_layers(env))):
            made[id(layer)] = other = object.__new__(type(layer))
            vars(other).update({name: deepcopy(value, made) for name, value in vars(layer).items()})
    except Exception as error:  # of code inside: a C library's object says so by a TypeError, if at all
        raise SnapshotUnsupported(
            f"{_name(env)} can't be copied: {type(error).__name__}: {error}. Its library can't copy the state of a "
            f"simulation; make another environment and repeat the actions."
        ) from error
    return made[id(env)]


def _require_simulator(env: Any) -> Simulator:
    simulator = simulator_of(env.unwrapped)
    if simulator is None:
        raise SnapshotUnsupported(
            f"{_name(env)} can't save its state: among Gymnasium's environments, those of MuJoCo and of the ALE can, "
            f"and this is neither. Repeat the actions from the seed instead."
        )
    return simulator


def _layers(env: Any) -> Iterator[Any]:
    """Yield Gymnasium's wrappers, outermost first, and then the environment."""
    while True:
        yield env
        if env is env.unwrapped:
            return
        env = env.env


def _fields(layer: Any, simulator: Simulator) -> dict[str, Any]:
    return {name: value for name, value in vars(layer).items() if _changes(name, value, simulator)}


def _changes(name: Any, value: Any, simulator: Simulator) -> bool:
    """Whether an episode may change this field."""
    if not isinstance(name, str) or name in _CONSTANTS or name in simulator.constants or name.startswith("_ezpickle"):
        return False
    if isinstance(value, (FunctionType, MethodType, ModuleType, type)):
        return False
    # A space, recognised by its methods, so that Gymnasium need not be imported here.
    return not (hasattr(value, "sample") and hasattr(value, "contains"))


def _identity(env: Any) -> list[str]:
    return [class_of(layer) for layer in _layers(env)]


def _name(env: Any) -> str:
    spec = env.unwrapped.spec
    return type(env.unwrapped).__name__ if spec is None else str(spec.id)


def simulator_of(env: Any) -> Simulator | None:
    """Return the simulator of an unwrapped environment, if its state can be saved. Imports neither library."""
    mujoco, ale = sys.modules.get("mujoco"), sys.modules.get("ale_py")
    if mujoco is not None and isinstance(getattr(env, "data", None), mujoco.MjData):
        return MuJoCo(mujoco, env.model, env.data)
    if ale is not None and isinstance(getattr(env, "ale", None), ale.ALEInterface):
        return Ale(ale, env)
    return None
