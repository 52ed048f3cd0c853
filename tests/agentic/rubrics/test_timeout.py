"""A rubric that must answer in time."""

import asyncio

import pytest

from paddock.agentic.rubrics import Rubric, Sequential, Timeout, WeightedSum
from paddock.agentic.rubrics.combinators import Late
from paddock.errors import InvalidRubric
from tests.agentic.rubrics.parts import Blocked, Endless, Fixed, Later, Raising, RaisingLater, ask


@pytest.fixture
def blocked():
    rubric = Blocked()
    yield rubric
    rubric.go.set()


@pytest.mark.parametrize("make", [Fixed, Later])
def test_score_in_time_is_the_score(make):
    assert ask(Timeout(make(0.5), 60)) == 0.5


def test_sync_child_is_asked_synchronously():
    assert Timeout(Fixed(0.5), 60)(None, None) == 0.5


@pytest.mark.parametrize("make", [Raising, RaisingLater])
def test_error_in_time_is_the_error(make):
    with pytest.raises(ValueError, match="42"):
        ask(Timeout(make(), 60))


def test_a_timeout_of_the_childs_own_is_not_taken_for_ours():
    with pytest.raises(TimeoutError, match="database") as caught:
        ask(Timeout(Raising(TimeoutError("database")), 60))
    assert not isinstance(caught.value, Late)


def test_late_sync_code_is_left_behind(blocked):
    with pytest.raises(Late, match=r"no result within 0.01 s"):
        Timeout(blocked, 0.01)(None, None)


def test_while_late_code_still_runs_every_call_is_late(blocked):
    rubric = Timeout(blocked, 0.01)
    with pytest.raises(Late):
        rubric(None, None)
    rubric.timeout_s = 60
    with pytest.raises(Late, match="an earlier call has not returned"):
        rubric(None, None)


def test_late_async_code_is_cancelled_before_the_error_comes_out():
    endless = Endless()

    async def asked():  # seen from inside: at its end asyncio.run cancels what is left
        with pytest.raises(Late, match=r"no result within 0.01 s"):
            await Timeout(endless, 0.01)(None, None)
        return endless.cancelled

    assert asyncio.run(asked())


def test_cancelled_timeout_cancels_its_child():
    endless = Endless()

    async def asked():
        with pytest.raises(ValueError, match="42"):
            await WeightedSum([Timeout(endless, 60), RaisingLater()], [0.5, 0.5])(None, None)
        return endless.cancelled

    assert asyncio.run(asked())


def test_async_child_runs_in_the_loop_of_who_asked():
    class WhichLoop(Rubric):
        async def forward(self, action, observation):
            return asyncio.get_running_loop() is action

    async def asked():
        return await Timeout(Sequential(Fixed(1), WhichLoop()), 60)(asyncio.get_running_loop(), None)

    assert asyncio.run(asked()) == 1.0


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan"), None, "1"])
def test_time_is_a_positive_number_of_seconds(timeout_s):
    with pytest.raises(InvalidRubric, match="timeout_s"):
        Timeout(Fixed(1), timeout_s)
