"""The channel to a worker behind a wall: every wait ends, every loss has a cause, nothing that is printed blocks."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

import paddock
from paddock.errors import DeadlineExceeded, EnvFailed, EnvironmentViolation, WorkerLost
from paddock.hosting.client import HostedEnv
from paddock.hosting.judge import WallRules
from paddock.hosting.messages import Call, Failed, Make, Render
from paddock.hosting.process_channel import ProcessChannel
from paddock.spaces import Box, Discrete
from tests.clocks import awake_s
from tests.hosting import hostile_workers as hostile

pytestmark = pytest.mark.process

PATIENT = WallRules(call_s=20.0, start_s=20.0)
HASTY = WallRules(call_s=0.3, start_s=0.3)
SPACE, ACTIONS = Box(-1, 1, (2,)), Discrete(2)
OBSERVATION = np.zeros(2, np.float32)
DESCRIBED = {
    "observation_space": SPACE.to_json(),
    "action_space": ACTIONS.to_json(),
    "metadata": {"render_modes": ["ansi"], "render_fps": 30},
    "render_mode": "ansi",
    "spec": None,
    "custom": "",
}


@pytest.fixture
def channel_to():
    made = []

    def open_channel(behaviour, rules=PATIENT):
        made.append(ProcessChannel(*hostile.start(behaviour), rules))
        return made[-1]

    yield open_channel
    for channel in made:
        channel.kill("was ended by the test")


@pytest.fixture
def env_of(channel_to):
    def make(*values, rules=PATIENT):
        return HostedEnv(channel_to(hostile.answering(DESCRIBED, *values), rules), {}, wall=rules)

    return make


def ask(channel, request=None):
    channel.send(request or Render(0))
    return channel.recv()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It exited.", "It exited. Make the environment again."),
        ("It exited. It last printed:\nhello", "It exited. It last printed:\nhello\nMake the environment again."),
        ("The server knows 3 requests. Begin a new session.", "The server knows 3 requests. Begin a new session."),
    ],
)
def test_a_later_call_says_what_to_do_once_and_apart_from_what_was_printed(env_of, text, expected):
    env = env_of()

    def send(request):
        raise WorkerLost(text, cause="exit")

    env._channel.send = send
    with pytest.raises(WorkerLost) as caught:
        env.render()
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    "behaviour", [hostile.silent, hostile.slow_drip, hostile.half_a_frame, hostile.endless_flood, hostile.never_reads]
)
def test_a_worker_that_is_late_is_ended_within_half_a_second(channel_to, behaviour):
    channel = channel_to(behaviour, HASTY)
    began = awake_s()
    with pytest.raises(DeadlineExceeded, match=r"No answer within 0\.3 s"):
        ask(channel)
    assert awake_s() - began < 0.8
    assert channel.child.wait(0.0)
    with pytest.raises(WorkerLost) as later:
        ask(channel)
    assert later.value.cause == "timeout"


def test_making_has_a_time_of_its_own(channel_to):
    rules, began = WallRules(call_s=20.0, start_s=0.2), time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
        ask(channel_to(hostile.never_reads, rules), Make(0, {}))
    assert time.monotonic() - began < 10.0


def test_a_shorter_time_of_the_callers_forgets_and_does_not_kill(channel_to):
    channel = channel_to(hostile.silent)
    channel.send(Render(0))
    with pytest.raises(DeadlineExceeded):
        channel.recv(0.05)
    assert not channel.child.wait(0.0)


@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        (hostile.huge_frame, "protocol"),
        (hostile.wrong_number, "protocol"),
        (hostile.garbage, "protocol"),
        (hostile.a_request, "protocol"),
        (hostile.half_a_frame_and_exit, "exit"),
        (hostile.leaves_a_child_with_the_socket, "exit"),
        (hostile.killed, "signal"),
        (hostile.closes_its_socket, "closed"),
    ],
)
def test_each_loss_has_its_cause(channel_to, behaviour, cause):
    channel = channel_to(behaviour)
    with pytest.raises(WorkerLost) as caught:
        ask(channel)
    assert caught.value.cause == cause
    assert channel.child.wait(0.0)


def test_a_request_that_is_not_taken_is_a_timeout_too(channel_to):
    channel = channel_to(hostile.never_reads, HASTY)
    began = awake_s()
    with pytest.raises(WorkerLost) as caught:
        channel.send(Call(0, "take", [np.zeros(10**6)]))
    assert caught.value.cause == "timeout" and awake_s() - began < 0.8


def test_a_flood_of_output_never_blocks_the_worker(channel_to):
    channel = channel_to(hostile.flood)
    assert ask(channel).value == "done"
    assert len(channel.child.output) <= hostile.KEPT_BYTES


def test_an_output_that_was_closed_is_no_reason_to_spin(channel_to):
    channel = channel_to(hostile.closes_its_output)
    assert ask(channel).value == "done"
    channel.send(Render(0))
    with pytest.raises(DeadlineExceeded):
        channel.recv(0.2)
    assert channel.child.output_fd is None and channel.child.drains < 10


def test_what_was_printed_last_ends_the_message(channel_to):
    with pytest.raises(DeadlineExceeded, match="It last printed:\nthe last thing that it said$"):
        ask(channel_to(hostile.silent, HASTY))
    with pytest.raises(DeadlineExceeded) as caught:
        ask(channel_to(hostile.endless_flood, HASTY))
    assert 1_000 < len(str(caught.value)) < 2_200


def test_frames_have_the_limits_of_the_rules(channel_to):
    tight = WallRules(call_s=20.0, frames=type(PATIENT.frames)(text_bytes=5_000))
    assert ask(channel_to(hostile.answering("x" * 5_000), tight)).value == "x" * 5_000
    with pytest.raises(WorkerLost, match="more than 5000 bytes of text") as caught:
        ask(channel_to(hostile.answering("x" * 5_001), tight))
    assert caught.value.cause == "protocol"


def test_an_honest_environment_is_the_same_behind_the_wall(channel_to):
    def build(what):
        return paddock.make(what["id"])

    here = paddock.make("CartPole-v1")
    there = HostedEnv(channel_to(hostile.hosting(build)), {"id": "CartPole-v1"}, wall=PATIENT)
    assert there.observation_space == here.observation_space and there.metadata == here.metadata
    first, second = here.reset(seed=3), there.reset(seed=3)
    assert first[0].tobytes() == second[0].tobytes()
    for at in range(20):
        one, other = here.step(at % 2), there.step(at % 2)
        assert one[0].tobytes() == other[0].tobytes() and one[1:] == other[1:]
    assert there.np_random.bit_generator.state == here.unwrapped.np_random.bit_generator.state
    assert there.has_wrapper_attr("unwrapped") and there.state().step_count == paddock.state(here).step_count
    assert there.get_wrapper_attr("render_mode") is None
    with pytest.raises(paddock.errors.InvalidAction):
        there.step(7)
    there.close()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([[OBSERVATION, float("nan"), False, False, {}]], "reward"),
        ([[OBSERVATION, 1.0, 1, False, {}]], "terminated"),
        ([[OBSERVATION + 2, 1.0, False, False, {}]], "observation[0]"),
        ([[OBSERVATION, 1.0, False, False, {"a": [SPACE]}]], "info['a'][0]"),
        ([[OBSERVATION, 1.0, False, False]], "step()"),
        (None, "step()"),
        ([], "step()"),
        ([{}, {}], "step()"),
    ],
)
def test_a_lie_stops_the_environment(env_of, value, path):
    env = env_of([OBSERVATION, {}], value)
    env.reset()
    with pytest.raises(EnvironmentViolation) as caught:
        env.step(0)
    assert caught.value.path == path and caught.value.__cause__ is None
    assert env._channel.child.wait(0.0)
    with pytest.raises(WorkerLost, match="was ended"):
        env.step(0)
    env.close()


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda env: env.reset(), 5),
        (lambda env: env.render(), np.zeros(3)),
        (lambda env: env.state(), [1]),
        (lambda env: env.episode(), None),
        (lambda env: env.public_state(), {}),
        (lambda env: env.snapshot(), "text"),
        (lambda env: env.has_wrapper_attr("a"), 7),
        (lambda env: env.get_wrapper_attr("a"), []),
        (lambda env: env.call("a"), [np.array([None])]),
        (lambda env: env.np_random, 5),
        (lambda env: env.np_random_seed, "5"),
    ],
)
def test_no_malformed_reply_raises_anything_else(env_of, call, value):
    with pytest.raises(EnvironmentViolation):
        call(env_of(value))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"observation_space": Box(0, 1, (2**13, 2**13), np.float64).to_json()}, "observation_space"),
        ({"observation_space": None, "custom": "\x1b[2JMine"}, "observation_space"),
        ({"action_space": "{"}, "action_space"),
        ({"metadata": {"render_modes": 5}}, "metadata['render_modes']"),
        ({"render_mode": "\x1b[2J"}, "render_mode"),
        ({"spec": "[" * 100_000}, "spec"),
        ({"spec": '{"id": 5}'}, "spec"),
        ({"metadata": 5}, "description"),
        ({"render_mode": 5}, "description"),
    ],
)
def test_a_lie_about_what_it_is_stops_it_too(channel_to, change, path):
    channel = channel_to(hostile.answering({**DESCRIBED, **change}))
    with pytest.raises(EnvironmentViolation) as caught:
        HostedEnv(channel, {}, wall=PATIENT)
    assert caught.value.path == path and "\x1b" not in str(caught.value)
    assert channel.child.wait(0.0)


def test_spaces_that_the_caller_knows_need_no_description(channel_to):
    channel = channel_to(hostile.answering({**DESCRIBED, "observation_space": None, "custom": "Mine"}))
    env = HostedEnv(channel, {}, wall=PATIENT, spaces=(SPACE, ACTIONS))
    assert env.observation_space is SPACE


def test_out_of_memory_is_the_end_of_the_worker(env_of):
    env = env_of(lambda number: hostile.reply(None, number, Failed("ENV_FAILED", "no room", "MemoryError")))
    with pytest.raises(WorkerLost, match="ran out of memory: no room") as caught:
        env.reset()
    assert caught.value.cause == "memory" and env._channel.child.wait(0.0)


def test_an_error_of_the_environment_leaves_it_alive(env_of):
    env = env_of(
        lambda number: hostile.reply(None, number, Failed("ENV_FAILED", "\x1b[2Jno", "ValueError")), [OBSERVATION, {}]
    )
    with pytest.raises(EnvFailed, match="^no$"):
        env.reset()
    assert env.reset()[1] == {}


def test_closing_takes_no_longer_than_a_second(channel_to):
    channel = channel_to(hostile.never_reads)
    began = awake_s()
    channel.close()
    assert awake_s() - began < 1.6 and channel.child.wait(0.0)


def test_the_reply_to_an_interrupted_call_is_not_taken_for_the_next_one(channel_to, monkeypatch):
    def interrupt(timeout_ms):
        raise KeyboardInterrupt

    channel = channel_to(hostile.answering("first", "second"))
    channel.send(Render(0))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(channel._arrivals, "poll", SimpleNamespace(poll=interrupt))
        channel.recv()
    channel.send(Render(0))
    assert channel.recv().value == "second"
