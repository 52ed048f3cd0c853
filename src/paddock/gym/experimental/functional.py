"""``gymnasium.experimental.functional``: an environment as pure functions, whose state the caller carries.

For authors who use that API, with JAX mostly; paddock's own environments are kernels, see ``docs/kernels.md``. JAX is
imported when a FunctionalJaxEnv is made (``gymnasium.envs.functional_jax_env``).
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from paddock.core.env import AnyByDefault, Env, Info
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import DependencyNotInstalled, InvalidAction, ResetNeeded, UnsupportedMode
from paddock.seeding import np_random, to_seed
from paddock.spaces import Space, batch_space

StateType = TypeVar("StateType")
ActType = TypeVar("ActType")
ObsType = TypeVar("ObsType")
RewardType = TypeVar("RewardType")
TerminalType = TypeVar("TerminalType")
RenderStateType = TypeVar("RenderStateType")
Params = TypeVar("Params")


class FuncEnv(AnyByDefault, Generic[StateType, ObsType, ActType, RewardType, TerminalType, RenderStateType, Params]):
    """Subclasses set both spaces and write ``initial``, ``transition``, ``observation``, ``reward`` and ``terminal``.

    ``options`` become attributes, for the constants that the functions read. ``rng`` is whatever the author's numbers
    come from: a JAX key, or a NumPy Generator.
    """

    observation_space: Space[Any]
    action_space: Space[Any]

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        vars(self).update(options or {})
        self.default_params = self.get_default_params()

    def initial(self, rng: Any, params: Params | None = None) -> StateType:
        """The first state of an episode."""
        raise self._missing("initial")

    def transition(self, state: StateType, action: ActType, rng: Any, params: Params | None = None) -> StateType:
        """The state that follows."""
        raise self._missing("transition")

    def observation(self, state: StateType, rng: Any, params: Params | None = None) -> ObsType:
        """The observation of a state."""
        raise self._missing("observation")

    def reward(
        self, state: StateType, action: ActType, next_state: StateType, rng: Any, params: Params | None = None
    ) -> RewardType:
        """The reward of a step."""
        raise self._missing("reward")

    def terminal(self, state: StateType, rng: Any, params: Params | None = None) -> TerminalType:
        """Whether a state ends the episode."""
        raise self._missing("terminal")

    def state_info(self, state: StateType, params: Params | None = None) -> dict[str, Any]:
        """The info of a state."""
        return {}

    def transition_info(
        self, state: StateType, action: ActType, next_state: StateType, params: Params | None = None
    ) -> dict[str, Any]:
        """The info of a step."""
        return {}

    def transform(self, func: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace each function by ``func`` of it, ``jax.vmap`` say. Rendering stays as it is."""
        for name in _TRANSFORMED:
            setattr(self, name, func(getattr(self, name)))
        self.step_info = self.transition_info  # the name under which Gymnasium leaves the transformed one

    def render_image(
        self, state: StateType, render_state: RenderStateType, params: Params | None = None
    ) -> tuple[RenderStateType, np.ndarray[Any, Any]]:
        """The state as a picture, and what the next picture needs."""
        raise self._missing("render_image")

    def render_init(self, params: Params | None = None, **kwargs: Any) -> RenderStateType:
        """What the first picture needs."""
        raise self._missing("render_init")

    def render_close(self, render_state: RenderStateType, params: Params | None = None) -> None:
        """Free it."""
        raise self._missing("render_close")

    def get_default_params(self, **kwargs: Any) -> Params | None:
        """The params for callers who pass none."""
        return None

    def _missing(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {name}().")


_TRANSFORMED = ("initial", "transition", "observation", "reward", "terminal", "state_info", "transition_info")


def _load_jax() -> Any:
    try:
        import jax
        import jax.numpy
        import jax.random
    except ImportError:
        raise DependencyNotInstalled("A FuncEnv runs through JAX, which is not installed: pip install jax") from None
    return jax


class _Functional:
    """A FuncEnv run through JAX: its key, and its pictures, whose state between two of them is kept here."""

    _jax: Any
    func_env: Any
    rng: Any
    render_mode: str | None
    render_state: Any = None

    def _begin(self, metadata: dict[str, Any], render_mode: str | None, spec: EnvSpec | None) -> None:
        self.metadata, self.render_mode, self.spec = metadata, render_mode, spec
        generator, _ = np_random()  # from the system's entropy
        self.rng = self._jax.random.PRNGKey(int(generator.integers(0, 2**32 - 1)))
        if render_mode == "rgb_array":
            self.render_state = self.func_env.render_init()

    def _next_key(self) -> Any:
        key, self.rng = self._jax.random.split(self.rng)
        return key

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        super().reset(seed=seed)  # type: ignore[misc]  # of Env or VectorEnv
        if seed is not None:
            self.rng = self._jax.random.PRNGKey(to_seed(seed))
        key = self._next_key()
        self.state = self.func_env.initial(rng=key)
        return self.func_env.observation(self.state, key), self.func_env.state_info(self.state)

    def _picture(self, state: Any) -> Any:
        if self.render_mode != "rgb_array":
            raise UnsupportedMode(f"render_mode={self.render_mode!r}: a FuncEnv only renders in mode 'rgb_array'.")
        self.render_state, image = self.func_env.render_image(state, self.render_state)
        return image

    def _end_rendering(self) -> None:
        if self.render_state is not None:
            self.func_env.render_close(self.render_state)
            self.render_state = None


class FunctionalJaxEnv(_Functional, Env[Any, Any], Generic[StateType]):
    """A FuncEnv, run through JAX. ``metadata["jax"]`` says that observations are JAX arrays."""

    state: StateType

    def __init__(
        self,
        func_env: FuncEnv[Any, Any, Any, Any, Any, Any, Any],
        metadata: dict[str, Any] | None = None,
        render_mode: str | None = None,
        spec: EnvSpec | None = None,
    ) -> None:
        self._jax = _load_jax()
        self.func_env = func_env
        self.observation_space, self.action_space = func_env.observation_space, func_env.action_space
        self._begin({"render_modes": [], "jax": True} if metadata is None else metadata, render_mode, spec)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        if "state" not in vars(self):
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        env, before, key = self.func_env, self.state, self._next_key()
        after = env.transition(before, action, key)
        reward, terminated = env.reward(before, action, after, key), env.terminal(after, key)
        info = env.transition_info(before, action, after)
        self.state = after
        return env.observation(after, key), float(reward), bool(terminated), False, info

    def render(self) -> Any:
        return self._picture(self.state)

    def close(self) -> None:
        self._end_rendering()


class FunctionalJaxVectorEnv(_Functional, VectorEnv[ObsType, ActType, Any], Generic[ObsType, ActType, StateType]):
    """n lanes by ``jax.vmap``. A lane that ended ignores its next action and starts an episode, with reward 0.

    The other lanes move on in that step. ``max_episode_steps=0`` sets no limit. ``func_env`` itself is left as it is: a
    copy of it is transformed. As in Gymnasium ``state`` is the state of all lanes, an array or a tree of them.
    """

    state: StateType  # type: ignore[assignment]

    def __init__(
        self,
        func_env: FuncEnv[StateType, ObsType, ActType, Any, Any, Any, Any],
        num_envs: int,
        max_episode_steps: int = 0,
        metadata: dict[str, Any] | None = None,
        render_mode: str | None = None,
        spec: EnvSpec | None = None,
    ) -> None:
        self._jax = _load_jax()
        self.func_env = copy.copy(func_env)
        self.func_env.transform(self._jax.vmap)
        self.num_envs, self.time_limit = num_envs, max_episode_steps
        self.single_observation_space, self.single_action_space = func_env.observation_space, func_env.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        default = {"autoreset_mode": AutoresetMode.NEXT_STEP, "jax": True}
        self._begin(default if metadata is None else metadata, render_mode, spec)
        self._forget_episodes()

    def _forget_episodes(self) -> None:
        self.steps = self._jax.numpy.zeros(self.num_envs, dtype=np.int32)
        self.prev_done = self._jax.numpy.zeros(self.num_envs, dtype=np.bool_)

    def _next_key(self) -> Any:
        """One key per lane."""
        return self._jax.random.split(super()._next_key(), self.num_envs)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        result = super().reset(seed=seed, options=options)
        self._forget_episodes()
        return result

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Info]:
        if "state" not in vars(self):
            raise ResetNeeded("Cannot call env.step() before calling env.reset()")
        if len(action) != self.num_envs:
            raise InvalidAction(f"{len(action)} actions for {self.num_envs} lanes.", action=action)
        xp, env, before, begin = self._jax.numpy, self.func_env, self.state, self.prev_done
        keys = self._next_key()
        after = env.transition(before, action, keys)
        reward = env.reward(before, action, after, keys)
        terminated = env.terminal(after, keys)
        info = env.transition_info(before, action, after)
        steps = self.steps + 1
        truncated = steps >= self.time_limit if self.time_limit > 0 else xp.zeros_like(terminated)
        if bool(begin.any()):

            def choose(first: Any, other: Any) -> Any:
                return xp.where(begin.reshape(-1, *(1,) * (first.ndim - 1)), first, other)

            after = self._jax.tree_util.tree_map(choose, env.initial(self._next_key()), after)
            steps, reward = xp.where(begin, 0, steps), xp.where(begin, 0, reward)
            terminated, truncated = terminated & ~begin, truncated & ~begin
        self.state, self.steps, self.prev_done = after, steps, terminated | truncated
        # Not the keys of the transition, nor a draw from the stream: a noisy eye changes nothing of what happens.
        noise = self._jax.vmap(self._jax.random.fold_in, in_axes=(0, None))(keys, 1)
        return env.observation(after, noise), reward, terminated, truncated, info

    def render(self) -> tuple[Any, ...]:
        """One picture per lane."""
        choose = self._jax.tree_util.tree_map
        states = [choose(operator.itemgetter(lane), self.state) for lane in range(self.num_envs)]
        return tuple(map(self._picture, states))

    def close_extras(self, **kwargs: Any) -> None:
        self._end_rendering()
