"""A rubric by itself: calls, scores, the tree of its parts, hooks."""

import asyncio
import copy
import inspect
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from paddock.agentic.rubrics import Gate, LLMJudge, Rubric, Sequential, WeightedSum
from paddock.agentic.rubrics.rubric import NoScore
from paddock.errors import InvalidRubric
from tests.agentic.rubrics.parts import Fixed, Later, Raising, ask


class Both(Rubric):
    """Two named parts, one of which has a part."""

    def __init__(self):
        self.style = Fixed(0.5)
        self.tests = Gate(Fixed(1.0))

    def forward(self, action, observation):
        return self.style(action, observation) * self.tests(action, observation)


def test_forward_gets_action_and_observation_and_its_score_is_remembered():
    class Same(Rubric):
        def forward(self, action, observation):
            return action == observation

    rubric = Same()
    assert rubric.last_score is None
    assert rubric(1, 1) == 1.0 and rubric.last_score == 1.0
    assert rubric(1, 2) == 0.0 and rubric.last_score == 0.0
    assert type(rubric.last_score) is float


def test_rubric_without_forward_cannot_be_made():
    class Nothing(Rubric):
        pass

    with pytest.raises(TypeError, match="forward"):
        Nothing()


def test_async_forward_makes_the_call_a_coroutine_and_a_sync_one_does_not():
    assert inspect.iscoroutine(coroutine := Later(0.5)(1, 2))
    assert asyncio.run(coroutine) == 0.5
    assert Fixed(0.5)(1, 2) == 0.5


def test_sync_forward_may_return_what_an_async_child_returned():
    class Passing(Rubric):
        def __init__(self):
            self.child = Later(0.25)

        def forward(self, action, observation):
            return self.child(action, observation)

    rubric = Passing()
    assert ask(rubric) == 0.25 and rubric.last_score == 0.25


@pytest.mark.parametrize(
    "score",
    [1, True, 0.5, -3.0, np.float32(0.5), np.int64(2), np.bool_(True), np.array(0.25), Fraction(1, 2)],
    ids=repr,
)
def test_any_finite_number_is_a_score(score):
    given = Fixed(score)(None, None)
    assert type(given) is float and given == float(score)


@pytest.mark.parametrize(
    "score",
    [None, "1.0", float("nan"), float("inf"), -float("inf"), np.float64("nan"), 10**400, 1j, [1.0], np.ones(1), {}],
    ids=lambda score: repr(score)[:20],
)
def test_what_is_no_finite_number_is_no_score(score):
    rubric = Fixed(score)
    with pytest.raises(NoScore, match="expected a finite number"):
        rubric(None, None)
    assert rubric.last_score is None


def test_decimal_is_no_number_that_python_would_mix_with_floats():
    with pytest.raises(NoScore):
        Fixed(Decimal(1))(None, None)


def test_text_of_a_refused_score_does_not_tell_the_value():
    with pytest.raises(NoScore) as caught:
        Fixed("the answer is 42")(None, None)
    assert "42" not in str(caught.value)


# The tree


def test_children_are_what_was_assigned_in_that_order():
    rubric = Both()
    assert [name for name, _ in rubric.named_children()] == ["style", "tests"]
    assert list(rubric.children()) == [rubric.style, rubric.tests]


def test_descendants_have_dotted_names_parents_first():
    rubric = Both()
    assert [name for name, _ in rubric.named_rubrics()] == ["style", "tests", "tests.rubric"]
    assert [name for name, _ in rubric.named_rubrics("root")] == ["root.style", "root.tests", "root.tests.rubric"]
    assert list(rubric.rubrics()) == [rubric.style, rubric.tests, rubric.tests.rubric]


def test_get_rubric_follows_a_dotted_name():
    rubric = Both()
    assert rubric.get_rubric("tests.rubric") is rubric.tests.rubric


@pytest.mark.parametrize("path", ["", "nothing", "tests.nothing", "tests.", ".tests", "tests.rubric.rubric"])
def test_get_rubric_of_a_wrong_name_says_which_there_are(path):
    with pytest.raises(KeyError, match="There are: style, tests, tests.rubric"):
        Both().get_rubric(path)


def test_assigning_something_else_removes_the_child():
    rubric = Both()
    rubric.style = None
    assert [name for name, _ in rubric.named_children()] == ["tests"]
    del rubric.tests
    assert list(rubric.children()) == []


def test_assigning_another_rubric_replaces_the_child_in_its_place():
    rubric = Both()
    rubric.style = better = Fixed(1.0)
    assert list(rubric.children())[0] is better
    assert rubric(None, None) == 1.0


def test_child_cannot_take_the_name_of_a_method():
    rubric = Both()
    with pytest.raises(InvalidRubric, match="forward"):
        rubric.forward = Fixed(1.0)
    assert rubric(None, None) == 0.5


def test_rubric_cannot_be_a_part_of_itself():
    rubric = Both()
    with pytest.raises(InvalidRubric, match="itself"):
        rubric.me = rubric
    with pytest.raises(InvalidRubric, match="itself"):
        rubric.style.parent = Sequential(Gate(rubric))


def test_name_with_a_dot_is_refused():
    with pytest.raises(InvalidRubric, match="dots"):
        setattr(Both(), "a.b", Fixed(1.0))


def test_forgotten_super_init_does_no_harm():
    class Careless(Rubric):
        def __init__(self, child):
            self.child = child

        def forward(self, action, observation):
            return self.child(action, observation)

    assert Careless(Fixed(0.5))(None, None) == 0.5


def test_deep_copy_is_another_tree_with_the_same_shape():
    rubric = Both()
    other = copy.deepcopy(rubric)
    assert repr(other) == repr(rubric)
    assert other.style is not rubric.style and other.get_rubric("style") is other.style
    other.style.score = 0.0
    assert other(None, None) == 0.0 and rubric(None, None) == 0.5


def test_deep_copy_keeps_the_very_hooks_and_a_handle_is_of_the_original():
    rubric, log = Fixed(0.5), []
    handle = rubric.register_forward_hook(lambda rubric, *told: log.append(rubric))
    other = copy.deepcopy(rubric)
    handle.remove()
    rubric(1, 2)
    other(1, 2)
    assert log == [other]


def test_repr_shows_the_tree():
    assert repr(Both()) == "Both(style=Fixed(), tests=Gate(rubric=Fixed()))"


def test_reset_reaches_every_descendant():
    class Counting(Fixed):
        resets = 0

        def reset(self):
            super().reset()
            self.resets += 1

    inner, outer = Counting(1), Counting(1)
    outer.inner = inner
    Sequential(Gate(outer), WeightedSum([Fixed(1)], [1.0])).reset()
    assert (outer.resets, inner.resets) == (1, 1)


# Hooks


def test_hooks_run_around_forward_with_what_it_got_and_gave():
    rubric, told = Fixed(0.5), []
    rubric.register_forward_pre_hook(lambda *given: told.append(("before", *given, rubric.calls)))
    rubric.register_forward_hook(lambda *given: told.append(("after", *given, rubric.calls)))
    rubric("action", "observation")
    assert told == [("before", rubric, "action", "observation", 0), ("after", rubric, "action", "observation", 0.5, 1)]


def test_score_is_remembered_before_the_hooks_run():
    rubric, seen = Fixed(0.5), []
    rubric.register_forward_hook(lambda rubric, *rest: seen.append(rubric.last_score))
    rubric(1, 2)
    assert seen == [0.5]


def test_what_hooks_return_changes_nothing():
    rubric = Fixed(0.5)
    rubric.register_forward_pre_hook(lambda *told: ("other", "other"))
    rubric.register_forward_hook(lambda *told: 1.0)
    assert rubric(1, 2) == 0.5


def test_removed_hooks_are_not_called_and_the_others_are():
    rubric, called = Fixed(1), []
    handles = [rubric.register_forward_hook(lambda *told, name=name: called.append(name)) for name in "abc"]
    handles += [rubric.register_forward_pre_hook(lambda *told: called.append("before"))]
    handles[1].remove()
    handles[1].remove()
    handles[3].remove()
    rubric(1, 2)
    assert called == ["a", "c"]


def test_handle_is_a_context_manager():
    rubric, called = Fixed(1), []
    with rubric.register_forward_hook(lambda *told: called.append(1)):
        rubric(1, 2)
    rubric(1, 2)
    assert called == [1]


def test_hook_that_removes_itself_is_called_once_and_disturbs_no_other():
    rubric, called = Fixed(1), []

    def once(*told):
        called.append("once")
        handle.remove()

    handle = rubric.register_forward_hook(once)
    rubric.register_forward_hook(lambda *told: called.append("always"))
    rubric(1, 2)
    rubric(1, 2)
    assert called == ["once", "always", "always"]


def test_same_function_twice_is_two_hooks():
    rubric, called = Fixed(1), []

    def note(*told):
        called.append(1)

    first = rubric.register_forward_hook(note)
    rubric.register_forward_hook(note)
    first.remove()
    rubric(1, 2)
    assert called == [1]


@pytest.mark.parametrize("make", [Fixed, Later])
def test_async_hooks_are_awaited(make):
    rubric, called = make(0.5), []

    async def before(*told):
        await asyncio.sleep(0)
        called.append(("before", rubric.calls))

    async def after(*told):
        await asyncio.sleep(0)
        called.append(("after", told[3]))

    rubric.register_forward_pre_hook(before)
    rubric.register_forward_hook(after)
    assert ask(rubric) == 0.5
    assert called == [("before", 0), ("after", 0.5)]


@pytest.mark.parametrize("make", [Fixed, Later])
def test_hooks_of_containers_run_before_and_after_those_of_their_parts(make):
    rubric, called = Sequential(Gate(make(1.0)), WeightedSum([make(0.5)], [1.0])), []
    for name, part in [("root", rubric), *rubric.named_rubrics()]:
        part.register_forward_pre_hook(lambda *told, name=name: called.append(f"{name}>"))
        part.register_forward_hook(lambda *told, name=name: called.append(f"<{name}"))
    ask(rubric)
    assert called == [
        *("root>", "rubric_0>", "rubric_0.rubric>", "<rubric_0.rubric", "<rubric_0"),
        *("rubric_1>", "rubric_1.rubric_0>", "<rubric_1.rubric_0", "<rubric_1", "<root"),
    ]


def test_error_in_a_hook_comes_out_and_leaves_the_score():
    rubric = Fixed(0.5)
    rubric.register_forward_hook(lambda *told: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rubric(1, 2)
    assert rubric.last_score == 0.5


def test_error_in_forward_comes_out_as_it_is_and_no_hook_is_told():
    rubric, called = Raising(KeyError("k")), []
    rubric.register_forward_hook(lambda *told: called.append(1))
    with pytest.raises(KeyError):
        rubric(1, 2)
    assert called == [] and rubric.last_score is None


def test_only_a_judge_by_a_model_is_not_replayable():
    assert Fixed(1).replayable and Sequential().replayable
    assert not LLMJudge("{action}", lambda prompt: "1").replayable
