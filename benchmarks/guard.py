"""What make()'s guard adds to a step, against what Gymnasium's default stack adds, around an env whose step is free.

    python benchmarks/guard.py

Bar: with Discrete actions (int and np.int64) at most 0.6x of Gymnasium's addition. Box costs are printed per shape.
"""

import contextlib
import statistics
import sys
import time

import gymnasium
import numpy as np

import paddock.spaces
from paddock import Env
from paddock.wrappers import Guard

ROUNDS, STEPS, BAR = 15, 20_000, 0.6
RESULT = (None, 0.0, False, False, {})


def free(base, observation_space, action_space):
    class Free(base):
        def __init__(self):
            self.observation_space, self.action_space = observation_space, action_space

        def reset(self, *, seed=None, options=None):
            return observation_space.sample(), {}

        def step(self, action):
            return RESULT

    return Free()


def ours(space):
    return free(Env, paddock.spaces.Discrete(2), space)


def theirs(space):
    return free(gymnasium.Env, gymnasium.spaces.Discrete(2), space)


def gym_stack(env):
    wrappers = gymnasium.wrappers
    return wrappers.TimeLimit(wrappers.OrderEnforcing(wrappers.PassiveEnvChecker(env)), 10**9)


def ready(env):
    """Reset, and past the first step, which both sides check more closely."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env.reset(seed=0)
        with contextlib.suppress(AssertionError):  # RESULT's observation is None: the passive check says so once
            env.step(env.action_space.sample())
        env.reset()
    return env


def ns_per_step(env, action):
    step, begin = env.step, time.perf_counter()
    for _ in range(STEPS):
        step(action)
    return (time.perf_counter() - begin) / STEPS * 1e9


def added(cases):
    """Median ns a step of each case, all cases interleaved in each round."""
    times = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, (env, action) in cases.items():
            times[name].append(ns_per_step(env, action))
    return {name: statistics.median(values) for name, values in times.items()}


def guard(space, **options):
    env = Guard(ours(space), max_episode_steps=10**9, **options)
    env._unchecked = set()
    env.reset()
    return env


def main() -> int:
    discrete = paddock.spaces.Discrete(2)
    failed = False
    print(f"{'action':10} {'bare ns':>8} {'gymnasium +ns':>14} {'guard +ns':>10} {'ratio':>6}  bar {BAR}")
    for name, action in {"int": 1, "np.int64": np.int64(1)}.items():
        cases = {
            "bare": (ours(discrete), action),
            "gymnasium": (ready(gym_stack(theirs(gymnasium.spaces.Discrete(2)))), action),
            "guard": (guard(discrete), action),
        }
        ns = added(cases)
        gym_added, guard_added = ns["gymnasium"] - ns["bare"], ns["guard"] - ns["bare"]
        ratio = guard_added / gym_added
        failed |= ratio > BAR
        verdict = "ok" if ratio <= BAR else "MISSED"
        print(f"{name:10} {ns['bare']:8.0f} {gym_added:14.0f} {guard_added:10.0f} {ratio:6.2f}  {verdict}")
    print(f"\n{'Box shape':12} {'strict +ns':>11} {'gym door +ns':>13}   (Gymnasium validates nothing)")
    for shape in [(1,), (2,), (6,), (17,), (64,), (84, 84, 3)]:
        space = paddock.spaces.Box(-1, 1, shape, dtype=np.float32)
        action = space.sample()
        guards = {"strict": guard(space), "gym": guard(space, strict=False), "bare": ours(space)}
        ns = added({name: (env, action) for name, env in guards.items()})
        print(f"{shape!s:12} {ns['strict'] - ns['bare']:11.0f} {ns['gym'] - ns['bare']:13.0f}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
