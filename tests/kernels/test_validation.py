"""Actions are validated before any lane moves, compiled or not; and the defects of Gymnasium's CartPoleVectorEnv."""

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import AutoresetMode
from paddock.envs import CartPoleVectorEnv

LANES = 4

DISCRETE = {
    "above": (np.array([0, 1, 2, 0]), 2),
    "below": (np.array([0, -1, 1, 0]), 1),
    "the least integer": (np.array([0, 0, 0, np.iinfo(np.int64).min]), 3),
    "an unsigned one that would wrap around": (np.array([2**64 - 1, 0, 0, 0], np.uint64), 0),
    "a small type": (np.array([0, 0, 7, 0], np.int8), 2),
    "a list": ([0, 0, 0, 5], 3),
    "the first of several": (np.array([0, 9, 9, 9]), 1),
}
BOX = {
    "nan": (np.array([[0], [0], [np.nan], [0]], np.float32), 2),
    "nan in double precision": (np.array([[0], [np.nan], [0], [0]]), 1),
    "infinity": (np.array([[np.inf], [0], [0], [0]], np.float32), 0),
    "above": (np.array([[0], [0], [0], [2.5]], np.float32), 3),
    "below": (np.array([[0], [-2.5], [0], [0]], np.float32), 1),
    "too large for single precision": (np.array([[0], [0], [1e300], [0]]), 2),
}
MISSHAPEN = {
    "too few": np.zeros(3, int),
    "too many": np.zeros(5, int),
    "none": np.zeros(0, int),
    "an axis too many": np.zeros((4, 1), int),
    "one number": 1,
    "floats": np.zeros(4),
    "floats that are whole": np.ones(4),
    "text": ["0", "1", "0", "1"],
    "nothing": None,
    "objects": np.array([0, 1, 0, None], dtype=object),
    "complex": np.zeros(4, complex),
}


def lanes(id, **kwargs):
    env = paddock.make(id, num_envs=LANES, **kwargs)
    env.reset(seed=5)
    return env


def refuses(env, actions, expected=paddock.InvalidAction, match=None):
    """The step raises and nothing has changed; the error."""
    before = env.snapshot()
    with pytest.raises(expected, match=match) as caught, np.errstate(over="ignore"):
        env.step(actions)
    assert env.snapshot() == before
    return caught.value


@pytest.mark.parametrize("case", DISCRETE)
def test_discrete_action_out_of_range_names_the_lane_and_moves_none(either_way, case):
    actions, lane = DISCRETE[case]
    for id in ("CartPole-v1", "CliffWalking-v1"):
        env = lanes(id)
        most = env.single_action_space.n
        bad = np.asarray(actions)
        if bad.max() < most and bad.min() >= 0:
            bad = bad + (bad > 1) * most
        error = refuses(
            env, bad if case != "a list" else bad.tolist(), match=rf"lane {lane}: action .* is outside Disc"
        )
        assert error.lane == lane
        env.step(np.zeros(LANES, int))


@pytest.mark.parametrize("case", BOX)
def test_box_action_that_is_none_names_the_lane_and_moves_none(either_way, case):
    actions, lane = BOX[case]
    env = lanes("Pendulum-v1")
    assert refuses(env, actions, match=rf"lane {lane}: action .* is outside Box").lane == lane
    env.step(np.zeros((LANES, 1), np.float32))


@pytest.mark.parametrize("case", MISSHAPEN)
def test_wrong_shapes_types_and_counts_move_no_lane(either_way, case):
    error = refuses(lanes("CartPole-v1"), MISSHAPEN[case], match=r"for 4 lanes of Discrete\(2\); expected int64\[4\]")
    assert error.lane is None


@pytest.mark.parametrize("actions", [np.zeros(LANES), np.zeros((LANES, 2)), np.zeros((LANES, 1), "U1"), [[0], [0]]])
def test_wrong_shapes_and_types_for_a_box_move_no_lane(either_way, actions):
    refuses(lanes("Pendulum-v1"), actions, match="for 4 lanes of Box")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.bool_])
def test_any_integer_type_is_an_action(either_way, dtype):
    actions = np.array([0, 1, 1, 0])
    assert (
        lanes("CartPole-v1").step(actions.astype(dtype))[0].tobytes() == lanes("CartPole-v1").step(actions)[0].tobytes()
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64])
def test_any_number_type_is_an_action_for_a_box(either_way, dtype):
    actions = np.array([[0], [1], [-2], [2]], np.float32)
    expected = lanes("Pendulum-v1").step(actions)
    assert lanes("Pendulum-v1").step(actions.astype(dtype))[0].tobytes() == expected[0].tobytes()


def test_callers_actions_are_neither_kept_nor_changed(either_way):
    env, actions = lanes("CartPole-v1"), np.array([0, 1, 0, 1])
    actions.flags.writeable = False
    env.step(actions)
    assert actions.tolist() == [0, 1, 0, 1]


def test_step_before_reset_is_refused(either_way):
    env = paddock.make("CartPole-v1", num_envs=2)
    with pytest.raises(paddock.ResetNeeded):
        env.step(np.zeros(2, int))


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([True] * 4, "expected a bool array"),
        (np.ones(3, bool), "expected a bool array"),
        (np.ones(4, int), "expected a bool array"),
        (np.zeros(4, bool), "names no lane"),
    ],
)
def test_malformed_masks_are_refused_and_change_nothing(either_way, mask, words):
    env = lanes("CartPole-v1")
    before = env.snapshot()
    with pytest.raises(paddock.errors.InvalidLanes, match=words):
        env.reset(seed=1, options={"reset_mask": mask})
    assert env.snapshot() == before


@pytest.mark.parametrize("seed", [[1, 2, 3], [1] * 5, [1, 2, 3, -1], -1, "one", [1, 2, 3, 0.5]])
def test_malformed_seeds_are_refused_and_change_nothing(either_way, seed):
    env = lanes("CartPole-v1")
    before = env.snapshot()
    with pytest.raises((paddock.errors.InvalidLanes, paddock.InvalidSeed)):
        env.reset(seed=seed)
    assert env.snapshot() == before


def sync(id):
    return gymnasium.make_vec(id, num_envs=LANES, vectorization_mode="sync")


def test_each_lane_has_its_own_seed_as_in_sync(either_way):
    ours, theirs = CartPoleVectorEnv(LANES, max_episode_steps=500), sync("CartPole-v1")
    assert ours.reset(seed=11)[0].tobytes() == theirs.reset(seed=11)[0].tobytes()
    for actions in np.random.default_rng(0).integers(0, 2, (200, LANES)):
        a, b = ours.step(actions), theirs.step(actions)
        assert all(x.tobytes() == y.tobytes() and x.dtype == y.dtype for x, y in zip(a[:4], b[:4], strict=True))


def test_rewards_are_float64(either_way):
    env = CartPoleVectorEnv(2)
    env.reset(seed=0)
    assert env.step(np.zeros(2, int))[1].dtype == np.float64


def test_close_says_that_it_is_closed(either_way):
    env = CartPoleVectorEnv(2)
    assert not env.closed
    env.close()
    assert env.closed
    env.close()


def test_a_mask_resets_the_lanes_that_it_names_alone(either_way):
    env = CartPoleVectorEnv(LANES, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    for _ in range(3):
        before = env.step(np.ones(LANES, int))[0]
    mask = np.array([True, False, False, True])
    options = {"reset_mask": mask}
    after, _ = env.reset(options=options)
    assert options == {"reset_mask": mask}
    assert (after[~mask] == before[~mask]).all()
    assert (np.abs(after[mask]) <= 0.05).all()
    assert [state.step_count for state in env.state()] == [0, 3, 3, 0]


def test_a_masked_lane_goes_on_as_a_single_environment_would(either_way):
    env, one = CartPoleVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED), paddock.make("CartPole-v1")
    env.reset(seed=4)
    one.reset(seed=5)
    for _ in range(3):
        env.step(np.array([0, 1]))
        one.step(1)
    seen, _ = env.reset(options={"reset_mask": np.array([False, True])})
    assert seen[1].tobytes() == one.reset()[0].tobytes()


def test_options_do_not_persist_into_the_next_episode(either_way):
    env = CartPoleVectorEnv(LANES, max_episode_steps=2)
    first, _ = env.reset(seed=0, options={"low": 0.1, "high": 0.11})
    assert ((first >= 0.1) & (first <= 0.11)).all()
    env.step(np.zeros(LANES, int))
    assert env.step(np.zeros(LANES, int))[3].all()
    assert (np.abs(env.step(np.zeros(LANES, int))[0]) <= 0.05).all()


def test_a_nan_action_does_not_reach_pendulum():
    env = paddock.make("Pendulum-v1")
    env.reset(seed=0)
    before = env.snapshot()
    for action in (
        np.array([np.nan], np.float32),
        [float("nan")],
        np.array([3.0], np.float32),
        np.zeros(2, np.float32),
    ):
        with pytest.raises(paddock.InvalidAction):
            env.step(action)
    assert env.snapshot() == before
    assert np.isfinite(env.step(np.zeros(1, np.float32))[0]).all()


def test_a_nan_action_reaches_neither_pendulum_nor_its_lanes_through_the_gym_door(either_way):
    import paddock.gym as gym

    one, many = (
        gym.make("Pendulum-v1"),
        gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="vector_entry_point"),
    )
    one.reset(seed=0)
    many.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction):
        one.step(np.array([np.nan], np.float32))
    with pytest.raises(gym.error.InvalidAction, match="lane 1"):
        many.step(np.array([[0.0], [np.nan]], np.float32))
    assert np.isfinite(many.step(np.zeros((2, 1), np.float32))[0]).all()


def test_acrobot_refuses_minus_one(either_way):
    one, many = paddock.make("Acrobot-v1"), lanes("Acrobot-v1")
    one.reset(seed=0)
    with pytest.raises(paddock.InvalidAction):
        one.step(-1)
    refuses(many, np.array([0, 1, -1, 2]), match="lane 2")


def test_a_truncated_lane_is_not_stepped_on(either_way):
    env = lanes("MountainCar-v0", max_episode_steps=2, lanes=paddock.LaneOptions(autoreset=AutoresetMode.DISABLED))
    for _ in range(2):
        truncated = env.step(np.ones(LANES, int))[3]
    assert truncated.all()
    env.reset(options={"reset_mask": np.array([True, False, True, True])})
    refuses(env, np.ones(LANES, int), paddock.ResetNeeded, match=r"lane 1: the episode has ended\. .*reset_mask")
    one = paddock.make("MountainCar-v0", max_episode_steps=1)
    one.reset(seed=0)
    one.step(1)
    with pytest.raises(paddock.ResetNeeded):
        one.step(1)


def test_no_switch_lets_an_action_read_outside_of_a_table(either_way):
    """Not validating is for Python environments; a compiled table would be read at any address."""
    env = paddock.make("FrozenLake-v1", num_envs=2, validate=False)
    env.reset(seed=0)
    with pytest.raises(paddock.InvalidAction, match="lane 0"):
        env.step(np.array([10**6, 0]))
    one = paddock.make("FrozenLake-v1", validate=False)
    one.reset(seed=0)
    for _ in range(1500):  # compiled by now
        if any(one.step(0)[2:4]):
            one.reset()
    with pytest.raises((paddock.InvalidAction, LookupError)):
        one.step(10**6)
