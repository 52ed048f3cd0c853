"""Defects of Gymnasium 1.4.0 in vectors (docs/differences.md has the list): each happens there, and not here.

The same environment runs in both; if a case stops failing in Gymnasium, this file is what must change.
"""

import multiprocessing
import os
import select
import signal
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import paddock
import paddock.gym
from paddock.errors import WorkerLost
from paddock.vector import SyncVectorEnv
from paddock.vector.processes import AsyncVectorEnv, ProcessVectorEnv
from tests.vector.fault_envs import runs, wait_until

RAISE, WAIT = 666, 667


class _Script:
    """The observation counts steps, the reward is the action. RAISE raises, WAIT waits for the file ``gate``."""

    def __init__(self, spaces, *, length=100, gate=None, info=None):
        self.observation_space = spaces.Box(0, 1000, (1,), dtype=np.float64)
        self.action_space = spaces.Discrete(1000)
        self.length, self.gate, self.info = length, gate, info or {}
        self.count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1), {}

    def step(self, action):
        if action == RAISE:
            raise ValueError("a bug in one lane")
        if action == WAIT:
            while not Path(self.gate).exists():
                select.select([], [], [], 0.005)
        self.count += 1
        return np.array([float(self.count)]), float(action), self.count >= self.length, False, dict(self.info)


class Theirs(_Script, gymnasium.Env):
    def __init__(self, **arguments):
        super().__init__(gymnasium.spaces, **arguments)


class Ours(_Script, paddock.Env):
    def __init__(self, **arguments):
        super().__init__(paddock.spaces, **arguments)


def their_async(count=2, *, shared_memory=True, **arguments):
    factories = [partial(Theirs, **arguments)] * count
    return gymnasium.vector.AsyncVectorEnv(factories, shared_memory=shared_memory, context="fork")


def our_async(count=2, *, shared_memory=True, **arguments):
    return AsyncVectorEnv([partial(Ours, **arguments)] * count, shared_memory=shared_memory, context="fork")


def _rewards_after_a_timeout(envs, gate):
    try:
        envs.reset(seed=1)
        envs.step_async(np.array([WAIT, 1]))
        with pytest.raises(multiprocessing.TimeoutError):
            envs.step_wait(timeout=0.1)
        gate.touch()
        return [envs.step(np.array([action, action]))[1].tolist() for action in (7, 8)]
    finally:
        envs.close()


@pytest.mark.process
def test_after_a_timeout_a_step_gives_its_own_result(tmp_path):
    gate = tmp_path / "gate"
    # There every later step gives the result of the step before it, for ever.
    assert _rewards_after_a_timeout(their_async(gate=gate), gate) == [[WAIT, 1], [7, 7]]
    gate.unlink()
    assert _rewards_after_a_timeout(our_async(gate=gate), gate) == [[7, 7], [8, 8]]


def _first_step_after_reset(envs):
    try:
        envs.reset(seed=1)
        for _ in range(2):
            envs.step(np.array([5, 5]))  # the second one ends the episodes
        envs.reset(seed=1)
        observations, rewards, *_ = envs.step(np.array([9, 9]))
        return observations.ravel().tolist(), rewards.tolist()
    finally:
        envs.close()


@pytest.mark.process
def test_a_reset_clears_the_pending_autoreset():
    assert _first_step_after_reset(their_async(length=2, shared_memory=False)) == ([0, 0], [0, 0])
    for shared_memory in (True, False):
        assert _first_step_after_reset(our_async(length=2, shared_memory=shared_memory)) == ([1, 1], [9, 9])


@pytest.mark.process
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_lane_that_raises_leaves_the_others_usable(capfd):
    theirs = their_async()
    theirs.reset(seed=1)
    with pytest.raises(ValueError, match="a bug in one lane"):
        theirs.step(np.array([RAISE, 1]))
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'send'"):
        theirs.step(np.array([1, 1]))
    theirs.close(terminate=True)

    with our_async() as ours:
        ours.reset(seed=1)
        with pytest.raises(ValueError, match="lane 0: a bug in one lane") as caught:
            ours.step(np.array([RAISE, 1]))
        assert caught.value.lane == 0
        observations, rewards, *_ = ours.step(np.array([1, 1]))
        assert observations.ravel().tolist() == [0, 2] and rewards.tolist() == [0, 1]


def _kill_first(envs):
    pid = envs.processes[0].pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not runs(pid), "the worker is dead")


@pytest.mark.process
def test_a_dead_worker_is_named_and_replaced():
    theirs = their_async()
    theirs.reset(seed=1)
    _kill_first(theirs)
    with pytest.raises((EOFError, ConnectionError)) as bare:
        theirs.step(np.array([1, 1]))
    assert "0" not in str(bare.value)
    theirs.close(terminate=True)

    with our_async() as ours:
        ours.reset(seed=1)
        _kill_first(ours)
        with pytest.raises(WorkerLost, match="lane 0: .* was killed by SIGKILL") as caught:
            ours.step(np.array([1, 1]))
        assert caught.value.lane == 0
        assert ours.step(np.array([1, 1]))[0].ravel().tolist() == [0, 2]


def _ours_everywhere(count=3, **arguments):
    factories = [partial(Ours, **arguments)] * count
    yield SyncVectorEnv(factories)
    yield AsyncVectorEnv(factories, context="fork")
    yield ProcessVectorEnv(factories, workers=2)


@pytest.mark.process
def test_options_stay_as_they_are_and_a_partial_reset_touches_only_what_it_names():
    mask = np.array([False, True, False])
    theirs = gymnasium.vector.SyncVectorEnv([Theirs] * 3)
    theirs.reset(seed=1)
    options = {"reset_mask": mask, "map": "large"}
    theirs.reset(options=options)
    assert "reset_mask" not in options  # so whoever sees the options later resets everything

    for ours in _ours_everywhere():
        with ours:
            ours.reset(seed=1)
            ours.step(np.array([1, 1, 1]))
            options = {"reset_mask": mask, "map": "large"}
            observations, _ = ours.reset(options=options)
            assert options == {"reset_mask": mask, "map": "large"} and options["reset_mask"] is mask
            assert mask.tolist() == [False, True, False]
            assert observations.ravel().tolist() == [1, 0, 1]
            assert ours.get_attr("count") == (1, 0, 1)
            assert ours.step(np.array([1, 1, 1]))[0].ravel().tolist() == [2, 1, 2]


@pytest.mark.process
def test_infos_keep_their_values():
    def both(cls):
        return [partial(cls, info={"x": 1}), partial(cls, info={"x": 2.7})]

    theirs = gymnasium.vector.SyncVectorEnv(both(Theirs))
    theirs.reset(seed=1)
    assert theirs.step(np.array([1, 1]))[4]["x"].tolist() == [1, 2]
    for kind in (SyncVectorEnv, partial(AsyncVectorEnv, context="fork")):
        with kind(both(Ours)) as ours:
            ours.reset(seed=1)
            infos = ours.step(np.array([1, 1]))[4]
            assert infos["x"].tolist() == [1, 2.7] and infos["_x"].tolist() == [True, True]


@pytest.mark.process
def test_seeds_may_be_numpy_integers():
    with pytest.raises(gymnasium.error.Error):
        Theirs().reset(seed=np.int64(3))
    with pytest.raises(TypeError, match="has no len"):
        gymnasium.vector.SyncVectorEnv([Theirs] * 2).reset(seed=np.int64(3))
    for ours in _ours_everywhere():
        with ours:
            ours.reset(seed=np.int64(3))
            assert ours.np_random_seed == (3, 4, 5)
            ours.reset(seed=np.array([9, 8, 7], dtype=np.uint8))
            assert ours.np_random_seed == (9, 8, 7)


def test_cartpole_as_a_vector_is_the_cartpole_of_the_lanes():
    mask = np.array([True, False, False])
    push = np.ones(3, dtype=np.int64)
    theirs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    alone, _ = gymnasium.make("CartPole-v1").reset(seed=5)
    begun, _ = theirs.reset(seed=5)
    assert not np.array_equal(begun[0], alone)
    stepped, rewards, *_ = theirs.step(push)
    assert rewards.dtype == np.float32
    assert not np.array_equal(theirs.reset(options={"reset_mask": mask})[0][1:], stepped[1:])
    theirs.close()
    assert not theirs.closed

    ours = paddock.gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    begun, _ = ours.reset(seed=5)
    for lane in range(3):
        assert np.array_equal(begun[lane], gymnasium.make("CartPole-v1").reset(seed=5 + lane)[0])
    stepped, rewards, *_ = ours.step(push)
    assert rewards.dtype == np.float64
    partly, _ = ours.reset(options={"reset_mask": mask})
    assert np.array_equal(partly[1:], stepped[1:]) and not np.array_equal(partly[0], stepped[0])
    ours.close()
    assert ours.closed


def test_bounds_given_to_one_reset_do_not_last_into_autoresets():
    theirs = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    assert (_first_observations_of_autoresets(theirs) >= 0.15).all()
    ours = paddock.gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    assert (np.abs(_first_observations_of_autoresets(ours)) <= 0.05).all()


def _first_observations_of_autoresets(envs):
    observations, _ = envs.reset(seed=5, options={"low": 0.15, "high": 0.2})
    assert (observations >= 0.15).all()
    ended, begun = np.zeros(2, dtype=bool), []
    while len(begun) < 4:
        observations, _, terminations, truncations, _ = envs.step(np.ones(2, dtype=np.int64))
        begun += list(observations[ended])
        ended = terminations | truncations
    envs.close()
    return np.array(begun)
