"""grade(): provenance of a score, and every way in which a grading fails."""

import asyncio
import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.agentic.rubrics import Gate, Grade, LLMJudge, Rubric, RubricDict, Sequential, Timeout, WeightedSum, grade
from paddock.agentic.threads import TimedThread
from paddock.errors import EpisodeFailed, GradingFailed
from tests.agentic.rubrics.parts import Blocked, Endless, Fixed, Later, Raising, RaisingLater, Seen, Won

BOTH = pytest.mark.parametrize("make", [Fixed, Later])


@BOTH
def test_parts_are_the_scores_of_all_descendants_by_dotted_name(make):
    rubric = Sequential(Gate(make(0.75), 0.5), WeightedSum([make(1.0), make(0.5)], [0.5, 0.5]))
    assert grade(rubric, "a", None) == Grade(
        0.75,
        {
            "rubric_0": 0.75,
            "rubric_0.rubric": 0.75,
            "rubric_1": 0.75,
            "rubric_1.rubric_0": 1.0,
            "rubric_1.rubric_1": 0.5,
        },
        True,
    )


@BOTH
def test_parts_that_were_not_asked_this_time_are_not_there(make):
    rubric = Sequential(make(1.0), make(0.5))
    assert grade(rubric, "a", None).parts == {"rubric_0": 1.0, "rubric_1": 0.5}
    rubric[0].score = 0.0
    assert grade(rubric, "a", None).parts == {"rubric_0": 0.0}


def test_only_the_chosen_rubric_of_a_dict_is_told():
    class ByGame(Rubric):
        def __init__(self):
            self.games = RubricDict({"chess": Fixed(0.5), "go": Fixed(0.25)})

        def forward(self, action, observation):
            return self.games[observation](action, observation)

    assert grade(ByGame(), "a", "go").parts == {"games.go": 0.25}


def test_rubric_with_two_names_is_told_under_both():
    shared = Fixed(0.5)
    assert grade(Sequential(shared, Gate(shared, 0.1)), "a", None).parts == {
        "rubric_0": 0.5,
        "rubric_1": 0.5,
        "rubric_1.rubric": 0.5,
    }


def test_provenance_is_plain_data():
    assert grade(Gate(Fixed(True)), "a", None).provenance() == {
        "score": 1.0,
        "parts": {"rubric": 1.0},
        "replayable": True,
    }


def test_score_is_replayable_unless_a_judge_was_asked():
    rubric = Sequential(Fixed(1.0), LLMJudge("{action}", lambda prompt: "0.5"))
    assert not grade(rubric, "a", None).replayable
    rubric[0].score = 0.0
    assert grade(rubric, "a", None).replayable


def test_judge_that_is_no_child_counts_too():
    class Hidden(Rubric):
        def __init__(self):
            self.judges = [LLMJudge("{action}", lambda prompt: "0.5")]

        def forward(self, action, observation):
            return self.judges[0](action, observation)

    assert grade(Hidden(), "a", None) == Grade(0.5, {}, False)


def test_parts_behind_a_timeout_are_told_as_well():
    rubric = Timeout(WeightedSum([Fixed(1.0), Later(0.5)], [0.5, 0.5]), 60)
    assert grade(rubric, "a", None).parts == {"rubric": 0.75, "rubric.rubric_0": 1.0, "rubric.rubric_1": 0.5}


def test_gradings_at_the_same_time_do_not_mix():
    meeting = threading.Barrier(2)

    class Own(Rubric):
        def __init__(self, score):
            self.part = Fixed(score)

        def forward(self, action, observation):
            meeting.wait(10)
            return self.part(action, observation)

    grades = {}
    threads = [
        threading.Thread(target=lambda score=score: grades.update({score: grade(Own(score), "a", None)}))
        for score in (0.25, 0.75)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {score: told.parts for score, told in grades.items()} == {0.25: {"part": 0.25}, 0.75: {"part": 0.75}}


def test_end_of_a_trajectory_tells_the_reward_of_each_step():
    rubric = Won(gamma=0.5)
    assert grade(rubric, 0.0, Seen()).step_rewards is None
    told = grade(rubric, 1.0, Seen(True))
    assert (told.score, told.step_rewards) == (1.0, (0.5, 1.0))
    assert told.provenance()["step_rewards"] == [0.5, 1.0]


# Failures


CASES = {
    "root": (Fixed("1"), "", "Fixed", "its score is a str"),
    "part": (Sequential(Gate(Fixed(float("nan")))), "rubric_0.rubric", "Fixed", "its score is nan"),
    "async part": (WeightedSum([Later(1), Later(None)], [0.5, 0.5]), "rubric_1", "Later", "its score is a NoneType"),
    "raises": (Sequential(Fixed(1), Raising()), "rubric_1", "Raising", "ValueError"),
    "raises later": (WeightedSum([Fixed(1), RaisingLater()], [0.5, 0.5]), "rubric_1", "RaisingLater", "ValueError"),
    "exits": (Gate(Raising(SystemExit(0))), "rubric", "Raising", "it called sys.exit()"),
    "exits later": (
        WeightedSum([Later(1), RaisingLater(SystemExit(0))], [0.5, 0.5]),
        "rubric_1",
        "RaisingLater",
        "it called sys.exit()",
    ),
    "judge": (
        Sequential(LLMJudge("{action}", lambda prompt: "good", default_score=None)),
        "rubric_0",
        "LLMJudge",
        "its judge's reply has no score",
    ),
    "has no score": (Sequential(RubricDict()), "rubric_0", "RubricDict", "NotImplementedError"),
}


@pytest.mark.parametrize("case", CASES)
def test_failure_names_the_innermost_rubric_and_the_reason(case):
    rubric, name, kind, reason = CASES[case]
    with pytest.raises(GradingFailed) as caught:
        grade(rubric, "a", None)
    assert caught.value.rubric == name
    place = f"{name} ({kind})" if name else kind
    assert str(caught.value).startswith(f"The rubric {place} failed: {reason}")
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value, EpisodeFailed)


def test_words_of_an_exception_stay_out_of_the_text_and_are_the_cause():
    with pytest.raises(GradingFailed) as caught:
        grade(Raising(), "a", None)
    assert "42" not in str(caught.value)
    assert str(caught.value.__cause__) == "the answer is 42"


def test_error_that_a_parent_caught_is_not_blamed_for_a_later_one():
    class Tolerant(Rubric):
        def __init__(self):
            self.flaky = Raising()
            self.other = Raising(KeyError("k"))

        def forward(self, action, observation):
            try:
                return self.flaky(action, observation)
            except ValueError:
                return self.other(action, observation)

    with pytest.raises(GradingFailed, match="KeyError") as caught:
        grade(Tolerant(), "a", None)
    assert caught.value.rubric == "other"


def test_error_that_a_parent_caught_is_no_failure():
    class Tolerant(Rubric):
        def __init__(self):
            self.flaky = Raising()

        def forward(self, action, observation):
            try:
                return self.flaky(action, observation)
            except ValueError:
                return 0.5

    assert grade(Tolerant(), "a", None) == Grade(0.5, {}, True)


@pytest.mark.parametrize("wrap", [lambda rubric: rubric, Gate, lambda rubric: Sequential(Fixed(1), rubric)])
def test_late_sync_rubric_is_a_failure_that_names_it(wrap):
    blocked = Blocked()
    rubric = wrap(blocked)
    name = next((name for name, known in rubric.named_rubrics() if known is blocked), "")
    try:
        with pytest.raises(GradingFailed, match=r"Blocked\)? failed: no result within 0.01 s") as caught:
            grade(rubric, "a", None, timeout_s=0.01)
        assert caught.value.rubric == name
    finally:
        blocked.go.set()


def test_late_async_rubric_is_cancelled_and_named():
    rubric = WeightedSum([Later(1), Gate(Endless())], [0.5, 0.5])
    with pytest.raises(GradingFailed, match=r"Endless\) failed: no result within 0.05 s") as caught:
        grade(rubric, "a", None, timeout_s=0.05)
    assert caught.value.rubric == "rubric_1.rubric"
    assert rubric[1].rubric.cancelled


def test_late_by_its_own_timeout_is_named_too():
    with pytest.raises(GradingFailed, match=r"rubric_0 \(Timeout\) failed: no result within 0.01 s") as caught:
        grade(Sequential(Timeout(Endless(), 0.01)), "a", None, timeout_s=60)
    assert caught.value.rubric == "rubric_0"


def test_while_a_late_grading_runs_no_other_begins_on_its_thread():
    blocked, other, thread = Blocked(), Fixed(1), TimedThread()
    with pytest.raises(GradingFailed):
        grade(blocked, "a", None, timeout_s=0.01, thread=thread)
    with pytest.raises(GradingFailed, match="an earlier call has not returned yet"):
        grade(other, "a", None, timeout_s=60, thread=thread)
    assert other.calls == 0
    blocked.go.set()
    blocked.ended.wait(10)
    # The thread is free once the late call has returned, a moment after it says so.
    while thread.busy:
        pass
    assert grade(other, "a", None, thread=thread).score == 1.0
    thread.close()


def test_coroutines_of_one_thread_share_a_loop():
    loops = []

    class Where(Rubric):
        async def forward(self, action, observation):
            loops.append(asyncio.get_running_loop())
            return 1.0

    thread = TimedThread()
    grade(Where(), "a", None, thread=thread)
    grade(Where(), "a", None, thread=thread)
    thread.close()
    assert loops[0] is loops[1]


def test_grading_works_inside_a_running_loop():
    async def inside():
        return grade(Later(0.5), "a", None, timeout_s=60).score

    assert asyncio.run(inside()) == 0.5


def test_own_thread_of_a_grading_is_gone_afterwards():
    before = set(threading.enumerate())
    grade(Later(0.5), "a", None)
    assert set(threading.enumerate()) <= before


def test_interrupt_while_waiting_is_no_grading_failure(monkeypatch):
    class Interrupted(TimedThread):
        def run(self, function, timeout_s=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(Fixed(1), "a", None, thread=Interrupted())


@given(
    st.recursive(
        st.sampled_from([0.0, 0.5, 1.0, float("nan"), "x", ValueError]),
        lambda below: st.lists(below, min_size=1, max_size=3),
        max_leaves=8,
    )
)
def test_every_grading_ends_in_a_finite_score_or_in_a_failure(shape):
    def build(shape, depth=0):
        if isinstance(shape, list):
            parts = [build(one, depth + 1) for one in shape]
            return WeightedSum(parts, [1 / len(parts)] * len(parts)) if depth % 2 else Sequential(*parts)
        if shape is ValueError:
            return RaisingLater() if depth % 2 else Raising()
        return Later(shape) if depth % 2 else Fixed(shape)

    rubric, thread = build(shape), TimedThread()
    names = {name for name, _ in rubric.named_rubrics()}
    try:
        told = grade(rubric, "a", None, timeout_s=60, thread=thread)
    except GradingFailed as error:
        failed, told = error.rubric, None
    finally:
        thread.close()
    assert failed in {"", *names} if told is None else math.isfinite(told.score) and set(told.parts) <= names


@pytest.mark.parametrize("error", [asyncio.CancelledError("42"), GeneratorExit("42")])
@pytest.mark.parametrize("waits", [False, True])
def test_a_client_that_was_cancelled_is_a_failure_too(error, waits):
    class Plain(Rubric):
        def forward(self, action, observation):
            raise error

    class Waiting(Rubric):
        async def forward(self, action, observation):
            raise error

    with pytest.raises(GradingFailed) as raised:
        grade(Waiting() if waits else Plain(), "a", None)
    assert type(error).__name__ in str(raised.value)
    assert "42" not in str(raised.value)
