"""Toy text beside Gymnasium: the same numbers, single and in lanes, in Python and compiled."""

import gymnasium
import numpy as np
import pytest

import paddock
from paddock.envs.toy_text.frozen_lake import generate_random_map, is_valid
from tests.envs.identity import AT_ONCE, IN_PYTHON, compile_after, same

LANES = 16
ISLES = ["FSFFF", "HFFXH", "FFGFS"]  # two starts, a letter that means nothing, not a square
CASES = {
    "lake": ("FrozenLake-v1", {}),
    "lake 8x8": ("FrozenLake8x8-v1", {}),
    "lake, not slippery": ("FrozenLake-v1", {"is_slippery": False}),
    "lake, success rate": ("FrozenLake-v1", {"success_rate": 0.7}),
    "lake, own map": ("FrozenLake-v1", {"desc": ISLES, "reward_schedule": (10, -5.5, -0.1)}),
    "lake, random map": ("FrozenLake-v1", {"desc": generate_random_map(6, 0.7, seed=3), "success_rate": 0.9}),
    "cliff": ("CliffWalking-v1", {}),
    "cliff, slippery": ("CliffWalkingSlippery-v1", {}),
    "taxi": ("Taxi-v4", {}),
    "taxi, rain": ("Taxi-v4", {"is_rainy": True}),
    "taxi, fickle": ("Taxi-v4", {"fickle_passenger": True, "fickle_probability": 0.8}),
    "taxi, both": ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True, "rainy_probability": 0.55}),
    "blackjack": ("Blackjack-v1", {}),
    "blackjack, natural": ("Blackjack-v1", {"sab": False, "natural": True}),
    "blackjack, plain": ("Blackjack-v1", {"sab": False}),
    "blackjack, both": ("Blackjack-v1", {"sab": True, "natural": True}),
}
ONE_EACH = ("lake, own map", "cliff, slippery", "taxi, both", "blackjack, natural")
cases = pytest.mark.parametrize("case", CASES)
tables = pytest.mark.parametrize("case", [case for case in CASES if "blackjack" not in case])


@pytest.fixture(params=[IN_PYTHON, AT_ONCE, 25], ids=["python", "compiled", "compiled on the way"])
def form(request, monkeypatch):
    compile_after(monkeypatch, request.param)


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def compiled(request, monkeypatch):
    monkeypatch.setattr("paddock.kernels.lanes.numba_installed", lambda: request.param)
    return request.param


def pair(case, **more):
    env_id, kwargs = CASES[case]
    return paddock.make(env_id, **kwargs, **more), gymnasium.make(env_id, **kwargs, **more)


def eager(case, seen, told, actions, rng):
    """Any action, but mostly one that goes somewhere: taxis pick up and drop off, walkers keep off the cliff."""
    if rng.random() < 0.2:
        return int(rng.integers(actions))
    if "cliff" in case:
        row, column = divmod(int(seen), 12)
        return 2 if column == 11 else 0 if row > 1 else 1
    if "taxi" in case:
        able = np.flatnonzero(told["action_mask"])
        return int(able[-1]) if able[-1] > 3 and rng.random() < 0.7 else int(rng.choice(able))
    return int(rng.integers(actions))


def play_beside(case, seeds, *, episodes=3, limit=120):
    """How many episodes terminated; the first step that is not the same fails."""
    ours, theirs = pair(case)
    terminated = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for episode in range(episodes):
            asked = seed if episode == 0 else None
            mine, other = ours.reset(seed=asked), theirs.reset(seed=asked)
            same(mine, other, f"{case}, seed {seed}, episode {episode}, reset")
            for step in range(limit):
                action = eager(case, other[0], other[-1], theirs.action_space.n, rng)
                mine, other = ours.step(action), theirs.step(action)
                if mine[:4] != other[:4] or mine[4].get("prob") != other[4].get("prob") or step % 8 == 0:
                    same(mine, other, f"{case}, seed {seed}, episode {episode}, step {step}")
                assert [type(part) for part in mine[1:4]] == [float, bool, bool]
                if other[2] or other[3]:
                    terminated += other[2]
                    break
    return terminated


@pytest.mark.process
@cases
def test_single_env_is_gymnasiums_bit_for_bit(case, form):
    assert play_beside(case, range(15)) > 0


@pytest.mark.full
@cases
def test_single_env_is_gymnasiums_bit_for_bit_for_200_seeds(case, form):
    assert play_beside(case, range(200), limit=250) > 20


class _FloatProbability(gymnasium.Wrapper):
    """Gymnasium's reset tells prob=1 as an int, whose type then truncates all lanes' probabilities."""

    def reset(self, **kwargs):
        seen, told = self.env.reset(**kwargs)
        return seen, {**told, "prob": float(told["prob"])} if "prob" in told else told


def of_lane(lane, seen, told):
    return seen[lane] if isinstance(seen, np.ndarray) else 0, {key: told[key][lane] for key in told if key[0] == "a"}


def lanes_beside(case, mode, steps):
    env_id, kwargs = CASES[case]
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: _FloatProbability(gymnasium.make(env_id, **kwargs))] * LANES, autoreset_mode=mode
    )
    spec = paddock.spec(env_id)
    module, name = spec.vector_entry_point.split(":")
    kind = getattr(__import__(module, fromlist=[name]), name)
    ours = kind(LANES, spec.max_episode_steps, autoreset_mode=mode.value, **{**spec.kwargs, **kwargs})
    rng = np.random.default_rng(5)
    mine, other = ours.reset(seed=7), theirs.reset(seed=7)
    same(mine, other, f"{case} reset")
    ends, count = 0, ours.single_action_space.n
    for step in range(steps):
        seen, told = other[0], other[-1]
        actions = np.array([eager(case, *of_lane(lane, seen, told), count, rng) for lane in range(LANES)])
        mine, other = ours.step(actions), theirs.step(actions)
        same(mine, other, f"{case} {mode.value} step {step}")
        ends += int(np.sum(other[2] | other[3]))
    return ends


MODES = [gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.SAME_STEP]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("case", ONE_EACH)
def test_lanes_are_gymnasiums_envs_seeded_one_after_another(case, mode, compiled):
    assert lanes_beside(case, mode, 230) >= LANES // 2


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@cases
def test_lanes_are_gymnasiums_envs_for_2000_steps(case, mode, compiled):
    assert lanes_beside(case, mode, 2000) >= LANES // 2


def test_lanes_tell_probabilities_of_a_reset_as_floats():
    """Gymnasium would give int64 here, and cut 1/3 to 0 in later steps."""
    lanes = paddock.make("FrozenLake-v1", num_envs=3)
    assert lanes.reset(seed=0)[1]["prob"].dtype == np.float64
    assert np.all(lanes.step(np.array([0, 1, 2]))[4]["prob"] > 0.3)


@tables
def test_table_p_and_first_states_are_gymnasiums(case):
    ours, theirs = (env.unwrapped for env in pair(case))
    assert ours.P == theirs.P
    assert all(isinstance(row, list) and type(row[0]) is tuple for by in ours.P.values() for row in by.values())
    same(ours.initial_state_distrib, theirs.initial_state_distrib)


@pytest.mark.parametrize("env_id", sorted({env_id for env_id, _ in CASES.values()}))
def test_catalog_says_what_gymnasium_registers(env_id):
    ours, theirs = paddock.spec(env_id), gymnasium.spec(env_id)
    for name in ("max_episode_steps", "reward_threshold", "kwargs", "nondeterministic", "order_enforce"):
        assert getattr(ours, name) == getattr(theirs, name), name
    mine, other = paddock.make(env_id), gymnasium.make(env_id)
    assert repr(mine.observation_space) == repr(other.observation_space)
    assert repr(mine.action_space) == repr(other.action_space)
    assert mine.metadata["render_modes"] == other.metadata["render_modes"]
    assert mine.metadata["render_fps"] == other.metadata["render_fps"]


@tables
def test_text_is_gymnasiums(case):
    ours, theirs = pair(case, render_mode="ansi")
    rng = np.random.default_rng(1)
    for seed in range(3):
        seen, told = theirs.reset(seed=seed)
        ours.reset(seed=seed)
        assert ours.render() == theirs.render()
        for _ in range(40):
            action = eager(case, seen, told, theirs.action_space.n, rng)
            ours.step(action)
            seen, _, terminated, truncated, told = theirs.step(action)
            assert ours.render() == theirs.render()
            if terminated or truncated:
                break


@pytest.mark.parametrize(("size", "p"), [(2, 0.5), (4, 0.8), (8, 0.8), (9, 0.55), (5, 2.0)])
def test_random_maps_are_gymnasiums(size, p):
    from gymnasium.envs.toy_text.frozen_lake import generate_random_map as theirs

    for seed in range(20):
        drawn = generate_random_map(size, p, seed)
        assert drawn == theirs(size, p, seed)
        assert is_valid(drawn, size)
