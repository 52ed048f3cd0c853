"""FromGymnasium: an environment of Gymnasium, or of any package that registers there, as an Env.

What it returns passes through as it is, uncopied. A reader would expect Gymnasium's own limit, order check and checker
around it as well: ``make`` leaves those three out, for the guard does all three, and keeps every other wrapper that
the id is registered with.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, SupportsFloat, cast

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import InvalidId, InvalidSpec, WrongClass
from paddock.sources.families import FAMILIES, GYMNASIUM, Family, family_or_any, installed_family, is_paddocks
from paddock.sources.headless import import_mujoco, refuse_windows
from paddock.sources.simulators import prepare_snapshots
from paddock.sources.their_errors import our_errors
from paddock.wrappers.guard import Guard

if TYPE_CHECKING:
    import gymnasium

_ENTRY_POINT = "paddock.sources.gymnasium:FromGymnasium"
# What paddock looks for on an environment: it is not to be found by accident among the attributes of another library.
_OURS = frozenset(("env", "episode", "name_episodes", "public_state", "state_space", "gymnasium_env"))


class FromGymnasium(Env[Any, Any]):
    """Steps ``gymnasium_env``. Attributes that an Env has not are those of the environment inside, as ``ale``."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        from paddock.sources.gymnasium_spaces import to_ours

        self.gymnasium_env = env
        self.observation_space = to_ours(env.observation_space)
        self.action_space = to_ours(env.action_space)
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        self._closed = False
        prepare_snapshots(env.unwrapped)

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Registered:
        """What makes the environment that this spec's id names."""
        return Registered(spec.id)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        return self.gymnasium_env.step(action)  # type: ignore[no-any-return]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        # int(): Gymnasium refuses a seed that is an integer of NumPy's.
        return self.gymnasium_env.reset(seed=None if seed is None else int(seed), options=options)  # type: ignore[no-any-return]

    def render(self) -> Any:
        return self.gymnasium_env.render()

    def close(self) -> None:
        if not self._closed:  # not all of them can be closed twice
            self._closed = True
            self.gymnasium_env.close()

    def snapshot(self) -> bytes:
        """The simulator's whole state, the environment's fields and its random stream; for MuJoCo and the ALE."""
        from paddock.sources.gymnasium_snapshot import saved

        return saved(self.gymnasium_env)

    def restore(self, snapshot: bytes) -> None:
        from paddock.sources.gymnasium_snapshot import restore

        restore(self.gymnasium_env, snapshot)

    def __deepcopy__(self, memo: dict[int, Any]) -> FromGymnasium:
        from paddock.sources.gymnasium_snapshot import copied

        other = type(self).__new__(type(self))
        memo[id(self)] = other
        env = copied(self.gymnasium_env)
        vars(other).update({name: deepcopy(value, memo) for name, value in vars(self).items() if name not in _OURS})
        other.gymnasium_env = env
        return other

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's own stream."""
        return self.gymnasium_env.unwrapped.np_random  # type: ignore[no-any-return]

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.gymnasium_env.unwrapped.np_random = value

    @property
    def np_random_seed(self) -> int:
        """The seed of that stream; -1 if it is not known."""
        return self.gymnasium_env.unwrapped.np_random_seed  # type: ignore[no-any-return]

    @property
    def _np_random(self) -> np.random.Generator | None:  # type: ignore[override]
        return self.gymnasium_env.unwrapped._np_random  # type: ignore[no-any-return]

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set the attribute where it exists; a new one is the environment's inside."""
        if name in vars(self) or hasattr(type(self), name):
            setattr(self, name, value)
            return True
        layer: Any = self.gymnasium_env
        while not hasattr(layer, name) and layer is not layer.unwrapped:
            layer = layer.env
        if force or hasattr(layer, name):
            setattr(layer, name, value)
            return True
        return False

    def __getattr__(self, name: str) -> Any:
        if name in _OURS or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.gymnasium_env.get_wrapper_attr(name)


class FromGymnasiumGraphs(FromGymnasium):
    """As FromGymnasium where graphs pass: each library knows only its own class of them."""

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        seen, *rest = self.gymnasium_env.step(_with_graphs("gymnasium.spaces", action))
        return (_with_graphs("paddock.spaces", seen), *rest)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        seen, info = super().reset(seed=seed, options=options)
        return _with_graphs("paddock.spaces", seen), info


def from_gymnasium(env: gymnasium.Env[Any, Any], *, validate: bool = True) -> Env[Any, Any]:
    """A ``gymnasium.Env``, wrapped or not, as an Env in its guard; actions are checked unless ``validate`` is False.

    Results are passed on as they are. One that ``to_gymnasium`` made is unpacked, and an Env of paddock's is returned
    as it is. To have lanes, a wall or a server, name it: ``paddock.make("gymnasium:ID")``.
    """
    inner = env if isinstance(env, Env) else getattr(env, "paddock_env", None)
    if isinstance(inner, Env):
        return inner
    GYMNASIUM.check_installed_for("from_gymnasium")
    return Guard(_as_env(env), validate=validate)


def spec_of(id: str) -> EnvSpec:
    """Ours for an id that is registered in Gymnasium, or becomes so by importing what the family's table names.

    ``module:Id-v0`` imports that module first, as in Gymnasium. Arguments are the registered ones.
    """
    module, _, _ = id.rpartition(":")
    return _shared_spec(_registered(id), module)


def known_ids() -> list[str]:
    """What Gymnasium has registered, with all families that are installed; paddock's own ids are left out."""
    for family in FAMILIES:
        _import(family)
    import gymnasium

    return [id for id, one in gymnasium.registry.items() if not is_paddocks(one)]


def known_spec(id: str) -> EnvSpec | None:
    """Ours for exactly this id, also if what it needs to be made is missing; None if Gymnasium has no such id."""
    _import(family_or_any(id))
    import gymnasium

    theirs = gymnasium.registry.get(id)
    return None if theirs is None or is_paddocks(theirs) else _shared_spec(theirs)


def _import(family: Family) -> None:
    """Have it register its ids. A package that can't be imported has no environments to make."""
    if family.module and not family.missing:
        with suppress(Exception):
            importlib.import_module(family.module)


# By id: the spec as it was read, and the one that was given out, whose fields may be set since.
_SPECS: dict[str, tuple[EnvSpec, EnvSpec]] = {}


def _shared_spec(theirs: Any, module: str = "") -> EnvSpec:
    """Ours for a spec of Gymnasium's. The same object until theirs changes: a field that is set on it takes effect."""
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
        """What the environment's class says of itself, its render modes for one."""
        from gymnasium.envs.registration import load_env_creator

        entry_point = _registered(self.id).entry_point
        with our_errors(family_or_any(self.id), self.id):
            creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
        return cast("dict[str, Any]", getattr(creator, "metadata", {}))

    def __call__(self, **kwargs: Any) -> FromGymnasium:
        import gymnasium

        spec, family = _registered(self.id), family_or_any(self.id)
        if "mujoco" in family.needs:
            refuse_windows(self.id, kwargs.get("render_mode"))
        bare = replace(deepcopy(spec), max_episode_steps=None, order_enforce=False, disable_env_checker=True)
        with our_errors(family, self.id):
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
        made.spec = _remake_spec(env.spec)
    return made


def _remake_spec(theirs: Any) -> EnvSpec | None:
    """By which ``paddock.make`` makes such an environment again, without wrappers that others put around it."""
    try:
        return _our_spec(theirs, theirs.id)
    except (InvalidSpec, InvalidId):
        return None


def _registered(id: str) -> Any:
    """Gymnasium's spec; without a version the newest."""
    module, _, name = id.rpartition(":")
    family = installed_family("gymnasium", id)
    import gymnasium

    with our_errors(family, id):
        if "mujoco" in family.needs:
            import_mujoco()
        for wanted in (family.module, module):
            if wanted:
                importlib.import_module(wanted)
        versions = [one for one in gymnasium.registry.values() if one.id == f"{name}-v{one.version}"]
        return max(versions, key=lambda one: one.version) if versions else gymnasium.spec(name)


def _with_graphs(library: str, value: Any) -> Any:
    from paddock.sources.gymnasium_spaces import with_graphs_of

    return with_graphs_of(importlib.import_module(library).GraphInstance, value)
