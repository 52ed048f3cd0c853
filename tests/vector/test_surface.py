"""The surface of vector environments: both halves of each call, timeouts, attributes, partial resets, ready batches.

Environments that must wait do so for a byte in a pipe, so no test depends on how fast anything runs.
"""

import gc
import multiprocessing
import os
import select
import sys
from functools import partial

import gymnasium
import gymnasium.vector
import numpy as np
import pytest

import paddock
import paddock.gym.error
import paddock.gym.vector
from paddock.errors import (
    AlreadyPendingCallError,
    ClosedEnvironmentError,
    EnvFailed,
    InvalidAction,
    InvalidLanes,
    InvalidSeed,
    NoAsyncCallError,
    NotTransferable,
    ResetNeeded,
)
from paddock.hosting.launch import start_by
from paddock.spaces import Box, Discrete, Space
from paddock.vector import AutoresetMode, SyncVectorEnv
from paddock.vector.processes import AsyncVectorEnv, ProcessVectorEnv
from tests.spaces.twins import same
from tests.toys import Counter, Painter

fork = start_by("fork")
forked_async = partial(AsyncVectorEnv, context="fork")
KINDS = {
    "sync": SyncVectorEnv,
    "processes": partial(ProcessVectorEnv, workers=2, launcher=fork),
    "async": forked_async,
}
PROCESS_KINDS = [pytest.param(kind, marks=pytest.mark.process) for kind in ("processes", "async")]
every_kind = pytest.mark.parametrize("kind", ["sync", *PROCESS_KINDS])
process_kinds = pytest.mark.parametrize("kind", PROCESS_KINDS)


def counters(kind, goals=(2, 3, 4), **options):
    return KINDS[kind]([partial(Counter, goal) for goal in goals], **options)


def zeros(env):
    return np.zeros(env.num_envs, dtype=np.int64)


class Pipe:
    """Bytes to and from forked environments: each says "+" when it enters a step and waits for a byte to go on."""

    def __init__(self):
        self.heard, self.said = os.pipe()
        self.waits, self.goes = os.pipe()

    def release(self, count=1):
        os.write(self.goes, b"." * count)

    def entered(self, count, within_s=20):
        """What was said, once ``count`` environments have entered or left; fails rather than waits for ever."""
        heard = b""
        while len(heard) < count:
            assert select.select([self.heard], [], [], within_s)[0], f"only {heard!r} was said"
            heard += os.read(self.heard, count - len(heard))
        return heard

    def silent(self, for_s=0.1):
        return not select.select([self.heard], [], [], for_s)[0]

    def close(self):
        for fd in (self.heard, self.said, self.waits, self.goes):
            os.close(fd)


@pytest.fixture
def pipe():
    pipe = Pipe()
    yield pipe
    gc.collect()  # workers that a failed test left behind
    pipe.close()


class Gated:
    """Steps, resets and calls with a 1 wait at the gate; the reward is the action, so a stale result shows."""

    metadata = {"render_modes": []}
    render_mode = None

    def __init__(self, said=-1, waits=-1):
        self.said, self.waits, self.last = said, waits, 0

    def gate(self, closed=1):
        if closed == 1:
            os.write(self.said, b"+")
            os.read(self.waits, 1)
            os.write(self.said, b"-")
        return closed

    def reset(self, *, seed=None, options=None):
        self.gate((options or {}).get("gate", 0))
        self.last = 0
        return 0, {}

    def step(self, action):
        self.gate(action)
        self.last = int(action)
        return self.last, float(action), False, False, {}


class OurGated(Gated, paddock.Env):
    observation_space = action_space = Discrete(100)


class TheirGated(Gated, gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(100)


def gated(pipe, lanes=2, make=forked_async, **options):
    return make([partial(OurGated, pipe.said, pipe.waits)] * lanes, **options)


LIBRARIES = {
    "paddock": lambda: forked_async([OurGated, OurGated]),
    "gymnasium": lambda: gymnasium.vector.AsyncVectorEnv([TheirGated, TheirGated], context="fork"),
}
# Gymnasium's own classes where it raises, ours where we do; the names and the fact `name` are the same.
ERRORS = {"paddock": paddock.gym.error, "gymnasium": gymnasium.error}
BEGIN = {
    "reset": lambda env: env.reset_async(seed=1),
    "step": lambda env: env.step_async(np.array([2, 3])),
    "call": lambda env: env.call_async("gate", 0),
}
WAIT = {
    "reset": lambda env: env.reset_wait(timeout=30),
    "step": lambda env: env.step_wait(timeout=30),
    "call": lambda env: env.call_wait(timeout=30),
}


@pytest.mark.process
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("pending", BEGIN)
def test_what_is_pending_must_be_waited_for_first(library, pending):
    env, error = LIBRARIES[library](), ERRORS[library]
    env.reset(seed=1)
    BEGIN[pending](env)
    for begin in (*BEGIN.values(), lambda env: env.set_attr("last", 5)):
        with pytest.raises(error.AlreadyPendingCallError) as caught:
            begin(env)
        assert caught.value.name == pending
    for other in WAIT.keys() - {pending}:
        with pytest.raises(error.NoAsyncCallError) as caught:
            WAIT[other](env)
        assert caught.value.name == other
    result = WAIT[pending](env)
    assert pending != "step" or result[1].tolist() == [2, 3]
    assert pending != "call" or result == (0, 0)
    assert env.step(np.array([4, 5]))[1].tolist() == [4, 5]
    env.close()


@pytest.mark.process
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("what", WAIT)
def test_waiting_for_nothing_is_refused(library, what):
    env, error = LIBRARIES[library](), ERRORS[library]
    env.reset(seed=1)
    with pytest.raises(error.NoAsyncCallError) as caught:
        WAIT[what](env)
    assert caught.value.name == what
    env.close()


@pytest.mark.process
@pytest.mark.parametrize("library", LIBRARIES)
def test_use_after_close_is_refused(library):
    env, error = LIBRARIES[library](), ERRORS[library]
    env.reset(seed=1)
    env.close()
    env.close()
    assert env.closed
    uses = [*BEGIN.values(), *WAIT.values(), lambda env: env.reset(), lambda env: env.step(np.array([2, 2]))]
    for use in [*uses, lambda env: env.get_attr("last"), lambda env: env.set_attr("last", 1)]:
        with pytest.raises(error.ClosedEnvironmentError):
            use(env)


def test_the_errors_have_gymnasiums_names():
    assert paddock.gym.error.AlreadyPendingCallError is AlreadyPendingCallError
    assert paddock.gym.error.NoAsyncCallError is NoAsyncCallError
    assert paddock.gym.error.ClosedEnvironmentError is ClosedEnvironmentError
    assert paddock.gym.vector.AsyncVectorEnv is AsyncVectorEnv


@pytest.mark.process
def test_no_result_is_taken_for_a_later_one_after_a_timeout(pipe):
    """Gymnasium gives the result of the step that timed out to the next one, and so on for ever."""
    env = gated(pipe)
    env.reset(seed=1)
    env.step_async(np.array([1, 7]))
    pipe.entered(1)
    with pytest.raises(multiprocessing.TimeoutError) as caught:
        env.step_wait(timeout=0.05)
    assert caught.value.lane == 0
    pipe.release()
    for value in (8, 9, 10):
        assert env.step(np.array([value, value + 1]))[1].tolist() == [value, value + 1]
    env.close()


@pytest.mark.process
def test_a_timeout_of_zero_forgets_a_step_that_is_already_done(pipe):
    env = gated(pipe)
    env.reset(seed=1)
    for value in range(2, 12):
        env.step_async(np.array([value, value]))
        try:
            rewards = env.step_wait(timeout=0)[1]
        except multiprocessing.TimeoutError:
            rewards = env.step(np.array([value + 20, value + 30]))[1]
            assert rewards.tolist() == [value + 20, value + 30]
        else:
            assert rewards.tolist() == [value, value]
    env.close()


@pytest.mark.process
@pytest.mark.parametrize("what", ["reset", "call"])
def test_resets_and_calls_have_timeouts_too(pipe, what):
    env = gated(pipe)
    env.reset(seed=1)
    if what == "reset":
        env.reset_async(options={"gate": 1})
    else:
        env.call_async("gate", 1)
    pipe.entered(2)
    with pytest.raises(multiprocessing.TimeoutError):
        (env.reset_wait if what == "reset" else env.call_wait)(timeout=0.05)
    pipe.release(2)
    assert env.call("gate", 3) == (3, 3)
    assert env.step(np.array([4, 5]))[1].tolist() == [4, 5]
    env.close()


@pytest.mark.process
@pytest.mark.parametrize("how", [{"terminate": True}, {"timeout": 0}, {"timeout": 0.2}])
@pytest.mark.parametrize("pending", ["reset", "step", "call"])
def test_closing_ends_every_process_whatever_is_pending(pipe, pending, how):
    env = gated(pipe)
    env.reset(seed=1)
    if pending == "reset":
        env.reset_async(options={"gate": 1})
    elif pending == "step":
        env.step_async(np.array([1, 1]))
    else:
        env.call_async("gate", 1)
    pipe.entered(2)
    pids = [process.pid for process in env.processes]
    env.close(**how)
    assert env.closed
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@every_kind
def test_step_is_send_and_then_recv(kind):
    one, other = counters(kind), counters(kind)
    for env in (one, other):
        env.reset(seed=1)
        with pytest.raises(NoAsyncCallError, match="send"):
            env.recv()
    for _ in range(6):
        other.send(zeros(other))
        for got, expected in zip(one.step(zeros(one)), other.recv(), strict=True):
            assert same(got, expected)
    one.close()
    other.close()


@process_kinds
def test_a_second_send_before_recv_is_refused(kind):
    env = counters(kind)
    with pytest.raises(ResetNeeded):
        env.send(zeros(env))
    env.reset(seed=1)
    env.send(zeros(env))
    with pytest.raises(AlreadyPendingCallError):
        env.send(zeros(env))
    with pytest.raises(AlreadyPendingCallError):
        env.reset()
    assert env.recv()[1].tolist() == [1, 1, 1]
    env.close()


@process_kinds
def test_the_callers_actions_may_be_written_over_once_sent(kind):
    env = KINDS[kind]([OurGated] * 3, max_concurrency=1)
    env.reset(seed=1)
    actions = np.array([5, 6, 7])
    env.send(actions)
    actions[:] = 99
    assert env.recv()[1].tolist() == [5, 6, 7]
    env.close()


@every_kind
def test_attributes_are_read_set_and_called_in_every_lane(kind):
    env = counters(kind)
    assert env.get_attr("goal") == (2, 3, 4)
    env.set_attr("goal", 7)
    env.set_attr("count", [1, 2, 3])
    assert env.get_attr("goal") == (7, 7, 7)
    assert env.get_attr("count") == (1, 2, 3)
    assert env.call("has_wrapper_attr", "goal") == (True, True, True)
    assert env.call("set_wrapper_attr", "gaol", 1, force=False) == (False, False, False)
    with pytest.raises(InvalidLanes, match="2 values for 3 lanes"):
        env.set_attr("goal", [1, 2])
    with pytest.raises(AttributeError, match="gaol"):
        env.get_attr("gaol")
    env.reset()
    assert env.step(zeros(env))[1].tolist() == [1, 1, 1]
    env.close()


@every_kind
def test_what_a_vector_environment_says_of_itself(kind):
    env = KINDS[kind]([partial(Painter, render_mode="ansi")] * 2, autoreset_mode="SameStep")
    single = Painter(render_mode="ansi")
    assert env.num_envs == 2 and env.unwrapped is env and env.spec is None and not env.closed
    assert env.single_observation_space == single.observation_space
    assert env.single_action_space == single.action_space
    assert env.observation_space == Box(0, np.inf, (2, 1), dtype=np.float64)
    assert env.action_space == paddock.spaces.MultiDiscrete([3, 3])
    assert env.metadata == {**single.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
    assert "autoreset_mode" not in Painter.metadata
    assert env.render_mode == "ansi"
    assert "num_envs=2" in repr(env)
    env.reset()
    env.step(zeros(env))
    assert env.render() == ("count 1", "count 1")
    assert [one.public for one in env.state()] == [{}, {}]
    with env:
        pass
    assert env.closed


class Noted(paddock.Env):
    """Notes how it was reset, and draws."""

    observation_space = Box(0, 1, (2,), np.float64)
    action_space = Discrete(2)

    def __init__(self):
        self.resets = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append((seed, options))
        return self.np_random.random(2), {"begun": len(self.resets)}

    def step(self, action):
        return self.np_random.random(2), float(action), False, False, {}


@every_kind
def test_a_partial_reset_touches_only_what_it_names(kind):
    env = KINDS[kind]([Noted] * 3)
    env.reset(seed=3)
    before, rewards, *_ = env.step(np.array([1, 1, 1]))
    streams = [one.bit_generator.state for one in env.np_random]
    mask = np.array([False, True, False])
    options = {"reset_mask": mask, "level": 2}
    after, info = env.reset(seed=50, options=options)
    assert list(options) == ["reset_mask", "level"] and options["reset_mask"] is mask
    assert same(after[[0, 2]], before[[0, 2]])
    assert same(after[1], np.random.Generator(np.random.PCG64(51)).random(2))
    assert info["begun"][1] == 2 and info["_begun"].tolist() == [False, True, False]
    now = [one.bit_generator.state for one in env.np_random]
    assert now[0] == streams[0] and now[2] == streams[2] and now[1] != streams[1]
    assert env.get_attr("resets") == ([(3, None)], [(4, None), (51, {"level": 2})], [(5, None)])
    with pytest.raises(InvalidLanes, match="reset_mask"):
        env.reset(options={"reset_mask": [False, True, False]})
    env.close()


@every_kind
def test_the_first_reset_must_begin_every_lane(kind):
    env = KINDS[kind]([Noted] * 2)
    with pytest.raises(ResetNeeded, match="first reset"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.close()


@every_kind
@pytest.mark.parametrize(
    ("seed", "seeds"),
    [
        (np.int64(3), [3, 4]),
        (np.uint8(255), [255, 256]),
        (np.array([7, 5]), [7, 5]),
        ([np.int32(7), None], [7, None]),
        ((1, 2), [1, 2]),
    ],
    ids=str,
)
def test_seeds_may_be_numpys(kind, seed, seeds):
    """Gymnasium refuses them: it asks an int64 for its length."""
    env = KINDS[kind]([Noted] * 2)
    env.reset(seed=seed)
    resets = env.get_attr("resets")
    assert [one[0][0] for one in resets] == seeds
    for bad in (-1, 2.5, [1], [1, 2, 3], "one"):
        with pytest.raises(InvalidSeed):
            env.reset(seed=bad)
    assert env.get_attr("resets") == resets
    env.close()


@every_kind
def test_copies_are_the_callers_and_buffers_are_not(kind):
    env = counters(kind)
    first, _ = env.reset()
    kept = first.copy()
    env.step(zeros(env))
    assert same(first, kept)
    env.close()
    env = counters(kind, copy=False)
    first, _ = env.reset()
    assert env.step(zeros(env))[0] is first
    assert first[:, 0].tolist() == [1, 1, 1]
    env.close()


@every_kind
def test_rewards_and_flags_are_the_callers(kind):
    env = counters(kind, copy=False)
    env.reset()
    _, *kept, _ = env.step(zeros(env))
    values = [one.copy() for one in kept]
    env.step(zeros(env))
    assert same(kept, values)
    env.close()


class Bounded(Counter):
    """As Counter, with bounds of its own."""

    def __init__(self, high, dtype=np.float64):
        super().__init__()
        self.observation_space = Box(0, high, (1,), dtype)


@every_kind
def test_lanes_whose_spaces_differ_need_a_mode_that_allows_it(kind):
    factories = [partial(Bounded, 5), partial(Bounded, 9)]
    with pytest.raises(InvalidLanes, match="lane 1"):
        KINDS[kind](factories)
    env = KINDS[kind](factories, observation_mode="different")
    assert env.observation_space == Box(np.array([[0], [0]]), np.array([[5], [9]]), dtype=np.float64)
    assert env.single_observation_space == Box(0, 5, (1,), np.float64)
    env.reset()
    assert env.step(zeros(env))[0].tolist() == [[1], [1]]
    env.close()
    batched, single = Box(0, 99, (2, 1), np.float64), Box(0, 99, (1,), np.float64)
    env = KINDS[kind](factories, observation_mode=(batched, single))
    assert env.observation_space is batched and env.single_observation_space is single
    env.reset()
    assert env.step(zeros(env))[0].tolist() == [[1], [1]]
    env.close()
    with pytest.raises(InvalidLanes, match="lane 1"):
        KINDS[kind]([partial(Bounded, 5), partial(Bounded, 5, np.float32)], observation_mode="different")
    with pytest.raises(InvalidLanes, match="observation_mode='alike'"):
        KINDS[kind](factories, observation_mode="alike")


class Letter(Space):
    """A space of a class of the user's own."""

    def sample(self, mask=None, probability=None):
        return "ab"[int(self.np_random.integers(2))]

    def contains(self, x):
        return x in ("a", "b")

    def __eq__(self, other):
        return isinstance(other, Letter)

    __hash__ = Space.__hash__


class Speller(paddock.Env):
    observation_space = action_space = Letter()

    def reset(self, *, seed=None, options=None):
        return "a", {}

    def step(self, action):
        return action, 0.0, action == "b", False, {}


@every_kind
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_spaces_of_ones_own_class_give_tuples(kind, mode):
    env = KINDS[kind]([Speller] * 3, autoreset_mode=mode)
    assert env.single_action_space == Letter()
    assert env.reset()[0] == ("a", "a", "a")
    observations, _, terminations, _, infos = env.step(("a", "b", "a"))
    assert terminations.tolist() == [False, True, False]
    assert observations == (("a", "a", "a") if mode is AutoresetMode.SAME_STEP else ("a", "b", "a"))
    assert mode is not AutoresetMode.SAME_STEP or infos["final_obs"].tolist() == [None, "b", None]
    env.close()


class Telling(Counter):
    def __init__(self, told):
        super().__init__()
        self.told = told

    def step(self, action):
        return *super().step(action)[:4], self.told


@every_kind
def test_infos_keep_their_types(kind):
    told = [{"x": 1, "when": (1, 2), "name": "one"}, {"x": 2.7, "deep": {"level": np.int8(3)}}, {}]
    env = KINDS[kind]([partial(Telling, one) for one in told])
    env.reset()
    info = env.step(zeros(env))[4]
    assert info["x"].tolist()[:2] == [1.0, 2.7] and info["_x"].tolist() == [True, True, False]
    assert info["when"][0] == (1, 2) and info["name"][0] == "one"
    assert info["deep"]["level"].dtype == np.int8 and info["deep"]["_level"].tolist() == [False, True, False]
    env.close()


class Touchy(Counter):
    def step(self, action):
        if action == 2:
            raise OSError("it hurts")
        return super().step(action)


@process_kinds
def test_one_lanes_exception_is_named_and_the_rest_goes_on(kind):
    """In Gymnasium one exception leaves the whole batch unusable."""
    env = KINDS[kind]([partial(Touchy, 50)] * 4)
    env.reset(seed=1)
    env.step(np.array([0, 0, 0, 0]))
    with pytest.raises(EnvFailed, match="lane 2: it hurts") as caught:
        env.step(np.array([0, 0, 2, 0]))
    assert isinstance(caught.value, OSError) and caught.value.lane == 2 and caught.value.error_type == "OSError"
    # Lane 2 begins anew; the others have taken all three steps.
    assert env.step(np.array([0, 0, 0, 0]))[1].tolist() == [3, 3, 0, 3]
    assert env.step(np.array([0, 0, 0, 0]))[1].tolist() == [4, 4, 1, 4]
    env.close()


@every_kind
def test_a_wrong_number_of_actions_is_refused_before_any_lane_steps(kind):
    env = counters(kind)
    env.reset()
    for wrong in (np.zeros(2, np.int64), np.zeros(4, np.int64), np.zeros((0,), np.int64)):
        with pytest.raises(InvalidAction, match=r"actions for 3 lanes"):
            env.step(wrong)
    assert env.get_attr("count") == (0, 0, 0)
    assert env.step([0, 0, 0])[1].tolist() == [1, 1, 1]
    env.close()


@every_kind
def test_no_lanes_are_refused(kind):
    with pytest.raises(InvalidLanes, match="at least one"):
        KINDS[kind]([])


@pytest.mark.process
def test_no_more_workers_than_allowed_are_at_work_at_the_same_time(pipe):
    env = gated(pipe, lanes=4, max_concurrency=2)
    env.reset(seed=1)
    env.send(np.array([1, 1, 1, 1]))
    heard = pipe.entered(2)
    assert pipe.silent(), "a third one has begun"
    pipe.release(4)
    assert env.recv()[1].tolist() == [1, 1, 1, 1]
    heard += pipe.entered(6)
    inside = np.cumsum([1 if letter == ord("+") else -1 for letter in heard])
    assert heard.count(b"+") == heard.count(b"-") == 4
    assert inside.max() == 2
    env.close()


@pytest.mark.process
def test_without_a_limit_all_workers_are_at_work_together(pipe):
    env = gated(pipe, lanes=4)
    env.reset(seed=1)
    env.send(np.array([1, 1, 1, 1]))
    assert pipe.entered(4) == b"++++"
    pipe.release(4)
    assert env.recv()[1].tolist() == [1, 1, 1, 1]
    env.close()


@pytest.mark.process
def test_slow_lanes_do_not_hold_up_fast_ones(pipe):
    env = gated(pipe, 4, partial(ProcessVectorEnv, workers=4, launcher=fork), batch_size=2)
    env.async_reset(seed=1)
    slow, seen, sent = 1, [], dict.fromkeys(range(4), 0)
    for value in range(2, 100_000):  # as long as a busy machine lets one of the others wait
        if value > 32 and min(seen.count(lane) for lane in (0, 2, 3)) > 1:
            break
        observations, rewards, terminations, _, info = env.recv()
        lanes = info["env_id"].tolist()
        assert observations.shape == rewards.shape == terminations.shape == (2,)
        assert len(set(lanes)) == 2
        assert rewards.tolist() == [sent[lane] for lane in lanes]  # each lane's own newest result
        seen += lanes
        for lane in lanes:
            sent[lane] = 1 if lane == slow else value
        env.send(np.array([sent[lane] for lane in lanes]), info["env_id"])
    assert seen.count(slow) == 1, "the slow lane gave its reset, and is still in its first step"
    assert min(seen.count(lane) for lane in (0, 2, 3)) > 1
    pipe.entered(1)
    pipe.release()
    for _ in range(100_000):
        _, rewards, *_, info = env.recv()
        assert rewards.tolist() == [sent[lane] for lane in info["env_id"].tolist()]
        if slow in info["env_id"]:
            break
        env.send(np.array([sent[lane] for lane in info["env_id"].tolist()]), info["env_id"])
    else:
        pytest.fail("the slow lane never came back")
    env.close()


@pytest.mark.process
def test_env_id_must_name_lanes_that_are_free(pipe):
    env = gated(pipe, 3, partial(ProcessVectorEnv, workers=3, launcher=fork), batch_size=1)
    env.async_reset(seed=1)
    *_, info = env.recv()
    (free,) = info["env_id"].tolist()
    busy = (free + 1) % 3
    with pytest.raises(AlreadyPendingCallError, match=f"lane {busy}"):
        env.send(np.array([2]), [busy])
    for wrong in ([3], [-1], [0, 0], [[0]], [0.5]):
        with pytest.raises(InvalidLanes, match="env_id"):
            env.send(np.full(len(wrong), 2), wrong)
    with pytest.raises(InvalidLanes, match="batch_size"):
        gated(pipe, 3, batch_size=4)
    env.close()


def test_workers_may_be_spawned():
    env = AsyncVectorEnv([partial(Counter, 2), partial(Counter, 3)], context="spawn", workers=1)
    env.reset(seed=1)
    assert env.step(zeros(env))[1].tolist() == [1, 1]
    assert len(env.processes) == 1
    env.close()


def test_gymnasiums_worker_loops_are_refused():
    with pytest.raises(InvalidLanes, match="worker="):
        AsyncVectorEnv([Counter], worker=print)


@pytest.mark.process
@pytest.mark.parametrize("shared_memory", [True, False])
def test_shared_memory_is_accepted_and_changes_nothing(shared_memory):
    env = paddock.gym.vector.AsyncVectorEnv([Counter], shared_memory, True, "fork", True)
    env.reset(seed=1)
    assert env.step(np.array([0]))[0].tolist() == [[1]]
    env.close()
    env = paddock.gym.vector.AsyncVectorEnv([Speller] * 2, shared_memory, context="fork")  # a space of no fixed size
    assert env.reset()[0] == ("a", "a")
    assert env.step(("a", "b"))[0] == ("a", "b")
    env.close()


@every_kind
@pytest.mark.parametrize(
    "values",
    [(2**80, 1), (1, 2**80), (2**60 + 1, 2.5), ({"a": 1}, 3), (3, {"a": 1}), (np.arange(2), "two"), (True, 2)],
    ids=str,
)
def test_infos_of_unlike_kinds_keep_their_values(kind, values):
    env = KINDS[kind]([partial(Telling, {"x": value}) for value in values])
    env.reset()
    info = env.step(zeros(env))[4]
    assert info["_x"].tolist() == [True, True]
    for lane, value in enumerate(values):
        got = info["x"][lane]
        got = got.item() if isinstance(got, np.generic) else got  # compared exactly: NumPy would round first
        assert np.array_equal(got, value) if isinstance(value, np.ndarray) else got == value
        assert (got is True) == (value is True)
    env.close()


class Talker(Counter):
    """Lane ``me`` says more than a frame may hold beside its arrays."""

    def __init__(self, me: int) -> None:
        super().__init__()
        self.me = me

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"much": [0.5] * (130_000 if self.me == 1 else 1)}


@pytest.mark.process
def test_an_info_too_large_to_cross_costs_its_lane_alone():
    with AsyncVectorEnv([partial(Talker, me) for me in range(3)], workers=1, context="fork") as env:
        env.reset()
        with pytest.raises(NotTransferable, match="lane 1"):
            env.step(np.zeros(3, np.int64))
        env.set_attr("me", 0)
        assert env.step(np.zeros(3, np.int64))[0][:, 0].tolist() == [2.0, 2.0, 2.0]


class Scheduled(paddock.Env):
    observation_space = action_space = paddock.spaces.Discrete(2)

    def schedule(self):
        return os.getsid(0), os.getpgid(0) == os.getpid(), os.sched_getscheduler(0)


@pytest.mark.process
@pytest.mark.parametrize("isolation", ["forked", "fresh"])
def test_workers_are_scheduled_as_the_process_that_waits_for_them(isolation):
    """In another session, or as batch processes, they hardly run beside busy neighbours."""
    if isolation == "forked":
        lanes = paddock.gym.vector.AsyncVectorEnv([Scheduled] * 2)
    else:
        lanes = ProcessVectorEnv([Scheduled] * 2, workers=1)
    with lanes:
        for session, leads_its_group, policy in lanes.call("schedule"):
            assert leads_its_group  # so that Ctrl-C passes it by, and all that it starts ends with it
            assert policy == os.SCHED_OTHER
            if isolation == "forked" or sys.version_info >= (3, 11):
                assert session == os.getsid(0)
