"""The law of wrappers: n lanes with a wrapper are exactly n single environments with it.

A wrapper joins by a line in WRAPPERS: its name, its arguments, and what kind of environment it is put around.
"""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wrappers.lanes import lanes, one

import paddock
from paddock import wrappers
from paddock.testing import check_wrapper
from paddock.vector.processes import AsyncVectorEnv
from paddock.wrappers import vector

# (id, class name, arguments, keyword arguments, environment)
WRAPPERS = [
    ("clip", "ClipReward", (-3, 20.5), {}, {}),
    ("clip-above", "ClipReward", (), {"max_reward": 3}, {}),
    ("clip-away-from-0", "ClipReward", (2, 9), {}, {}),
    ("transform-reward", "TransformReward", (lambda reward: reward * 2 + 1,), {}, {}),
    ("stack", "FrameStackObservation", (3,), {}, {}),
    ("stack-of-1", "FrameStackObservation", (1,), {}, {}),
    ("stack-zero", "FrameStackObservation", (4,), {"padding_type": "zero"}, {"observation": "image"}),
    ("stack-custom", "FrameStackObservation", (4,), {"padding_type": 7}, {"observation": "discrete"}),
    ("stack-dict", "FrameStackObservation", (2,), {}, {"observation": "dict"}),
    ("statistics", "RecordEpisodeStatistics", (), {}, {}),
    ("statistics-key", "RecordEpisodeStatistics", (2, "stats"), {}, {"observation": "dict"}),
    ("sticky", "StickyAction", (0.5,), {}, {}),
    ("sticky-range", "StickyAction", (0.4, (2, 4)), {}, {"continuous": True}),
    ("repeat", "RepeatAction", (3,), {}, {}),
    ("repeat-dict", "RepeatAction", (2,), {}, {"observation": "dict"}),
    ("repeat-once", "RepeatAction", (1,), {}, {}),
    ("max-and-skip", "MaxAndSkipObservation", (2,), {}, {"observation": "image"}),
    ("max-and-skip-4", "MaxAndSkipObservation", (4,), {}, {"observation": "array"}),
    ("delay", "DelayObservation", (2,), {}, {}),
    ("delay-none", "DelayObservation", (0,), {}, {"observation": "discrete"}),
    ("delay-dict", "DelayObservation", (1,), {}, {"observation": "dict"}),
    ("transform-observation", "TransformObservation", (lambda values: values * 2 + 1, None), {}, {}),
    ("filter", "FilterObservation", (["name", "count"],), {}, {"observation": "dict"}),
    ("filter-one", "FilterObservation", (["values"],), {}, {"observation": "dict"}),
    ("filter-tuple", "FilterObservation", ((1,),), {}, {"observation": "pair"}),
    ("filter-tuple-backwards", "FilterObservation", ([-1, 0],), {}, {"observation": "pair"}),
    ("flatten", "FlattenObservation", (), {}, {"observation": "bounded"}),
    ("flatten-dict", "FlattenObservation", (), {}, {"observation": "dict"}),
    ("flatten-nested", "FlattenObservation", (), {}, {"observation": "nested"}),
    ("flatten-tuple", "FlattenObservation", (), {}, {"observation": "pair"}),
    ("flatten-discrete", "FlattenObservation", (), {}, {"observation": "discrete"}),
    ("flatten-counts", "FlattenObservation", (), {}, {"observation": "counts"}),
    ("grey", "GrayscaleObservation", (), {}, {"observation": "picture"}),
    ("grey-with-axis", "GrayscaleObservation", (True,), {}, {"observation": "picture"}),
    ("resize", "ResizeObservation", ((2, 5),), {}, {"observation": "picture"}),
    ("resize-grey", "ResizeObservation", ((2, 1),), {}, {"observation": "image"}),
    ("reshape", "ReshapeObservation", ((1, 2, 1),), {}, {"observation": "bounded"}),
    ("rescale-observation", "RescaleObservation", (-0.3, 0.7), {}, {"observation": "bounded"}),
    ("dtype", "DtypeObservation", (np.float64,), {}, {"observation": "bounded"}),
    ("dtype-discrete", "DtypeObservation", (np.float32,), {}, {"observation": "discrete"}),
    ("dtype-flags", "DtypeObservation", (np.float32,), {}, {"observation": "flags"}),
    ("dtype-counts", "DtypeObservation", (np.int32,), {}, {"observation": "counts"}),
    ("bins", "DiscretizeObservation", (7,), {}, {"observation": "bounded"}),
    ("bins-multi", "DiscretizeObservation", ((3, 5), True), {}, {"observation": "bounded"}),
    ("clip-action", "ClipAction", (), {}, {"continuous": True}),
    ("transform-action", "TransformAction", (lambda action: action / 2, None), {}, {"continuous": True}),
    ("rescale-action", "RescaleAction", (-3, 0.1), {}, {"continuous": True}),
    ("bins-of-actions", "DiscretizeAction", (3,), {}, {"continuous": True}),
    ("bins-of-actions-multi", "DiscretizeAction", ((3, 4), True), {}, {"continuous": True}),
    ("arrays", "ArrayConversion", ("numpy", "numpy"), {}, {}),
    ("arrays-dict", "ArrayConversion", ("numpy", "numpy"), {}, {"observation": "dict"}),
    ("white-noise", "AddWhiteNoise", (0.5,), {}, {}),
    ("obstruct-view", "ObstructView", (0.5, 3), {}, {}),
]
# No part of a random stack: these can be put around some spaces only.
NEED_THEIR_SPACE = {
    "ClipAction",
    "DiscretizeAction",
    "DiscretizeObservation",
    "DtypeObservation",
    "FilterObservation",
    "GrayscaleObservation",
    "MaxAndSkipObservation",
    "RescaleAction",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "TransformAction",
}
SECONDS = ("t", "_t")  # wall time: each environment has its own

names = pytest.mark.parametrize(
    ("name", "args", "kwargs", "env"), [row[1:] for row in WRAPPERS], ids=[row[0] for row in WRAPPERS]
)


@pytest.mark.slow
@names
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 5), chance=st.sampled_from([0.0, 0.15, 0.6]))
def test_n_lanes_are_n_single_environments(name, args, kwargs, env, seed, count, chance):
    check_wrapper(
        lambda lane: getattr(wrappers, name)(one(lane, chance=chance, **env), *args, **kwargs),
        lambda mode: getattr(vector, name)(lanes(mode, count, chance=chance, **env), *args, **kwargs),
        steps=40,
        seed=seed,
        ignore=SECONDS,
    )


COMPILED = [
    ("ClipReward", (0, 0.5), "CartPole-v1"),
    ("FrameStackObservation", (3,), "CartPole-v1"),
    ("FrameStackObservation", (3,), "Blackjack-v1"),
    ("RecordEpisodeStatistics", (), "FrozenLake-v1"),
    ("StickyAction", (0.3, (1, 3)), "FrozenLake-v1"),
    ("RepeatAction", (3,), "FrozenLake-v1"),
    ("RepeatAction", (3,), "Blackjack-v1"),
    ("MaxAndSkipObservation", (4,), "CartPole-v1"),
    ("DelayObservation", (2,), "Blackjack-v1"),
    ("TimeAwareObservation", (), "CartPole-v1"),
    ("TimeAwareObservation", (True, True), "FrozenLake-v1"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "args", "id"), COMPILED, ids=[f"{name}-{id}" for name, _, id in COMPILED])
def test_compiled_lanes_too(name, args, id, seed):
    def made(mode):
        return paddock.make_vec(id, num_envs=3, lanes=paddock.LaneOptions(autoreset=mode))

    check_wrapper(
        lambda lane: getattr(wrappers, name)(paddock.make(id), *args),
        lambda mode: getattr(vector, name)(made(mode), *args),
        steps=120,
        seed=seed,
        ignore=SECONDS,
    )


IN_PROCESSES = [
    ("FrameStackObservation", (3,), {}, {}),
    ("RecordEpisodeStatistics", (), {}, {}),
    ("NormalizeObservation", (), {"shared": False}, {}),
    ("RepeatAction", (3,), {}, {}),
    ("MaxAndSkipObservation", (2,), {}, {"observation": "image"}),
    ("StickyAction", (0.5,), {}, {}),
    ("ClipReward", (-3, 20.5), {}, {}),
    ("TimeAwareObservation", (False,), {}, {}),
]


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.parametrize(("name", "args", "of_lanes", "env"), IN_PROCESSES, ids=[row[0] for row in IN_PROCESSES])
def test_lanes_in_processes_too(name, args, of_lanes, env, seed):
    def alone(lane):
        return wrappers.TimeLimit(one(lane, **env), 50)  # TimeAwareObservation asks for a limit

    def made(mode):
        fns = [lambda lane=lane: alone(lane) for lane in range(3)]
        return AsyncVectorEnv(fns, context="fork", workers=2, autoreset_mode=mode)

    check_wrapper(
        lambda lane: getattr(wrappers, name)(alone(lane), *args),
        lambda mode: getattr(vector, name)(made(mode), *args, **of_lanes),
        steps=40,
        seed=seed,
        ignore=SECONDS,
    )


@settings(max_examples=10)
@given(seed=st.integers(0, 2**31), rows=st.lists(st.sampled_from(WRAPPERS), min_size=2, max_size=3))
def test_stacks_of_wrappers_too(seed, rows):
    rows = [row for row in rows if row[1] not in NEED_THEIR_SPACE and row[3].get("padding_type") != 7]

    def dressed(env, namespace):
        for number, (_, name, args, kwargs, _) in enumerate(rows):
            if name == "RecordEpisodeStatistics":
                args = (10, f"stats-{number}")
            env = getattr(namespace, name)(env, *args, **kwargs)
        return env

    check_wrapper(
        lambda lane: dressed(one(lane), wrappers),
        lambda mode: dressed(lanes(mode, 3), vector),
        steps=40,
        seed=seed,
        ignore=SECONDS,
    )


# Gymnasium's vector forms share one running statistic over all lanes; `shared=False` gives each its own, as here.
OF_EACH_LANE = [
    ("NormalizeObservation", (), {}),
    ("NormalizeObservation", (1e-2,), {"observation": "image"}),
    ("NormalizeObservation", (), {"observation": "discrete"}),
    ("NormalizeReward", (), {}),
    ("NormalizeReward", (0.7, 1e-2), {"observation": "dict"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "args", "env"), OF_EACH_LANE)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 5), chance=st.sampled_from([0.0, 0.15, 0.6]))
def test_statistics_of_each_lane_are_those_of_single_environments(name, args, env, seed, count, chance):
    check_wrapper(
        lambda lane: getattr(wrappers, name)(one(lane, chance=chance, **env), *args),
        lambda mode: getattr(vector, name)(lanes(mode, count, chance=chance, **env), *args, shared=False),
        steps=40,
        seed=seed,
    )


def test_under_windows_of_steps_too(seed):
    check_wrapper(
        lambda lane: wrappers.RepeatAction(wrappers.NormalizeReward(wrappers.NormalizeObservation(one(lane))), 3),
        lambda mode: vector.RepeatAction(
            vector.NormalizeReward(vector.NormalizeObservation(lanes(mode), shared=False), shared=False), 3
        ),
        steps=40,
        seed=seed,
    )
