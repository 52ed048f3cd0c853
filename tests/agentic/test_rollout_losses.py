"""Nothing is lost: endpoints that fail in every way, runs that were killed or cut short, and going on with them."""

import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from paddock.adapters.chat import chat_policy
from paddock.agentic import CallTool, ModelEndpoint, Rollouts, arollout, rollout, stream
from paddock.agentic.rollouts import run
from paddock.errors import EpisodeFailed, PlanError
from paddock.record.trace import TraceReader
from tests.agentic.model_server import model_server, reply
from tests.agentic.rollout_envs import Guess, Watched


def at_random(turn):
    return CallTool("guess", {"number": int(turn.np_random.integers(1, 11))})


def by_order(request):
    """Guess 1, 2, 3 … : the same request has the same answer."""
    tried = sum(message["role"] == "tool" for message in request["messages"])
    return reply(calls=[("guess", {"number": tried + 1})], usage={"prompt_tokens": 5, "completion_tokens": 2})


def flaky(seed, share):
    """An endpoint that fails in one of six ways, as often as ``share``."""
    draws, lock = random.Random(seed), threading.Lock()

    def answer(request):
        whole = json.dumps(by_order(request)).encode()
        failures = (
            (500, {}, {"error": {"message": "boom"}}),
            (429, {"Retry-After": "0.01"}, {"error": {"message": "slow down"}}),
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(whole) + whole[:20],
            (200, {}, whole.decode()[:30]),
            reply("cut", finish="length"),
            None,
        )
        with lock:
            fails, which = draws.random() < share, draws.choice(failures)
        return which if fails else by_order(request)

    return answer


CODES = {
    "MODEL_UNAVAILABLE",
    "MODEL_OVERLOADED",
    "MODEL_REPLY_INVALID",
    "MODEL_REPLY_CUT_OFF",
    "MODEL_TIMEOUT",
}


@pytest.mark.parametrize("count", [120, pytest.param(2000, marks=pytest.mark.full)])
def test_rollouts_finish_at_a_flaky_endpoint_and_what_does_not_is_labelled(seed, count):
    with model_server(flaky(seed, 0.1)) as server:
        endpoint = ModelEndpoint("toy", server.url, timeout_s=1.0)
        once = rollout(Guess, endpoint, count // 4, progress=False)
        done = rollout(Guess, endpoint, count, retries=5, backoff_s=0.01, progress=False)
    assert once.errors and {one.error.code for one in once.errors} <= CODES
    assert {one.error.where for one in once.errors} == {"policy"}
    assert 1.0 - done.error_share >= 0.99
    assert {one.error.code for one in done.errors} <= CODES
    assert all(one.total_return == 1.0 for one in done if one.error is None)
    failed = [call for one in done for call in one.calls if call.error is not None]
    assert len(failed) >= sum(one.retries for one in done) > 0
    assert {call.error[0] for call in failed} == CODES


def result(one):
    return one.place, one.attempt, one.seed, one.rewards, one.messages, one.ended


def assert_whole(path, expected):
    """The trace has the results of an undisturbed run, and no rollout finished twice."""
    assert [result(one) for one in Rollouts.load(path)] == expected
    ended = [(e.about["place"], e.about["attempt"]) for e in TraceReader(path) if e.ended and e.error is None]
    assert len(ended) == len(set(ended)) == len(expected)


KILLED = """
import sys
from paddock.agentic import ModelEndpoint, rollout
from tests.agentic.rollout_envs import Guess
url, trace = sys.argv[1:]
rollout(Guess, ModelEndpoint("toy", url), 20, attempts=2, concurrency=8, trace=trace, resume=True, progress=False)
"""


@pytest.mark.process
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
def test_a_run_that_is_killed_again_and_again_has_the_same_results(tmp_path, seed, kills):
    draws, trace = random.Random(seed), tmp_path / "run.jsonl"
    left, child, lock = 0, None, threading.Lock()

    def answer(request):
        nonlocal left
        with lock:
            left -= 1
            if left == 0:
                os.kill(child.pid, signal.SIGKILL)
        return by_order(request)

    with model_server(answer) as server:
        expected = [
            result(one) for one in rollout(Guess, ModelEndpoint("toy", server.url), 20, attempts=2, progress=False)
        ]
        killed = 0
        for more in [*(draws.randrange(2, 160 // kills + 2) for _ in range(kills)), -1]:
            with lock:
                left = more
                child = subprocess.Popen([sys.executable, "-c", KILLED, server.url, str(trace)])
            killed += child.wait() == -signal.SIGKILL
    assert killed == kills
    assert_whole(trace, expected)


@pytest.mark.parametrize("cuts", [6, pytest.param(200, marks=pytest.mark.full)])
def test_a_trace_that_breaks_off_at_any_byte_is_resumed(tmp_path, seed, cuts):
    draws, whole = random.Random(seed), tmp_path / "whole.jsonl"
    options = {"attempts": 2, "max_turns": 5, "progress": False}
    expected = [result(one) for one in rollout(Guess, at_random, 6, trace=whole, **options)]
    text = whole.read_bytes()
    for cut in range(cuts):
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(text[: draws.randrange(len(text))])
        assert [result(one) for one in rollout(Guess, at_random, 6, trace=path, resume=True, **options)] == expected
        assert_whole(path, expected)


def test_a_resumed_run_plays_what_failed_again_and_nothing_else(tmp_path):
    failing, asked = {2, 5}, []

    async def policy(turn):
        asked.append(turn.task["index"])
        if turn.task["index"] in failing:
            raise ValueError("no idea")
        return CallTool("guess", {"number": turn.number + 1})

    trace = tmp_path / "run.jsonl"
    first = rollout(Guess, policy, 6, trace=trace, progress=False)
    assert [one.place for one in first.errors] == [2, 5]
    failing.clear()
    asked.clear()
    second = rollout(Guess, policy, 8, trace=trace, resume=True, progress=False)
    assert not second.errors and set(asked) == {2, 5, 6, 7}
    assert_whole(trace, [result(one) for one in second])
    with pytest.raises(PlanError, match="is of another run"):
        rollout(Guess, policy, [("test", 0), ("test", 1)], trace=trace, resume=True, progress=False)
    with pytest.raises(PlanError, match="name the trace"):
        rollout(Guess, policy, 1, resume=True)


class Shaky(Watched):
    """Fails in its first two episodes."""

    left = 2

    def step(self, action):
        if Shaky.left:
            Shaky.left -= 1
            raise EpisodeFailed("not yet")
        return super().step(action)


def test_a_rollout_whose_environment_failed_begins_again(tmp_path):
    Shaky.left = 2
    (one,) = rollout(Shaky, lambda turn: 0, 1, retries=3, backoff_s=0.001, trace=tmp_path / "t.jsonl", progress=False)
    assert (one.error, one.retries, one.total_return) == (None, 2, 6.0)
    episodes = list(TraceReader(tmp_path / "t.jsonl"))
    assert [e.error and e.error.code for e in episodes] == ["EPISODE_FAILED", "EPISODE_FAILED", None]
    assert [r.total_return for r in Rollouts.load(tmp_path / "t.jsonl")] == [6.0]


@pytest.mark.parametrize(
    ("retry_on", "tries"),
    [(None, 3), ({"POLICY_ERROR"}, 3), ({"MODEL_OVERLOADED"}, 1), (lambda error: "idea" in str(error), 3), ([], 1)],
)
def test_which_failures_are_tried_again_can_be_chosen(retry_on, tries):
    asked = []

    def policy(turn):
        asked.append(turn.number)
        raise ValueError("no idea")

    rollout(Guess, policy, 1, retries=2, retry_on=retry_on, backoff_s=0.001, progress=False)
    assert len(asked) == tries


@pytest.mark.parametrize(("status", "tries"), [(400, 1), (401, 1), (429, 3), (500, 3)])
def test_a_refusal_is_not_tried_again(status, tries):
    with model_server(lambda request: (status, {}, {"error": "x"})) as server:
        rollout(Guess, ModelEndpoint("toy", server.url), 1, retries=2, backoff_s=0.001, progress=False)
    assert len(server.requests) == tries


def test_the_wait_that_an_endpoint_asks_for_is_kept():
    times = []

    def answer(request):
        times.append(asyncio.get_running_loop().time())
        return (429, {"Retry-After": "0.3"}, "later") if len(times) == 1 else by_order(request)

    with model_server(answer) as server:
        (one,) = rollout(Guess, ModelEndpoint("toy", server.url), 1, retries=1, backoff_s=0.001, progress=False)
    assert one.error is None and times[1] - times[0] >= 0.29


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_brings_the_results_so_far():
    import _thread

    def policy(turn):
        if turn.task["index"] == 3:
            _thread.interrupt_main()
            threading.Event().wait(30)
        return CallTool("guess", {"number": turn.number + 1})

    before, run._ABANDON_S = run._ABANDON_S, 0.2
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            rollout(Guess, policy, 8, concurrency=1, progress=False)
    finally:
        run._ABANDON_S = before
    assert [one.place for one in caught.value.rollouts] == [0, 1, 2]


def test_the_callers_loop_goes_on_and_results_come_as_they_end():
    async def policy(turn):
        await gates[turn.task["index"]].wait()
        return CallTool("guess", {"number": turn.number + 1})

    async def main():
        gates.update({index: asyncio.Event() for index in range(3)})
        found = []
        gates[2].set()
        async for one in stream(Guess, policy, 3, progress=False):
            found.append(one.place)
            for index in (1, 0):
                if not gates[index].is_set():
                    gates[index].set()
                    break
        return found

    gates: dict[int, asyncio.Event] = {}
    assert asyncio.run(main()) == [2, 1, 0]


def test_a_result_that_is_handed_out_is_in_the_trace(tmp_path):
    async def policy(turn):
        await asyncio.sleep(0)
        return CallTool("guess", {"number": turn.number + 1})

    async def main():
        found = 0
        async for _ in stream(Guess, policy, 12, concurrency=4, trace=tmp_path / "t.jsonl", progress=False):
            found += 1
            written.append((tmp_path / "t.jsonl").read_bytes().count(b'{"type":"end"') - found)

    written = []
    asyncio.run(main())
    assert len(written) == 12 and min(written) >= 0


def test_the_garbage_collector_is_as_it_was_after_runs_that_overlap():
    async def play(gate, opens):
        async def policy(turn):
            opens.set()
            await gate.wait()
            rooms.append(gc.get_threshold()[0])
            return CallTool("guess", {"number": 1})

        await arollout(Guess, policy, 4, concurrency=4, max_turns=1, progress=False)

    async def main():
        first, second, begun = asyncio.Event(), asyncio.Event(), asyncio.Event()
        one = asyncio.ensure_future(play(first, begun))
        await begun.wait()
        two = asyncio.ensure_future(play(second, first))
        await one
        second.set()
        await two

    before, rooms = gc.get_threshold(), []
    asyncio.run(main())
    assert gc.get_threshold() == before and set(rooms) == {before[0] + 4 * run._OBJECTS}


def test_leaving_a_stream_ends_the_other_rollouts():
    cancelled, waiting = [], asyncio.Semaphore(0)

    async def policy(turn):
        if turn.task["index"] == 0:
            for _ in range(0 if turn.number else 3):
                await waiting.acquire()
        else:
            waiting.release()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(turn.task["index"])
                raise
        return CallTool("guess", {"number": turn.number + 1})

    async def main():
        results = stream(Guess, policy, 4, progress=False)
        one = await anext(results)
        await results.aclose()
        return one

    assert asyncio.run(main()).place == 0
    assert sorted(cancelled) == [1, 2, 3]


def test_arollout_is_cancelled_as_any_coroutine_and_closes_everything():
    Watched.begin_anew()

    async def policy(turn):
        began.set()
        await asyncio.Event().wait()

    async def main():
        nonlocal began
        began = asyncio.Event()
        task = asyncio.ensure_future(arollout(Watched, policy, 8, concurrency=3, progress=False))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = asyncio.Event()
    asyncio.run(main())
    assert Watched.open == []


def test_a_thousand_rollouts_wait_for_their_model_at_once():
    async def policy(turn):
        nonlocal waiting
        waiting += 1
        if waiting == 1000:
            everyone.set()
        await everyone.wait()
        return CallTool("guess", {"number": 1})

    async def main():
        nonlocal everyone
        everyone = asyncio.Event()
        return await arollout(Guess, policy, 1000, concurrency=1000, max_turns=1, progress=False)

    waiting, everyone = 0, asyncio.Event()
    assert len(asyncio.run(main())) == 1000


class Busy(Exception):
    """As an SDK has it."""

    status_code = 429
    response = SimpleNamespace(headers={"retry-after": "0.2"})


def test_a_client_of_ones_own_is_recorded_too_with_its_failures(tmp_path):
    """And the wait that the endpoint asked it for is kept."""

    def create(messages, tools, model, api_key):
        times.append(time.monotonic())
        if len(times) == 1:
            raise Busy("slow down, sk-secret")
        function = SimpleNamespace(name="guess", arguments=json.dumps({"number": len(messages) // 2 + 1}))
        call = SimpleNamespace(id="c", type="function", function=function)
        message = SimpleNamespace(content=None, tool_calls=[call], reasoning_content="hm")
        return SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason="tool_calls")], usage=None)

    times, trace = [], tmp_path / "t.jsonl"
    policy = chat_policy(create, model="own", api_key="sk-secret")
    (one,) = rollout(Guess, policy, 1, retries=1, backoff_s=0.001, trace=trace, progress=False)
    assert (one.total_return, one.retries) == (1.0, 1) and times[1] - times[0] >= 0.19
    assert [call.error for call in one.calls] == [("POLICY_ERROR", "Busy"), *[None] * one.turns]
    (loaded,) = Rollouts.load(trace)
    assert loaded.calls[1].message["reasoning_content"] == "hm"
    assert loaded.calls[1].request["model"] == "own"
    assert "sk-secret" not in trace.read_text()
