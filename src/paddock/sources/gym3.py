"""gym3: an environment with one lane as an Env, such as Procgen's games, and one with more as a VectorEnv.

gym3 begins the next episode by itself and never shows an episode's last observation. So the step that ends an episode
returns the observation before it once more, as gym3's own adapter does, and the ``reset`` after it shows the episode
that has begun; none is skipped. gym3 only says that an episode ended: all are ``terminated``, by a time limit too.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from hashlib import sha256
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.problem import warn_user
from paddock.core.spec import EnvSpec
from paddock.core.state import State, open_snapshot, random_name, seal_snapshot
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import (
    CustomSpaceError,
    InvalidAction,
    InvalidLanes,
    InvalidSnapshot,
    NameNotFound,
    ResetNeeded,
    SnapshotUnsupported,
    UnsupportedMode,
    WrongClass,
)
from paddock.sources.families import installed_family, library_family
from paddock.sources.foreign import Maker, find_seed_argument, fit_seed, import_function, importing
from paddock.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from paddock.spaces.batch import batch_space, row
from paddock.spaces.conform import conform
from paddock.wrappers.guard import Guard

_ENTRY_POINT = "paddock.sources.gym3:FromGym3"
_SEED_BITS = 31  # of what its C interface takes
FPS = 15  # of Procgen's videos
_LAYER = "procgen"  # of a snapshot
# Options of a game that its states do not depend on.
_FREE = frozenset(("rand_seed", "num_threads", "resource_root", "render_human"))
_RESTART = -1  # the action by which Procgen ends an episode early


class FromGym3(Env[Any, Any]):
    """Steps ``gym3_env``, which has one lane. ``remake`` makes another for a seed: there is no other way."""

    def __init__(self, env: Any, *, remake: Callable[[int], Any] | None = None) -> None:
        self.gym3_env = env
        self.observation_space = space_of(env.ob_space)
        self.action_space = space_of(env.ac_space)
        drawn = "rgb" in env.get_info()[0]
        self.metadata = {"render_modes": ["rgb_array"] if drawn else [], "render_fps": FPS}
        self.render_mode = "rgb_array" if drawn else None
        self._remake = remake
        self._frame: Any = None
        self._observation: Any = None
        self._at_beginning = bool(env.observe()[2][0])

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Maker:
        """Return what makes the environment that this spec's id names."""
        return Maker(partial(_make, spec.id), {"render_modes": ["rgb_array"]})

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        env = self.gym3_env
        env.act(batch_of(env.ac_space, action))
        reward, batch, first = env.observe()
        info = env.get_info()[0]
        frame = info.pop("rgb", None)
        self._at_beginning = ended = bool(first[0])
        if ended:  # what was observed belongs to the next episode: reset() shows it
            return deepcopy(self._observation), float(reward[0]), True, False, info
        self._frame = frame
        self._observation = observation = first_of(batch)
        return observation, float(reward[0]), False, False, info

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        if seed is not None:
            self._begin_with(seed)
        elif not self._at_beginning:
            self._end_early()
        info = self._look()
        return self._observation, info

    def _look(self) -> Info:
        """Take in where the environment is, and return its info."""
        _, batch, first = self.gym3_env.observe()
        info: Info = self.gym3_env.get_info()[0]
        self._frame = info.pop("rgb", None)
        self._observation, self._at_beginning = first_of(batch), bool(first[0])
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
        old, self.gym3_env = self.gym3_env, self._remake(fit_seed(seed, _SEED_BITS))
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
        game, identity = self._require_game()
        (state,) = game.get_state()
        return seal_snapshot(_LAYER, [identity, sha256(state).hexdigest()], state)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot. Procgen reads its states carelessly: only restore snapshots from sources you trust.

        It ends the process when it can't read a state. So the digest keeps broken ones away from it, and a state of
        another game or other options is refused before it is read; a carefully forged state is not.
        """
        game, own_identity = self._require_game()
        (identity, digest), state = open_snapshot(_LAYER, snapshot, tuple[dict[str, Any], str])
        if identity != own_identity or digest != sha256(state).hexdigest():
            raise InvalidSnapshot(
                f"This is not a snapshot of {game.options['env_name']!r} with the same options, or it is broken."
            )
        game.set_state([state])
        self._look()

    def _require_game(self) -> tuple[Any, dict[str, Any]]:
        """Return Procgen's environment, and the options that its states depend on."""
        game = innermost(self.gym3_env)
        if not is_procgen(game):
            raise SnapshotUnsupported(
                f"{type(game).__name__} can't save its state: among gym3's environments Procgen's can. Make it again "
                f"with the same seed and repeat the actions."
            )
        return game, {name: value for name, value in game.options.items() if name not in _FREE}

    def __deepcopy__(self, memo: dict[int, Any]) -> FromGym3:
        snapshot = self.snapshot()
        if self._remake is None:
            raise SnapshotUnsupported(
                "An environment that was passed in can't be copied. Name it: paddock.make('gym3:procgen/coinrun')."
            )
        other = type(self)(self._remake(0), remake=self._remake)
        memo[id(self)] = other
        other.spec, other._np_random = deepcopy((self.spec, self._np_random), memo)
        other._np_random_seed = self._np_random_seed
        other.restore(snapshot)
        return other


def from_gym3(env: Any, *, validate: bool = True) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """Return a ``gym3.Env`` with one lane as an Env in its guard, one with more as a VectorEnv.

    To choose seeds, or for a wall or a server, name what makes it: ``paddock.make("gym3:procgen/coinrun")``.
    """
    return Guard(FromGym3(env), validate=validate) if check_env(env).num == 1 else Gym3Lanes(env)


def spec_of(id: str) -> EnvSpec:
    """Return the spec of ``procgen/game``, or of ``module:function``, which is called with ``make``'s arguments."""
    maker_of(id)
    return EnvSpec(id, entry_point=_ENTRY_POINT)


def _make(id: str, /, *, render_mode: str | None = None, **kwargs: Any) -> FromGym3:
    """Make the environment with this name; arguments are the library's own, except ``num`` and ``rand_seed``."""
    drawn = {} if render_mode is None else {"render_mode": render_mode}
    function = partial(maker_of(id), **drawn, **kwargs)
    seed = find_seed_argument(function)
    remake = None if seed is None or seed in kwargs else (lambda value: check_env(function(**{seed: value}), 1))
    return FromGym3(check_env(function(), 1), remake=remake)


def maker_of(id: str) -> Callable[..., Any]:
    """Return the function that makes what the id names; imports its code."""
    family = installed_family("gym3", id)
    if family.name != "Procgen":
        return import_function(id, "gym3")
    with importing(family, id):
        from procgen import ProcgenGym3Env
        from procgen.env import ENV_NAMES
    game = id.partition("/")[2]
    if game not in ENV_NAMES:
        raise NameNotFound(f"Procgen has no game {game!r}. Expected one of {', '.join(ENV_NAMES)}.")

    def procgen(*, rand_seed: int | None = None, num_threads: int = 0, **kwargs: Any) -> Any:
        return ProcgenGym3Env(1, game, rand_seed=rand_seed, num_threads=num_threads, **kwargs)

    return procgen


def check_env(env: Any, lanes: int | None = None) -> Any:
    """Return ``env`` if it is an environment of gym3 with that many lanes, else raise WrongClass."""
    library_family("gym3", "module:function").check_installed_for("from_gym3()")
    import gym3

    if not isinstance(env, gym3.Env):
        raise WrongClass(f"Expected a gym3.Env, got {type(env).__name__}.")
    if lanes is not None and env.num != lanes:
        raise WrongClass(
            f"Expected a gym3.Env with num=1, got num={env.num}. With more: paddock.sources.from_gym3(env)."
        )
    return env


def innermost(env: Any) -> Any:
    """Return the environment inside gym3's own wrappers."""
    while hasattr(env, "env"):
        env = env.env
    return env


def is_procgen(env: Any) -> bool:
    """Whether it is one of Procgen's, wrapped or not."""
    return type(innermost(env)).__module__.partition(".")[0] == "procgen"


def end_early(env: Any) -> bool:
    """Begin the next episode in all lanes now, if the library can; return whether it did."""
    if not is_procgen(env):
        return False
    env.act(np.full(env.num, _RESTART, np.int32))
    return True


def close(env: Any) -> None:
    """Close it, if it can be closed. gym3's own wrappers do not pass that on."""
    if hasattr(innermost(env), "close"):
        innermost(env).close()


Array = np.ndarray[Any, Any]


class Gym3Lanes(VectorEnv[Any, Any, Array]):
    """The lanes of ``gym3_env``, stepped by the library in one call. Autoreset is SAME_STEP, as gym3 does it.

    The lanes share one seed, given when they were made, so lane i is not the environment that ``make`` gives for
    seed + i. gym3 never shows an episode's last observation: ``info["final_obs"]`` is the one before it.
    rewards: float64[n]; flags: bool[n].
    """

    def __init__(self, env: Any) -> None:
        self.gym3_env = env
        self.num_envs = env.num
        self.single_observation_space = space_of(env.ob_space)
        self.single_action_space = space_of(env.ac_space)
        self.observation_space = batch_space(self.single_observation_space, env.num)
        self.action_space = batch_space(self.single_action_space, env.num)
        self.render_mode = "rgb_array" if "rgb" in env.get_info()[0] else None
        modes = [] if self.render_mode is None else [self.render_mode]
        self.metadata = {"render_modes": modes, "render_fps": FPS, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._observations: Any = None
        self._names: list[str] = []
        self._steps = np.zeros(env.num, np.int64)

    def reset(self, *, seed: Any = None, options: Info | None = None) -> tuple[Any, Info]:
        """Show every lane's first observation. Lanes in the middle of an episode end it where the library can."""
        if options is not None and "reset_mask" in options:
            raise InvalidLanes("gym3 can't restart some lanes alone: all of them step together. Drop reset_mask.")
        if seed is not None:
            warn_user("reset(seed=) seeds nothing: gym3 takes a seed when an environment is made.")
        env = self.gym3_env
        if not env.observe()[2].all() and not end_early(env):
            warn_user("gym3 can't end an episode early: reset() goes on with those that run.")
        _, self._observations, _ = env.observe()
        self._names = [random_name() for _ in range(env.num)]
        self._steps[:] = 0
        return self._observations, self._infos()

    def send(self, actions: Any) -> None:
        if not self._names:
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        try:
            admitted = conform(self.action_space, rows_of(self.gym3_env.ac_space, actions))
        except (TypeError, ValueError, LookupError) as error:  # Nonconforming among them
            raise InvalidAction(f"{error}", action=actions, space=self.action_space) from None
        self.gym3_env.act(admitted)
        self._sent = True

    def recv(self) -> tuple[Any, Array, Array, Array, Info]:
        self._take_sent()
        before = self._observations
        rewards, self._observations, first = self.gym3_env.observe()
        infos = self._infos()
        self._steps += 1
        for lane in np.flatnonzero(first).tolist():
            last = deepcopy(row(self.single_observation_space, before, lane))
            infos = self._add_info(infos, {"final_obs": last, "final_info": {}}, lane)
            self._names[lane], self._steps[lane] = random_name(), 0
        return self._observations, rewards.astype(np.float64), first, np.zeros(self.num_envs, np.bool_), infos

    def _infos(self) -> Info:
        infos: Info = {}
        for lane, info in enumerate(self.gym3_env.get_info()):
            infos = self._add_info(infos, {key: value for key, value in info.items() if key != "rgb"}, lane)
        return infos

    def state(self) -> tuple[State, ...]:
        names: list[Any] = self._names or [None] * self.num_envs
        return tuple(State(name, int(steps)) for name, steps in zip(names, self._steps, strict=True))

    def render(self) -> tuple[Any, ...] | None:
        return None if self.render_mode is None else tuple(info["rgb"] for info in self.gym3_env.get_info())

    def close_extras(self, **kwargs: Any) -> None:
        close(self.gym3_env)


def space_of(kind: Any) -> Space[Any]:
    """Return the space of one lane's values. Types are recognised by their fields, without gym3."""
    if _is_dict(kind):
        return Dict({key: space_of(part) for key, part in kind.items()}, sort_keys=False)
    element = getattr(kind, "eltype", None)
    if element is None:
        raise CustomSpaceError(f"{kind!r} has no counterpart in paddock. Expected a TensorType or DictType of gym3.")
    dtype = np.dtype(element.dtype_name)
    if not hasattr(element, "n"):
        return Box(-np.inf, np.inf, kind.shape, dtype)
    if kind.shape == ():
        return Discrete(element.n)
    if len(kind.shape) == 1:
        return MultiDiscrete(np.full(kind.shape, element.n), dtype=dtype)
    return Box(0, element.n - 1, kind.shape, dtype)  # pictures


def first_of(batch: Any) -> Any:
    """Return the value of lane 0, arrays as views."""
    if isinstance(batch, dict):
        return {key: first_of(part) for key, part in batch.items()}
    if batch.ndim > 1:
        return batch[0]
    return np.int64(batch[0]) if batch.dtype.kind in "iu" else batch[:1].reshape(())


def batch_of(kind: Any, value: Any) -> Any:
    """Return one value as a batch of one, with the type's own dtype."""
    if _is_dict(kind):
        return {key: batch_of(part, value[key]) for key, part in kind.items()}
    return np.asarray(value, kind.eltype.dtype_name)[None]


def rows_of(kind: Any, values: Any) -> Any:
    """Return a batch of numbers with the type's own dtype; ValueError if one of them would change."""
    if _is_dict(kind):
        return {key: rows_of(part, values[key]) for key, part in kind.items()}
    given = np.asarray(values)
    rows = given.astype(kind.eltype.dtype_name, casting="same_kind")
    if rows.dtype.kind != "f" and not np.array_equal(rows, given):
        raise ValueError(f"{given!r} does not fit {rows.dtype}")
    return rows


def _is_dict(kind: Any) -> bool:
    return hasattr(kind, "items")
