"""Rubrics made of rubrics: order, early stop, thresholds, weights, concurrency."""

import asyncio
import gc
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.agentic.rubrics import Gate, Rubric, RubricDict, RubricList, Sequential, WeightedSum
from paddock.errors import InvalidRubric
from tests.agentic.rubrics.parts import Fixed, Later, Raising, RaisingLater, ask

BOTH = pytest.mark.parametrize("make", [Fixed, Later])
scores = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, -1.0])
rows = st.lists(st.builds(lambda score, make: make(score), scores, st.sampled_from([Fixed, Later])), max_size=5)


# Sequential


def test_empty_sequential_gives_one():
    assert Sequential()(None, None) == 1.0


@BOTH
def test_sequential_gives_the_last_score_not_a_product(make):
    assert ask(Sequential(make(0.5), make(0.25))) == 0.25


@BOTH
def test_sequential_asks_nothing_after_a_zero(make):
    rubric = Sequential(make(1.0), make(0.0), make(1.0))
    assert ask(rubric) == 0.0
    assert [part.calls for part in rubric] == [1, 1, 0]


def test_sequential_goes_on_after_a_negative_score():
    assert ask(Sequential(Fixed(-1.0), Fixed(0.5))) == 0.5


def test_sequential_of_sync_rubrics_is_sync_until_the_first_async_one():
    assert Sequential(Fixed(0.0), Later(1.0))(None, None) == 0.0
    waiting = Sequential(Fixed(1.0), Later(0.5))(None, None)
    assert inspect.iscoroutine(waiting) and asyncio.run(waiting) == 0.5


@given(rows)
def test_sequential_is_the_last_score_up_to_the_first_zero(row):
    expected = 1.0
    for part in row:
        expected = part.score
        if expected == 0.0:
            break
    assert ask(Sequential(*row)) == expected


def test_sequential_has_a_length_an_index_and_an_order():
    parts = [Fixed(1), Fixed(1), Fixed(1)]
    rubric = Sequential(*parts)
    assert len(rubric) == 3 and list(rubric) == parts
    assert rubric[-1] is parts[2] and rubric[1:] == parts[1:] and rubric.rubric_0 is parts[0]
    with pytest.raises(IndexError):
        rubric[3]


def test_replaced_part_is_the_one_that_is_asked():
    rubric = Sequential(Fixed(0.5))
    rubric.rubric_0 = Fixed(0.25)
    assert rubric(None, None) == 0.25


def test_sequential_takes_rubrics_and_says_so():
    with pytest.raises(InvalidRubric, match="must be a Rubric; got list"):
        Sequential([Fixed(1)])


# Gate


@BOTH
@pytest.mark.parametrize(("score", "expected"), [(0.49, 0.0), (0.5, 0.5), (0.75, 0.75)])
def test_gate_lets_through_from_its_threshold_on(make, score, expected):
    assert ask(Gate(make(score), threshold=0.5)) == expected


def test_gate_wants_a_full_score_unless_told():
    assert Gate(Fixed(0.99))(None, None) == 0.0
    assert Gate(Fixed(1.0))(None, None) == 1.0


@pytest.mark.parametrize("threshold", [None, "0.5", float("nan")])
def test_gate_refuses_a_threshold_that_is_no_number(threshold):
    with pytest.raises(InvalidRubric, match="threshold"):
        Gate(Fixed(1), threshold)


def test_gate_refuses_what_is_no_rubric():
    with pytest.raises(InvalidRubric, match="must be a Rubric; got function"):
        Gate(lambda action, observation: 1.0)


# WeightedSum


@BOTH
def test_weighted_sum(make):
    assert ask(WeightedSum([make(1.0), make(0.5)], [0.75, 0.25])) == 0.875


@given(rows.filter(len), st.data())
def test_weighted_sum_is_the_sum_of_weight_times_score(row, data):
    shares = data.draw(st.lists(st.integers(1, 100), min_size=len(row), max_size=len(row)))
    weights = [share / sum(shares) for share in shares]
    expected = 0.0
    for part, weight in zip(row, weights, strict=True):
        expected += part.score * weight
    assert ask(WeightedSum(row, weights)) == expected


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ([1.0], r"rubrics \(2\) must match number of weights \(1\)"),
        ([0.5, 0.25, 0.25], r"rubrics \(2\) must match number of weights \(3\)"),
        ([0.5, 0.4], "sum to 1.0, got 0.9"),
        ([float("nan"), 0.5], "weight 0"),
        (["a", 0.5], "weight 0"),
    ],
)
def test_weights_are_as_many_as_rubrics_and_sum_to_one(weights, why):
    with pytest.raises(ValueError, match=why):
        WeightedSum([Fixed(1), Fixed(1)], weights)


def test_weighted_sum_of_nothing_is_refused():
    with pytest.raises(ValueError, match="sum to 1.0, got 0"):
        WeightedSum([], [])


def test_ten_tenths_are_one():
    assert ask(WeightedSum([Fixed(1.0)] * 10, [0.1] * 10)) == pytest.approx(1.0)


def test_weights_are_a_copy_and_checked_when_assigned():
    rubric = WeightedSum([Fixed(1), Fixed(0)], [0.5, 0.5])
    rubric.weights.append(1.0)
    assert rubric.weights == [0.5, 0.5]
    rubric.weights = [0.25, 0.75]
    assert rubric(None, None) == 0.25
    with pytest.raises(InvalidRubric):
        rubric.weights = [1.0, 1.0]
    assert rubric.weights == [0.25, 0.75]


def test_async_parts_of_a_weighted_sum_wait_at_the_same_time():
    class Meeting(Rubric):
        """Ends only if the other one has begun."""

        def forward(self, action, observation):
            return self.meet(*action)

        async def meet(self, mine, other):
            mine.set()
            await other.wait()
            return 1.0

    class Swapped(Meeting):
        async def meet(self, mine, other):
            return await super().meet(other, mine)

    async def both():
        return await asyncio.wait_for(rubric((asyncio.Event(), asyncio.Event()), None), 10)

    rubric = WeightedSum([Meeting(), Swapped()], [0.5, 0.5])
    assert asyncio.run(both()) == 1.0


def test_when_one_part_fails_the_others_are_cancelled_before_the_error_comes_out():
    ended = []

    class Endless(Rubric):
        async def forward(self, action, observation):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

    with pytest.raises(ValueError, match="42"):
        ask(WeightedSum([Endless(), RaisingLater(), Endless()], [0.5, 0.25, 0.25]))
    assert ended == [True, True]


@pytest.mark.filterwarnings("error")
def test_no_coroutine_is_forgotten_when_a_sync_part_fails(recwarn):
    rubric = WeightedSum([WeightedSum([Later(1), Gate(Later(1))], [0.5, 0.5]), Raising()], [0.5, 0.5])
    with pytest.raises(ValueError, match="42"):
        rubric(None, None)
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.filterwarnings("error")
def test_discarding_an_unawaited_score_discards_all_within(recwarn):
    waiting = Sequential(Gate(WeightedSum([Later(1), Later(1)], [0.5, 0.5])))(None, None)
    waiting.close()
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


# RubricList and RubricDict


@pytest.mark.parametrize("rubrics", [RubricList([Fixed(1)]), RubricDict({"a": Fixed(1)})], ids=["list", "dict"])
def test_lists_and_dicts_have_no_score(rubrics):
    with pytest.raises(NotImplementedError, match="no score of its own"):
        rubrics(None, None)


def test_list_grows_and_names_its_parts_by_number():
    rubrics = RubricList()
    rubrics.append(Fixed(0.1))
    rubrics.extend([Fixed(0.2), Fixed(0.3)])
    assert len(rubrics) == 3 and [part.score for part in rubrics] == [0.1, 0.2, 0.3]
    assert [name for name, _ in rubrics.named_children()] == ["rubric_0", "rubric_1", "rubric_2"]


def test_list_of_one_rubric_without_brackets_is_a_mistake():
    with pytest.raises(InvalidRubric, match="takes a list of rubrics"):
        RubricList(Sequential(Fixed(1)))


def test_dict_is_a_mapping_of_names():
    chess, go = Fixed(1), Fixed(0)
    rubrics = RubricDict({"chess": chess})
    rubrics.update({"go": go})
    assert list(rubrics) == list(rubrics.keys()) == ["chess", "go"]
    assert list(rubrics.values()) == [chess, go] and dict(rubrics.items()) == {"chess": chess, "go": go}
    assert len(rubrics) == 2 and "go" in rubrics and "tic" not in rubrics
    assert rubrics["chess"] is rubrics.chess is rubrics.get_rubric("chess") is chess
    del rubrics["chess"]
    assert list(rubrics) == ["go"]
    with pytest.raises(KeyError):
        rubrics["chess"]
    with pytest.raises(AttributeError, match="chess"):
        rubrics.chess


def test_key_may_be_the_name_of_a_method():
    rubrics = RubricDict({"items": Fixed(1), "reset": Fixed(1)})
    assert [key for key, _ in rubrics.items()] == ["items", "reset"]
    rubrics.reset()


@pytest.mark.parametrize("key", [1, "", "a.b", None])
def test_key_is_a_text_without_dots(key):
    with pytest.raises(InvalidRubric, match="without dots"):
        RubricDict({key: Fixed(1)})


@BOTH
def test_parent_chooses_from_a_dict(make):
    class ByGame(Rubric):
        def __init__(self):
            self.games = RubricDict({"chess": make(0.5), "go": make(0.25)})

        def forward(self, action, observation):
            return self.games[observation](action, observation)

    rubric = ByGame()
    assert ask(rubric, observation="go") == 0.25
    assert rubric.get_rubric("games.chess").calls == 0
