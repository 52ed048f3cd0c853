"""Attacks on what lanes remember of their episodes: ends, faults and infos that outlived a restore, reset or error."""

import numpy as np
import pytest

from paddock.errors import ResetNeeded
from tests.vector.attack_envs import END, GO, RAISE, in_a_loop, in_one_worker, limited, mask, processes

pytestmark = pytest.mark.process

LOOP_AND_PROCESSES = pytest.mark.parametrize("make", [in_a_loop, in_one_worker, processes])


@pytest.fixture(autouse=True)
def _no_test_hangs():
    with limited():
        yield


def _step(envs, *actions):
    return envs.step(np.array(actions))


@LOOP_AND_PROCESSES
def test_lanes_restored_to_before_their_end_step_again(make):
    with make(2, autoreset_mode="Disabled") as envs:
        envs.reset(seed=0)
        kept = envs.snapshot()
        _step(envs, END, GO)
        envs.restore(kept)
        assert _step(envs, GO, GO)[0].tolist() == [1, 1]


@LOOP_AND_PROCESSES
def test_lanes_restored_to_their_end_are_refused_before_anyone_moves(make):
    with make(2, autoreset_mode="Disabled") as envs:
        envs.reset(seed=0)
        _step(envs, GO, END)
        kept = envs.snapshot()
        envs.reset(seed=0)
        envs.restore(kept)
        with pytest.raises(ResetNeeded, match="lane 1"):
            _step(envs, GO, GO)
        assert envs.get_attr("count") == (1, 1)
        envs.reset(options={"reset_mask": mask(1, of=2)})
        assert _step(envs, GO, GO)[0].tolist() == [2, 1]


@LOOP_AND_PROCESSES
def test_an_end_in_the_step_in_which_another_lane_raises_is_remembered(make):
    with make(2, autoreset_mode="Disabled") as envs:
        envs.reset(seed=0)
        with pytest.raises(ValueError, match="wheel"):
            _step(envs, RAISE, END)
        envs.reset(options={"reset_mask": mask(0, of=2)})
        with pytest.raises(ResetNeeded, match="lane 1"):
            _step(envs, GO, GO)
        assert envs.get_attr("count") == (0, 1)
        envs.reset(options={"reset_mask": mask(1, of=2)})
        assert _step(envs, GO, GO)[0].tolist() == [1, 1]


def test_async_reset_begins_lanes_that_had_ended():
    with in_one_worker(4, batch_size=2, autoreset_mode="Disabled") as envs:
        envs.async_reset(seed=0)
        lanes = envs.recv()[4]["env_id"]
        envs.recv()
        envs.send(np.array([END, END]), lanes)
        assert envs.recv()[2].all()
        with pytest.raises(ResetNeeded):
            envs.send(np.array([GO, GO]), lanes)
        envs.async_reset(seed=1)
        assert envs.recv()[4]["env_id"].tolist() == lanes.tolist()
        envs.recv()
        envs.send(np.array([GO, GO]), lanes)
        assert envs.recv()[0].tolist() == [1, 1]


@LOOP_AND_PROCESSES
@pytest.mark.parametrize("policy", ["restart", "mask"])
def test_a_lane_restored_after_a_fault_goes_on_from_the_snapshot(make, policy):
    with make(2, on_fault=policy) as envs:
        envs.reset(seed=0)
        _step(envs, GO, GO)
        _step(envs, GO, GO)
        kept = envs.snapshot()
        _step(envs, RAISE, GO)
        envs.restore(kept)
        observations, rewards, *_, infos = _step(envs, GO, GO)
        assert observations.tolist() == [3, 3] and rewards.tolist() == [1, 1]
        assert "_live" not in infos or infos["_live"].all()


@LOOP_AND_PROCESSES
def test_infos_of_a_step_that_raised_do_not_appear_in_a_later_reset(make):
    with make(3) as envs:
        envs.reset(seed=0)
        with pytest.raises(ValueError):
            _step(envs, GO, RAISE, GO)
        observations, infos = envs.reset(options={"reset_mask": mask(1, of=3)})
        assert observations.tolist() == [1, 0, 1] and infos == {}


@LOOP_AND_PROCESSES
def test_a_held_lane_has_no_info_not_even_of_a_step_that_raised(make):
    with make(3) as envs:
        envs.reset(seed=0)
        with pytest.raises(ValueError):
            _step(envs, GO, RAISE, GO)
        envs.hold(mask(0, of=3))
        observations, rewards, *_, infos = _step(envs, GO, GO, GO)
        assert observations.tolist() == [1, 0, 2] and rewards.tolist() == [0, 0, 1]
        assert infos["_count"].tolist() == [False, False, True] and infos["count"].tolist() == [0, 0, 2]
