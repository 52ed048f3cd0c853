"""The same rubrics built from the real package say the same: scores, order, hooks, credit, how replies are read."""

import pytest

import paddock.agentic.rubrics as ours
from tests.agentic.rubrics.twin import SEEDS
from tests.peers import run_with_peer

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def answers():
    return run_with_peer("openenv10", "from tests.agentic.rubrics.twin import main\nmain()")


def test_every_name_of_the_rfc_is_there(answers):
    assert set(answers["names"]) <= set(ours.__all__)


@pytest.mark.parametrize("what", ["sync", "mixed", "episodes", "judge"])
def test_answers_are_the_same(answers, what):
    assert len(answers["theirs"][what]) >= 100
    for number, (mine, theirs) in enumerate(zip(answers["ours"][what], answers["theirs"][what], strict=True)):
        assert (number, mine) == (number, theirs)


def test_random_trees_of_all_kinds_were_tried(answers):
    names = [name for one in answers["theirs"]["mixed"] for name, _ in one["last"]]
    assert len(names) > 2 * len(SEEDS)
    assert any(score is None for one in answers["theirs"]["mixed"] for _, score in one["last"]), "no early stop"


def test_the_same_mistakes_can_be_caught_by_the_same_built_in_errors(answers):
    for mistake, theirs in answers["theirs"]["refused"].items():
        assert theirs[0] in answers["ours"]["refused"][mistake], mistake
