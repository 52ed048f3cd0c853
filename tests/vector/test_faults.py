"""Lanes in processes that raise, hang or die are reported with index and cause. The others must not notice."""

import os
import signal
import time
from multiprocessing import TimeoutError as MultiprocessingTimeout

import numpy as np
import pytest

from paddock.errors import (
    DeadlineExceeded,
    EnvFailed,
    InvalidAction,
    NotTransferable,
    ResetNeeded,
    WorkerLost,
)
from paddock.hosting.launch import start_by, start_fresh
from paddock.seeding import derived_seed
from paddock.vector.processes import AsyncVectorEnv
from tests.vector.fault_envs import DEEDS, NO_ACTION, Ledger, actions, deed, is_stopped, ledgers, runs, wait_until

pytestmark = pytest.mark.process

DEADLINE_S = 1.5  # lanes that do not hang keep it on a busy machine too
HANGS = {"loop", "sleep", "hold the GIL", "SIGSTOP", "half a frame, hang", "ignore signals"}
KEEPS_ITS_WORKER = {"raise", "sys.exit"}
CAUSES = {
    "raise": "ENV_FAILED (ValueError): lane 1: the wheel came off",
    "sys.exit": "ENV_FAILED (SystemExit): lane 1: 3",
    "os._exit": "exited with code 3",
    "SIGKILL": "killed by SIGKILL",
    "SIGSEGV": "killed by SIGSEGV",
    "SIGABRT": "killed by SIGABRT",
    "garbage": "broke the protocol",
    "half a frame, exit": "exited with code 0",
    **dict.fromkeys(HANGS, f"DEADLINE: lane 1: no answer within {DEADLINE_S} s"),
}


def first(lane, seed):
    """The observation of a lane that has just begun with this seed."""
    return [lane, seed % 2**62, 0, 0, NO_ACTION]


def again(lane, seed, count=1):
    return first(lane, derived_seed(seed, count))


@pytest.fixture
def two_workers():
    """Four lanes in two workers: 0 and 1, 2 and 3."""
    with ledgers(4, workers=2, on_fault="restart", deadline_s=DEADLINE_S) as envs:
        envs.reset(seed=10)
        yield envs


@pytest.mark.parametrize("what", DEEDS)
def test_a_lane_that_fails_ends_its_episode_and_begins_anew_with_the_next_seed(two_workers, what):
    before, *_ = two_workers.step(actions(4, 1))
    observations, rewards, terminations, truncations, infos = two_workers.step(actions(4, 2, lane1=what))
    hit = [1] if what in KEEPS_ITS_WORKER else [0, 1]
    for lane in range(4):
        if lane in hit:
            assert observations[lane].tolist() == before[lane].tolist()
            assert (rewards[lane], terminations[lane], truncations[lane]) == (0, False, True)
        else:
            assert observations[lane].tolist() == [lane, 10 + lane, 0, 2, 2]
            assert (rewards[lane], terminations[lane], truncations[lane]) == (20002, False, False)
    assert infos["_lane_error"].tolist() == [lane in hit for lane in range(4)]
    assert CAUSES[what] in infos["lane_error"][1]
    if what not in KEEPS_ITS_WORKER:
        assert "lane 0: lost with lane 1, which shares its worker" in infos["lane_error"][0]
    observations, rewards, _, truncations, infos = two_workers.step(actions(4, 3))
    for lane in range(4):
        expected = again(lane, 10 + lane) if lane in hit else [lane, 10 + lane, 0, 3, 3]
        assert observations[lane].tolist() == expected
    assert not truncations.any() and "lane_error" not in infos
    assert rewards.tolist() == [0 if lane in hit else 30003 for lane in range(4)]
    observations, *_ = two_workers.step(actions(4, 4))
    assert observations[1].tolist() == [1, derived_seed(11, 1) % 2**62, 0, 1, 4]


@pytest.mark.parametrize(
    ("what", "error"), [("raise", ValueError), ("SIGKILL", WorkerLost), ("sleep", DeadlineExceeded)]
)
def test_raising_comes_after_every_lane_has_stepped_and_the_environment_goes_on(what, error):
    with ledgers(3, deadline_s=DEADLINE_S) as envs:
        envs.reset(seed=10)
        with pytest.raises(error) as caught:
            envs.step(actions(3, 2, lane1=what))
        assert caught.value.lane == 1 and "lane 1: " in str(caught.value)
        if what == "raise":
            assert isinstance(caught.value, EnvFailed) and "in _raise" in str(caught.value.__cause__)
        observations, rewards, *_ = envs.step(actions(3, 3))
        assert observations.tolist() == [[0, 10, 0, 2, 3], again(1, 11), [2, 12, 0, 2, 3]]
        assert rewards.tolist() == [20003, 0, 20003]


def test_a_masked_lane_stays_frozen_until_the_caller_resets_it():
    with ledgers(3, on_fault="mask") as envs:
        _, infos = envs.reset(seed=10)
        assert infos["_live"].tolist() == [True, True, True]
        observations, _, _, truncations, infos = envs.step(actions(3, 1, lane1="SIGKILL"))
        assert truncations.tolist() == [False, True, False] and "SIGKILL" in infos["lane_error"][1]
        assert infos["_live"].tolist() == [True, False, True]
        for count in (2, 3):
            observations, rewards, terminations, truncations, infos = envs.step(actions(3, 1))
            assert observations[1].tolist() == first(1, 11) and rewards[1] == 0
            assert not terminations.any() and not truncations.any() and "lane_error" not in infos
            assert observations[2].tolist() == [2, 12, 0, count, 1]
            assert infos["_live"].tolist() == [True, False, True]
        observations, infos = envs.reset(options={"reset_mask": np.array([False, True, False])})
        assert infos["_live"].all() and observations[1].tolist() == again(1, 11)
        assert envs.step(actions(3, 5))[0][:, 3].tolist() == [4, 1, 4]


def test_an_idle_death_is_reported_at_the_next_step_and_costs_a_reset_nothing():
    with ledgers(3, on_fault="restart") as envs:
        envs.reset(seed=10)
        _kill(envs, 1)
        *_, truncations, infos = envs.step(actions(3))
        assert truncations.tolist() == [False, True, False] and "killed by SIGKILL" in infos["lane_error"][1]
        assert envs.step(actions(3))[0][1].tolist() == again(1, 11)
        _kill(envs, 1)
        observations, infos = envs.reset(seed=20)
        assert observations.tolist() == [first(lane, 20 + lane) for lane in range(3)] and infos == {}
        _kill(envs, 1)
        observations, _ = envs.reset()  # without a seed: lanes that live go on with their streams
        assert observations.tolist() == [[0, 20, 1, 0, -1], again(1, 21), [2, 22, 1, 0, -1]]


def test_an_idle_death_is_raised_by_what_is_asked_next_and_told_by_the_next_step():
    with ledgers(3, on_fault="restart") as envs:
        envs.reset(seed=10)
        _kill(envs, 1)
        with pytest.raises(WorkerLost, match="lane 1: .* killed by SIGKILL"):
            envs.call("pid")
        *_, truncations, infos = envs.step(actions(3))
        assert truncations.tolist() == [False, True, False] and "SIGKILL" in infos["lane_error"][1]
        assert envs.step(actions(3))[0].tolist() == [[0, 10, 0, 2, 1], again(1, 11), [2, 12, 0, 2, 1]]


@pytest.mark.parametrize("policy", ["raise", "restart"])
def test_a_death_during_a_call_is_raised_by_the_call(policy):
    with ledgers(3, on_fault=policy) as envs:
        envs.reset(seed=10)
        with pytest.raises(WorkerLost, match="SIGKILL"):
            envs.call("do", "SIGKILL")
        if policy == "restart":
            *_, truncations, infos = envs.step(actions(3))
            assert truncations.all() and infos["_lane_error"].all()
        assert envs.step(actions(3))[0].tolist() == [again(lane, 10 + lane) for lane in range(3)]


def test_an_error_in_a_call_breaks_no_lane(two_workers):
    with pytest.raises(ValueError, match="wheel"):
        two_workers.call("do", "raise")
    assert two_workers.step(actions(4, 1))[0][:, 3].tolist() == [1, 1, 1, 1]


def test_frames_go_on_while_a_lane_is_without_an_episode(two_workers):
    two_workers.step(actions(4, 1, lane1="SIGKILL"))
    assert two_workers.render() == (None, None, "lane 2", "lane 3")
    two_workers.step(actions(4, 1))
    assert two_workers.render() == ("lane 0", "lane 1", "lane 2", "lane 3")


def test_a_reset_that_fails_is_tried_again_with_the_same_options_and_the_cause_is_told(tmp_path):
    for how in ("raise", "SIGKILL"):
        bad = {1: {"log": tmp_path / how, "bad_resets": 3, "how": how}}
        with ledgers(2, on_fault="restart", lane_arguments=bad) as envs:
            observations, infos = envs.reset(seed=10, options={"colour": "red"})
            assert observations.tolist() == [first(0, 10), again(1, 11, 3)]
            assert infos["options"].tolist() == [str({"colour": "red"})] * 2
            assert infos["_lane_error"].tolist() == [False, True]
            seeds = [11, *(derived_seed(11, count) for count in (1, 2, 3))]
            assert (tmp_path / how).read_text().split() == [str(seed) for seed in seeds]
            assert envs.step(actions(2))[0][:, 3].tolist() == [1, 1]


@pytest.mark.parametrize("how", ["raise", "SIGKILL"])
def test_a_lane_that_never_begins_is_given_up_after_five_failures_in_a_row(tmp_path, how):
    bad = {1: {"log": tmp_path / "log", "bad_resets": 5, "how": how}}
    with ledgers(2, on_fault="restart", lane_arguments=bad) as envs:
        with pytest.raises((EnvFailed, WorkerLost)) as caught:
            envs.reset(seed=10)
        assert caught.value.lane == 1 and len((tmp_path / "log").read_text().split()) == 5
        assert envs.reset(seed=20)[0].tolist() == [first(0, 20), first(1, 21)]


def test_a_reset_that_hangs_is_ended(two_workers):
    started_s = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="lane 2"):  # it hangs however often it is tried
        two_workers.reset(options={"do": "sleep", "lane": 2})
    assert time.monotonic() - started_s < 5 * DEADLINE_S + 3
    assert two_workers.reset(seed=30)[0].tolist() == [first(lane, 30 + lane) for lane in range(4)]


def _dying(marker):
    if marker.exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return Ledger(0)


def test_a_death_while_making_names_the_lane(tmp_path):
    marker = tmp_path / "marker"
    marker.touch()
    with pytest.raises(WorkerLost, match="lane 1: .*SIGKILL"):
        AsyncVectorEnv([lambda: Ledger(0), lambda: _dying(marker)], context="fork")
    marker.unlink()
    with AsyncVectorEnv([lambda: _dying(marker), lambda: Ledger(1)], context="fork", on_fault="restart") as envs:
        envs.reset(seed=10)
        marker.touch()
        assert envs.step(actions(2, 1, lane0="SIGKILL"))[3].tolist() == [True, False]
        for _ in range(4):
            *_, truncations, infos = envs.step(actions(2))
            assert truncations.tolist() == [True, False] and "SIGKILL" in infos["lane_error"][0]
        with pytest.raises(WorkerLost, match="lane 0"):  # the fifth time in a row
            envs.step(actions(2))
        marker.unlink()
        assert envs.step(actions(2))[0].tolist() == [again(0, 10, 6), [1, 11, 0, 7, 1]]


class Strict(Ledger):
    def step(self, action):
        if action == 77:
            raise InvalidAction("77 is not allowed")
        if action == 78:
            return (*super().step(action)[:4], {"lock": __import__("threading").Lock()})
        if action == 79:
            raise ResetNeeded("not yet")
        return super().step(action)


@pytest.mark.parametrize(("action", "error"), [(77, InvalidAction), (78, NotTransferable), (79, ResetNeeded)])
def test_a_mistake_of_the_callers_is_raised_under_every_policy_and_breaks_no_lane(action, error):
    for policy in ("raise", "restart", "mask"):
        with AsyncVectorEnv(
            [lambda lane=lane: Strict(lane, length=99) for lane in range(3)], on_fault=policy, workers=2, context="fork"
        ) as envs:
            envs.reset(seed=10)
            with pytest.raises(error, match="lane 1: "):
                envs.step(np.array([1, action, 1]))
            steps = envs.step(actions(3))[0][:, 3].tolist()
            assert steps == [2, 2 if action == 78 else 1, 2]


def test_values_that_cannot_be_sent_are_refused_and_break_no_lane(two_workers):
    generator = (one for one in ())
    with pytest.raises(NotTransferable, match="generator"):
        two_workers.reset(options={"it": generator})
    with pytest.raises(NotTransferable, match="generator"):
        two_workers.call("echo", generator)
    with pytest.raises(NotTransferable, match="generator"):
        two_workers.set_attr("note", [1, 2, generator, 4])
    assert two_workers.get_attr("note") == (1, 2, None, 4)
    assert two_workers.step(actions(4, 1))[0].tolist() == [[lane, 10 + lane, 0, 1, 1] for lane in range(4)]


def test_values_larger_than_a_socket_holds_pass_in_both_directions_at_once(two_workers):
    large = np.arange(400_000.0)
    for answer in two_workers.call("echo", large):
        np.testing.assert_array_equal(answer, large)


def test_a_worker_that_wakes_up_after_its_deadline_says_nothing_any_more(two_workers):
    pid = two_workers.call("pid")[0]
    *_, infos = two_workers.step(actions(4, 1, lane0="SIGSTOP"))
    assert "DEADLINE: lane 0" in infos["lane_error"][0]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    assert two_workers.step(actions(4, 2))[0][:, 3].tolist() == [0, 0, 2, 2]


def test_a_stopped_worker_that_goes_on_in_time_gives_its_result():
    with ledgers(2, deadline_s=30.0) as envs:
        envs.reset(seed=10)
        pid = envs.call("pid")[0]
        envs.send(actions(2, 1, lane0="SIGSTOP"))
        wait_until(lambda: is_stopped(pid), "the worker is stopped")
        os.kill(pid, signal.SIGCONT)
        assert envs.recv()[0].tolist() == [[0, 10, 0, 1, deed("SIGSTOP")], [1, 11, 0, 1, 1]]


def test_a_lost_lane_stays_lost_when_what_was_asked_of_it_is_refused():
    with ledgers(2, on_fault="restart") as envs:
        envs.reset(seed=10)
        _kill(envs, 0)
        with pytest.raises(NotTransferable):
            envs.reset(options={"it": (one for one in ())})
        assert envs.step(actions(2))[0].tolist() == [again(0, 10), [1, 11, 0, 1, 1]]
        kept = envs.snapshot()
        _kill(envs, 0)
        with pytest.raises(ValueError):
            envs.restore(kept.replace(b" 0 0", b" 0 x"))
        assert envs.step(actions(2))[3].tolist() == [True, False]
        assert envs.step(actions(2))[0][0].tolist() == again(0, 10, 2)


def test_a_fault_is_told_even_if_the_wait_for_the_others_timed_out():
    for policy in ("restart", "mask", "raise"):
        with AsyncVectorEnv([lambda lane=lane: Ledger(lane, length=99) for lane in range(3)], on_fault=policy) as envs:
            envs.reset(seed=10)
            pid = envs.call("pid")[2]
            envs.step_async(actions(3, 1, lane0="raise", lane2="SIGSTOP"))
            wait_until(lambda pid=pid: is_stopped(pid), "the worker is stopped")
            with pytest.raises(MultiprocessingTimeout):
                envs.step_wait(timeout=0.2)
            os.kill(pid, signal.SIGCONT)
            if policy == "raise":
                with pytest.raises(ValueError, match="lane 0: the wheel"):
                    envs.step(actions(3, 2))
            else:
                observations, *_, truncations, infos = envs.step(actions(3, 2))
                assert truncations.tolist() == [True, False, False] and "wheel" in infos["lane_error"][0]
                assert observations[1:, 3].tolist() == [2, 2]
            if policy != "mask":
                assert envs.step(actions(3, 3))[0].tolist() == [again(0, 10, 2), [1, 11, 0, 3, 3], [2, 12, 0, 3, 3]]


def test_infos_of_a_step_that_raised_are_not_given_out_with_a_later_one():
    with ledgers(2) as envs:
        envs.reset(seed=10)
        with pytest.raises(ValueError):
            envs.step(actions(2, 1, lane0="raise"))
        assert envs.step(actions(2))[4] == {}


def test_a_death_holds_nobody_up_when_few_may_run_at_once():
    with ledgers(4, max_concurrency=1, on_fault="restart") as envs:
        envs.reset(seed=10)
        _kill(envs, 0)
        observations, *_, truncations, _ = envs.step(actions(4))
        assert truncations.tolist() == [True, False, False, False] and observations[1:, 3].tolist() == [1, 1, 1]
        assert envs.step(actions(4, 1, lane2="SIGKILL"))[3].tolist() == [False, False, True, False]


def test_lanes_that_are_taken_as_they_are_ready_report_faults_too():
    with ledgers(4, workers=2, batch_size=2, on_fault="restart") as envs:
        envs.async_reset(seed=10)
        seen = {lane: [] for lane in range(4)}
        turn, ends_s = 0, time.monotonic() + 60
        # The other worker's lanes may be ready again and again until the lost one is replaced.
        while turn < 40 or sum(map(sum, seen.values())) not in (2, 4):  # one worker or both
            assert time.monotonic() < ends_s
            observations, _, _, truncations, infos = envs.recv()
            lanes = infos["env_id"]
            for place, lane in enumerate(lanes):
                assert observations[place][0] == lane
                told = "lane_error" in infos and infos["lane_error"][place] is not None
                assert told == truncations[place]
                seen[lane].append(bool(told))
            chosen = np.full(2, deed("SIGKILL") if turn == 10 else 1, dtype=np.int64)
            envs.send(chosen, lanes)
            turn += 1


def test_a_restored_lane_goes_on_instead_of_beginning_anew():
    with ledgers(2, workers=1) as envs:
        envs.reset(seed=10)
        envs.step(actions(2))
        kept = envs.snapshot()
        for what in ("raise", "SIGKILL"):
            with pytest.raises((ValueError, WorkerLost)):
                envs.step(actions(2, 2, lane0=what))
            envs.restore(kept)
            assert envs.step(actions(2, 5))[0].tolist() == [[0, 10, 0, 2, 5], [1, 11, 0, 2, 5]]


WAYS = ["fresh", "spawn", "forkserver"]


@pytest.mark.parametrize("launcher", [start_fresh, start_by("spawn"), start_by("forkserver")], ids=WAYS)
def test_other_ways_to_start_workers_survive_too(launcher):
    with ledgers(2, launcher=launcher, on_fault="restart", deadline_s=5.0) as envs:
        pids = envs.call("pid")
        envs.reset(seed=10)
        *_, infos = envs.step(actions(2, 1, lane0="SIGKILL"))
        assert "killed by SIGKILL" in infos["lane_error"][0]
        assert envs.step(actions(2))[0].tolist() == [again(0, 10), [1, 11, 0, 2, 1]]
        pids += envs.call("pid")
    assert not any(map(runs, pids))


def _kill(envs, lane):
    """Kill a lane's worker between two steps, and wait until it is dead."""
    pid = envs.call("pid")[lane]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not runs(pid), "the worker is dead")
