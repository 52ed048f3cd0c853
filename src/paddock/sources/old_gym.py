"""FromGym: an environment of OpenAI's Gym, 0.21 to 0.26, as an Env: steps of four or of five, seeds by either way.

A reader would expect each step to be looked at. Which of the APIs an environment has is seen once, at its first reset
and its first step; from then on results of five go through as they are.
"""

from __future__ import annotations

import importlib
import inspect
import re
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, SupportsFloat

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.warning import warn_user
from paddock.errors import InvalidId, InvalidSeed, InvalidSpec, UnsupportedMode, WrongClass
from paddock.sources.borrowed import Borrowed
from paddock.sources.families import installed_family, library_family
from paddock.sources.old_gym_spaces import to_ours
from paddock.sources.their_errors import our_errors
from paddock.wrappers.guard import Guard

_ENTRY_POINT = "paddock.sources.old_gym:FromGym"
_ID = re.compile(r"(.+)-v(\d+)", re.ASCII)

Step = tuple[Any, SupportsFloat, bool, bool, Info]


class FromGym(Borrowed):
    """Steps ``inner``. ``render_mode`` is for one whose ``render`` takes the mode, as before 0.26."""

    def __init__(self, env: Any, render_mode: str | None = None) -> None:
        for name in ("reset", "step", "observation_space", "action_space"):
            if getattr(env, name, None) is None:
                raise WrongClass(f"from_gym() takes an environment of Gym's, and {type(env).__name__} has no {name}.")
        super().__init__(env)
        self.observation_space = to_ours(env.observation_space)
        self.action_space = to_ours(env.action_space)
        self.metadata = modern(getattr(env, "metadata", {}))
        theirs = getattr(env, "render_mode", None)
        self._renders_by_mode = theirs is None and _renders_by_mode(env)
        self.render_mode = theirs or (render_mode if self._renders_by_mode else None)
        self._reset_takes = _taken_by_reset(env)
        self._returns_info: bool | None = None

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Registered:
        """What makes the environment that this spec's id names."""
        return Registered(spec.id)

    def step(self, action: Any) -> Step:
        """The first one; how many values come back says which step takes its place."""
        result = self.inner.step(action)
        if len(result) not in (4, 5):
            raise WrongClass(f"{self.inner}: step() returned {len(result)} values; Gym's return 4 or 5.")
        shown = self.render_mode == "human" and self._renders_by_mode
        if shown:
            self.step = self._step_and_show  # type: ignore[method-assign]
        else:
            self.step = self._step_of_four if len(result) == 4 else self.inner.step  # type: ignore[method-assign]
        if shown:
            self.render()
        return result if len(result) == 5 else _of_five(*result)

    def _step_of_four(self, action: Any) -> Step:
        return _of_five(*self.inner.step(action))

    def _step_and_show(self, action: Any) -> Step:
        """Before 0.26 an environment did not show itself."""
        result = self.inner.step(action)
        self.render()
        return result if len(result) == 5 else _of_five(*result)

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
        if options is not None and "options" in self._reset_takes:  # else they mean nothing to it
            arguments["options"] = options
        if "return_info" in self._reset_takes:
            arguments["return_info"] = True
        result = self.inner.reset(**arguments)
        if self._returns_info is None:
            self._returns_info = self._is_pair(result)
        if self.render_mode == "human" and self._renders_by_mode:
            self.render()
        return result if self._returns_info else (result, {})

    def _is_pair(self, result: Any) -> bool:
        """Whether it is an observation with its info; an observation may be a tuple too."""
        pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
        return pair and not self.observation_space.contains(result)

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
    """An environment written for OpenAI's Gym, wrapped or not, as an Env in its guard.

    ``render_mode`` is for environments that take it when they render; newer ones were made with it. Actions are checked
    unless ``validate`` is False. To have lanes, a wall or a server, name it: ``paddock.make("gym:ID")``.
    """
    made = FromGym(env, render_mode)
    if render_mode is not None and made.render_mode != render_mode:
        raise UnsupportedMode(
            f"render_mode={render_mode!r}: {env} was made with render_mode={made.render_mode!r}, and keeps it. Pass "
            f"the mode where you make it."
        )
    made.spec = _known_spec(env)
    return Guard(made, validate=validate)


def spec_of(id: str) -> EnvSpec:
    """Ours for an id that is registered in Gym; ``module:Id-v0`` imports that module first."""
    theirs = _registered(id)
    module, _, _ = id.rpartition(":")
    return _our_spec(f"{module}:{theirs.id}" if module else theirs.id, theirs)


def modern(metadata: Any) -> Info:
    """Gym's metadata with the newer names of what it says."""
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
        """What the environment's class says of itself, its render modes for one."""
        return modern(getattr(self._creator(_registered(self.id)), "metadata", None))

    def __call__(self, **kwargs: Any) -> FromGym:
        bare = copy(_registered(self.id))
        # The guard does all three. Versions that do not know one of these do not mind it.
        bare.max_episode_steps, bare.order_enforce, bare.disable_env_checker = None, False, True
        creator = self._creator(bare)
        mode = kwargs.pop("render_mode", None)
        converted = getattr(bare, "apply_api_compatibility", False)
        if mode is not None and (converted or "render_mode" in _parameters(creator)):
            kwargs["render_mode"] = mode
        with our_errors(library_family("gym", self.id), self.id):
            env = bare.make(**kwargs)
        return FromGym(env, mode)

    def _creator(self, spec: Any) -> Any:
        if not isinstance(spec.entry_point, str):
            return spec.entry_point
        module, _, name = spec.entry_point.partition(":")
        with our_errors(library_family("gym", self.id), self.id):
            return getattr(importlib.import_module(module), name)


def _of_five(observation: Any, reward: SupportsFloat, done: Any, info: Info) -> Step:
    """Before 0.26 what ends an episode was one flag, and the time limit said in the info that it was the limit."""
    if not done:
        return observation, reward, False, False, info
    truncated = bool(info.get("TimeLimit.truncated", False))
    return observation, reward, not truncated, truncated, info


def _bare(env: Any) -> Any:
    return getattr(env, "unwrapped", env)


def _renders_by_mode(env: Any) -> bool:
    """Whether ``render`` is told the mode; 0.25 hides the argument, and then the older name in the metadata says it."""
    said = getattr(env, "metadata", None) or {}
    older = "render.modes" in said and "render_modes" not in said
    return older or "mode" in _parameters(getattr(_bare(env), "render", None))


def _taken_by_reset(env: Any) -> frozenset[str]:
    """The arguments that ``reset`` takes through all wrappers; the innermost names them, others may pass them on."""
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


def _known_spec(env: Any) -> EnvSpec | None:
    """By which ``paddock.make`` makes such an environment again, without wrappers that others put around it."""
    theirs = getattr(env, "spec", None)
    try:
        return None if theirs is None else _our_spec(theirs.id, theirs)
    except (InvalidSpec, InvalidId):
        return None


def _our_spec(id: str, theirs: Any) -> EnvSpec:
    return EnvSpec(
        id,
        entry_point=_ENTRY_POINT,
        reward_threshold=theirs.reward_threshold,
        nondeterministic=theirs.nondeterministic,
        max_episode_steps=theirs.max_episode_steps,
        kwargs=deepcopy(getattr(theirs, "kwargs", None) or getattr(theirs, "_kwargs", None) or {}),
    )


def _registered(id: str) -> Any:
    """Gym's spec; without a version the newest."""
    module, _, name = id.rpartition(":")
    with our_errors(installed_family("gym", id), id):
        import gym

        if module:
            importlib.import_module(module)
        registry = gym.envs.registry
        known = registry if isinstance(registry, dict) else registry.env_specs
        versions = [int(match[2]) for one in known if (match := _ID.fullmatch(one)) and match[1] == name]
        return gym.spec(f"{name}-v{max(versions)}" if versions else name)
