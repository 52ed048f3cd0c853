"""Play an environment beside Gymnasium's and compare bit for bit; a difference says where it was."""

import gymnasium
import numpy as np

import paddock.gym
from paddock.envs.toy_text.table_env import TableEnv
from paddock.kernels import KernelEnv
from paddock.kernels.compile import compiled_run

CLASSIC = ("CartPole-v0", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")
ONE_EACH = CLASSIC[1:]
IN_PYTHON, AT_ONCE = 10**9, 0  # steps before a single environment is compiled


def compile_after(monkeypatch, steps):
    """Single environments made from now on are compiled after so many steps, whatever lies in the cache."""

    def load(kernel, layout):
        return steps == AT_ONCE and bool(compiled_run(kernel, layout))

    monkeypatch.setattr("paddock.kernels.env.load_if_cached", load)
    if steps in (IN_PYTHON, AT_ONCE):
        return
    monkeypatch.setattr(KernelEnv, "_has_quick_step", lambda self: False)  # it would not be counted
    for kind in (KernelEnv, TableEnv):
        monkeypatch.setattr(kind, "step", counting(kind.step, steps))


def counting(step, steps):
    def counted(self, action):
        self.counted = getattr(self, "counted", 0) + 1
        if self.counted == steps:
            self.compile()
        return step(self, action)

    return counted


def pair(env_id, **kwargs):
    return paddock.gym.make(env_id, **kwargs), gymnasium.make(env_id, **kwargs)


def same(ours, theirs, where=""):
    """Equal values of equal type: arrays by dtype, shape and bytes, numbers by value, containers part by part."""
    if isinstance(theirs, np.ndarray) and theirs.dtype != object:
        assert isinstance(ours, np.ndarray), where
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), where
        assert ours.tobytes() == theirs.tobytes(), f"{where}: {ours} is not {theirs}"
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs) or sorted(ours) == sorted(theirs), f"{where}: {list(ours)}, {list(theirs)}"
        for key in theirs:
            same(ours[key], theirs[key], f"{where}[{key!r}]")
    elif isinstance(theirs, (tuple, list, np.ndarray)):
        assert len(ours) == len(theirs), where
        for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            same(mine, other, f"{where}[{at}]")
    elif isinstance(theirs, (float, np.floating)):
        assert np.float64(ours).tobytes() == np.float64(theirs).tobytes(), f"{where}: {ours!r} is not {theirs!r}"
    else:
        assert ours == theirs, f"{where}: {ours!r} is not {theirs!r}"


def alike(mine, other):
    """``same`` for most steps, without the words for where they differ."""
    (seen, reward, *rest), (their_seen, their_reward, *their_rest) = mine, other
    equal = seen.dtype is their_seen.dtype and seen.tobytes() == their_seen.tobytes()
    return equal and type(reward) is float and reward == their_reward != 0.0 and rest == their_rest


def action_for(space, rng):
    """Any action; for a Box also some that are outside, which Gymnasium's environments clip."""
    if hasattr(space, "n"):
        return int(rng.integers(space.n))
    return (rng.uniform(-1.5, 1.5, space.shape) * space.high).astype(np.float32)


def eager_action(env_id, seen, rng):
    """An action that goes somewhere, so that episodes also end by reaching a goal."""
    match env_id:
        case "MountainCar-v0":
            return 2 if seen[1] >= 0 else 0
        case "MountainCarContinuous-v0":
            return np.array([np.copysign(rng.uniform(0.5, 1.3), seen[1])], np.float32)
        case "Acrobot-v1":
            return 2 if seen[4] < 0 else 0
        case "Pendulum-v1":
            return np.array([np.copysign(1.9, seen[2])], np.float32)
    return int(seen[2] + 0.5 * seen[3] > 0)


def play(ours, theirs, env_id, rng, *, seed=None, options=None, eager=False, steps=10**9):
    """One episode, or so many steps of it, on both sides; whether it terminated."""
    mine, other = ours.reset(seed=seed, options=options), theirs.reset(seed=seed, options=options)
    same(mine, other, f"{env_id} seed {seed} reset")
    return go_on(ours, theirs, env_id, rng, mine[0], eager=eager, steps=steps)


def go_on(ours, theirs, env_id, rng, seen=None, *, eager=False, steps=10**9):
    """The rest of an episode, or so many steps of it, on both sides; whether it terminated."""
    for at in range(steps):
        action = eager_action(env_id, seen, rng) if eager else action_for(theirs.action_space, rng)
        mine, other = ours.step(action), theirs.step(action)
        if not alike(mine, other):
            same(mine, other, f"{env_id} step {at}, action {action}")
        seen = mine[0]
        if mine[2] or mine[3]:
            return mine[2]
    return False


def trace(env, rng, steps):
    """What so many steps give; an episode that ends begins anew."""
    seen = []
    for _ in range(steps):
        result = env.step(action_for(env.action_space, rng))
        seen.append(result)
        if result[2] or result[3]:
            seen.append(env.reset())
    return seen
