"""Gymnasium's public attributes and constructor arguments: readable, and writable with the effect they have there."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import AcrobotEnv as TheirAcrobot

import paddock.gym
import paddock.kernels.env
from paddock.envs import AcrobotEnv
from paddock.errors import InvalidBound, InvalidKernel

from .identity import ONE_EACH, go_on, pair, play, same

NUMBERS = {
    "CartPole-v1": {"gravity": 12.3, "masscart": 1.7, "masspole": 0.3, "total_mass": 2.1, "length": 0.7, "tau": 0.03}
    | {"polemass_length": 0.11, "force_mag": 7.0, "theta_threshold_radians": 0.1, "x_threshold": 0.05}
    | {"kinematics_integrator": "semi-implicit euler"},
    "MountainCar-v0": {"min_position": -0.55, "max_position": -0.5, "max_speed": 0.001, "goal_position": -0.6}
    | {"force": 0.0021, "gravity": 0.0013, "goal_velocity": 0.3},
    "MountainCarContinuous-v0": {"min_action": -0.3, "max_action": 0.3, "min_position": -0.55, "max_position": -0.5}
    | {"max_speed": 0.0011, "goal_position": -0.6, "goal_velocity": 0.07, "power": 0.0027},
    "Pendulum-v1": {"max_speed": 1.3, "max_torque": 0.7, "dt": 0.03, "g": 9.81, "m": 1.3, "l": 0.7},
    "Acrobot-v1": {"dt": 0.11, "LINK_LENGTH_1": 1.3, "LINK_LENGTH_2": 0.7, "LINK_MASS_1": 0.9, "LINK_MASS_2": 1.1}
    | {"LINK_COM_POS_1": 0.45, "LINK_COM_POS_2": 0.61, "LINK_MOI": 1.2, "MAX_VEL_1": 0.3, "MAX_VEL_2": 0.2}
    | {"AVAIL_TORQUE": [-2.0, 0.3, 1.7], "torque_noise_max": 0.7, "book_or_nips": "nips"},
}
WITHOUT_EFFECT = {"masscart", "LINK_LENGTH_2", "max_position", "goal_velocity"}  # in these few steps
EACH_NUMBER = [(env_id, name, value) for env_id, names in NUMBERS.items() for name, value in names.items()]
STATES = {
    "CartPole-v1": (0.1, 0.2, -0.05, 0.3),
    "MountainCar-v0": (-0.3, 0.01),
    "MountainCarContinuous-v0": (-0.3, 0.01),
    "Pendulum-v1": (9.3, 1.1),
    "Acrobot-v1": (1.1, -0.4, 2.3, -1.7),
}


@pytest.mark.parametrize("env_id", ONE_EACH)
def test_every_public_attribute_of_gymnasiums_env_is_there_with_its_value(env_id, form):
    ours, theirs = pair(env_id)
    play(ours, theirs, env_id, np.random.default_rng(0), seed=1, steps=3)
    mine, other = ours.unwrapped, theirs.unwrapped
    names = {name for name in dir(other) if not name.startswith("_")} - {
        "np_random",
        "np_random_seed",
        "spec",
        "unwrapped",
    }
    for name in names:
        value = getattr(other, name)
        if callable(value) or name.endswith("_space"):
            assert callable(getattr(mine, name)) or name.endswith("_space")
        else:
            assert np.array_equal(getattr(mine, name), value), name


@pytest.mark.parametrize(("env_id", "name", "value"), EACH_NUMBER)
def test_written_attribute_changes_the_next_steps_as_in_gymnasium(env_id, name, value, form):
    ours, theirs = pair(env_id)
    untouched = paddock.gym.make(env_id)
    play(ours, theirs, env_id, np.random.default_rng(0), seed=1, steps=3)
    setattr(ours.unwrapped, name, value)
    setattr(theirs.unwrapped, name, value)
    assert np.array_equal(getattr(ours.unwrapped, name), value)
    go_on(ours, theirs, env_id, np.random.default_rng(5), steps=12)
    play(ours, theirs, env_id, np.random.default_rng(5), steps=12)
    play(untouched, gymnasium.make(env_id), env_id, np.random.default_rng(0), seed=1, steps=3)
    if name not in WITHOUT_EFFECT:
        with pytest.raises(AssertionError):
            go_on(untouched, theirs, env_id, np.random.default_rng(5), steps=12)


@pytest.mark.parametrize("kind", [tuple, list, np.array], ids=["tuple", "list", "array"])
@pytest.mark.parametrize("env_id", ONE_EACH)
def test_assigned_state_is_where_the_next_step_begins(env_id, kind, form):
    ours, theirs = pair(env_id)
    play(ours, theirs, env_id, np.random.default_rng(0), seed=1, steps=3)
    for scale in (1.0, 0.3, -0.7):
        values = [number * scale for number in STATES[env_id]]
        ours.unwrapped.state, theirs.unwrapped.state = kind(values), kind(values)
        assert np.array_equal(ours.unwrapped.state, theirs.unwrapped.state)
        go_on(ours, theirs, env_id, np.random.default_rng(5), steps=8)


@pytest.mark.parametrize("env_id", ["MountainCarContinuous-v0", "Acrobot-v1"])
def test_single_precision_state_is_continued_in_single_precision(env_id, form):
    ours, theirs = pair(env_id)
    play(ours, theirs, env_id, np.random.default_rng(0), seed=1, steps=3)
    for env in (ours.unwrapped, theirs.unwrapped):
        env.state = np.array(STATES[env_id], np.float32)
    assert ours.unwrapped.state.dtype == np.float32
    go_on(ours, theirs, env_id, np.random.default_rng(5), steps=20)


@pytest.mark.parametrize("env_id", ONE_EACH)
def test_state_can_be_assigned_before_the_first_reset(env_id):
    ours, theirs = paddock.gym.make(env_id).unwrapped, gymnasium.make(env_id).unwrapped
    assert ours.state is None
    ours.state = theirs.state = np.array(STATES[env_id])
    go_on(ours, theirs, env_id, np.random.default_rng(5), steps=8)


@pytest.mark.parametrize("env_id", ONE_EACH)
def test_state_that_cannot_be_continued_is_refused_and_its_array_cannot_be_written(env_id):
    env = paddock.gym.make(env_id).unwrapped
    env.reset(seed=1)
    before = env.state
    for bad in (np.nan, np.inf, 1e200):
        with pytest.raises(InvalidKernel):
            env.state = [bad] * len(before)
    assert np.array_equal(env.state, before)
    with pytest.raises(ValueError, match="read-only"):
        env.state[0] = 1.0


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("CartPole-v1", {"sutton_barto_reward": True}),
        ("MountainCar-v0", {"goal_velocity": 0.03}),
        ("MountainCarContinuous-v0", {"goal_velocity": 0.07}),
        ("Pendulum-v1", {"g": 9.81}),
        ("Pendulum-v1", {"g": 9}),
    ],
)
def test_constructor_arguments_act_as_in_gymnasium(env_id, kwargs, form):
    ours, theirs = pair(env_id, **kwargs)
    for eager in (False, True):
        play(ours, theirs, env_id, np.random.default_rng(0), seed=3, eager=eager)
    vector_type = getattr(paddock.envs, type(ours.unwrapped).__name__.replace("Env", "VectorEnv"))
    vector = vector_type(2, **kwargs)
    twins = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(env_id, **kwargs)] * 2)
    same(vector.reset(seed=3), twins.reset(seed=3))
    actions = np.ones(2, int) if vector.single_action_space.shape == () else np.ones((2, 1), np.float32)
    for _ in range(15):
        same(vector.step(actions), twins.step(actions))


def test_mountain_cars_stop_at_their_walls_and_arrive_at_their_goals_as_in_gymnasium(form):
    for env_id, kinds in (("MountainCar-v0", [float]), ("MountainCarContinuous-v0", [np.float64, np.float32])):
        ours, theirs = pair(env_id)
        ours.reset(seed=1), theirs.reset(seed=1)
        for start in [(-1.19, -0.069), (-1.2, 0.0), (0.44, 0.069), (0.599, 0.07), (-1.1, -0.0701), (0.1, 0.0699)]:
            for kind in kinds:
                ours.unwrapped.state = theirs.unwrapped.state = np.array(start, kind)
                go_on(ours.unwrapped, theirs.unwrapped, env_id, np.random.default_rng(5), steps=6)


def test_pendulum_tells_the_torque_of_its_last_step(form):
    ours, theirs = pair("Pendulum-v1")
    ours.reset(seed=1), theirs.reset(seed=1)
    assert ours.unwrapped.last_u is theirs.unwrapped.last_u is None
    for torque in (0.3, -7.0):
        ours.step(np.array([torque], np.float32)), theirs.step(np.array([torque], np.float32))
        same(ours.unwrapped.last_u, theirs.unwrapped.last_u)
        same(ours.unwrapped._get_obs(), theirs.unwrapped._get_obs())


def test_mountain_car_has_its_hill_and_its_keys():
    ours, theirs = (env.unwrapped for env in pair("MountainCar-v0"))
    assert ours.get_keys_to_action() == theirs.get_keys_to_action()
    xs = np.linspace(-1.2, 0.6, 50)
    same(ours._height(xs), theirs._height(xs))


def test_acrobots_constants_can_be_read_on_the_class_and_overridden_by_a_subclass(form):
    for name in NUMBERS["Acrobot-v1"]:
        assert getattr(AcrobotEnv, name) == getattr(TheirAcrobot, name), name
    constants = {"book_or_nips": "nips", "LINK_MASS_1": 1.5, "AVAIL_TORQUE": [-3.0, 0.5, 3.0], "MAX_VEL_1": 5.0}
    ours, theirs = type("Ours", (AcrobotEnv,), dict(constants))(), type("Theirs", (TheirAcrobot,), dict(constants))()
    play(ours, theirs, "Acrobot-v1", np.random.default_rng(0), seed=3, steps=50)
    assert str(ours.observation_space) == str(theirs.observation_space)
    assert AcrobotEnv().book_or_nips == "book"


def test_one_acrobots_torques_are_its_own_and_can_be_written_in_place(form):
    ours, untouched = AcrobotEnv(), AcrobotEnv()
    theirs = TheirAcrobot()
    theirs.AVAIL_TORQUE = [-1.0, 0.0, 1.0]
    play(ours, theirs, "Acrobot-v1", np.random.default_rng(0), seed=3, steps=3)
    ours.AVAIL_TORQUE[2] = theirs.AVAIL_TORQUE[2] = 4.0
    go_on(ours, theirs, "Acrobot-v1", np.random.default_rng(1), steps=10)
    assert untouched.AVAIL_TORQUE.tolist() == [-1.0, 0.0, 1.0]
    with pytest.raises(InvalidBound, match="3 numbers"):
        ours.AVAIL_TORQUE = [1.0, 2.0]


def test_acrobots_angle_that_was_thrown_very_far_is_still_wrapped(form):
    env = AcrobotEnv()
    env.reset(seed=1)
    env.MAX_VEL_1 = 1e12
    env.state = [0.0, 0.0, 1e9, 0.0]
    for _ in range(3):
        env.step(1)
    assert np.all(np.abs(env.state[:2]) <= np.pi) or np.isnan(env.state).any()


@pytest.mark.parametrize("env_id", ONE_EACH)
def test_lanes_follow_an_attribute_set_for_all_of_them(env_id):
    name, value = next(iter(NUMBERS[env_id].items()))
    spec = paddock.gym.spec(env_id)
    module, cls = spec.vector_entry_point.split(":")
    vector = getattr(__import__(module, fromlist=[cls]), cls)(3, spec.max_episode_steps)
    singles = [gymnasium.make(env_id) for _ in range(3)]
    vector.reset(seed=1)
    for lane, env in enumerate(singles):
        env.reset(seed=1 + lane)
        setattr(env.unwrapped, name, value)
    vector.set_attr(name, value)
    for _ in range(8):
        action = (
            np.zeros((3, 1), np.float32) if env_id in ("MountainCarContinuous-v0", "Pendulum-v1") else np.ones(3, int)
        )
        seen = vector.step(action)[0]
        for lane, env in enumerate(singles):
            same(seen[lane], env.step(action[lane])[0])
