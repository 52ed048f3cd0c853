"""One logic, two shells: what wrapper authors rely on, and what stacks of wrappers promise as data."""

import copy
import json
import pickle
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

import paddock
from paddock import AutoresetMode, wrappers
from paddock.core.vector_wrapper import VectorRewardWrapper
from paddock.errors import CheckFailed, InvalidBound, InvalidLanes, InvalidProbability, InvalidSnapshot, InvalidSpace
from paddock.spaces import Discrete
from paddock.testing import check_wrapper
from paddock.vector import SyncVectorEnv
from paddock.wrappers import (
    ALL,
    Logic,
    ManyLanes,
    ManyLanesAction,
    ManyLanesReward,
    OneLane,
    OneLaneAction,
    OneLaneReward,
    vector,
)
from paddock.wrappers.logic import Memory
from tests.toys import Counter
from tests.wrappers.growth import Growth
from tests.wrappers.lanes import Wanderer, lanes

MODES = tuple(AutoresetMode)


def test_a_logic_written_for_one_lane_serves_n():
    check_wrapper(
        lambda lane: OneLane(Wanderer(lane), Growth(2.0)), lambda mode: ManyLanes(lanes(mode), Growth(2.0)), seed=3
    )


@dataclass(frozen=True)
class Nudged(Logic):
    """The agent chooses one of three steps from where its last action led. For one lane only."""

    def batched(self, wrapped):
        return False

    def action_space(self, wrapped):
        return Discrete(3)

    def memory(self, wrapped):
        return Memory(place=0.0)

    def begin(self, memory, lanes, first):
        memory.place = 0.0
        return first

    def act(self, memory, lanes, action):
        memory.place = min(max(memory.place + (action - 1) / 4, -1.0), 1.0)
        return np.full(2, memory.place, np.float32)


def test_a_logic_that_remembers_may_change_the_action_space():
    check_wrapper(
        lambda lane: OneLaneAction(Wanderer(lane, continuous=True), Nudged()),
        lambda mode: ManyLanesAction(lanes(mode, continuous=True), Nudged()),
        seed=5,
    )


@dataclass(frozen=True)
class Wrong(Growth):
    """As Growth, for n lanes with a mistake: it forgets that episodes begin."""

    def batched(self, wrapped):
        return True

    def memory(self, wrapped):
        return Memory(before=0.0 if wrapped.lanes is None else np.zeros(wrapped.lanes))

    def begin(self, memory, lanes, first):
        return super().begin(memory, lanes, first) if lanes is None else first

    def advance(self, memory, lanes, step):
        if lanes is None:
            return super().advance(memory, lanes, step)
        observation, _, terminated, truncated, info = step
        grown = observation[:, -1] - memory.before[lanes]
        memory.before[lanes] = observation[:, -1]
        return observation, grown, terminated, truncated, info


def test_check_wrapper_finds_what_differs_and_says_where():
    with pytest.raises(CheckFailed, match=r"NEXT_STEP, .*lane \d: .* in the single environment"):
        check_wrapper(lambda lane: OneLane(Wanderer(lane), Wrong()), lambda mode: ManyLanes(lanes(mode), Wrong()))


def test_check_wrapper_wants_episodes_that_end():
    with pytest.raises(CheckFailed, match="no episode ended"):
        check_wrapper(lambda lane: Counter(99), lambda mode: SyncVectorEnv([lambda: Counter(99)], autoreset_mode=mode))


def test_users_may_override_the_hook_of_a_shell():
    class Doubled(wrappers.ClipReward):
        def reward(self, reward):
            return 2 * super().reward(reward)

    class DoubledLanes(vector.ClipReward):
        def rewards(self, rewards):
            return 2 * super().rewards(rewards)

    assert isinstance(Doubled(Counter(), 0, 1), paddock.RewardWrapper)
    check_wrapper(lambda lane: Doubled(Wanderer(lane), 1, 5), lambda mode: DoubledLanes(lanes(mode), 1, 5))


def test_shells_are_of_the_classes_that_users_ask_for():
    assert issubclass(OneLaneReward, paddock.RewardWrapper)
    assert issubclass(ManyLanesReward, VectorRewardWrapper)


STACK = [
    ("FrameStackObservation", {"stack_size": 3, "padding_type": "zero"}),
    ("RecordEpisodeStatistics", {"buffer_length": 7, "stats_key": "stats"}),
    ("ClipReward", {"min_reward": -1.0, "max_reward": 0.5}),
    ("StickyAction", {"repeat_action_probability": 0.25, "repeat_action_duration": [1, 3]}),
    ("RepeatAction", {"num_repeats": 2}),
    ("MaxAndSkipObservation", {"skip": 2}),
]


def dressed(env):
    for name, kwargs in STACK:
        env = getattr(wrappers, name)(env, **kwargs)
    return env


def test_a_stack_of_wrappers_is_data():
    env = dressed(paddock.make("CartPole-v1"))
    entries = [(entry.name, entry.kwargs) for entry in env.spec.additional_wrappers]
    assert entries == STACK
    spec = paddock.EnvSpec.from_json(env.spec.to_json())
    assert json.loads(spec.to_json()) == json.loads(env.spec.to_json())
    again = paddock.make(spec)
    assert [(entry.name, entry.kwargs) for entry in again.spec.additional_wrappers] == STACK
    assert np.array_equal(env.reset(seed=4)[0], again.reset(seed=4)[0])
    same_future(env, again)


def same_future(env, twin, steps=30):
    for number in range(steps):
        one, other = env.step(number % 2), twin.step(number % 2)
        assert np.array_equal(one[0], other[0]) and one[1:4] == other[1:4]
        if one[2] or one[3]:
            assert np.array_equal(env.reset()[0], twin.reset()[0])


def begun(env):
    env.reset(seed=2)
    env.step(1)
    return env


def test_a_snapshot_holds_what_wrappers_remember():
    env = begun(dressed(paddock.make("CartPole-v1")))
    twin = dressed(paddock.make("CartPole-v1"))
    twin.reset(seed=9)
    twin.restore(env.snapshot())
    same_future(env, twin)


def test_copies_go_on_alike():
    env = begun(dressed(paddock.make("CartPole-v1")))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        same_future(copy.deepcopy(env), twin)


def test_a_snapshot_of_lanes_holds_what_wrappers_remember():
    def made():
        return vector.RecordEpisodeStatistics(
            vector.FrameStackObservation(paddock.make_vec("CartPole-v1", num_envs=3), 3)
        )

    env, twin = made(), made()
    env.reset(seed=1), twin.reset(seed=5)
    for _ in range(12):
        env.step([1, 1, 1])
    twin.restore(env.snapshot())
    for _ in range(12):
        one, other = env.step([1, 1, 1]), twin.step([1, 1, 1])
        assert all(np.array_equal(a, b) for a, b in zip(one[:4], other[:4], strict=True))
    assert list(env.return_queue) == list(twin.return_queue) != []


@pytest.mark.parametrize(
    "attributes",
    [{"ring": 1, "at": 0}, {"ring": {"dtype": "<f4", "shape": [1], "bytes": b"abcd"}}, {"ring": {"dtype": "O"}}, {}],
)
def test_a_snapshot_of_something_else_is_refused(attributes):
    from paddock.wrappers.logic import pack_memory, unpack_memory

    memory = wrappers.FrameStackObservation(Counter(), 2)._memory
    data = {**pack_memory(memory), **attributes} if attributes else {}
    with pytest.raises(InvalidSnapshot):
        unpack_memory(memory, data)
    assert pack_memory(memory) == pack_memory(wrappers.FrameStackObservation(Counter(), 2)._memory)


def test_a_memory_comes_back_as_it_was():
    from paddock.wrappers.logic import pack_memory, unpack_memory

    memory = Memory(a=None, b=1.5, c=deque([1.0, 2.0], maxlen=3), d=np.arange(3), e={"x": np.ones(2)}, _f=object())
    values = unpack_memory(memory, pack_memory(memory))
    assert values.keys() == set("abcde")
    assert (values["a"], values["b"], values["c"], values["c"].maxlen) == (None, 1.5, deque([1.0, 2.0]), 3)
    assert np.array_equal(values["d"], memory.d) and np.array_equal(values["e"]["x"], memory.e["x"])


def test_a_stack_is_the_agents_own():
    for env in (
        wrappers.FrameStackObservation(Counter(), 2),
        vector.FrameStackObservation(SyncVectorEnv([Counter]), 2),
    ):
        action = 0 if isinstance(env, paddock.Env) else [0]
        first, _ = env.reset()
        first += 100
        stack = env.step(action)[0]
        stack += 100
        assert env.step(action)[0].ravel().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda env: wrappers.FrameStackObservation(env, 0), InvalidSpace),
        (lambda env: wrappers.FrameStackObservation(env, 2.5), TypeError),
        (lambda env: wrappers.FrameStackObservation(env, 2, padding_type="other"), ValueError),
        (lambda env: wrappers.ClipReward(env), InvalidBound),
        (lambda env: wrappers.ClipReward(env, 2, 1), InvalidBound),
        (lambda env: wrappers.StickyAction(env, 1.0), InvalidProbability),
        (lambda env: wrappers.StickyAction(env, 0.5, 0), ValueError),
        (lambda env: wrappers.StickyAction(env, 0.5, (3, 2)), InvalidBound),
        (lambda env: wrappers.StickyAction(env, 0.5, (1, 2, 3)), ValueError),
        (lambda env: wrappers.RepeatAction(env, 0), ValueError),
        (lambda env: wrappers.RepeatAction(env, 1.5), TypeError),
        (lambda env: wrappers.MaxAndSkipObservation(env, 1), ValueError),
    ],
)
def test_arguments_are_checked_when_the_wrapper_is_made(make, error):
    with pytest.raises(error):
        make(Counter())


def held_and_moved(env, mode):
    """Step with lane 1 held, and after that without: what the held lane shows."""
    env.reset(seed=3)
    before = env.step(np.zeros(3, np.int64))
    env.hold(np.array([False, True, False]))
    held = env.step(np.ones(3, np.int64))
    after = env.step(np.zeros(3, np.int64))
    return before, held, after


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1"])
def test_a_held_lane_stands_still_for_one_step(mode, id):
    options = paddock.LaneOptions(autoreset=mode)
    for backend in ("compiled", "loop"):
        made = [paddock.make_vec(id, num_envs=3, backend=backend, lanes=options) for _ in range(2)]
        before, held, after = held_and_moved(made[0], mode)
        assert np.array_equal(held[0][1], before[0][1]) and not np.array_equal(held[0][0], before[0][0])
        assert (held[1][1], held[2][1], held[3][1]) == (0.0, False, False)
        assert not any(rows[1] for key, rows in held[4].items() if key.startswith("_"))
        made[1].reset(seed=3)
        made[1].step(np.zeros(3, np.int64))
        assert np.array_equal(after[0][1], made[1].step(np.zeros(3, np.int64))[0][1])  # as if nothing had been


def test_a_vector_environment_that_cannot_hold_lanes_says_so():
    class Bare(paddock.VectorEnv):
        pass

    with pytest.raises(InvalidLanes, match="Bare can't hold lanes"):
        Bare().hold(np.ones(2, bool))


def test_sticky_actions_need_lanes_that_lend_their_streams():
    class Strange(paddock.vector.SyncVectorEnv):
        get_attr = None

    env = vector.StickyAction(Strange([Counter]), 0.5)
    env.reset()
    env.step([0])
    with pytest.raises(InvalidLanes, match="random streams"):
        env.step([0])


def test_all_is_every_lane():
    assert np.arange(3)[ALL].tolist() == [0, 1, 2]


def test_statistics_under_a_name_that_is_taken_are_refused():
    for env in (
        wrappers.RecordEpisodeStatistics(wrappers.RecordEpisodeStatistics(Counter(1))),
        vector.RecordEpisodeStatistics(vector.RecordEpisodeStatistics(SyncVectorEnv([lambda: Counter(1)]))),
    ):
        env.reset()
        with pytest.raises(ValueError, match="'episode' but this key already exists"):
            env.step(0 if isinstance(env, paddock.Env) else [0])
