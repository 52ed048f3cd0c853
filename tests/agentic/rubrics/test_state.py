"""state_dict and load_state_dict: the whole tree, exact, or nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.agentic.rubrics import Gate, LLMJudge, Rubric, RubricDict, RubricList, Sequential, Timeout, WeightedSum
from paddock.errors import InvalidRubric
from tests.agentic.rubrics.parts import Fixed, Won


class Streak(Rubric):
    state_fields = ("longest",)

    def __init__(self, longest=3):
        self.longest = longest

    def forward(self, action, observation):
        return 1.0


class Named(Streak):
    state_fields = ("names",)

    def __init__(self, longest=3, names=()):
        super().__init__(longest)
        self.names = list(names)


class ByHand(Rubric):
    """As RFC 004 has it: both methods written out, with super()."""

    def __init__(self, limit=1):
        self.limit, self.child = limit, Gate(Fixed(1), 0.5)

    def forward(self, action, observation):
        return 1.0

    def state_dict(self):
        state = super().state_dict()
        state["limit"] = self.limit
        return state

    def load_state_dict(self, state):
        super().load_state_dict(state)
        if "limit" in state:
            self.limit = state["limit"]


def tree(gamma=0.5, threshold=0.25, weights=(0.5, 0.5), longest=1, timeout_s=2.0):
    return Sequential(
        Gate(Won(gamma=gamma, intermediate_reward=-gamma), threshold),
        WeightedSum([Named(longest, ["a"]), RubricDict({"x": RubricList([Streak(longest)])})], weights),
        Timeout(Fixed(1), timeout_s),
    )


def test_state_has_the_fields_of_every_descendant_by_dotted_name():
    assert tree().state_dict() == {
        "rubric_0.threshold": 0.25,
        "rubric_0.rubric.intermediate_reward": -0.5,
        "rubric_0.rubric.gamma": 0.5,
        "rubric_1.weights": [0.5, 0.5],
        "rubric_1.rubric_0.longest": 1,
        "rubric_1.rubric_0.names": ["a"],
        "rubric_1.rubric_1.x.rubric_0.longest": 1,
        "rubric_2.timeout_s": 2.0,
    }


@given(
    gamma=st.floats(0, 1),
    threshold=st.floats(-1, 1),
    share=st.floats(0, 1),
    longest=st.integers(),
    timeout_s=st.floats(0.1, 100),
)
def test_state_goes_through_json_into_another_tree_of_the_same_shape(gamma, threshold, share, longest, timeout_s):
    one = tree(gamma, threshold, (share, 1 - share), longest, timeout_s)
    other = tree()
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert other.state_dict() == one.state_dict()
    assert other[0].threshold == threshold and other[1].weights == [share, 1 - share]


def test_what_was_seen_is_no_state():
    rubric = Won()
    rubric(1.0, None)
    other = Won()
    other.load_state_dict(rubric.state_dict())
    assert other.trajectory == [] and other.last_score is None


def test_state_is_a_copy_on_both_ways():
    rubric = Named(names=["a"])
    state = rubric.state_dict()
    state["names"].append("b")
    assert rubric.names == ["a"]
    rubric.load_state_dict(state)
    state["names"].append("c")
    assert rubric.names == ["a", "b"]


def test_missing_keys_leave_their_values():
    rubric = tree()
    rubric.load_state_dict({"rubric_0.threshold": 0.75})
    assert rubric.state_dict() == {**tree().state_dict(), "rubric_0.threshold": 0.75}


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"rubric_0.treshold": 1.0}, "no state 'rubric_0.treshold'. Did you mean 'rubric_0.threshold'"),
        ({"rubric_9.threshold": 1.0}, "There are: rubric_0.threshold"),
        ({"rubric_0": {"threshold": 1.0}}, "no state 'rubric_0'"),
        ({7: 1.0}, "no state '7'"),
        ([("rubric_0.threshold", 1.0)], "got list"),
        ({"rubric_0.threshold": "high"}, "threshold"),
        ({"rubric_0.threshold": 1.0, "rubric_0.rubric.gamma": 2.0}, "gamma"),
        ({"rubric_0.threshold": 1.0, "rubric_1.weights": [0.5, 0.6]}, "sum to 1.0, got 1.1"),
        ({"rubric_0.threshold": 1.0, "rubric_2.timeout_s": 0}, "timeout_s"),
    ],
)
def test_wrong_state_is_refused_and_nothing_has_changed(state, why):
    rubric = tree()
    with pytest.raises(InvalidRubric, match=why.replace(".", r"\.")):
        rubric.load_state_dict(state)
    assert rubric.state_dict() == tree().state_dict()


def test_rubric_without_state_says_so():
    assert Fixed(1).state_dict() == {}
    with pytest.raises(InvalidRubric, match="It has no state"):
        Fixed(1).load_state_dict({"a": 1})


def test_methods_written_by_hand_are_part_of_the_whole():
    rubric, other = Sequential(ByHand(7)), Sequential(ByHand())
    rubric[0].child.threshold = 0.75
    assert rubric.state_dict() == {"rubric_0.limit": 7, "rubric_0.child.threshold": 0.75}
    other.load_state_dict(rubric.state_dict())
    assert (other[0].limit, other[0].child.threshold) == (7, 0.75)
    with pytest.raises(InvalidRubric, match="limits"):
        other.load_state_dict({"rubric_0.limits": 1})


def test_judge_keeps_its_words_and_not_its_client():
    one = LLMJudge("A {action}", print, score_pattern=r"=(\d)", default_score=None, normalize=False)
    other = LLMJudge("B {action}", str)
    other.load_state_dict(one.state_dict())
    assert other.state_dict() == {
        "prompt_template": "A {action}",
        "score_pattern": r"=(\d)",
        "default_score": None,
        "normalize": False,
    }
    with pytest.raises(InvalidRubric, match="score_pattern"):
        other.load_state_dict({"score_pattern": "("})
    assert other.score_pattern == r"=(\d)"
