"""Lanes in threads: what the loop returns, to the last bit, whoever steps which lane. Simulations of all lanes too."""

import gc
import os
import threading
from functools import partial

import numpy as np
import pytest

import paddock
from paddock import LaneOptions
from paddock.errors import ClosedEnvironmentError, InvalidAction, PlanError
from paddock.making import locate, plan
from paddock.spaces import Box, Discrete
from paddock.vector import SyncVectorEnv
from paddock.vector.threads import ThreadVectorEnv
from paddock.wrappers.guard import Guard
from tests.vector.fault_envs import DEEDS, Ledger, actions
from tests.vector.interrupts import interrupted
from tests.vector.lockstep import MODES, assert_alike, played

LANES = 5


def helpers():
    return [thread for thread in threading.enumerate() if thread.name == "paddock lanes"]


class Slide(paddock.Env):
    """Slides by its action and ends where it is far out; 0.5 is one step too much."""

    def __init__(self):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-0.1, 0.1)
        return np.array([self.place, 0.0]), {"place": np.float64(self.place)}

    def slide(self, action):
        if action[0] == 0.5:
            raise ValueError("the wheel came off")
        self.before, self.place = self.place, self.place + float(action[0])

    def step(self, action):
        self.slide(action)
        seen = np.array([self.place, self.place - self.before])
        return seen, self.place * 2, abs(self.place) > 2, False, {"place": np.float64(self.place), "cost": action[0]}


class Slides:
    """A simulation of Slides: all lanes' results at once. Counts the lanes that went this way."""

    count = 0

    def __init__(self, envs, make_one):
        self.envs = [env.unwrapped for env in envs]

    def begin(self, lanes, actions):
        self.actions = actions

    def simulate(self, lane):
        Slides.count += 1
        self.envs[lane].slide(self.actions[lane])

    def outcome(self, lanes):
        places, before = np.array([[self.envs[at].place, self.envs[at].before] for at in lanes]).T
        infos = {"place": places, "cost": self.actions[lanes, 0]}
        return np.stack((places, places - before), axis=1), places * 2, np.abs(places) > 2, infos


def slide(limit=12):
    return Guard(Slide(), max_episode_steps=limit)


def pushes(count, seed=0, worst=1.0):
    return np.random.default_rng(seed).uniform(-worst, worst, (count, LANES, 1)).astype(np.float32)


def both_ways(one, *, simulated=False, **options):
    """The same lanes in threads and in a loop."""
    in_threads = partial(ThreadVectorEnv, threads=3, recogniser=Slides if simulated else None)
    return [kind([one] * LANES, **options) for kind in (in_threads, SyncVectorEnv)]


@pytest.mark.parametrize("mode", MODES)
def test_lanes_in_threads_equal_the_loop(mode):
    chosen = np.random.default_rng(1).integers(2, size=(120, LANES))
    ours, loop = (
        played(env, mode, chosen, 3) for env in both_ways(partial(paddock.make, "CartPole-v1"), autoreset_mode=mode)
    )
    assert_alike(ours, loop)


@pytest.mark.parametrize("mode", MODES)
def test_simulated_lanes_equal_the_loop_where_they_end_and_where_the_limit_ends_them(mode):
    Slides.count = 0
    ours, loop = (played(env, mode, pushes(90), 3) for env in both_ways(slide, simulated=True, autoreset_mode=mode))
    assert_alike(ours, loop)
    ends = {(bool(one[2].any()), bool(one[3].any())) for one in ours if len(one) == 5}
    assert {(True, False), (False, True)} <= ends
    assert Slides.count > 60 * LANES * 0.7


def test_steps_of_lanes_overlap_in_time():
    meeting = threading.Barrier(2)

    class Meets(Slide):
        def step(self, action):
            meeting.wait(timeout=30)
            return super().step(action)

    with ThreadVectorEnv([Meets] * 2, threads=2) as env:
        env.reset(seed=0)
        assert not env.step(np.zeros((2, 1), np.float32))[2].any()


@pytest.mark.parametrize("on_fault", ["restart", "mask"])
def test_a_lane_that_raises_fares_as_in_the_loop(on_fault):
    runs = []
    for env in both_ways(Slide, on_fault=on_fault):
        chosen = pushes(8)
        chosen[3, 2] = chosen[3, 4] = chosen[5, 0] = 0.5
        runs.append(played(env, "NextStep", chosen, 3))
    assert_alike(*runs)


@pytest.mark.parametrize("on_fault", ["restart", "mask"])
def test_a_simulation_that_fails_is_the_fault_of_its_lane(on_fault):
    runs = []
    for env in both_ways(slide, simulated=True, on_fault=on_fault):
        chosen = pushes(10)
        chosen[4, 2] = chosen[4, 4] = chosen[6, 0] = 0.5
        runs.append(played(env, "NextStep", chosen, 3))
    assert_alike(*runs)
    assert "the wheel came off" in runs[0][5][4]["lane_error"][2]


@pytest.mark.parametrize("simulated", [False, True])
def test_an_error_is_raised_when_the_others_have_moved(simulated):
    for env in both_ways(slide, simulated=simulated, on_fault="raise"):
        env.reset(seed=0)
        env.step(np.zeros((LANES, 1), np.float32))
        bad = np.full((LANES, 1), 0.25, np.float32)
        bad[1] = 0.5
        before = [one.place for one in env.call("unwrapped")]
        with pytest.raises(ValueError, match="the wheel came off") as caught:
            env.step(bad)
        assert caught.value.lane == 1
        after = [one.place for one in env.call("unwrapped")]
        assert [now - then for now, then in zip(after, before, strict=True)] == pytest.approx(
            [0.25, 0, 0.25, 0.25, 0.25]
        )
        env.close()


@pytest.mark.parametrize("bad", [1.5, np.nan, "dtype"])
def test_a_doubtful_action_is_judged_by_the_guard_of_its_lane(bad):
    texts = []
    for env in both_ways(slide, simulated=True):
        env.reset(seed=0)
        env.step(np.zeros((LANES, 1), np.float32))
        chosen = np.zeros((LANES, 1), np.float64 if bad == "dtype" else np.float32)
        if bad == "dtype":
            texts.append([part.tobytes() for part in env.step(chosen)[:2]])
        else:
            chosen[3] = bad
            with pytest.raises(InvalidAction, match="lane 3") as caught:
                env.step(chosen)
            texts.append(str(caught.value))
        env.close()
    assert texts[0] == texts[1]


def test_lanes_that_are_held_stay_while_the_others_are_simulated():
    runs = []
    for env in both_ways(slide, simulated=True):
        seen = [env.reset(seed=2)]
        for at, chosen in enumerate(pushes(20)):
            env.hold(np.arange(LANES) % 3 == at % 3)
            seen.append(env.step(chosen))
        runs.append([*seen, [(one.step_count, one.episode_id is None) for one in env.state()]])
        env.close()
    assert_alike(*runs)


def test_closing_ends_the_threads_and_twice_is_fine():
    before = helpers()
    env = ThreadVectorEnv([Slide] * LANES, threads=3)
    env.reset(seed=0)
    env.step(pushes(1)[0])
    assert len(helpers()) == len(before) + 2
    env.close(), env.close()
    assert helpers() == before


@pytest.mark.parametrize("simulated", [False, True])
def test_closed_lanes_say_so(simulated):
    for env in both_ways(slide, simulated=simulated):
        env.reset(seed=0)
        env.step(pushes(1)[0])
        env.send(pushes(1)[0])
        env.close()
        asked = [env.reset, env.recv, env.render, env.snapshot, partial(env.step, pushes(1)[0])]
        for ask in (*asked, partial(env.send, pushes(1)[0]), partial(env.restore, b"")):
            with pytest.raises(ClosedEnvironmentError, match="Make them again"):
                ask()


class Trail(Slide):
    """A Slide that can be saved, but for places beyond 9."""

    def snapshot(self):
        return str(self.place).encode()

    def restore(self, snapshot):
        self.place = float(snapshot)
        if self.place > 9:
            raise ValueError("too far out")


@pytest.mark.parametrize("far", [1, 10])
def test_lanes_are_looked_at_anew_after_a_restore(far):
    looks = []
    with ThreadVectorEnv([lambda: Guard(Trail())] * 2, recogniser=lambda envs, make_one: looks.append(envs)) as env:
        env.reset(seed=0)
        env.envs[1].unwrapped.place = far
        saved, before = env.snapshot(), len(looks)
        if far > 9:
            with pytest.raises(ValueError, match="too far out"):
                env.restore(saved)
        else:
            env.restore(saved)
        assert len(looks) == before + 1


def test_lanes_that_nobody_holds_end_their_threads():
    before = set(helpers())
    env = ThreadVectorEnv([Slide] * LANES, threads=2)
    env.reset(seed=0)
    env.step(pushes(1)[0])
    (helper,) = set(helpers()) - before
    del env
    gc.collect()
    helper.join(30)
    assert not helper.is_alive()


def test_what_is_no_error_of_the_lane_is_raised_here_and_ends_the_step():
    with ThreadVectorEnv([partial(Ledger, lane) for lane in range(4)], threads=2) as env:
        env.reset(seed=0)
        with pytest.raises(SystemExit):
            env.step(actions(4, 1, lane1="sys.exit"))
        assert "sys.exit" in DEEDS
        env.reset(seed=0)
        assert env.step(actions(4, 1))[0][:, 3].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.full)])
def test_after_an_interrupt_at_any_line_the_next_step_neither_hangs_nor_fails(simulated, stride):
    in_threads, loop = both_ways(slide, simulated=simulated)
    chosen = pushes(6, worst=0.1)
    with in_threads, loop:
        expected = played(loop, "NextStep", chosen, 1)
        for line in range(0, 10_000, stride):
            in_threads.reset(seed=0)
            in_threads.step(chosen[0])
            if interrupted(partial(in_threads.step, chosen[1]), line) is None:
                break
            in_threads.step(chosen[2])
            assert_alike([in_threads.reset(seed=1), *map(in_threads.step, chosen)], expected)
        assert line > 20


def test_a_lane_that_ends_in_a_step_that_is_interrupted_begins_anew(monkeypatch):
    env = both_ways(slide, simulated=True)[0]

    def interrupted(*_):
        raise KeyboardInterrupt

    with env:
        env.reset(seed=0)
        for _ in range(2):
            env.step(np.full((LANES, 1), 0.9, np.float32))
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(env, "_spread", interrupted)
            env.step(np.full((LANES, 1), 0.9, np.float32))
        seen, rewards, terminations, *_ = env.step(np.zeros((LANES, 1), np.float32))
        assert np.abs(seen[:, 0]).max() <= 0.1 and not rewards.any() and not terminations.any()


@pytest.mark.parametrize("allowed", [0, 1])
def test_where_no_more_threads_are_allowed_those_that_there_are_step_all_lanes(monkeypatch, allowed):
    start, started = threading.Thread.start, []

    def at_most(thread):
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", at_most)
    runs = [played(env, "NextStep", pushes(10), 3) for env in both_ways(Slide)]
    assert_alike(*runs)
    assert len(started) == allowed


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork; runs on Linux and macOS")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_lanes_go_on_in_a_forked_process():
    with ThreadVectorEnv([Slide] * LANES, threads=2) as env:
        env.reset(seed=0)
        env.step(pushes(1)[0])
        child = os.fork()
        if child == 0:
            os._exit(7 if env.step(pushes(1)[0])[0].shape == (LANES, 2) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_make_steps_lanes_in_threads_on_request():
    with paddock.make_vec("CartPole-v1", 3, backend="threads", lanes=LaneOptions(threads=2)) as env:
        assert type(env) is ThreadVectorEnv
        assert repr(env) == "ThreadVectorEnv(CartPole-v1, num_envs=3, threads=2)"
        assert type(env.single_action_space) is Discrete
        assert env.reset(seed=1)[0].shape == (3, 4)


@pytest.mark.parametrize(
    ("target", "options", "backend"),
    [
        ("HalfCheetah-v5", {}, "threads"),
        ("gymnasium:Ant-v5", {}, "threads"),
        ("Ant-v5", {"backend": "loop"}, "loop"),
        ("Ant-v5", {"render_mode": "rgb_array"}, "threads"),
        ("Ant-v5", {"render_mode": "human"}, "loop"),
        ("Ant-v5", {"isolation": "process"}, "processes"),
        ("LunarLander-v3", {}, "loop"),
        ("ALE/Pong-v5", {}, "loop"),
        ("ALE/Pong-v5", {"backend": "ale"}, "ale"),
        ("CartPole-v1", {}, "compiled"),
    ],
)
def test_a_plan_takes_threads_where_the_simulator_lets_others_run(target, options, backend):
    assert plan(locate(target), num_envs=4, **options).backend == backend


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("CartPole-v1", {"backend": "loop", "lanes": LaneOptions(threads=2)}, "stepped in a loop"),
        ("LunarLander-v3", {"lanes": LaneOptions(threads=2)}, "pass backend='threads'"),
        ("LunarLander-v3", {"lanes": LaneOptions(statistics=True)}, r"LaneOptions\(statistics=…\) are for compiled"),
        ("Ant-v5", {"lanes": LaneOptions(workers=2)}, "stepped by threads"),
        ("Ant-v5", {"backend": "threads", "isolation": "process"}, "Drop one of them"),
        ("CartPole-v1", {"backend": "ale"}, "Atari games"),
        ("ALE/Pong-v5", {"backend": "ale", "max_episode_steps": 9}, "max_num_frames_per_episode"),
        ("ALE/Pong-v5", {"backend": "ale", "render_mode": "rgb_array"}, "renders nothing"),
        ("ALE/Pong-v5", {"backend": "ale", "wrappers": [Slide]}, "wrappers"),
        ("ALE/Pong-v5", {"backend": "ale", "lanes": LaneOptions(on_fault="mask")}, "do not fail singly"),
    ],
)
def test_what_such_lanes_have_not_is_refused(target, options, words):
    with pytest.raises(PlanError, match=words):
        plan(locate(target), num_envs=4, **options)
