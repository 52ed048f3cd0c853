"""Classic control equals Gymnasium bit for bit: single, compiled, and lanes in Python or compiled."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import paddock
import paddock.kernels.env
import paddock.kernels.lanes
from paddock.core.vector_env import AutoresetMode
from paddock.errors import InvalidAction, InvalidSnapshot

from .identity import AT_ONCE, CLASSIC, IN_PYTHON, ONE_EACH, action_for, compile_after, pair, play, same, trace

each_env = pytest.mark.parametrize("env_id", ONE_EACH)
modes = pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])


@pytest.fixture(params=["python lanes", "compiled lanes"])
def lanes(request, monkeypatch):
    """Lanes that run as Python, as where Numba is missing, or compiled."""
    if request.param == "python lanes":
        monkeypatch.setattr(paddock.kernels.lanes, "numba_installed", lambda: False)
    return request.param


def our_lanes(env_id, count=16, **kwargs):
    spec = paddock.spec(env_id)
    kwargs = {"max_episode_steps": spec.max_episode_steps, "strict": False, **kwargs}
    module, name = spec.vector_entry_point.split(":")
    return getattr(__import__(module, fromlist=[name]), name)(count, **kwargs)


def their_lanes(env_id, count=16, *, mode="NEXT_STEP", **kwargs):
    mode = gymnasium.vector.AutoresetMode[mode]
    return gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(env_id, **kwargs)] * count, autoreset_mode=mode)


@pytest.mark.parametrize("env_id", CLASSIC)
def test_spec_spaces_and_metadata_are_gymnasiums(env_id):
    ours, theirs = pair(env_id)
    mine, other = paddock.spec(env_id), gymnasium.spec(env_id)
    assert (mine.max_episode_steps, mine.reward_threshold) == (other.max_episode_steps, other.reward_threshold)
    assert (mine.nondeterministic, mine.kwargs) == (other.nondeterministic, other.kwargs)
    assert (str(ours.observation_space), str(ours.action_space)) == (
        str(theirs.observation_space),
        str(theirs.action_space),
    )
    assert ours.metadata == theirs.metadata


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [15, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("env_id", CLASSIC)
def test_single_env_equals_gymnasium_bit_for_bit(env_id, seeds, form):
    ours, theirs = pair(env_id)
    ended_by_goal = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        for episode in range(3):
            kwargs = {"seed": seed} if episode == 0 else {}
            ended_by_goal += play(ours, theirs, env_id, rng, eager=episode == 1, **kwargs)
    assert (ours.unwrapped._lane is not None) == (form == "compiled")
    assert ended_by_goal or env_id == "Pendulum-v1"  # else the comparison has seen no goal


@pytest.mark.slow
@modes
@pytest.mark.parametrize("steps", [300, pytest.param(2000, marks=pytest.mark.full)])
@each_env
def test_sixteen_lanes_equal_sync_vector_env_bit_for_bit(env_id, steps, mode, lanes):
    if lanes == "python lanes" and steps > 300:
        pytest.skip("Python lanes run the short count by default; the compiled form of this test runs the long one")
    limit = 70 if steps == 300 else paddock.spec(env_id).max_episode_steps
    ours = our_lanes(env_id, max_episode_steps=limit, autoreset_mode=AutoresetMode[mode])
    theirs = their_lanes(env_id, mode=mode, max_episode_steps=limit)
    assert ours._lanes.compiled == (lanes == "compiled lanes")
    rng = np.random.default_rng(7)
    same(ours.reset(seed=100), theirs.reset(seed=100), "reset")
    for at in range(steps):
        actions = np.array([action_for(theirs.single_action_space, rng) for _ in range(16)])
        same(ours.step(actions), theirs.step(actions), f"{env_id} step {at}")


@each_env
def test_options_bound_the_first_state_of_one_reset_only(env_id, form):
    ours, theirs = pair(env_id)
    options = {"x_init": 0.5, "y_init": 2} if env_id == "Pendulum-v1" else {"low": -0.2, "high": -0.1}
    rng = np.random.default_rng(3)
    for given_options in (None, options, {**options, "unknown": object()}, {}, {"g": "no number"}):
        play(ours, theirs, env_id, rng, seed=5, options=given_options, steps=5)
        play(ours, theirs, env_id, rng, steps=5)


@each_env
def test_options_bound_the_first_state_of_lanes_but_not_that_of_autoresets(env_id, lanes):
    ours, theirs = our_lanes(env_id, 3, max_episode_steps=4), their_lanes(env_id, 3, max_episode_steps=4)
    options = {"x_init": 0.5, "y_init": 2} if env_id == "Pendulum-v1" else {"low": 0.1, "high": 0.2}
    same(ours.reset(seed=1, options=dict(options)), theirs.reset(seed=1, options=dict(options)))
    rng = np.random.default_rng(0)
    for _ in range(12):
        actions = np.array([action_for(theirs.single_action_space, rng) for _ in range(3)])
        same(ours.step(actions), theirs.step(actions))


WRONG = [{"low": 1, "high": 0}, {"low": "a"}, {"low": None}, {"high": [1, 2]}, {"low": float("nan")}]
WRONG_FOR_PENDULUM = [{"x_init": -1}, {"y_init": [1, 2]}, {"x_init": None}, {"y_init": "much"}, {"x_init": np.inf}]


@each_env
def test_wrong_bounds_are_refused_as_value_errors_and_change_no_state(env_id, form):
    ours, theirs = pair(env_id)
    vector = our_lanes(env_id, 2)
    ours.reset(seed=1)
    ours.step(action_for(theirs.action_space, np.random.default_rng(0)))
    vector.reset(seed=1)
    before = ours.unwrapped.kernel_state
    for options in WRONG_FOR_PENDULUM if env_id == "Pendulum-v1" else WRONG:
        with pytest.raises((ValueError, OverflowError)):
            theirs.reset(options=options)
        with pytest.raises(ValueError, match="expected"):
            ours.unwrapped.reset(options=options)
        with pytest.raises(ValueError, match="expected"):
            vector.reset(options=options)
        assert ours.unwrapped.kernel_state == before


def test_cartpole_begun_fallen_is_rewarded_for_the_first_step_only(form):
    ours, theirs = pair("CartPole-v1")
    for env in (ours, theirs):
        env.reset(seed=1, options={"low": 0.4, "high": 0.5})
    for _ in range(3):
        same(ours.unwrapped.step(0), theirs.unwrapped.step(0))


def test_acrobot_begun_far_out_is_observed_in_numpys_single_precision(form):
    ours, theirs = pair("Acrobot-v1")
    rng, options = np.random.default_rng(2), {"low": -3.1, "high": 3.1}
    for seed in range(30):
        play(ours, theirs, "Acrobot-v1", rng, seed=seed, options=options, steps=2)
    lanes, twins = our_lanes("Acrobot-v1", 8), their_lanes("Acrobot-v1", 8)
    same(lanes.reset(seed=4, options=dict(options)), twins.reset(seed=4, options=dict(options)))


@each_env
def test_nan_and_impossible_actions_are_refused_and_change_no_state(env_id, form):
    env, vector = paddock.make(env_id), our_lanes(env_id, 3, strict=True)
    rng = np.random.default_rng(0)
    env.reset(seed=1)
    vector.reset(seed=1)
    for _ in range(2):  # the second step of the compiled form is a compiled one
        env.step(env.action_space.sample())
    bad = [-1, 99] if hasattr(env.action_space, "n") else [np.array([x], np.float32) for x in (np.nan, np.inf, 9.0)]
    for action in bad:
        state, snapshot = env.unwrapped.kernel_state, vector.snapshot()
        with pytest.raises(InvalidAction):
            env.step(action)
        actions = np.array([action_for(env.action_space, rng) for _ in range(3)])
        actions = np.clip(actions, -1, 1) if actions.ndim == 2 else actions
        actions[1] = action
        with pytest.raises(InvalidAction, match="lane 1"):
            vector.step(actions)
        assert env.unwrapped.kernel_state == state
        assert vector.snapshot() == snapshot


@each_env
def test_restored_env_goes_on_as_the_one_that_was_saved(env_id, form):
    env, other = paddock.gym.make(env_id), paddock.gym.make(env_id)
    env.reset(seed=8)
    trace(env, np.random.default_rng(0), 7)
    saved = env.unwrapped.snapshot()
    expected = [*trace(env.unwrapped, np.random.default_rng(1), 60), env.unwrapped.reset()]
    other.reset(seed=99)
    other.unwrapped.restore(saved)
    same([*trace(other.unwrapped, np.random.default_rng(1), 60), other.unwrapped.reset()], expected)
    other.unwrapped.restore(saved)
    assert other.unwrapped.snapshot() == saved


@each_env
def test_snapshot_taken_in_python_goes_on_compiled_and_the_other_way_round(env_id, monkeypatch):
    results = []
    for first, then in ((IN_PYTHON, AT_ONCE), (AT_ONCE, IN_PYTHON)):
        compile_after(monkeypatch, first)
        env = paddock.gym.make(env_id).unwrapped
        env.reset(seed=8)
        trace(env, np.random.default_rng(0), 5)
        saved = env.snapshot()
        compile_after(monkeypatch, then)
        env = paddock.gym.make(env_id).unwrapped
        env.restore(saved)
        results.append((saved, trace(env, np.random.default_rng(1), 30)))
    same(*results)


@each_env
def test_restored_lanes_go_on_as_the_ones_that_were_saved(env_id, lanes):
    ours, other = our_lanes(env_id, 5, max_episode_steps=9), our_lanes(env_id, 5, max_episode_steps=9)
    rng = np.random.default_rng(0)
    actions = [np.array([action_for(ours.single_action_space, rng) for _ in range(5)]) for _ in range(40)]
    ours.reset(seed=3)
    for row in actions[:13]:
        ours.step(row)
    saved = ours.snapshot()
    expected = [ours.step(row) for row in actions[13:]]
    other.restore(saved)
    same([other.step(row) for row in actions[13:]], expected)


BEGUN = {}


def begun(env_id):
    """Environments in the middle of an episode, made once: Hypothesis asks many times."""
    if env_id not in BEGUN:
        env, vector = paddock.gym.make(env_id).unwrapped, our_lanes(env_id, 2)
        env.reset(seed=1)
        trace(env, np.random.default_rng(0), 3)
        vector.reset(seed=1)
        BEGUN[env_id] = env, vector
    return BEGUN[env_id]


@pytest.mark.slow
@each_env
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_as_a_snapshot_and_change_nothing(env_id, data):
    for env in begun(env_id):
        before = env.snapshot()
        with pytest.raises(InvalidSnapshot):
            env.restore(data)
        assert env.snapshot() == before


@pytest.mark.slow
@each_env
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.integers(0, 3))
def test_damaged_snapshot_is_refused_or_is_a_state_one_can_step_from(env_id, at, byte, cut):
    for env in begun(env_id):
        before = env.snapshot()
        damaged = bytearray(before)
        damaged[at % len(damaged)] = byte
        try:
            env.restore(bytes(damaged[: len(damaged) - cut]))
        except InvalidSnapshot:
            assert env.snapshot() == before
        else:
            env.step(env.action_space.sample())
            env.restore(before)


@each_env
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
def test_copy_goes_on_alike_and_apart(env_id, copied, form):
    env = paddock.gym.make(env_id)
    env.reset(seed=4)
    trace(env, np.random.default_rng(0), 6)
    twin = copied(env)
    expected = trace(env, np.random.default_rng(1), 40)
    same(trace(twin, np.random.default_rng(1), 40), expected)
