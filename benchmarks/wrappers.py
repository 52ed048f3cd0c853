"""Time that a wrapper adds to a step, around an environment whose step is free, against Gymnasium's in the same run.

    python benchmarks/wrappers.py [name …]

Bars are shares of Gymnasium's added time: those of the issue, 1.05 for all others, 1/2 for n = 1024 lanes. A wrapper
joins by a row in SINGLE or VECTOR. Medians of interleaved rounds.
"""

import itertools
import statistics
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces as their_spaces
from gymnasium.vector import VectorEnv as TheirVectorEnv
from gymnasium.wrappers import vector as their_vector

import paddock
from paddock import spaces as our_spaces
from paddock.wrappers import vector as our_vector

ROUNDS, SECONDS, LANES, OTHERS = 15, 0.02, 1024, 1.05

# name, arguments, bar, observation
SINGLE = [
    ("ClipReward", (-1.0, 1.0), 1 / 5, "vector"),
    ("TransformReward", (abs,), OTHERS, "vector"),
    ("FrameStackObservation", (4,), 1 / 3, "vector"),
    ("FrameStackObservation", (4,), 1 / 3, "image"),
    ("RecordEpisodeStatistics", (), OTHERS, "vector"),
    ("StickyAction", (0.25,), OTHERS, "vector"),
    ("RepeatAction", (4,), OTHERS, "vector"),
    ("MaxAndSkipObservation", (4,), OTHERS, "image"),
    ("NormalizeObservation", (), 1 / 4, "vector"),
    ("NormalizeReward", (), 1 / 4, "vector"),
    ("TimeAwareObservation", (), OTHERS, "vector"),
    ("TimeAwareObservation", (False,), OTHERS, "vector"),
    ("DelayObservation", (2,), OTHERS, "vector"),
    ("Autoreset", (), OTHERS, "vector"),
    ("TransformObservation", (abs, None), OTHERS, "vector"),
    ("FilterObservation", (["goal", "place"],), OTHERS, "dict"),
    ("FlattenObservation", (), OTHERS, "image"),
    ("FlattenObservation", (), OTHERS, "dict"),
    ("GrayscaleObservation", (), OTHERS, "picture"),
    ("ResizeObservation", ((84, 84),), OTHERS, "picture"),
    ("ReshapeObservation", ((2, 2),), OTHERS, "vector"),
    ("RescaleObservation", (-1, 1), OTHERS, "vector"),
    ("DtypeObservation", (np.float64,), OTHERS, "vector"),
    ("DiscretizeObservation", (10,), OTHERS, "vector"),
    ("AddRenderObservation", (False,), OTHERS, "vector"),
    ("TransformAction", (abs, None), OTHERS, "torques"),
    ("ClipAction", (), OTHERS, "torques"),
    ("RescaleAction", (-2, 3), OTHERS, "torques"),
    ("DiscretizeAction", (3,), OTHERS, "torques"),
]
# name, arguments, bar, lanes that end in each step; a bar of None where Gymnasium has no such wrapper
VECTOR = [
    ("ClipReward", (-1.0, 1.0), 1 / 2, 20),
    ("TransformReward", (np.abs,), 1 / 2, 0),
    ("RecordEpisodeStatistics", (), 1 / 2, 0),
    ("RecordEpisodeStatistics", (), 1 / 2, 20),
    ("FrameStackObservation", (4,), None, 20),
    ("RepeatAction", (4,), None, 0),
    ("NormalizeObservation", (), 1 / 2, 20),
    ("NormalizeReward", (), 1 / 2, 0),
    ("NormalizeReward", (), 1 / 2, 20),
    ("TimeAwareObservation", (), None, 20),
    ("DelayObservation", (2,), None, 20),
]
# name, arguments, bar, what is observed or done; wrappers without memory, to which an episode's end means nothing
STATELESS = [
    ("TransformObservation", (np.abs,), OTHERS, "vector"),  # one call of the user's function: the same time in both
    ("FilterObservation", (["goal", "place"],), 1 / 2, "dict"),
    ("FlattenObservation", (), 1 / 2, "vector"),
    ("FlattenObservation", (), 1 / 2, "dict"),
    ("GrayscaleObservation", (), 1 / 2, "picture"),
    ("ResizeObservation", ((24, 24),), OTHERS, "picture"),  # one call of OpenCV a lane: the same time in both
    ("ReshapeObservation", ((2, 2),), 1 / 2, "vector"),
    ("RescaleObservation", (-1, 1), 1 / 2, "vector"),
    ("DtypeObservation", (np.float64,), 1 / 2, "vector"),
    ("DiscretizeObservation", (10,), None, "vector"),
    ("TransformAction", (np.abs,), OTHERS, "torques"),
    ("ClipAction", (), 1 / 2, "torques"),
    ("RescaleAction", (-2, 3), 1 / 2, "torques"),
    ("DiscretizeAction", (3,), None, "torques"),
]
LIMITED = gymnasium.envs.registration.EnvSpec("Free-v0", max_episode_steps=10**6)  # TimeAwareObservation asks for it
SHAPES = {"vector": ((4,), np.float32), "image": ((84, 84), np.uint8)}


def kind_of(spaces, kind, rows=()):
    """Spaces, an observation and an action; with ``rows`` = (n,) a batch of each."""
    if kind == "torques":
        space = spaces.Box(0, 9, (*rows, 4), np.float32)
        actions = spaces.Box(-1, 1, (*rows, 6), np.float32)
        return space, np.ones((*rows, 4), np.float32), actions, np.full((*rows, 6), 0.3, np.float32)
    actions, action = spaces.Discrete(2), 1
    if rows:
        actions, action = spaces.MultiDiscrete([2] * rows[0]), np.ones(rows, np.int64)
    if kind == "dict":
        bits = spaces.MultiDiscrete([3] * rows[0]) if rows else spaces.Discrete(3)
        goal, place = spaces.Box(0, 9, (*rows, 2), np.float32), spaces.Box(0, 9, (*rows, 3), np.float32)
        space = spaces.Dict({"bits": bits, "goal": goal, "place": place})
        bit = np.ones(rows, np.int64) if rows else np.int64(1)
        return (
            space,
            {"bits": bit, "goal": np.ones(goal.shape, np.float32), "place": np.ones(place.shape, np.float32)},
            actions,
            action,
        )
    if kind == "picture":
        shape = (*rows, 84, 84, 3)
        return spaces.Box(0, 255, shape, np.uint8), np.full(shape, 77, np.uint8), actions, action
    shape, dtype = SHAPES[kind]
    return spaces.Box(0, 9, (*rows, *shape), dtype), np.ones((*rows, *shape), dtype), actions, action


def free(base, spaces, observation):
    seen, value, actions, _ = kind_of(spaces, observation)
    # Gymnasium's statistics write to the info, ours too: it must be a new one, so that is the free env's whole cost.
    frame = np.zeros((8, 8, 3), np.uint8)

    class Free(base):
        observation_space, action_space = seen, actions
        render_mode = "rgb_array"
        spec = LIMITED

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return value, {}

        def step(self, action):
            return value, 2.0, False, False, {}

        def render(self):
            return frame

    return Free()


def free_lanes(base, spaces, ends, mode, kind="vector"):
    seen, value, actions, _ = kind_of(spaces, kind, (LANES,))
    one_seen, _, one_action, _ = kind_of(spaces, kind)
    none, rewards = np.zeros(LANES, bool), np.full(LANES, 2.0)
    turns = [none] * 50
    for turn in range(50):  # each step other lanes: those that ended begin in the next
        turns[turn] = none.copy()
        turns[turn][turn * ends : (turn + 1) * ends] = True
    over = itertools.cycle(turns)

    class FreeLanes(base):
        num_envs = LANES
        metadata = {"autoreset_mode": mode}
        single_observation_space, single_action_space = one_seen, one_action
        observation_space, action_space = seen, actions
        spec = LIMITED

        def reset(self, *, seed=None, options=None):
            return value, {}

        def hold(self, lanes):
            pass

        def step(self, actions):
            return value, rewards.copy(), next(over), none, {}

    return FreeLanes()


def microseconds(cases, action):
    """Median µs a step of each environment, all interleaved."""
    counts, found = {}, {name: [] for name in cases}
    for name, env in cases.items():
        env.reset(seed=0)
        counts[name] = max(1, int(SECONDS / max(_took(env, action, 20) / 20, 1e-8)))
    for _ in range(ROUNDS):
        for name, env in cases.items():
            found[name].append(_took(env, action, counts[name]) / counts[name] * 1e6)
    return {name: statistics.median(values) for name, values in found.items()}


def _took(env, action, count):
    step, began = env.step, time.perf_counter()
    for _ in range(count):
        step(action)
    return time.perf_counter() - began


def compare(what, ours, theirs, wrap_ours, wrap_theirs, bar, action):
    cases = {"ours": ours, "theirs": theirs, "wrapped": wrap_ours(ours)}
    if wrap_theirs is not None:
        cases["peer"] = wrap_theirs(theirs)
    took = microseconds(cases, action)
    mine = took["wrapped"] - took["ours"]
    if wrap_theirs is None:
        print(f"{what:46} {mine:10.3f} {'-':>10}")
        return True
    peer = took["peer"] - took["theirs"]
    met = mine <= bar * peer
    print(f"{what:46} {mine:10.3f} {peer:10.3f} {mine / peer:7.2f}   {bar:.2f}x {'ok' if met else 'MISSED'}")
    return met


def main(chosen):
    print(f"{'µs added to a step':46} {'paddock':>10} {'gymnasium':>10} {'share':>7}   bar")
    met = True
    for name, args, bar, observation in SINGLE:
        if not chosen or name in chosen:
            met &= compare(
                f"{name} ({observation})",
                free(paddock.Env, our_spaces, observation),
                free(gymnasium.Env, their_spaces, observation),
                lambda env, name=name, args=args: getattr(paddock.wrappers, name)(env, *args),
                lambda env, name=name, args=args: getattr(gymnasium.wrappers, name)(env, *args),
                bar,
                0 if name == "DiscretizeAction" else kind_of(our_spaces, observation)[3],
            )
    for name, args, bar, ends in VECTOR:
        if not chosen or name in chosen:
            theirs = getattr(their_vector, name, None)
            met &= compare(
                f"vector {name} (n = {LANES}, {ends} end)",
                free_lanes(paddock.VectorEnv, our_spaces, ends, paddock.AutoresetMode.NEXT_STEP),
                free_lanes(TheirVectorEnv, their_spaces, ends, gymnasium.vector.AutoresetMode.NEXT_STEP),
                lambda env, name=name, args=args: getattr(our_vector, name)(env, *args),
                theirs and (lambda env, theirs=theirs, args=args: theirs(env, *args)),
                bar,
                np.ones(LANES, np.int64),
            )
    for name, args, bar, kind in STATELESS:
        if not chosen or name in chosen:
            theirs = getattr(their_vector, name, None)
            action = kind_of(our_spaces, kind, (LANES,))[3]
            met &= compare(
                f"vector {name} (n = {LANES}, {kind})",
                free_lanes(paddock.VectorEnv, our_spaces, 0, paddock.AutoresetMode.NEXT_STEP, kind),
                free_lanes(TheirVectorEnv, their_spaces, 0, gymnasium.vector.AutoresetMode.NEXT_STEP, kind),
                lambda env, name=name, args=args: getattr(our_vector, name)(env, *args),
                theirs and (lambda env, theirs=theirs, args=args: theirs(env, *args)),
                bar,
                np.zeros(LANES, np.int64) if name == "DiscretizeAction" else action,
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
