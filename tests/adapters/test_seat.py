"""A seat makes, mends and closes its environment; an episode that broke has no reward."""

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

from paddock.adapters.seat import LOOP, BackgroundLoop, Failures, Seat, SeatRules, ThreadEnv, make_for_async
from paddock.agentic import ToolEnv, tool
from paddock.core.registry import register
from paddock.errors import (
    ClosedEnvironmentError,
    EpisodeFailed,
    InvalidTask,
    NotTransferable,
    PlanError,
    ToolFailed,
    WorkerLost,
    WrongClass,
)
from tests.peers import ROOT

CALL = {"type": "call_tool", "tool_name": "work", "arguments": {}}


class Space:
    def validate(self, action):
        return action


class FakeEnv:
    """Does what the script says: an error to raise, "hang", or anything else for success."""

    def __init__(self, script):
        self.script, self.closed, self.action_space = script, threading.Event(), Space()
        self.metadata, self.spec, self.seeds = {}, None, []

    async def _next(self):
        what = self.script.pop(0) if self.script else None
        if isinstance(what, Exception):
            raise what
        if what == "hang":
            await asyncio.Event().wait()
        return what

    async def reset(self, *, seed=None, options=None):
        self.seeds.append((seed, options))
        await self._next()
        return {"content": [{"type": "text", "text": "begin"}]}, {"info": 1}

    async def step(self, action):
        ended = await self._next() == "end"
        return {"content": [{"type": "text", "text": "done"}]}, 1.5, ended, False, {}

    async def close(self):
        self.closed.set()


class Maker:
    def __init__(self, *scripts):
        self.scripts, self.made = list(scripts), []

    async def __call__(self):
        script = self.scripts.pop(0) if self.scripts else []
        if isinstance(script, Exception):
            raise script
        self.made.append(FakeEnv(list(script)))
        return self.made[-1]


def seat_of(*scripts, **rules):
    maker, failures = Maker(*scripts), Failures()
    return Seat(maker, SeatRules(**rules), failures), maker, failures


def reset(seat, seed=None, options=None):
    return LOOP.wait(seat.reset(seed, options))


def step(seat):
    return LOOP.wait(seat.step(CALL))


def test_rewards_of_an_episode_are_summed():
    seat, maker, failures = seat_of([None, None, "end"])
    assert reset(seat, 3, {"index": 1})["content"][0]["text"] == "begin"
    step(seat)
    assert (seat.episode.reward, seat.episode.over) == (1.5, False)
    step(seat)
    assert (seat.episode.reward, seat.episode.terminated, seat.episode.over) == (3.0, True, True)
    assert maker.made[0].seeds == [(3, {"index": 1})]
    assert (failures.episodes, failures.failed) == (1, 0)


def test_step_after_the_end_has_words_for_the_model_and_changes_nothing():
    seat, *_ = seat_of([None, "end"])
    reset(seat)
    step(seat)
    with pytest.raises(ToolFailed, match="over"):
        step(seat)
    assert seat.episode.reward == 1.5


@pytest.mark.process
@pytest.mark.parametrize("arguments", [{"\ud800": 1}, {"message": 10**4200}])
def test_what_a_model_wrote_and_no_wall_lets_through_is_told_to_it_and_the_episode_goes_on(arguments):
    failures = Failures()
    seat = Seat(lambda: make_for_async("paddock/Echo", isolation="sandbox"), SeatRules(), failures)
    reset(seat)
    with pytest.raises(ToolFailed, match="can't be sent to the environment"):
        LOOP.wait(seat.step({"type": "call_tool", "tool_name": "echo_message", "arguments": arguments}))
    assert (seat.episode.failure, failures.failed) == (None, 0)
    told = LOOP.wait(seat.step({"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": "hi"}}))
    assert told["content"][0]["text"] == "hi"
    LOOP.wait(seat.close())


def test_what_an_environment_can_not_send_back_is_not_the_models_fault():
    seat, _, failures = seat_of([None, NotTransferable("observation is a socket")])
    reset(seat)
    with pytest.raises(ToolFailed, match="does not count"):
        step(seat)
    assert (seat.episode.reward, failures.failed) == (None, 1)


def test_reset_is_tried_again_in_a_new_environment():
    seat, maker, failures = seat_of([WorkerLost("gone")], WorkerLost("no room"), [None])
    assert reset(seat) is not None
    assert len(maker.made) == 2 and maker.made[0].closed.wait(5)
    assert (failures.episodes, failures.failed) == (1, 0)


def test_episode_that_can_not_begin_is_none_and_counted(caplog):
    seat, _, failures = seat_of(*[WorkerLost("gone")] * 2, attempts=2)
    assert reset(seat) is None
    assert seat.episode.reward is None
    assert seat.episode.failure == failures.last == "WorkerLost: gone"
    assert (failures.failed, failures.in_a_row) == (1, 1)
    assert "not scored: WorkerLost: gone" in caplog.text
    with pytest.raises(ToolFailed, match="does not count"):
        step(seat)
    assert failures.failed == 1
    assert reset(seat) is not None and seat.episode.reward == 0.0


def test_mistakes_are_raised_at_once():
    for mistake in (InvalidTask("no such task"), PlanError("no such way")):
        seat, maker, failures = seat_of([mistake])
        with pytest.raises(type(mistake)):
            reset(seat)
        assert (len(maker.made), failures.failed) == (1, 0)


def test_many_broken_episodes_in_a_row_are_an_error():
    seat, *_ = seat_of(*[WorkerLost("gone")] * 5, attempts=1, give_up_after=2)
    assert reset(seat) is None and reset(seat) is None
    with pytest.raises(EpisodeFailed, match="2 episodes in a row failed.*gone.*give_up_after"):
        reset(seat)
    assert reset(seat) is None  # whoever goes on is told again only after as many


def test_a_step_that_was_done_ends_the_row():
    seat, _, failures = seat_of([None, WorkerLost("gone")], [None, None, WorkerLost("gone")], give_up_after=2)
    reset(seat)
    with pytest.raises(ToolFailed):
        step(seat)
    assert failures.in_a_row == 1
    reset(seat)
    step(seat)
    assert failures.in_a_row == 0


def test_lost_environment_is_replaced_and_its_episode_has_no_reward():
    seat, maker, failures = seat_of([None, None, WorkerLost("gone")])
    reset(seat)
    step(seat)
    with pytest.raises(ToolFailed, match="does not count") as caught:
        step(seat)
    assert isinstance(caught.value.__cause__, WorkerLost)
    assert seat.episode.reward is None and failures.failed == 1
    assert maker.made[0].closed.wait(5)
    assert reset(seat) is not None and len(maker.made) == 2


def test_failed_episode_of_a_living_environment_keeps_it():
    seat, maker, _ = seat_of([None, EpisodeFailed("the grader failed"), None])
    reset(seat)
    with pytest.raises(ToolFailed):
        step(seat)
    assert seat.episode.reward is None
    reset(seat)
    assert len(maker.made) == 1 and not maker.made[0].closed.is_set()


def test_environment_that_hangs_is_given_up():
    seat, maker, _ = seat_of(["hang"], [None, "hang"], timeout_s=0.05)
    assert reset(seat) is not None
    with pytest.raises(ToolFailed):
        step(seat)
    assert seat.episode.failure == "TimeoutError: no answer within 0.05 s"
    assert all(env.closed.wait(5) for env in maker.made)


def test_idle_environment_is_closed_and_the_next_reset_makes_another():
    seat, maker, _ = seat_of(idle_s=0.05)
    reset(seat)
    assert maker.made[0].closed.wait(5)
    with pytest.raises(ToolFailed, match="does not count"):
        step(seat)
    assert "closed after 0.05 s without use" in seat.episode.failure
    assert reset(seat) is not None and len(maker.made) == 2


def test_prepared_environment_is_the_one_that_is_used():
    seat, maker, _ = seat_of()
    seat.prepare()
    reset(seat)
    assert len(maker.made) == 1


def test_leaving_closes_the_environment():
    seat, maker, _ = seat_of()
    reset(seat)
    seat.leave()
    assert maker.made[0].closed.wait(5)


def test_loop_serves_plain_code_and_other_loops():
    async def value(number):
        return number

    async def elsewhere():
        return await asyncio.gather(*(LOOP.of(value(number)) for number in range(4)))

    assert LOOP.wait(value(3)) == 3
    assert asyncio.run(elsewhere()) == [0, 1, 2, 3]


@pytest.mark.parametrize("rules", [{"attempts": 0}, {"idle_s": -1}, {"timeout_s": "long"}, {"give_up_after": 0}])
def test_rules_that_make_no_sense_are_refused(rules):
    with pytest.raises(PlanError, match=next(iter(rules))):
        SeatRules(**rules)


@pytest.mark.process
def test_class_made_before_a_fork_works_after_it():
    program = """
    import os
    from paddock.adapters.trl import environment_factory
    made = environment_factory("paddock/Echo")
    first = made().reset(index=0)
    if child := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0 if made().reset(index=0) == first else 1)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(ROOT / "src")})
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_begins_in_a_loop_that_never_ran():
    BackgroundLoop().begin(lambda: pytest.fail("it ran"))


# Environments in threads of their own.


class Meeting(ToolEnv):
    """Its tool returns when as many as there are seats are in it."""

    room = threading.Barrier(4)
    threads = set()
    open = 0

    def begin(self, task):
        return "Come."

    @tool
    def meet(self) -> str:
        """Wait for the others."""
        self.threads.add(threading.get_ident())
        self.room.wait(10)
        return "met"

    def close(self):
        type(self).open -= 1
        super().close()

    def __init__(self):
        type(self).open += 1


@pytest.fixture
def meeting(fresh_registry):
    Meeting.open = 0
    register("Meeting-v0", entry_point=Meeting)
    return "Meeting-v0"


def test_local_environments_step_at_once(meeting):
    failures = Failures()
    seats = [Seat(lambda: make_for_async(meeting), SeatRules(), failures) for _ in range(4)]
    action = {"type": "call_tool", "tool_name": "meet", "arguments": {}}

    async def all_of_them():
        await asyncio.gather(*(seat.reset(None, None) for seat in seats))
        return await asyncio.gather(*(seat.step(action) for seat in seats))

    assert [seen["result"] for seen in LOOP.wait(all_of_them())] == ["met"] * 4
    for seat in seats:
        LOOP.wait(seat.close())
    assert Meeting.open == 0


def test_thread_environment_that_is_closed_says_so(meeting):
    async def use():
        env = await ThreadEnv.make(meeting)
        await env.close()
        await env.close()
        await env.reset()

    with pytest.raises(ClosedEnvironmentError):
        LOOP.wait(use())


def test_lanes_are_refused():
    with pytest.raises(WrongClass, match="num_envs"):
        LOOP.wait(make_for_async("CartPole-v1", num_envs=2))


def test_trainer_class_can_be_collected_with_what_it_holds(meeting):
    from paddock.adapters.trl import environment_factory

    instance = environment_factory(meeting)()
    instance.reset()
    gone, closed = weakref.ref(instance), threading.Event()
    seat = instance._seat
    leaving = seat.close

    async def told():
        await leaving()
        closed.set()

    seat.close = told
    del instance
    gc.collect()
    assert gone() is None
    assert closed.wait(5)
    assert Meeting.open == 0


@pytest.mark.process
def test_environments_are_closed_when_python_ends(tmp_path):
    program = f"""
    import paddock
    from paddock.adapters.trl import environment_factory
    from paddock.agentic import ToolEnv, tool

    class Mark(ToolEnv):
        @tool
        def work(self) -> str:
            '''Work.'''

        def close(self):
            with open({str(tmp_path / "closed")!r}, "a") as file:
                file.write("x")
            super().close()

    paddock.register("Mark-v0", entry_point=Mark)
    kept = [environment_factory("Mark-v0")() for _ in range(3)]
    for one in kept:
        one.reset()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(ROOT / "src")})
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "closed").read_text() == "x" * 6  # and the three that were asked for their tools
