"""What fails in a rollout is kept as an error, never as a reward; and however rollouts end, nothing stays open."""

import _thread
import asyncio
import threading

import pytest

import paddock
from paddock.agentic import CallTool, Say, rollout
from paddock.agentic.rollouts import run
from paddock.hosting.codec import encode
from paddock.hosting.messages import Step
from paddock.record.trace import TraceReader
from tests.agentic.rollout_envs import Guess, Moody, Slow, Watched, hang_in_making


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch):
    monkeypatch.setattr(run, "_ABANDON_S", 0.3)
    Watched.begin_anew()
    Slow.go.clear()
    Slow.waiting.clear()
    before = set(threading.enumerate())
    yield
    Slow.go.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert Watched.open == []
    names = {thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()}
    assert names <= {"paddock-remote-keeper"}


def test_errors_of_environments_are_kept_and_never_a_reward(tmp_path):
    done = rollout(Moody, lambda turn: 0, [0, 1, 2, 3, 4, 5], concurrency=2, trace=tmp_path / "t.jsonl")
    assert [one.total_return for one in done] == [6.0, None, None, None, None, 6.0]
    assert [one.reward for one in done][1:5] == [None] * 4
    assert [(one.error.code, one.error.where, one.error.step) for one in done.errors] == [
        ("ENV_ERROR", "reset", 0),
        ("ENV_ERROR", "step", 0),
        ("EPISODE_FAILED", "step", 0),
        ("ENV_ERROR", "step", 0),
    ]
    assert [one.error.message for one in done.errors] == [
        "ValueError: not up for it",
        "KeyError: 'where was I'",
        "the grader is ill",
        "SystemExit: 3",
    ]
    assert done.error_share == pytest.approx(4 / 6)
    assert done.mean_return().value == 6.0
    told = {e.number: e.error and e.error.code for e in TraceReader(tmp_path / "t.jsonl")}
    assert told == {0: None, 1: "ENV_ERROR", 2: "ENV_ERROR", 3: "EPISODE_FAILED", 4: "ENV_ERROR", 5: None}


def test_an_environment_that_failed_is_replaced_unless_it_says_that_it_lives():
    rollout(Moody, lambda turn: 0, [0, 3, 3, 0], concurrency=1)
    assert len(Watched.made) == 1
    rollout(Moody, lambda turn: 0, [0, 2, 2, 0], concurrency=1)
    assert len(Watched.made) == 1 + 3


def test_an_environment_of_the_callers_own_goes_on_after_its_errors():
    env = Moody()
    done = rollout(env, lambda turn: 0, [0, 2, 1, 5])
    assert [one.ended for one in done] == ["terminated", "error", "error", "terminated"]
    assert Watched.open == [env]
    env.close()


def test_errors_of_policies_are_kept_apart():
    def policy(turn):
        if turn.np_random is None or turn.task.get("index") == 1:
            raise ValueError("no idea")
        return CallTool("fall") if turn.task["index"] == 2 else CallTool("guess", {"number": turn.number + 1})

    done = rollout(Guess, policy, 3, concurrency=1)
    assert done[0].total_return == 1.0
    assert (done[1].error.code, done[1].error.where) == ("POLICY_ERROR", "policy")
    assert done[1].error.message == "ValueError: no idea"
    assert (done[2].error.code, done[2].error.where) == ("EPISODE_FAILED", "step")
    assert "the floor" not in done[2].error.message


@pytest.mark.parametrize(
    ("answer", "code"),
    [(None, "POLICY_ERROR"), ({"type": "nonsense"}, "POLICY_ERROR"), (5, "POLICY_ERROR"), ([], "POLICY_ERROR")],
)
def test_an_answer_that_is_none_is_the_policys_error(answer, code):
    (done,) = rollout(Guess, lambda turn: answer, 1)
    assert (done.error.code, done.error.where, done.total_return) == (code, "policy", None)
    assert answer != 5 or "the policy returned an int; expected an action" in done.error.message


def test_an_action_outside_the_space_is_the_policys_error():
    (done,) = rollout("CartPole-v1", lambda turn: 7, 1)
    assert (done.error.code, done.error.where) == ("INVALID_ACTION", "policy")


class Far(Guess):
    """As one behind a wall: an action that can't be sent does not reach it."""

    def step(self, action):
        encode(Step([0], [action]))
        return super().step(action)


def test_what_a_model_wrote_and_can_not_be_sent_is_told_to_it_and_it_may_try_again():
    def policy(turn):
        said.append(turn.messages[-1]["content"])
        arguments = ['{"\\ud800": 1}', f'{{"number": 1{"0" * 4200}}}', f'{{"number": {turn.number - 1}}}'][
            min(turn.number, 2)
        ]
        function = {"name": "guess", "arguments": arguments}
        return {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}

    said = []
    (done,) = rollout(Far, policy, 1)
    assert (done.error, done.total_return) == (None, 1.0)
    assert all(text.startswith("Error: This can't be sent to the environment") for text in said[1:3])
    (done,) = rollout(Far, lambda turn: Say("\ud800"), 1)
    assert (done.error.code, done.error.where) == ("NOT_TRANSFERABLE", "policy")


def test_an_async_policy_that_raises_or_cancels_itself_is_kept():
    async def policy(turn):
        if turn.task["index"] == 0:
            raise TimeoutError("the client's own")
        raise asyncio.CancelledError

    done = rollout(Guess, policy, 2)
    assert [one.error.code for one in done] == ["POLICY_ERROR", "POLICY_ERROR"]
    assert done[0].error.message == "TimeoutError: the client's own"


def test_a_late_environment_is_left_behind_and_replaced(tmp_path):
    done = rollout(Slow, lambda turn: 0, [0, 1, 2, 4], concurrency=1, timeout_s=0.3, trace=tmp_path / "t.jsonl")
    assert [one.ended for one in done] == ["terminated", "error", "terminated", "terminated"]
    late = done[1]
    assert (late.error.code, late.error.where, late.error.step) == ("DEADLINE", "time", 0)
    assert late.total_return is None
    assert late.seconds >= 0.3
    assert len(Watched.made) == 2
    Slow.go.set()  # the one left behind comes back, and closes itself
    told = {e.number: e.error and e.error.code for e in TraceReader(tmp_path / "t.jsonl")}
    assert told == {0: None, 1: "DEADLINE", 2: None, 3: None}


def test_a_late_environment_of_the_callers_own_can_not_be_replaced():
    env = Slow()
    done = rollout(env, lambda turn: 0, [0, 1, 2], timeout_s=0.3)
    assert [one.ended for one in done] == ["terminated", "error", "error"]
    assert "can take its place" in done[2].error.message
    Slow.go.set()
    assert Watched.open == [env]
    env.close()


def test_a_late_policy_is_a_deadline_and_its_idle_environment_is_closed():
    go = threading.Event()

    def policy(turn):
        go.wait(60)
        return 0

    done = rollout(Watched, policy, 2, concurrency=1, timeout_s=0.2)
    assert [one.error.code for one in done] == ["DEADLINE"] * 2
    assert Watched.open == []  # though the policy has not come back
    go.set()


def test_a_late_async_policy_is_cancelled_and_the_environment_kept():
    cancelled = []

    async def policy(turn):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(turn.number)
            raise

    done = rollout(Watched, policy, 2, concurrency=1, timeout_s=0.2)
    assert [one.error.code for one in done] == ["DEADLINE"] * 2
    assert cancelled == [0, 0]
    assert len(Watched.made) == 1


def test_each_rollout_is_late_after_its_own_time():
    async def policy(turn):
        if not turn.number:
            begun.append(turn)
            await asyncio.sleep((60, 0.2, 60, 0.2)[len(begun) - 1])
        return 0

    begun = []
    done = rollout(Watched, policy, 4, concurrency=2, timeout_s=1.0)
    assert [one.error and one.error.code for one in done] == ["DEADLINE", None, "DEADLINE", None]
    assert all(1.0 <= one.seconds < 10 for one in done.errors)


def test_many_steps_that_take_too_long_together_are_late():
    (done,) = rollout(lambda: Watched(goal=10**9), lambda turn: 0, 1, timeout_s=0.2)
    assert done.error.code == "DEADLINE"
    assert done.steps > 1


@pytest.mark.process
def test_a_tool_that_hangs_elsewhere_is_ended_with_its_process(fresh_registry):
    paddock.register("me/Guess-v0", "tests.agentic.rollout_envs:Guess")

    def policy(turn):
        return CallTool("hang") if turn.task["index"] == 0 else CallTool("guess", {"number": turn.number + 1})

    # Made before the clock runs: to start a process may take longer than the test should.
    ready = [paddock.make("me/Guess-v0", isolation="process") for _ in range(2)]
    left = list(ready)
    done = rollout(lambda: left.pop(0), policy, 2, concurrency=1, timeout_s=2.0)
    assert [one.ended for one in done] == ["error", "terminated"]
    assert done[0].error.code == "DEADLINE"
    assert left == []
    for env in ready:
        with pytest.raises(paddock.PaddockError):
            env.reset()


@pytest.mark.process
def test_a_worker_that_dies_is_an_error_and_is_replaced(fresh_registry):
    paddock.register("me/Guess-v0", "tests.agentic.rollout_envs:Guess")
    made = []

    def make(target):
        made.append(paddock.make(target, isolation="process"))
        return made[-1]

    def policy(turn):
        if turn.task["index"] == 0:
            made[0].unwrapped._channel.child.kill()
        return CallTool("guess", {"number": turn.number + 1})

    done = rollout("me/Guess-v0", policy, 2, concurrency=1, make_env=make)
    assert [(one.ended, one.error and one.error.code) for one in done] == [("error", "ENV_LOST"), ("terminated", None)]


def test_environments_that_can_not_be_made_later_are_errors_of_their_rollouts():
    count = iter(range(100))

    def make():
        if next(count):
            raise paddock.errors.CapacityReached("the house is full")
        return Moody()

    done = rollout(make, lambda turn: 0, [2, 0, 0], concurrency=1)
    assert [one.error.code for one in done] == ["ENV_ERROR", "CAPACITY_REACHED", "CAPACITY_REACHED"]
    assert done[1].error.where == "making"


def test_a_first_environment_that_never_comes_is_raised(monkeypatch):
    monkeypatch.setattr(run, "_CLOSE_S", 0.1)
    with pytest.raises(paddock.errors.DeadlineExceeded, match="first environment"):
        rollout(hang_in_making, lambda turn: 0, 3, timeout_s=0.2)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_closes_everything_and_is_raised():
    once = threading.Lock()

    def policy(turn):
        if turn.number == 2 and once.acquire(blocking=False):
            _thread.interrupt_main()
        return 0

    with pytest.raises(KeyboardInterrupt):
        rollout(lambda: Watched(goal=10**6), policy, 64, concurrency=4)
    assert Watched.open == []


def test_an_interrupt_while_the_run_begins_ends_it(monkeypatch):
    def begin(thread):
        start(thread)
        if thread.name == "paddock-rollouts":
            assert asked.wait(30)
            raise KeyboardInterrupt

    def policy(turn):
        asked.set()
        return 0

    asked, start = threading.Event(), threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", begin)
    with pytest.raises(KeyboardInterrupt):
        rollout(lambda: Watched(goal=10**9), policy, 64, concurrency=4)
    assert Watched.open == []


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_steps_hang_returns_at_once_and_they_close_when_they_can():
    def interrupt():
        Slow.waiting.wait(10)
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        rollout(Slow, lambda turn: 0, [1, 3, 5], concurrency=3)


def test_keyboard_interrupt_from_a_policy_ends_the_whole():
    def policy(turn):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollout(Watched, policy, 8, concurrency=2)
    assert Watched.open == []


def test_a_trace_that_can_not_be_written_ends_the_whole(tmp_path, monkeypatch):
    from paddock.record.trace import writer

    def full(file, data):
        raise OSError(28, "No space left on device")

    def policy(turn):
        if turn.number == 1:
            monkeypatch.setattr(writer, "write_all", full)
        return 0

    with pytest.raises(OSError, match="No space"):
        rollout(Watched, policy, 8, concurrency=2, trace=tmp_path / "t.jsonl")
    assert Watched.open == []
    assert any(not episode.ended for episode in TraceReader(tmp_path / "t.jsonl"))


def test_an_environment_that_fails_to_close_fails_nothing():
    class Stubborn(Watched):
        def close(self):
            super().close()
            raise ValueError("I stay")

    assert rollout(Stubborn, lambda turn: 0, 3)[2].total_return == 6.0


def test_observations_without_a_form_in_a_trace_are_that_rollouts_error(tmp_path):
    class Strange(Watched):
        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed)
            return (object() if seed == 1 else observation), info

    done = rollout(Strange, lambda turn: 0, [0, 1, 2], trace=tmp_path / "t.jsonl")
    assert [one.error and (one.error.code, one.error.where) for one in done] == [None, ("INVALID_TRACE", "trace"), None]


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, SystemExit])
def test_a_policy_that_raises_what_is_no_exception_ends_its_own_rollout_alone(error):
    def policy(turn):
        if turn.task["index"] == 1:
            raise error
        return "x"

    played = rollout("paddock/Echo", policy, [0, 1, 2], concurrency=2, progress=False)
    assert [one.error and one.error.code for one in played] == [None, "POLICY_ERROR", None]
