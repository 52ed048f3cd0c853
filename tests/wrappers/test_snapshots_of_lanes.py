"""A snapshot of lanes holds all that decides what their wrappers show next: memories, ends, and what was seen last."""

import numpy as np
import pytest

import paddock
from paddock import AutoresetMode
from paddock.errors import SnapshotUnsupported
from paddock.testing import data_equivalence
from paddock.wrappers import ManyLanes, vector
from paddock.wrappers.logic import Memory, pack_memory
from tests.wrappers.growth import Growth


def lanes_of(id, mode=AutoresetMode.NEXT_STEP):
    return paddock.make_vec(id, num_envs=3, lanes=paddock.LaneOptions(autoreset=mode))


DRESSES = {
    "a queue a lane": ("Blackjack-v1", lambda env: vector.FrameStackObservation(env, 3)),
    "a late queue a lane": ("Blackjack-v1", lambda env: vector.DelayObservation(env, 2)),
    "a logic for one lane": ("CartPole-v1", lambda env: ManyLanes(env, Growth(2.0))),
    "rewards": ("CartPole-v1", lambda env: vector.TransformReward(env, lambda rewards: rewards + 5)),
    "each reward": ("CartPole-v1", lambda env: vector.ClipReward(env, 2, 3)),
    "windows": ("CartPole-v1", lambda env: vector.RepeatAction(env, 2)),
    "windows of pixels": ("CartPole-v1", lambda env: vector.MaxAndSkipObservation(env, 2)),
    "stuck actions": ("CartPole-v1", lambda env: vector.StickyAction(env, 0.5)),
}


@pytest.mark.process
@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("after", range(1, 14))
def test_a_twin_goes_on_from_every_moment(dress, after):
    id, wrap = DRESSES[dress]
    env, twin = wrap(lanes_of(id)), wrap(lanes_of(id))
    env.reset(seed=4), twin.reset(seed=9)
    for _ in range(after):
        env.step([1, 1, 1])
    twin.restore(env.snapshot())
    for _ in range(8):
        assert_same(env.step([1, 0, 1]), twin.step([1, 0, 1]))


@pytest.mark.parametrize("dress", DRESSES)
def test_lanes_that_a_reset_leaves_alone_show_what_was_seen_before_the_snapshot(dress):
    id, wrap = DRESSES[dress]
    env, twin = wrap(lanes_of(id, AutoresetMode.DISABLED)), wrap(lanes_of(id, AutoresetMode.DISABLED))
    env.reset(seed=4)
    twin.restore(env.snapshot())
    options = {"reset_mask": np.array([True, False, False])}
    assert_same(env.reset(seed=7, options=options), twin.reset(seed=7, options=options))


def assert_same(one, other):
    assert data_equivalence(one, other, exact=True), (one, other)


def test_what_a_lane_cannot_tell_is_refused_not_left_out():
    with pytest.raises(SnapshotUnsupported, match="thing"):
        pack_memory(Memory(each=(Memory(thing=object()),)))
