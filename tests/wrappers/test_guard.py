"""The guard: order, validation and limit in one layer, in the words and with the results of the three it replaces."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
import paddock.gym as gym
from paddock.errors import InvalidAction, ResetNeeded
from paddock.spaces import Discrete
from paddock.wrappers import Guard, OrderEnforcing, PassiveEnvChecker, TimeLimit
from tests.toys import Counter, Mover, Painter


def guarded(env=None, **options):
    guard = Guard(env or Counter(), **options)
    guard.reset(seed=1)
    return guard


def test_step_before_reset_raises_and_runs_no_env_code():
    guard = Guard(Counter())
    with pytest.raises(ResetNeeded, match=r"Cannot call env.step\(\) before calling env.reset\(\)"):
        guard.step(0)
    assert guard.env.count == 0


def test_render_before_reset_raises():
    with pytest.raises(ResetNeeded, match="Cannot call `env.render"):
        Guard(Painter(render_mode="rgb_array")).render()


def test_without_order_enforcing_step_goes_through():
    assert Guard(Counter(), order_enforce=False, validate=False).step(0)[1] == 1.0


def test_the_limit_truncates_at_its_step_and_only_then():
    guard = guarded(Counter(goal=100), max_episode_steps=3)
    assert [guard.step(0)[3] for _ in range(3)] == [False, False, True]


def test_a_limit_of_one_step_truncates_the_first():
    guard = guarded(Counter(goal=100), max_episode_steps=1)
    assert guard.step(0)[3] is True
    guard.reset()
    assert guard.step(0)[3] is True


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("limit", [None, 1, 2, 4])
def test_episodes_count_anew_after_each_reset(limit, validate):
    guard = Guard(Counter(goal=3), max_episode_steps=limit, validate=validate)
    for _ in range(3):
        guard.reset()
        assert guard.episode()[1] == 0
        taken, ended = 0, False
        while not ended:
            _, _, terminated, truncated, _ = guard.step(0)
            taken += 1
            ended = terminated or truncated
            assert guard.episode()[1] == taken
        assert taken == min(3, limit or 3)


def test_a_step_after_the_end_raises_when_strict_and_keeps_the_count():
    guard = guarded(Counter(goal=2))
    guard.step(0), guard.step(0)
    with pytest.raises(ResetNeeded, match="The episode has ended"):
        guard.step(0)
    assert guard.episode()[1] == 2
    guard.reset()
    assert guard.step(0)[1] == 1.0


def test_a_step_after_the_end_goes_through_the_gym_door():
    guard = guarded(Counter(goal=2), strict=False, max_episode_steps=3)
    flags = [guard.step(0)[2:4] for _ in range(5)]
    assert flags == [(False, False), (True, False), (True, True), (True, True), (True, True)]
    assert guard.episode()[1] == 5


@pytest.mark.parametrize("action", [3, -1, 1.0, "1", None, np.float32(1), np.array([1]), [1], 10**30, object()])
def test_an_action_that_is_no_integer_in_range_never_reaches_the_env(action):
    for strict in (True, False):
        guard = guarded(strict=strict)
        for _ in range(2):  # the first step takes the rare way, the second the common one
            with pytest.raises(InvalidAction, match="Discrete"):
                guard.step(action)
            guard.step(0)
        assert guard.env.actions == [0, 0]


@pytest.mark.parametrize("action", [0, 2, np.int64(1), np.int8(1), np.uint16(2), np.array(1), True])
def test_every_integer_in_range_is_an_action(action):
    guard = guarded()
    guard.step(0)
    guard.step(action)
    assert guard.env.actions[1] is action


def test_a_discrete_space_with_a_start_and_a_huge_one():
    env = Counter()
    env.action_space = Discrete(3, start=-1)
    guard = guarded(env)
    guard.step(-1)
    guard.step(np.int64(1))
    with pytest.raises(InvalidAction):
        guard.step(2)
    env = Counter(goal=9)
    env.action_space = Discrete(2**40)
    guard = guarded(env)
    guard.step(2**39), guard.step(np.int64(2**39))
    with pytest.raises(InvalidAction):
        guard.step(2**40)


@pytest.mark.parametrize(
    "action",
    [[0.0], np.zeros((2, 1), np.float32), np.array([np.nan, 0], np.float32), "ab", None, [None, None], ["0", "0"], 0.5],
    ids=repr,
)
def test_a_box_action_of_wrong_shape_kind_or_nan_never_reaches_the_env(action):
    for strict in (True, False):
        guard = guarded(Mover(), strict=strict)
        with pytest.raises(InvalidAction, match="Box"):
            guard.step(action)
        assert guard.env.count == 0


def test_out_of_bounds_raises_through_our_door_and_passes_through_the_gym_door():
    action = np.array([2.0, 0.0], np.float32)
    with pytest.raises(InvalidAction) as caught:
        guarded(Mover()).step(action)
    assert caught.value.action is action
    assert caught.value.space == Mover().action_space
    guard = guarded(Mover(), strict=False)
    guard.step(action)
    assert guard.env.actions[0] is action


@pytest.mark.parametrize("action", [np.zeros(2), np.zeros(2, np.float16), [0.25, 0.5], (0, 1), np.zeros(2, np.int8)])
def test_any_number_type_is_cast_to_the_box(action):
    guard = guarded(Mover())
    guard.step(action)
    assert guard.env.actions[0].dtype == np.float32
    np.testing.assert_array_equal(guard.env.actions[0], np.asarray(action, np.float32))


def test_without_validation_everything_goes_through():
    guard = guarded(Mover(), validate=False)
    guard.step("anything")
    assert guard.env.actions == ["anything"]


def test_a_space_that_reset_changes_is_the_one_that_counts():
    class Growing(Counter):
        def reset(self, *, seed=None, options=None):
            self.action_space = Discrete(10)
            return super().reset(seed=seed)

    guard = Guard(Growing(), validate=True)
    guard.reset()
    guard.step(9)


def test_an_error_in_the_env_does_not_count_as_a_step():
    class Failing(Counter):
        def step(self, action):
            if action == 2:
                raise RuntimeError("broken")
            return super().step(action)

    guard = guarded(Failing())
    for _ in range(2):
        with pytest.raises(RuntimeError):
            guard.step(2)
        guard.step(0)
    assert guard.episode()[1] == 2


def test_the_guard_stands_for_the_wrappers_whose_job_it_does():
    full = Guard(Counter(), max_episode_steps=3)
    assert all(isinstance(full, wrapper) for wrapper in (TimeLimit, OrderEnforcing, PassiveEnvChecker))
    bare = Guard(Counter(), order_enforce=False, validate=False)
    assert not any(isinstance(bare, wrapper) for wrapper in (TimeLimit, OrderEnforcing, PassiveEnvChecker))
    assert full._max_episode_steps == 3
    assert full.has_reset is False
    full.reset()
    assert full.has_reset is True


def test_a_guarded_env_survives_deepcopy_and_pickle():
    env = paddock.make("CartPole-v1")
    env.reset(seed=3)
    env.step(1)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.episode()[1] == 1
        for got, expected in zip(twin.step(0), copy.deepcopy(env).step(0), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_the_first_reset_and_step_are_checked():
    class Sloppy(Counter):
        def step(self, action):
            return super().step(action)[:4]

    with pytest.raises(Exception, match="4 values|5 values|tuple|length"):
        guarded(Sloppy()).step(0)

    class Outside(Counter):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.array([-1.0]), {}

    with pytest.warns(UserWarning, match="obs"):
        Guard(Outside()).reset()


@given(st.lists(st.sampled_from(["reset", "step"]), max_size=30), st.integers(1, 6), st.integers(1, 6))
def test_the_guard_equals_gymnasiums_three_wrappers(calls, goal, limit):
    class Theirs(gymnasium.Env):
        def __init__(self):
            self.observation_space = gymnasium.spaces.Box(0, np.inf, (1,), dtype=np.float64)
            self.action_space = gymnasium.spaces.Discrete(3)
            self.inner = Counter(goal)

        def reset(self, *, seed=None, options=None):
            return self.inner.reset()

        def step(self, action):
            return self.inner.step(action)

    theirs = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(Theirs()), limit)
    ours = Guard(Counter(goal), max_episode_steps=limit, strict=False)
    for call in calls:
        outcomes = []
        for env in (theirs, ours):
            try:
                outcomes.append(env.reset() if call == "reset" else env.step(0))
            except (gymnasium.error.ResetNeeded, ResetNeeded):
                outcomes.append("reset needed")
        assert repr(outcomes[0]) == repr(outcomes[1])


@pytest.mark.parametrize("make", [paddock.make, gym.make])
def test_make_adds_one_layer(make):
    env = make("CartPole-v1")
    assert type(env) is Guard
    assert env.env is env.unwrapped
    assert env.spec.additional_wrappers == ()
