"""A small functional environment as gymnax's were before 1.0, without gymnax: one flag for both ways to end."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Box(NamedTuple):
    low: float
    high: float
    shape: tuple
    dtype: object = jnp.float32


class Choice(NamedTuple):
    n: int


class Parts(NamedTuple):
    spaces: dict


class State(NamedTuple):
    place: jax.Array
    steps: jax.Array
    time: int


class Params(NamedTuple):
    goal: float = 3.0
    max_steps_in_episode: int = 6

    def replace(self, **changes):
        return self._replace(**changes)


class Drift:
    default_params = Params()

    def reset_env(self, key, params):
        state = State(jax.random.uniform(key), jnp.zeros(2, jnp.int8), 0)
        return self._seen(state), state

    def step_env(self, key, state, action, params):
        place = state.place + action + 0.1 * jax.random.normal(key)
        state = State(place, state.steps.at[action].add(1), state.time + 1)
        ended = (place > params.goal) | (state.time >= params.max_steps_in_episode)
        return self._seen(state), state, place, ended, {"steps": state.steps, "far": place > 1}

    def _seen(self, state):
        return {"place": state.place[None], "moved": state.steps[1].astype(jnp.int32)}

    def observation_space(self, params):
        return Parts({"place": Box(-100.0, 100.0, (1,)), "moved": Choice(100)})

    def action_space(self, params):
        return Choice(2)


class Endless(Drift):
    """Nothing in it counts."""

    default_params = None

    def step_env(self, key, state, action, params):
        return super().step_env(key, state, action, Params(2.0, 1 << 20))


def drift():
    return Drift()


def played_by_functions(seed, chosen, params=None):
    """What the functions alone compute, with a key that is split for each call as in gymnax's adapter."""
    params = params or Params()
    reset, step, key = jax.jit(Drift().reset_env), jax.jit(Drift().step_env), jax.random.PRNGKey(seed)
    key, now = jax.random.split(key)
    seen, state = reset(now, params)
    yield seen, {}
    for action in chosen:
        key, now = jax.random.split(key)
        seen, state, reward, ended, info = step(jax.random.split(now)[0], state, int(action), params)
        late = bool(state.time >= params.max_steps_in_episode)
        yield seen, float(reward), bool(ended) and not late, bool(ended) and late, info
        if ended:
            key, now = jax.random.split(key)
            seen, state = reset(now, params)
            yield seen, {}
