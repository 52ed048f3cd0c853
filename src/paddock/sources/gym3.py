"""FromGym3: an environment of gym3 with one lane as an Env; Procgen's games are such ones.

gym3 begins the next episode by itself, and the last observation of an ended one is never seen. So the step that ends
an episode returns the observation before it once more, as gym3's own adapter does, and the ``reset`` after it shows
the episode that has begun; none is skipped. gym3 says only that an episode ended: it is ``terminated``, time limits
too.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import VectorEnv
from paddock.core.warning import warn_user
from paddock.errors import NameNotFound, SnapshotUnsupported, UnsupportedMode, WrongClass
from paddock.sources.families import installed_family, library_family
from paddock.sources.given_function import fitting, given_function, seed_argument
from paddock.sources.gym3_spaces import batch_of, first_of, space_of
from paddock.sources.their_errors import importing
from paddock.wrappers.guard import Guard

_ENTRY_POINT = "paddock.sources.gym3:FromGym3"
_SEED_BITS = 31  # of what its C interface takes
FPS = 15  # of Procgen's videos
_BEGIN_ANEW = -1  # the action by which Procgen ends an episode early


class FromGym3(Env[Any, Any]):
    """Steps ``gym3_env``, which has one lane. ``remake`` makes such a one for a seed: there is no other way."""

    def __init__(self, env: Any, *, remake: Callable[[int], Any] | None = None) -> None:
        self.gym3_env = env
        self.observation_space = space_of(env.ob_space)
        self.action_space = space_of(env.ac_space)
        drawn = "rgb" in env.get_info()[0]
        self.metadata = {"render_modes": ["rgb_array"] if drawn else [], "render_fps": FPS}
        self.render_mode = "rgb_array" if drawn else None
        self._remake = remake
        self._frame: Any = None
        self._seen: Any = None
        self._at_beginning = bool(env.observe()[2][0])

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> ByName:
        """What makes the environment that this spec's id names."""
        return ByName(spec.id)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        env = self.gym3_env
        env.act(batch_of(env.ac_space, action))
        reward, batch, first = env.observe()
        info = env.get_info()[0]
        frame = info.pop("rgb", None)
        self._at_beginning = ended = bool(first[0])
        if ended:  # what was observed belongs to the next episode: reset() shows it
            return deepcopy(self._seen), float(reward[0]), True, False, info
        self._frame = frame
        self._seen = observation = first_of(batch)
        return observation, float(reward[0]), False, False, info

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self._begin_with(seed)
        elif not self._at_beginning:
            self._end_early()
        info = self._look()
        return self._seen, info

    def _look(self) -> Info:
        """Take in where the environment is; its info."""
        _, batch, first = self.gym3_env.observe()
        info: Info = self.gym3_env.get_info()[0]
        self._frame = info.pop("rgb", None)
        self._seen, self._at_beginning = first_of(batch), bool(first[0])
        return info

    def _begin_with(self, seed: int) -> None:
        if self._remake is None:
            warn_user(
                f"reset(seed={seed}) seeds nothing: gym3 takes a seed when an environment is made. Name what makes it: "
                f"paddock.make('gym3:procgen/coinrun') or paddock.make('gym3:module:function')."
            )
            if not self._at_beginning:
                self._end_early()
            return
        old, self.gym3_env = self.gym3_env, self._remake(fitting(seed, _SEED_BITS))
        close(old)  # after the new one is there: with its last environment Procgen unloads its pictures

    def _end_early(self) -> None:
        if end_early(self.gym3_env):
            return
        if self._remake is not None:
            self._begin_with(int(self.np_random.integers(1 << _SEED_BITS)))
        else:
            warn_user("gym3 can't end an episode early: reset() goes on with the one that runs.")

    def render(self) -> Any:
        if self.render_mode is None:
            raise UnsupportedMode("render() needs a mode: make the environment with render_mode='rgb_array'.")
        return self._frame

    def close(self) -> None:
        close(self.gym3_env)

    def snapshot(self) -> bytes:
        """The game's whole state, its random streams included; for Procgen."""
        from paddock.sources.procgen_snapshot import saved

        return saved(self.gym3_env)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot. Procgen reads what it saved without much care: take snapshots from those you trust."""
        from paddock.sources.procgen_snapshot import restore

        restore(self.gym3_env, snapshot)
        self._look()

    def __deepcopy__(self, memo: dict[int, Any]) -> FromGym3:
        snapshot = self.snapshot()
        if self._remake is None:
            raise SnapshotUnsupported("A copy needs to know how it was made: name it, as gym3:procgen/coinrun.")
        other = type(self)(self._remake(0), remake=self._remake)
        memo[id(self)] = other
        other.spec, other._np_random = deepcopy((self.spec, self._np_random), memo)
        other._np_random_seed = self._np_random_seed
        other.restore(snapshot)
        return other


def from_gym3(env: Any, *, validate: bool = True) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """A ``gym3.Env``: with one lane as an Env in its guard, with more as a VectorEnv.

    To choose seeds, or to have a wall or a server, name what makes it: ``paddock.make("gym3:procgen/coinrun")``.
    """
    if checked(env).num == 1:
        return Guard(FromGym3(env), validate=validate)
    from paddock.sources.gym3_lanes import Gym3Lanes

    return Gym3Lanes(env)


def spec_of(id: str) -> EnvSpec:
    """For ``procgen/game``, or ``module:function``, which is called with the arguments of ``make``."""
    maker_of(id)
    return EnvSpec(id, entry_point=_ENTRY_POINT)


@dataclass(frozen=True)
class ByName:
    """Makes the environment with this name; its arguments are the library's own, but for ``num`` and ``rand_seed``."""

    id: str

    metadata = {"render_modes": ["rgb_array"]}

    def __call__(self, *, render_mode: str | None = None, **kwargs: Any) -> FromGym3:
        drawn = {} if render_mode is None else {"render_mode": render_mode}
        function = partial(maker_of(self.id), **drawn, **kwargs)
        seed = seed_argument(function)
        remake = None if seed is None or seed in kwargs else (lambda value: checked(function(**{seed: value}), 1))
        return FromGym3(checked(function(), 1), remake=remake)


def maker_of(id: str) -> Callable[..., Any]:
    """The function that makes what the id names, once its code may be imported."""
    family = installed_family("gym3", id)
    if family.name != "Procgen":
        return given_function(id, "gym3")
    with importing(family, id):
        from procgen import ProcgenGym3Env
        from procgen.env import ENV_NAMES
    game = id.partition("/")[2]
    if game not in ENV_NAMES:
        raise NameNotFound(f"Procgen has no game {game!r}. Expected one of {', '.join(ENV_NAMES)}.")

    def procgen(*, rand_seed: int | None = None, num_threads: int = 0, **kwargs: Any) -> Any:
        return ProcgenGym3Env(1, game, rand_seed=rand_seed, num_threads=num_threads, **kwargs)

    return procgen


def checked(env: Any, lanes: int | None = None) -> Any:
    """``env`` if it is an environment of gym3, with so many lanes."""
    library_family("gym3", "module:function").check_installed_for("from_gym3")
    import gym3

    if not isinstance(env, gym3.Env):
        raise WrongClass(f"Expected a gym3.Env, got {type(env).__name__}.")
    if lanes is not None and env.num != lanes:
        raise WrongClass(
            f"Expected a gym3.Env with num=1, got num={env.num}. With more: paddock.sources.from_gym3(env)."
        )
    return env


def innermost(env: Any) -> Any:
    """The environment inside gym3's own wrappers."""
    while hasattr(env, "env"):
        env = env.env
    return env


def is_procgen(env: Any) -> bool:
    """Whether it is one of Procgen's, in wrappers or not."""
    return type(innermost(env)).__module__.partition(".")[0] == "procgen"


def end_early(env: Any) -> bool:
    """Begin the next episode in all lanes now, where the library can; whether it did."""
    if not is_procgen(env):
        return False
    env.act(np.full(env.num, _BEGIN_ANEW, np.int32))
    return True


def close(env: Any) -> None:
    """Close it, where that means something: gym3's own wrappers do not pass it on."""
    if hasattr(innermost(env), "close"):
        innermost(env).close()
