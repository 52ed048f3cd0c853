"""Scores at the end of an episode, and credit for its steps."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.agentic.rubrics import ExponentialDiscountingTrajectoryRubric, Sequential, TrajectoryRubric
from paddock.errors import InvalidRubric
from tests.agentic.rubrics.parts import Seen, Won, ask


def play(rubric, actions):
    """The rewards of an episode that ends with the last action."""
    rubric.reset()
    return [ask(rubric, action, Seen(at == len(actions) - 1)) for at, action in enumerate(actions)]


def test_score_comes_at_the_end():
    assert play(Won(), [0.1, 0.2, 0.7]) == [0.0, 0.0, 0.7]


def test_steps_before_the_end_get_the_intermediate_reward():
    assert play(Won(intermediate_reward=-0.1), [0.1, 0.2, 0.7]) == [-0.1, -0.1, 0.7]


def test_observation_that_does_not_say_whether_it_is_the_last_is_not():
    assert Won()(1.0, object()) == 0.0


def test_trajectory_has_every_step_and_is_a_copy():
    rubric = Won()
    last = Seen(True)
    rubric(0.5, first := Seen())
    rubric(1.0, last)
    rubric.trajectory.clear()
    assert rubric.trajectory == [(0.5, first), (1.0, last)]


def test_reset_forgets_the_steps_also_from_above():
    rubric = Sequential(Won())
    rubric(0.5, Seen())
    rubric.reset()
    assert rubric[0].trajectory == []
    assert play(rubric, [0.5, 1.0])[-1] == 1.0


def test_reset_reaches_the_parts_of_a_trajectory_rubric():
    rubric = Won()
    rubric.part = Won()
    rubric.part(0.5, Seen())
    rubric.reset()
    assert rubric.part.trajectory == []


@given(gamma=st.floats(0, 1), score=st.floats(-10, 10), steps=st.integers(1, 30))
def test_credit_fades_by_gamma_for_each_step_before_the_end(gamma, score, steps):
    rubric = Won(gamma=gamma)
    play(rubric, [score] * steps)
    rewards = rubric.compute_step_rewards()
    assert rewards[-1] == score and len(rewards) == steps
    assert rewards == [score * gamma ** (steps - 1 - at) for at in range(steps)]


@pytest.mark.parametrize(
    ("gamma", "expected"), [(1.0, [2.0, 2.0, 2.0]), (0.0, [0.0, 0.0, 2.0]), (0.5, [0.5, 1.0, 2.0])]
)
def test_extremes_of_gamma(gamma, expected):
    rubric = Won(gamma)
    play(rubric, [2.0] * 3)
    assert rubric.compute_step_rewards() == expected


def test_no_steps_no_rewards():
    assert Won().compute_step_rewards() == []


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan"), None, "1"])
def test_gamma_outside_zero_to_one_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma"):
        Won(gamma=gamma)


def test_intermediate_reward_must_be_a_number():
    with pytest.raises(InvalidRubric, match="intermediate_reward"):
        Won(intermediate_reward="none")


def test_async_scores_are_awaited_for_the_end_and_for_the_credit():
    class WonLater(Won):
        async def score_trajectory(self, trajectory):
            await asyncio.sleep(0)
            return trajectory[-1][0]

    rubric = WonLater(gamma=0.5)
    assert play(rubric, [0.0, 1.0]) == [0.0, 1.0]
    assert asyncio.run(rubric.compute_step_rewards()) == [0.5, 1.0]


def test_credit_of_ones_own():
    class Fair(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            return sum(action for action, _ in trajectory)

        def compute_step_rewards(self):
            return [self.score_trajectory(self.trajectory) / len(self.trajectory)] * len(self.trajectory)

    rubric = Fair()
    assert play(rubric, [1, 2, 3]) == [0.0, 0.0, 6.0]
    assert rubric.compute_step_rewards() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("cls", [TrajectoryRubric, ExponentialDiscountingTrajectoryRubric])
def test_class_without_a_way_to_score_cannot_be_made(cls):
    with pytest.raises(TypeError, match="score_trajectory"):
        cls()
