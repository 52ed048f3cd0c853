"""Toy text: attributes that can be read and written, states saved and restored, and what is refused."""

import copy
import pickle

import gymnasium
import msgspec
import numpy as np
import pytest

import paddock
from paddock.envs import BlackjackEnv, CliffWalkingEnv
from paddock.errors import InvalidAction, InvalidKernel, InvalidSnapshot
from tests.envs.identity import AT_ONCE, IN_PYTHON, compile_after, same

IDS = ("FrozenLake-v1", "CliffWalkingSlippery-v1", "Taxi-v4", "Blackjack-v1")
TABLES = IDS[:3]
NOT_OURS = {"clock", "window", "window_surface", "get_surf_loc"}  # of the renderer, like everything that ends in img(s)


@pytest.fixture(params=[IN_PYTHON, AT_ONCE], ids=["python", "compiled"], autouse=True)
def form(request, monkeypatch):
    compile_after(monkeypatch, request.param)


def begun(env_id, seed=3, **kwargs):
    """Ours and theirs, in the middle of an episode and past compiling."""
    ours, theirs = (module.make(env_id, **kwargs).unwrapped for module in (paddock, gymnasium))
    for env in (ours, theirs):
        env.reset(seed=seed)
        env.step(1)
        env.reset(seed=seed)
    return ours, theirs


def go_on(ours, theirs, steps=60, seed=0):
    rng = np.random.default_rng(seed)
    for step in range(steps):
        action = int(rng.integers(theirs.action_space.n))
        mine, other = ours.step(action), theirs.step(action)
        same(mine, other, f"step {step}")
        if other[2]:
            same(ours.reset(), theirs.reset())


def trace(env, steps=50, seed=2):
    rng = np.random.default_rng(seed)
    results = []
    for _ in range(steps):
        results.append(env.step(int(rng.integers(env.action_space.n))))
        if results[-1][2]:
            results.append(env.reset())
    return results


@pytest.mark.parametrize("env_id", IDS)
def test_public_attributes_are_gymnasiums(env_id):
    ours, theirs = begun(env_id)
    names = [n for n in dir(theirs) if not n.startswith("_") and not hasattr(gymnasium.Env, n) and n not in NOT_OURS]
    for name in names:
        value = getattr(theirs, name)
        if not name.endswith(("img", "imgs", "_space")) and not callable(value):
            assert value == ours.P if name == "P" else np.array_equal(getattr(ours, name), value), name


@pytest.mark.parametrize("env_id", TABLES)
def test_writing_s_moves_the_agent(env_id):
    ours, theirs = begun(env_id)
    for s in (0, 5, 14, 9):
        ours.s = theirs.s = s
        assert ours.s == s
        same(ours.step(2), theirs.step(2))


@pytest.mark.parametrize("env_id", TABLES)
@pytest.mark.parametrize("s", [-1, 10**6, 2**70, 1.5, "3", None])
def test_state_outside_the_table_is_refused(env_id, s):
    ours, _ = begun(env_id)
    before = ours.s
    with pytest.raises((InvalidKernel, OverflowError)):
        ours.s = s
    assert ours.s == before


@pytest.mark.parametrize("env_id", TABLES)
def test_deep_write_into_p_counts_from_the_next_step_on(env_id):
    ours, theirs = begun(env_id)
    assert ours.P is ours.P
    go_on(ours, theirs)
    for env in (ours, theirs):
        for s in range(len(env.P)):
            env.P[s][0][0] = (1.0, (s * 7 + 1) % len(env.P), 2.5, s % 5 == 0)
            env.P[s][1] = [(0.25, s, -1, False), (0.25, 0, 1, False), (0.25, 3, 2, False), (0.25, 1, 3, False)]
            env.P[s][2].append((0.5, s, -7, False))
    go_on(ours, theirs)
    ours.P, theirs.P = copy.deepcopy(ours.P), copy.deepcopy(theirs.P)
    ours.P[4][3][:] = theirs.P[4][3][:] = [(1.0, 2, 9, True)]
    ours.s = theirs.s = 4
    same(ours.step(3), theirs.step(3))
    assert (ours.s, ours.lastaction) == (2, 3)
    ours.P[4][3][0] = [1.0, 2, 9, True]
    for s in (5, 6):
        ours.P[4][3][0][1], ours.s = s, 4
        assert ours.step(3)[0] == s


NO_ROWS = (
    [(1.0, 10**6, 0, False)],
    [(1.0, -1, 0, False)],
    [(1.0, 0.5, 0, False)],
    [(-0.5, 0, 0, False)],
    [(float("nan"), 0, 0, False)],
    [("x", 0, 0, False)],
    [(1.0, 0, 0)],
    [],
    7,
)


@pytest.mark.parametrize("env_id", TABLES)
@pytest.mark.parametrize("row", NO_ROWS)
def test_row_of_p_that_leads_nowhere_is_refused_and_nothing_moves(env_id, row):
    ours, _ = begun(env_id)
    before = ours.kernel_state
    ours.P[before.s][1] = row
    with pytest.raises(InvalidKernel, match=rf"P\[{before.s}\]\[1\]"):
        ours.step(1)
    with pytest.raises(InvalidKernel):
        ours.P = ours.P
    assert ours.kernel_state == before
    ours.step(0)


@pytest.mark.parametrize("env_id", TABLES)
def test_missing_part_of_p_is_refused(env_id):
    ours, _ = begun(env_id)
    for broken in ({}, {0: {}}, None, 3, []):
        with pytest.raises(InvalidKernel, match="is missing"):
            ours.P = broken


@pytest.mark.parametrize("env_id", TABLES)
def test_writing_the_first_states_counts_from_the_next_reset_on(env_id):
    ours, theirs = begun(env_id)
    for env in (ours, theirs):
        env.initial_state_distrib[:] = 0
        env.initial_state_distrib[[3, 8, 11]] = 0.2, 0.5, 0.3
    for seed in range(20):
        same(ours.reset(seed=seed), theirs.reset(seed=seed))
    ours.initial_state_distrib = theirs.initial_state_distrib = np.eye(len(theirs.P))[7]
    same(ours.reset(seed=1), theirs.reset(seed=1))
    for wrong in ([1.0], -np.ones(len(theirs.P)), np.full(len(theirs.P), np.nan)):
        with pytest.raises(InvalidKernel, match="probabilities"):
            ours.initial_state_distrib = wrong


@pytest.mark.parametrize("env_id", TABLES)
@pytest.mark.parametrize("name", ["successor", "probability", "outcomes", "first_states", "first_sums", "reward"])
def test_arrays_behind_p_can_be_reached_neither_as_attributes_nor_as_options(env_id, name):
    ours, theirs = begun(env_id)
    assert not hasattr(ours, name)
    with pytest.raises(AttributeError):
        setattr(ours, name, np.full(1000, 10**6))
    same(ours.reset(seed=1, options={name: np.full(1000, 10**6)}), theirs.reset(seed=1))
    go_on(ours, theirs)
    lanes = paddock.make(env_id, num_envs=2)
    assert np.all(lanes.reset(seed=1, options={name: np.full(1000, 10**6)})[0] < len(theirs.P))


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("action", [-1, 6, 10**9])
def test_action_outside_is_refused_by_the_bare_environment_too(env_id, action):
    ours, _ = begun(env_id)
    before = ours.kernel_state
    with pytest.raises(InvalidAction, match=str(action)):
        ours.step(action)
    assert ours.kernel_state == before


@pytest.mark.parametrize("env_id", TABLES)
def test_params_that_lead_out_of_the_table_are_refused(env_id):
    ours, theirs = begun(env_id)
    params = ours._params
    wrong = [{"successor": params.successor + 1000}, {"outcomes": 7}, {"actions": 2}, {"reward": params.reward[:5]}]
    wrong += [{"first_states": params.first_states - 999}, {"first_sums": np.ones(0)}]
    for fields in wrong:
        with pytest.raises(InvalidKernel, match="not a table"):
            ours.set_params(params._replace(**fields))
    go_on(ours, theirs)


def test_lanes_take_another_p_and_none_that_leads_nowhere():
    lanes = paddock.make("FrozenLake-v1", num_envs=4)
    lanes.reset(seed=0)
    table = copy.deepcopy(lanes.get_attr("P")[0])
    table[0][2] = [(1.0, 14, 3.0, False)]
    lanes.set_attr("P", table)
    seen, reward, *_ = lanes.step(np.full(4, 2))
    assert seen.tolist() == [14] * 4
    assert reward.tolist() == [3.0] * 4
    with pytest.raises(InvalidKernel, match="state 16"):
        lanes.set_attr("P", {**table, 3: {**table[3], 1: [(1.0, 16, 0, False)]}})


def test_taxi_map_and_places_decide_the_action_mask():
    ours, theirs = begun("Taxi-v4")
    for env in (ours, theirs):
        env.desc[1:6, 2:10:2] = b":"
        env.locs[0] = (2, 2)
    go_on(ours, theirs, 40)
    for s in range(0, 500, 7):
        same(ours.action_mask(s), theirs.action_mask(s))
        assert ours.decode(s) == theirs.decode(s)
        assert ours.encode(*ours.decode(s)) == s
    ours.locs = theirs.locs = [(1, 1), (2, 2), (3, 3), (4, 4)]
    go_on(ours, theirs, 40)
    with pytest.raises(InvalidKernel, match="not a town"):
        ours.locs = [(0, 0)]
    with pytest.raises(InvalidKernel, match="500"):
        ours.decode(500)


def test_fickle_passenger_can_be_made_to_change_their_mind():
    ours, theirs = begun("Taxi-v4", fickle_passenger=True, fickle_probability=0.0)
    changed = 0
    for _ in range(12):
        for env in (ours, theirs):
            env.s, env.fickle_step = env.encode(2, 2, 4, 1), True
        mine, other = ours.step(1), theirs.step(1)
        same(mine, other)
        assert ours.fickle_step is theirs.fickle_step is False
        changed += mine[0] % 4 != 1
    assert changed == 12
    ours.fickle_probability = theirs.fickle_probability = 1.0
    same(ours.reset(seed=4), theirs.reset(seed=4))
    assert ours.fickle_step
    ours.fickle_passenger = theirs.fickle_passenger = False
    same(ours.reset(seed=4), theirs.reset(seed=4))
    assert not ours.fickle_step


def test_blackjack_hands_can_be_written_in_place_and_anew():
    ours, theirs = begun("Blackjack-v1")
    rng = np.random.default_rng(8)
    for _ in range(40):
        hands = rng.integers(1, 11, size=(2, int(rng.integers(2, 7)))).tolist()
        for env in (ours, theirs):
            env.dealer, env.player = list(hands[0]), list(hands[1])
            env.dealer.append(1)
            env.player[0] = 1
        for action in (1, 0):
            same(ours.step(action), theirs.step(action))
            assert (ours.dealer, ours.player) == (theirs.dealer, theirs.player)
        same(ours.reset(), theirs.reset())
        assert (ours.dealer, ours.player) == (theirs.dealer, theirs.player)
        assert ours.dealer_top_card_value_str == theirs.dealer_top_card_value_str
        assert ours.dealer_top_card_suit == theirs.dealer_top_card_suit


def test_blackjack_hands_follow_the_state_that_is_put_in():
    ours, _ = begun("Blackjack-v1")
    first, held = ours.kernel_state, ours.player
    held.append(3)
    written = ours.kernel_state
    assert written.player_count == first.player_count + 1
    ours.kernel_state = first
    assert ours.player == held[:-1]
    ours.player[0] = 9
    ours.restore(ours.snapshot())
    assert ours.player[0] == 9


def test_each_lane_has_a_hand_and_a_place_of_its_own():
    cards = paddock.make("Blackjack-v1", num_envs=3)
    cards.reset(seed=0)
    singles = [paddock.make("Blackjack-v1").unwrapped for _ in range(3)]
    for lane, single in enumerate(singles):
        single.reset(seed=lane)
    assert cards.get_attr("player") == tuple(single.player for single in singles)
    cards.set_attr("player", [[2, 2], [10, 9], [1, 10]])
    assert cards.get_attr("player") == ([2, 2], [10, 9], [1, 10])
    lake = paddock.make("FrozenLake-v1", num_envs=3, is_slippery=False)
    lake.reset(seed=0)
    lake.set_attr("s", [0, 4, 13])
    assert lake.step(np.array([2, 1, 2]))[0].tolist() == [1, 8, 14]
    assert lake.get_attr("s") == (1, 8, 14)


def test_blackjack_hand_keeps_22_cards_and_refuses_what_no_deck_has():
    ours, theirs = begun("Blackjack-v1")
    ours.player, theirs.player = [1] * 21, [1] * 21
    same(ours.step(1), theirs.step(1))
    assert ours.player == theirs.player
    for wrong in ([], [0], [11], [1] * 31, [1.5], "A"):
        with pytest.raises(InvalidKernel, match="cards"):
            ours.player = wrong
        with pytest.raises(InvalidKernel, match="cards"):
            ours.dealer = wrong


def test_blackjack_rules_can_be_changed_between_steps():
    ours, theirs = begun("Blackjack-v1")
    for sab, natural in ((False, True), (True, True), (False, False)):
        for env in (ours, theirs):
            env.sab, env.natural, env.player = sab, natural, [1, 10]
        same(ours.step(0), theirs.step(0))
        same(ours.reset(), theirs.reset())


@pytest.mark.parametrize("env_id", IDS)
def test_snapshot_continues_the_same_episode(env_id):
    ours, _ = begun(env_id)
    trace(ours, 7)
    ours.reset()
    saved = ours.snapshot()
    expected = trace(ours)
    ours.restore(saved)
    same(trace(ours), expected)
    other = paddock.make(env_id).unwrapped
    other.restore(saved)
    same(trace(other), expected)


@pytest.mark.parametrize("env_id", TABLES)
def test_snapshot_of_another_table_is_refused(env_id):
    ours, _ = begun(env_id)
    saved = ours.snapshot()
    ours.P[0][0][0] = (1.0, 1, 5, False)
    with pytest.raises(InvalidSnapshot, match="other parameters"):
        ours.restore(saved)
    changed = ours.snapshot()
    expected = trace(ours)
    ours.restore(changed)
    same(trace(ours), expected)


def forged(snapshot, field, value):
    """A snapshot with other bytes for one field of the state."""
    parts = msgspec.msgpack.decode(snapshot)
    parts["state"][field] = value
    return msgspec.msgpack.encode(parts)


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("number", [-1, -(2**63), 2**62, 500, 10**6])
def test_forged_state_is_refused_and_nothing_changes(env_id, number):
    ours, _ = begun(env_id)
    saved, before = ours.snapshot(), ours.kernel_state
    for field, raw in enumerate(msgspec.msgpack.decode(saved)["state"]):
        if len(raw) == 8 and not (env_id != "Blackjack-v1" and (field == 2 or (field == 1 and number == -1))):
            if env_id == "Blackjack-v1" and field == 11 and number == -1 and before.face == -1:
                continue
            with pytest.raises(InvalidSnapshot):
                ours.restore(forged(saved, field, number.to_bytes(8, "little", signed=True)))
            assert ours.kernel_state == before


@pytest.mark.parametrize("env_id", IDS)
def test_snapshot_of_lanes_continues_all_of_them(env_id):
    lanes = paddock.make(env_id, num_envs=5)
    lanes.reset(seed=1)
    rng = np.random.default_rng(4)
    actions = rng.integers(lanes.single_action_space.n, size=(60, 5))
    for row in actions[:20]:
        lanes.step(row)
    saved = lanes.snapshot()
    expected = [lanes.step(row) for row in actions[20:]]
    lanes.restore(saved)
    same([lanes.step(row) for row in actions[20:]], expected)
    parts = msgspec.msgpack.decode(saved)
    name = "state_player_cards" if env_id == "Blackjack-v1" else "state_s"
    parts["columns"][name] = np.array([0, 0, 0, 10**6, 0]).tobytes()
    with pytest.raises(InvalidSnapshot):
        lanes.restore(msgspec.msgpack.encode(parts))


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("way", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
@pytest.mark.parametrize("given", [False, True], ids=["", "given"])
def test_copy_in_mid_episode_goes_its_own_way(env_id, way, given):
    ours, _ = begun(env_id)
    if given and env_id != "Blackjack-v1":
        ours.P[0][0][0] = (1.0, 1, 5, False)
    elif given:
        ours.player.append(2)
    twin = way(ours)
    expected = trace(ours)
    same(trace(twin), expected)
    if given and env_id != "Blackjack-v1":
        twin.P[1][0][0] = (1.0, 0, 77, False)
        assert ours.P[1][0][0] != twin.P[1][0][0]


def test_attributes_of_a_state_exist_from_the_first_reset_on():
    assert not hasattr(CliffWalkingEnv(), "s")
    assert not hasattr(BlackjackEnv(), "player")
    env = CliffWalkingEnv()
    env.s = 30
    assert env.step(1)[0] == 31
