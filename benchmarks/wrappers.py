"""Time that a wrapper adds to a step, around an environment whose step is free, against Gymnasium's in the same run.

    python benchmarks/wrappers.py [name …]

Bars are shares of Gymnasium's added time. For one environment: those in BARS, 1.05 for all others. For n = 1024 lanes:
1/2 for every wrapper that Gymnasium has for lanes; ``BOUND`` says why some can't get there, and they count as missed.
Array conversion is in arrays.py, rendering and recording in recording.py, what `make` adds in guard.py.
AtariPreprocessing is not measured: it needs an emulator, which takes most of the time. Medians of interleaved rounds.
"""

import itertools
import statistics
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces as their_spaces
from gymnasium.vector import VectorEnv as TheirVectorEnv

import paddock
from paddock import spaces as our_spaces

ROUNDS, SECONDS, LANES = 15, 0.02, 1024
BARS = {"NormalizeObservation": 1 / 4, "FrameStackObservation": 1 / 3, "NormalizeReward": 1 / 4, "ClipReward": 1 / 5}
OTHERS, OF_LANES = 1.05, 1 / 2


def same(value):
    """A function that takes no time: what is left is the wrapper itself."""
    return value


# name, arguments, observation
SINGLE = [
    ("ClipReward", (-1.0, 1.0), "vector"),
    ("TransformReward", (abs,), "vector"),
    ("TransformReward", (same,), "vector"),
    ("FrameStackObservation", (4,), "vector"),
    ("FrameStackObservation", (4,), "image"),
    ("RecordEpisodeStatistics", (), "vector"),
    ("StickyAction", (0.25,), "vector"),
    ("RepeatAction", (4,), "vector"),
    ("MaxAndSkipObservation", (4,), "image"),
    ("NormalizeObservation", (), "vector"),
    ("NormalizeReward", (), "vector"),
    ("TimeAwareObservation", (), "vector"),
    ("TimeAwareObservation", (False,), "vector"),
    ("DelayObservation", (2,), "vector"),
    ("Autoreset", (), "vector"),
    ("TimeLimit", (10**9,), "vector"),
    ("OrderEnforcing", (), "vector"),
    ("PassiveEnvChecker", (), "vector"),
    ("TransformObservation", (abs, None), "vector"),
    ("TransformObservation", (same, None), "vector"),
    ("FilterObservation", (["goal", "place"],), "dict"),
    ("FlattenObservation", (), "image"),
    ("FlattenObservation", (), "dict"),
    ("GrayscaleObservation", (), "picture"),
    ("ResizeObservation", ((84, 84),), "picture"),
    ("ReshapeObservation", ((2, 2),), "vector"),
    ("RescaleObservation", (-1, 1), "vector"),
    ("DtypeObservation", (np.float64,), "vector"),
    ("DiscretizeObservation", (10,), "vector"),
    ("AddRenderObservation", (False,), "vector"),
    ("TransformAction", (abs, None), "torques"),
    ("TransformAction", (same, None), "torques"),
    ("ClipAction", (), "torques"),
    ("RescaleAction", (-2, 3), "torques"),
    ("DiscretizeAction", (3,), "torques"),
]
# name, arguments, what is observed or done, lanes that end in each step
VECTOR = [
    ("ClipReward", (-1.0, 1.0), "vector", 20),
    ("TransformReward", (np.abs,), "vector", 0),
    ("TransformReward", (same,), "vector", 0),
    ("TransformReward", (np.abs,), "vector", 20),
    ("VectorizeTransformReward", ("TransformReward", {"func": abs}), "vector", 20),
    ("RecordEpisodeStatistics", (), "vector", 0),
    ("RecordEpisodeStatistics", (), "vector", 20),
    ("NormalizeObservation", (), "vector", 20),
    ("NormalizeReward", (), "vector", 0),
    ("NormalizeReward", (), "vector", 20),
    ("FrameStackObservation", (4,), "vector", 20),
    ("RepeatAction", (4,), "vector", 0),
    ("TimeAwareObservation", (), "vector", 20),
    ("DelayObservation", (2,), "vector", 20),
    ("TransformObservation", (np.abs,), "vector", 0),
    ("TransformObservation", (same,), "vector", 0),
    ("VectorizeTransformObservation", ("TransformObservation", {"func": abs, "observation_space": None}), "vector", 0),
    ("FilterObservation", (["goal", "place"],), "dict", 0),
    ("FlattenObservation", (), "vector", 0),
    ("FlattenObservation", (), "dict", 0),
    ("GrayscaleObservation", (), "picture", 0),
    ("ResizeObservation", ((24, 24),), "picture", 0),
    ("ReshapeObservation", ((2, 2),), "vector", 0),
    ("RescaleObservation", (-1, 1), "vector", 0),
    ("DtypeObservation", (np.float64,), "vector", 0),
    ("DiscretizeObservation", (10,), "vector", 0),
    ("TransformAction", (np.abs,), "torques", 0),
    ("TransformAction", (same,), "torques", 0),
    ("VectorizeTransformAction", ("TransformAction", {"func": abs, "action_space": None}), "torques", 0),
    ("ClipAction", (), "torques", 0),
    ("RescaleAction", (-2, 3), "torques", 0),
    ("DiscretizeAction", (3,), "torques", 0),
    ("DictInfoToList", (), "vector", 0),
    ("DictInfoToList", (), "episodes", 20),
    ("DictInfoToList", (), "infos", 0),
]
# Why a wrapper of lanes can't take half of Gymnasium's time, whatever is done around it.
BOUND = {
    "TransformReward": "one call of the user's function, and Gymnasium adds a frame to it; ours also looks for ends, "
    "where it must leave the 0 of the next step alone",
    "TransformObservation": "one call of the user's function, and Gymnasium adds a frame to it",
    "TransformAction": "one call of the user's function, and Gymnasium adds a frame to it",
    "VectorizeTransformReward": "a call of the user's function for each lane is most of it",
    "VectorizeTransformObservation": "a call of the user's function for each lane is most of it",
    "VectorizeTransformAction": "a call of the user's function for each lane is most of it",
    "ResizeObservation": "a call of OpenCV for each lane is nearly all of it",
    "DictInfoToList": "a dict for each lane, and a NumPy scalar for each value, is nearly all of it",
}
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


def told(kind, ends):
    """Infos of lanes: a number of each, or the statistics of episodes that end."""
    numbers, every, some = np.ones(LANES), np.ones(LANES, bool), np.arange(LANES) < ends
    if kind == "infos":
        return {"x": numbers, "_x": every, "y": numbers, "_y": every}
    if kind == "episodes":
        return {"episode": {"r": numbers, "_r": some, "l": numbers, "_l": some}, "_episode": some}
    return {}


def free_lanes(base, spaces, ends, mode, kind="vector"):
    infos = told(kind, ends)
    kind = "vector" if infos else kind
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
            return value, rewards.copy(), next(over), none, {**infos}

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
        print(f"{what:58} {mine:10.3f} {'-':>10}")
        return True
    peer = took["peer"] - took["theirs"]
    met = mine <= bar * peer
    print(f"{what:58} {mine:10.3f} {peer:10.3f} {mine / peer:7.2f}   {bar:.2f}x {'ok' if met else 'MISSED'}")
    return met


def compare_single(name, args, kind):
    return compare(
        f"{name} ({kind}{', of nothing' if same in args else ''})",
        free(paddock.Env, our_spaces, kind),
        free(gymnasium.Env, their_spaces, kind),
        lambda env: getattr(paddock.wrappers, name)(env, *args),
        lambda env: getattr(gymnasium.wrappers, name)(env, *args),
        BARS.get(name, OTHERS),
        0 if name == "DiscretizeAction" else kind_of(our_spaces, kind)[3],
    )


def compare_lanes(name, args, kind, ends):
    def around(library):
        if not hasattr(library.wrappers.vector, name):
            return None
        of_lanes = getattr(library.wrappers.vector, name)
        if name.startswith("Vectorize"):
            return lambda env: of_lanes(env, getattr(library.wrappers, args[0]), **args[1])
        return lambda env: of_lanes(env, *args)

    actions = kind_of(our_spaces, "torques" if kind == "torques" else "vector", (LANES,))[3]
    return compare(
        f"vector {name} ({kind}{', of nothing' if same in args else ''}, {ends} of {LANES} end)",
        free_lanes(paddock.VectorEnv, our_spaces, ends, paddock.AutoresetMode.NEXT_STEP, kind),
        free_lanes(TheirVectorEnv, their_spaces, ends, gymnasium.vector.AutoresetMode.NEXT_STEP, kind),
        around(paddock),
        around(gymnasium),
        OF_LANES,
        np.zeros(LANES, np.int64) if name == "DiscretizeAction" else actions,
    )


def main(chosen):
    print(f"{'µs added to a step':58} {'paddock':>10} {'gymnasium':>10} {'share':>7}   bar")
    met, missed = True, set()
    for row in SINGLE:
        if not chosen or row[0] in chosen:
            met &= compare_single(*row)
    for row in VECTOR:
        if (not chosen or row[0] in chosen) and not compare_lanes(*row):
            met = False
            missed.add(row[0])
    for name in sorted(missed & BOUND.keys()):
        print(f"vector {name} misses its bar: {BOUND[name]}.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
