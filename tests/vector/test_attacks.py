"""Attacks on lanes in processes that once succeeded: a worker, a caller or a signal that does what nobody expected.

Each test failed before its fault was mended.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from paddock.core.vector_env import add_info
from paddock.errors import AlreadyPendingCallError, EnvFailed, InvalidLanes, NoAsyncCallError
from paddock.vector.processes import AsyncVectorEnv
from tests.vector.attack_envs import (
    END,
    FORK_AND_DIE,
    GIANT_INFO,
    GO,
    INTERRUPT_PARENT,
    LARGE_BYTES,
    LARGE_INFO,
    RAISE,
    RAISE_KEY_ERROR,
    Echo,
    Heavy,
    OddBools,
    Picture,
    Puppet,
    in_a_loop,
    in_one_worker,
    limited,
    mask,
    processes,
)
from tests.vector.fault_envs import is_stopped, wait_until

DEADLINE_S = 0.8
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_test_hangs():
    with limited():
        yield


# What the caller does between send and recv.


@pytest.mark.process
def test_actions_changed_after_send_are_sent_as_they_were():
    with in_one_worker(2, make=Echo, on_fault="restart") as envs:
        envs.reset(seed=0)
        envs.step(np.array([[9], [1]], np.float32))
        sent = np.array([[1], [2]], np.float64)
        envs.send(sent)  # lane 0 begins anew first, so that lane 1's action waits for its turn
        sent[:] = 77
        assert envs.recv()[0].ravel().tolist() == [0, 2]


@pytest.mark.process
def test_options_changed_after_async_reset_are_sent_as_they_were():
    with in_one_worker(2, make=Echo) as envs:
        options = {"x": [5]}
        envs.async_reset(seed=0, options=options)
        options["x"][0] = 77
        assert envs.recv()[4]["options"].tolist() == [[5], [5]]


@pytest.mark.process
def test_a_slow_caller_is_no_fault_of_lanes_whose_reply_is_larger_than_the_socket_holds():
    with processes(2, on_fault="restart", deadline_s=DEADLINE_S) as envs:
        envs.reset(seed=0)
        envs.send(np.full(2, LARGE_INFO))
        _let_the_deadline_pass()
        _, rewards, _, truncations, infos = envs.recv()
        assert rewards.tolist() == [1, 1] and not truncations.any() and "lane_error" not in infos
        assert infos["large"].shape == (2, LARGE_BYTES)
    with AsyncVectorEnv([Picture] * 2, deadline_s=DEADLINE_S) as envs:
        envs.reset_async(seed=0)
        _let_the_deadline_pass()
        assert (envs.reset_wait()[0] == 7).all()


def _let_the_deadline_pass():
    late_s = time.monotonic() + 1.3 * DEADLINE_S
    wait_until(lambda: time.monotonic() > late_s, "the deadline has passed")


# What a worker does.


@pytest.mark.process
def test_the_death_of_a_worker_is_noticed_though_a_child_of_its_own_holds_its_socket():
    with processes(2, on_fault="restart", deadline_s=10.0) as envs:
        envs.reset(seed=0)
        *_, truncations, infos = envs.step(np.array([FORK_AND_DIE, GO]))
        assert truncations.tolist() == [True, False] and "exited with code 3" in infos["lane_error"][0]


HOSTILE = {
    "an array": np.array([1, 2]),
    "0": 0,
    "an empty string": "",
    "an empty dict": {},
    "an array of one 0": np.zeros(1),
    "text": "x",
    "a bool for a row": [[True, {}]],
    "a note too long": [[0, {}, 1]],
}


@pytest.mark.process
@pytest.mark.parametrize("value", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_reply_to_a_step_is_a_broken_protocol_and_the_lanes_go_on(value):
    with processes(4, workers=2, on_fault="restart", deadline_s=10.0) as envs:
        envs.reset(seed=0)
        envs.call("answer_steps_with", value, 0)
        observations, *_, truncations, infos = envs.step(np.zeros(4, np.int64))
        assert truncations.tolist() == [True, True, False, False] and observations[2:].tolist() == [1, 1]
        assert all("broke the protocol" in infos["lane_error"][lane] for lane in (0, 1))
        assert envs.step(np.zeros(4, np.int64))[0].tolist() == [0, 0, 2, 2]
        assert envs.step(np.zeros(4, np.int64))[0].tolist() == [1, 1, 3, 3]
        assert envs.reset(seed=1)[0].tolist() == [0, 0, 0, 0]


@pytest.mark.process
def test_the_deadline_bounds_the_sending_to_a_worker_that_does_not_read():
    with processes(2, make=Heavy, on_fault="restart", deadline_s=DEADLINE_S) as envs:
        envs.reset(seed=0)
        pid = envs.call("pid")[0]
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(pid), "the worker is stopped")
        began_s = time.monotonic()
        by_message = np.full((2, LARGE_BYTES // 4), 0.1, np.float64)
        *_, truncations, infos = envs.step(by_message)
        assert time.monotonic() - began_s < 15
        assert truncations.tolist() == [True, False] and "has not taken a request" in infos["lane_error"][0]


@pytest.mark.process
def test_giant_arrays_in_infos_do_not_break_the_batch():
    with in_one_worker(16, on_fault="restart") as envs:
        envs.reset(seed=0)
        observations, *_, truncations, infos = envs.step(np.full(16, GIANT_INFO))
        assert (observations == 1).all() and not truncations.any()
        assert [one.shape for one in infos["giant"]] == [(0, 2**60)] * 16


def test_infos_of_many_lanes_take_no_more_memory_than_was_sent():
    giant = np.broadcast_to(np.int8(1), (2**45,))
    batch = add_info({}, {"giant": giant}, 1, 4)
    assert batch["giant"][1] is giant and batch["_giant"].tolist() == [False, True, False, False]


@pytest.mark.process
@pytest.mark.parametrize("notes", [None, [[0, {"some": 1}]]], ids=["all rows at once", "row by row"])
def test_odd_bytes_are_bools_when_they_arrive(notes):
    with in_one_worker(2, make=OddBools) as envs:
        envs.reset(seed=0)
        envs.call("write_odd_bytes", notes)
        observations, _, terminations, *_ = envs.step(np.zeros(2, np.int64))
        assert (observations.view(np.uint8) == 1).all() and observations.sum() == 6 and not (~observations).any()
        assert terminations.view(np.uint8).tolist() == [1, 1]


# What happens to this process.


def _leave_by_an_error(envs):
    with envs:
        raise RuntimeError("in the child")


IN_THE_CHILD = {
    "step": lambda envs: envs.step(np.zeros(2, np.int64)),
    "reset": lambda envs: envs.reset(seed=1),
    "close": lambda envs: envs.close(),
    "close, terminate": lambda envs: envs.close(terminate=True),
    "with": _leave_by_an_error,
}


@pytest.mark.process
@pytest.mark.parametrize("use", IN_THE_CHILD.values(), ids=list(IN_THE_CHILD))
def test_a_forked_child_that_uses_its_copy_does_not_hurt_the_workers(use):
    with processes(2) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(2, np.int64))
        child = os.fork()
        if child == 0:
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)  # forked alarms don't run: set one that ends it
                signal.alarm(15)
                use(envs)
            finally:
                os._exit(0)  # whatever was raised: no second pytest may go on from here
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert envs.step(np.zeros(2, np.int64))[0].tolist() == [2, 2]
        assert envs.reset(seed=1)[0].tolist() == [0, 0]


@pytest.mark.process
@pytest.mark.parametrize("policy", ["raise", "restart", "mask"])
def test_after_an_interrupt_while_waiting_lanes_step_and_reset_without_stale_results(policy):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with in_one_worker(4, on_fault=policy) as envs:
            envs.reset(seed=0)
            for round_ in range(8):
                with pytest.raises(KeyboardInterrupt):
                    # The only worker answers after the signal, so this end is still waiting when it comes.
                    envs.step(np.array([INTERRUPT_PARENT, GO, GO, GO]))
                if round_ % 2:
                    assert envs.reset(seed=0)[0].tolist() == [0, 0, 0, 0]
                observations, *_, truncations, infos = envs.step(np.zeros(4, np.int64))
                steps = 1 if round_ % 2 else 3 if round_ else 2
                assert observations.tolist() == [steps] * 4 and not truncations.any()
                assert infos["count"].tolist() == [steps] * 4
    finally:
        signal.signal(signal.SIGINT, before)


NEVER_CLOSED = """
import weakref
class A: pass
a = A()
weakref.finalize(a, int)  # its atexit hook, registered first, runs after multiprocessing's
from tests.vector.attack_envs import Puppet
from paddock.vector.processes import AsyncVectorEnv
envs = AsyncVectorEnv([Puppet] * 2, daemon=False)
envs.reset(seed=0)
"""


@pytest.mark.process
def test_a_program_that_never_closes_workers_that_are_no_daemons_ends():
    program = [sys.executable, "-c", NEVER_CLOSED]
    ended = subprocess.run(program, timeout=20, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr


# Lanes taken as they are ready.


@pytest.mark.process
def test_results_of_the_others_wait_when_a_lane_of_the_batch_raises():
    with in_one_worker(4, batch_size=2) as envs:  # one worker: ready in the order of their numbers
        envs.async_reset(seed=0)
        envs.recv()
        envs.recv()
        envs.send(np.array([RAISE, GO, GO, GO]))
        with pytest.raises(ValueError, match="lane 0: the wheel"):
            envs.recv()
        observations, rewards, _, truncations, infos = envs.recv()
        assert infos["env_id"].tolist() == [1, 2] and observations.tolist() == [1, 1]
        assert rewards.tolist() == [1, 1] and not truncations.any() and infos["count"].tolist() == [1, 1]
        with pytest.raises(NoAsyncCallError, match="1 are under way"):
            envs.recv()
        envs.send(np.array([GO]), [0])
        observations, *_, infos = envs.recv()
        assert infos["env_id"].tolist() == [3, 0] and observations.tolist() == [1, 0]
        assert infos["count"].tolist() == [1, 0] and infos["_count"].tolist() == [True, False]


@pytest.mark.process
def test_each_lane_of_a_batch_that_fails_is_raised_once():
    with in_one_worker(3, batch_size=1) as envs:
        envs.async_reset(seed=0)
        for _ in range(3):
            envs.recv()
        envs.send(np.array([RAISE, GO, RAISE]))
        for lane in range(3):
            if lane == 1:
                assert envs.recv()[4]["env_id"].tolist() == [1]
            else:
                with pytest.raises(ValueError, match=f"lane {lane}: the wheel"):
                    envs.recv()
        with pytest.raises(NoAsyncCallError):
            envs.recv()


@pytest.mark.process
def test_a_partial_reset_is_refused_while_other_lanes_are_under_way():
    with in_one_worker(4, batch_size=2) as envs:
        envs.async_reset(seed=0)
        assert envs.recv()[4]["env_id"].tolist() == [0, 1]
        with pytest.raises(AlreadyPendingCallError):
            envs.reset(options={"reset_mask": mask(0, 1, of=4)})
        assert envs.recv()[4]["env_id"].tolist() == [2, 3]
        envs.send(np.zeros(2, np.int64), [2, 3])
        assert envs.recv()[0].tolist() == [1, 1]


# What the caller says.


@pytest.mark.process
@pytest.mark.parametrize("limit_s", [float("inf"), 1e8])
def test_a_limit_that_never_comes_is_as_good_as_none(limit_s):
    with AsyncVectorEnv([Puppet] * 2, deadline_s=limit_s) as envs:
        envs.reset(seed=0)
        envs.step_async(np.zeros(2, np.int64))
        assert envs.step_wait(timeout=limit_s)[0].tolist() == [1, 1]


BAD_MASKS = [5, None, "x", [True, False], np.array([0, 1]), np.array([True]), np.array([1, 0, 0, 0, 0, 9])]


@pytest.mark.process
@pytest.mark.parametrize("lanes", BAD_MASKS, ids=repr)
def test_hold_refuses_what_is_no_mask_of_the_lanes(lanes):
    for make in (in_a_loop, in_one_worker):
        with make(2) as envs:
            envs.reset(seed=0)
            with pytest.raises(InvalidLanes, match="bool array of shape"):
                envs.hold(lanes)
            assert envs.step(np.array([GO, END]))[0].tolist() == [1, 1]


@pytest.mark.process
def test_an_environment_in_place_of_a_function_is_named():
    with pytest.raises(InvalidLanes, match=r"lane 1: A Puppet is not a function .*lambda"):
        AsyncVectorEnv([Puppet, Puppet()])


@pytest.mark.process
def test_the_text_of_a_key_error_is_not_quoted_twice():
    with processes(2) as envs:
        envs.reset(seed=0)
        with pytest.raises(KeyError) as caught:
            envs.step(np.array([GO, RAISE_KEY_ERROR]))
        assert isinstance(caught.value, EnvFailed) and str(caught.value) == "lane 1: 'no such wheel'"
