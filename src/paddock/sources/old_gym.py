"""FromGym: an environment of OpenAI's Gym, 0.21 to 0.26, as an Env: steps of four or five values, both ways to seed.

A reader would expect every step to be examined. Which API an environment has is found out once, at its first reset and
its first step; after that, results of five values pass through as they are.
"""

from __future__ import annotations

import importlib
import inspect
import re
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, SupportsFloat

from paddock.core.env import Env, Info
from paddock.core.problem import warn_user
from paddock.core.spec import EnvSpec
from paddock.errors import InvalidId, InvalidSeed, InvalidSpec, UnsupportedMode, WrongClass
from paddock.sources.families import installed_family, library_family
from paddock.sources.foreign import ForeignEnv, to_ours, translate_errors
from paddock.wrappers.guard import Guard

_ENTRY_POINT = "paddock.sources.old_gym:FromGym"
_ID = re.compile(r"(.+)-v(\d+)", re.ASCII)

Step = tuple[Any, SupportsFloat, bool, bool, Info]


class FromGym(ForeignEnv):
    """Steps ``inner``. ``render_mode`` is for environments whose ``render`` takes the mode, as before 0.26."""

    def __init__(self, env: Any, render_mode: str | None = None) -> None:
        for name in ("reset", "step", "observation_space", "action_space"):
            if getattr(env, name, None) is None:
                raise WrongClass(f"from_gym() takes an environment of Gym's, and {type(env).__name__} has no {name}.")
        super().__init__(env)
        self.observation_space = to_ours(env.observation_space, "gym")
        self.action_space = to_ours(env.action_space, "gym")
        self.metadata = modernize_metadata(getattr(env, "metadata", {}))
        theirs = getattr(env, "render_mode", None)
        self._renders_by_mode = theirs is None and _renders_by_mode(env)
        self.render_mode = theirs or (render_mode if self._renders_by_mode else None)
        self._reset_takes = _reset_parameters(env)
        self._returns_info: bool | None = None

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Registered:
        """Return what makes the environment that this spec's id names."""
        return Registered(spec.id)

    def step(self, action: Any) -> Step:
        result = self.inner.step(action)
        if len(result) not in (4, 5):
            raise WrongClass(f"{self.inner}: step() returned {len(result)} values; Gym's return 4 or 5.")
        if self.render_mode == "human" and self._renders_by_mode:  # before 0.26 an environment did not show itself
            self.render()
        elif len(result) == 5:
            self.step = self.inner.step  # type: ignore[method-assign]  # nothing to do from now on
        if len(result) == 5:
            return result  # type: ignore[no-any-return]
        # Before 0.26 one flag said that an episode ended, and the info said if the time limit did it.
        observation, reward, done, info = result
        cut = bool(done and info.get("TimeLimit.truncated", False))
        return observation, reward, bool(done) and not cut, cut, info

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        arguments: Info = {}
        given, seed = seed, self._seed_now(seed)
        if seed is not None:
            if "seed" in self._reset_takes:
                arguments["seed"] = seed
            elif hasattr(self.inner, "seed"):
                self.inner.seed(seed)
            elif given is not None:
                raise InvalidSeed(f"{self.inner} takes no seed, neither by seed() nor by reset(). Call reset() alone.")
        if options is not None and "options" in self._reset_takes:  # others ignore them
            arguments["options"] = options
        if "return_info" in self._reset_takes:
            arguments["return_info"] = True
        result = self.inner.reset(**arguments)
        if self._returns_info is None:
            pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
            # An observation may be such a tuple too.
            self._returns_info = pair and not self.observation_space.contains(result)
        if self.render_mode == "human" and self._renders_by_mode:
            self.render()
        return result if self._returns_info else (result, {})

    def render(self) -> Any:
        if not self._renders_by_mode:
            return self.inner.render()
        if self.render_mode is None:
            warn_user("render() without a render mode shows nothing. Pass render_mode= where the environment is made.")
            return None
        return self.inner.render(mode=self.render_mode)

    def __deepcopy__(self, memo: dict[int, Any]) -> FromGym:
        step = vars(self).pop("step", None)  # of the environment inside, which is copied in another way
        try:
            other = super().__deepcopy__(memo)
        finally:
            if step is not None:
                self.step = step  # type: ignore[method-assign]
        assert isinstance(other, FromGym)
        return other


def from_gym(env: Any, *, render_mode: str | None = None, validate: bool = True) -> Env[Any, Any]:
    """Return an environment written for OpenAI's Gym, wrapped or not, as an Env in its guard.

    ``render_mode`` is for environments that take it when they render; newer ones were made with it. Actions are checked
    unless ``validate`` is False. For lanes, a wall or a server, name it instead: ``paddock.make("gym:ID")``.
    """
    made = FromGym(env, render_mode)
    if render_mode is not None and made.render_mode != render_mode:
        raise UnsupportedMode(
            f"render_mode={render_mode!r}: {env} was made with render_mode={made.render_mode!r}, and keeps it. Pass "
            f"the mode where you make it."
        )
    theirs = getattr(env, "spec", None)
    if theirs is not None:
        # By it ``paddock.make`` makes such an environment again, without wrappers that others put around it.
        with suppress(InvalidSpec, InvalidId):
            made.spec = _our_spec(theirs.id, theirs)
    return Guard(made, validate=validate)


def spec_of(id: str) -> EnvSpec:
    """Return our spec for an id that is registered in Gym; ``module:Id-v0`` imports that module first."""
    theirs = _find_spec(id)
    module, _, _ = id.rpartition(":")
    return _our_spec(f"{module}:{theirs.id}" if module else theirs.id, theirs)


def modernize_metadata(metadata: Any) -> Info:
    """Return Gym's metadata under the newer names."""
    known = dict(metadata or {})
    modes = known.get("render_modes") or known.get("render.modes") or []
    fps = known.get("render_fps", known.get("video.frames_per_second"))
    return {**known, "render_modes": list(modes), **({} if fps is None else {"render_fps": fps})}


@dataclass(frozen=True)
class Registered:
    """Makes the environment with this id in Gym's registry, without Gym's limit, order check and checker."""

    id: str

    @property
    def metadata(self) -> Info:
        """Return what the environment's class declares: its render modes, say."""
        return modernize_metadata(getattr(self._creator(_find_spec(self.id)), "metadata", None))

    def __call__(self, **kwargs: Any) -> FromGym:
        bare = copy(_find_spec(self.id))
        # The guard does all three. Versions that do not know one of these do not mind it.
        bare.max_episode_steps, bare.order_enforce, bare.disable_env_checker = None, False, True
        creator = self._creator(bare)
        mode = kwargs.pop("render_mode", None)
        converted = getattr(bare, "apply_api_compatibility", False)
        if mode is not None and (converted or "render_mode" in _parameters(creator)):
            kwargs["render_mode"] = mode
        with translate_errors(library_family("gym", self.id), self.id):
            env = bare.make(**kwargs)
        return FromGym(env, mode)

    def _creator(self, spec: Any) -> Any:
        if not isinstance(spec.entry_point, str):
            return spec.entry_point
        module, _, name = spec.entry_point.partition(":")
        with translate_errors(library_family("gym", self.id), self.id):
            return getattr(importlib.import_module(module), name)


def _bare(env: Any) -> Any:
    return getattr(env, "unwrapped", env)


def _renders_by_mode(env: Any) -> bool:
    """Whether ``render`` takes the mode; 0.25 hides the argument, but then the metadata has the older name."""
    said = getattr(env, "metadata", None) or {}
    older = "render.modes" in said and "render_modes" not in said
    return older or "mode" in _parameters(getattr(_bare(env), "render", None))


def _reset_parameters(env: Any) -> frozenset[str]:
    """Return the arguments that ``reset`` takes through all wrappers: those of the innermost that others pass on."""
    inner = _bare(env)
    taken = set(_parameters(inner.reset))
    while env is not inner:
        found = _parameters(env.reset)
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in found.values()):
            taken &= set(found)
        env = env.env
    return frozenset(taken)


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # compiled code that does not say
        return {}


def _our_spec(id: str, theirs: Any) -> EnvSpec:
    return EnvSpec(
        id,
        entry_point=_ENTRY_POINT,
        reward_threshold=theirs.reward_threshold,
        nondeterministic=theirs.nondeterministic,
        max_episode_steps=theirs.max_episode_steps,
        kwargs=deepcopy(getattr(theirs, "kwargs", None) or getattr(theirs, "_kwargs", None) or {}),
    )


def _find_spec(id: str) -> Any:
    """Return Gym's spec; without a version, the newest."""
    module, _, name = id.rpartition(":")
    with translate_errors(installed_family("gym", id), id):
        import gym

        if module:
            importlib.import_module(module)
        registry = gym.envs.registry
        known = registry if isinstance(registry, dict) else registry.env_specs
        versions = [int(match[2]) for one in known if (match := _ID.fullmatch(one)) and match[1] == name]
        return gym.spec(f"{name}-v{max(versions)}" if versions else name)
