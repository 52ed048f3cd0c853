"""Frames as observations: equality with Gymnasium, the law of wrappers, and what is refused."""

import copy
import pickle

import gymnasium
import pytest

import paddock
from paddock import AutoresetMode, wrappers
from paddock.errors import InvalidLanes, InvalidSpace, UnsupportedMode
from paddock.spaces import Dict
from paddock.testing import check_wrapper
from paddock.vector import SyncVectorEnv
from paddock.wrappers import vector
from tests.toys import Painter
from tests.wrappers.likeness import alike, as_text


class Paints(Painter):
    """A Painter whose observation may be a Dict."""

    def __init__(self, goal=5, *, nested=False):
        super().__init__(goal, "rgb_array")
        self.nested = nested
        if nested:
            self.observation_space = Dict({"count": self.observation_space})

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return ({"count": observation} if self.nested else observation), info

    def step(self, action):
        observation, *rest = super().step(action)
        return ({"count": observation} if self.nested else observation), *rest


RENDERED = [((), False), ((False,), False), ((False, "frame", "numbers"), False), ((False, "frame"), True)]


@pytest.mark.parametrize(("args", "nested"), RENDERED)
def test_frames_equal_gymnasiums(args, nested):
    mine = wrappers.AddRenderObservation(Paints(nested=nested), *args)
    theirs = gymnasium.wrappers.AddRenderObservation(paddock.to_gymnasium(Paints(nested=nested)), *args)
    assert as_text(mine.observation_space) == as_text(theirs.observation_space)
    for one, other in ((mine.reset(seed=1), theirs.reset(seed=1)), (mine.step(1), theirs.step(1))):
        assert alike(one[0], other[0])
        assert one[0] in mine.observation_space


@pytest.mark.parametrize(("args", "nested"), RENDERED)
def test_frames_of_lanes_are_those_of_single_environments(args, nested):
    check_wrapper(
        lambda lane: wrappers.AddRenderObservation(Paints(3 + lane, nested=nested), *args),
        lambda mode: vector.AddRenderObservation(
            SyncVectorEnv([lambda n=n: Paints(3 + n, nested=nested) for n in range(3)], autoreset_mode=mode), *args
        ),
        modes=[AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED],
    )


def test_a_copy_shows_its_own_frames():
    env = wrappers.AddRenderObservation(Paints())
    env.reset()
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.step(1)[0].max() == 1
    assert env.reset()[0].max() == 0


def test_frames_of_lanes_need_the_last_one_of_an_episode():
    inner = SyncVectorEnv([Paints], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(InvalidLanes, match="wrap each lane"):
        vector.AddRenderObservation(inner)


def test_frames_need_a_mode_and_a_free_key():
    with pytest.raises(UnsupportedMode, match="rgb_array"):
        wrappers.AddRenderObservation(Painter())
    with pytest.raises(InvalidSpace, match="already exists"):
        wrappers.AddRenderObservation(Paints(nested=True), False, "count")
    with pytest.raises(TypeError, match="numpy array"):
        wrappers.AddRenderObservation(Painter(render_mode="ansi"))
