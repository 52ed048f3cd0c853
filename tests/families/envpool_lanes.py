"""Run by test_envpool.py where EnvPool is: its own pools, step by step the same, and everything around them."""

import copy
from functools import partial

import envpool
import numpy as np
import pytest

import paddock
from paddock.errors import (
    CustomSpaceError,
    InvalidAction,
    InvalidLanes,
    InvalidSeed,
    NameNotFound,
    PlanError,
    SnapshotUnsupported,
)
from paddock.testing import check_env
from tests.families.playing import actions, equal, lane_of, played, played_in_lanes, played_with_pauses, same_numbers
from tests.serving import serving

IDS = ["CartPole-v1", "FrozenLake-v1", "Blackjack-v1", "HalfCheetah-v5", "Pong-v5", "MiniGrid-Empty-5x5-v0"]
ENDING = 20  # steps

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")


def native(id, seed, count):
    return envpool.make(id, env_type="gymnasium", num_envs=count, seed=seed, max_episode_steps=ENDING)


def lanes_of(id, count, **options):
    return paddock.make_vec(f"envpool:{id}", num_envs=count, max_episode_steps=ENDING, **options)


@pytest.mark.parametrize("id", IDS)
def test_lanes_are_envpools_own(id):
    lanes, pool = lanes_of(id, 3), native(id, 5, 3)
    seen, _ = lanes.reset(seed=5)
    assert equal(seen, pool.reset()[0])
    lanes.action_space.seed(1)
    over = np.zeros(3, bool)
    ends = 0
    for _ in range(50):
        actions = lanes.action_space.sample()
        ours, theirs = lanes.step(actions), pool.step(actions)
        assert all(equal(one, other) for one, other in zip(ours[:4], theirs[:4], strict=True))
        assert lanes.observation_space.contains(ours[0])
        assert ours[1].dtype == np.float64 and ours[2].dtype == ours[3].dtype == np.bool_
        assert np.array_equal(theirs[4]["env_id"], np.arange(3))  # a row is a lane
        # NEXT_STEP: the step after the end begins anew, with reward 0 and no flag.
        assert not ours[1][over].any() and not (ours[2] | ours[3])[over].any()
        assert not ours[4]["elapsed_step"][over].any() and ours[4]["_elapsed_step"].all()
        over = ours[2] | ours[3]
        ends += over.sum()
        assert [one.step_count for one in lanes.state()] == ours[4]["elapsed_step"].tolist()
    assert ends
    assert lanes.metadata["autoreset_mode"] is paddock.vector.AutoresetMode.NEXT_STEP
    lanes.close(), lanes.close()


def test_seeds_begin_it_anew_each_time():
    lanes = lanes_of("CartPole-v1", 3)
    first = lanes.reset(seed=7)[0]
    second = lanes.reset()[0]
    assert not equal(first, second)
    assert equal(lanes.reset(seed=[7, 8, 9])[0], first)
    assert equal(lanes.reset()[0], second)
    assert not equal(lanes_of("CartPole-v1", 3).reset()[0], lanes_of("CartPole-v1", 3).reset()[0])
    with pytest.raises(InvalidSeed, match=r"below 2\*\*31"):
        lanes.reset(seed=1 << 31)
    with pytest.raises(InvalidSeed, match="when all lanes begin"):
        lanes.reset(seed=1, options={"reset_mask": np.array([True, False, False])})


@pytest.mark.parametrize("id", ["CartPole-v1", "MiniGrid-Empty-5x5-v0"])
def test_some_lanes_begin_anew_or_wait(id):
    lanes = lanes_of(id, 3)
    lanes.reset(seed=5)
    before = lanes.step(np.zeros(3, np.int64))[0]
    names = [one.episode_id for one in lanes.state()]
    mask = np.array([False, True, False])
    after, infos = lanes.reset(options={"reset_mask": mask})
    assert [equal(lane_of(before, lane), lane_of(after, lane)) for lane in (0, 2)] == [True, True]
    assert infos["_elapsed_step"].tolist() == [False, True, False]
    assert [one.episode_id == name for one, name in zip(lanes.state(), names, strict=True)] == [True, False, True]
    lanes.hold(mask)
    seen, rewards, *_ = lanes.step(np.ones(3, np.int64))
    assert equal(lane_of(seen, 1), lane_of(after, 1)) and rewards[1] == 0
    assert [one.step_count for one in lanes.state()] == [2, 0, 2]
    lanes.step(np.ones(3, np.int64))
    assert [one.step_count for one in lanes.state()] == [3, 1, 3]
    with pytest.raises(InvalidLanes, match="no lane that moves"):
        lanes.hold(np.ones(3, bool))


def test_actions_are_looked_at_before_envpool_reads_memory_by_them():
    lanes = lanes_of("CartPole-v1", 2)
    with pytest.raises(paddock.errors.ResetNeeded):
        lanes.step(np.zeros(2, np.int64))
    lanes.reset(seed=1)
    for wrong in ([0, 2], [0, -1], [0], [0.0, 1.0], np.array([[0, 1]]), "ab"):
        with pytest.raises(InvalidAction):
            lanes.step(wrong)
    cheetahs = lanes_of("HalfCheetah-v5", 2)
    cheetahs.reset(seed=1)
    for wrong in (np.full((2, 6), np.nan), np.full((2, 6), 1.5), np.zeros((1, 6))):
        with pytest.raises(InvalidAction):
            cheetahs.step(wrong)
    with pytest.raises(paddock.errors.NoAsyncCallError):
        lanes.recv()


def test_a_step_that_nobody_came_for_is_forgotten_at_reset():
    lanes = lanes_of("CartPole-v1", 2)
    lanes.reset(seed=1)
    lanes.send([0, 1])
    lanes.reset()
    assert lanes.step([0, 1])[4]["elapsed_step"].tolist() == [1, 1]


@pytest.mark.parametrize("id", ["CartPole-v1", "HalfCheetah-v5", "Pong-v5"])
def test_one_environment_is_one_lane(id):
    env = paddock.make(f"envpool:{id}", max_episode_steps=ENDING)
    pool = native(id, 5, 1)
    chosen = actions(env.action_space, 15)
    assert equal(env.reset(seed=5)[0], pool.reset()[0][0])
    for action in chosen:
        ours, theirs = env.step(action), pool.step(np.array([action]))
        assert all(equal(one, other[0]) for one, other in zip(ours[:4], theirs[:4], strict=True))
        if ours[2]:
            break
    assert env.observation_space.contains(ours[0])
    with pytest.raises(SnapshotUnsupported, match="can't save its state"):
        env.snapshot()
    with pytest.raises(SnapshotUnsupported, match="can't be copied"):
        copy.deepcopy(env)
    with lanes_of(id, 2) as lanes:
        for ask in (lanes.snapshot, partial(lanes.restore, b"")):
            with pytest.raises(SnapshotUnsupported, match="Repeat the actions from the seed"):
                ask()


def test_backend_envpool_is_envpools_environment_of_that_name():
    lanes = paddock.make_vec("ALE/Pong-v5", num_envs=2, backend="envpool", num_threads=1, frame_skip=2)
    assert lanes.single_observation_space.shape == (4, 84, 84)
    assert equal(
        paddock.make_vec("CartPole-v1", num_envs=2, backend="envpool").reset(seed=3)[0],
        native("CartPole-v1", 3, 2).reset()[0],
    )
    for options in ({}, {"num_envs": 2, "isolation": "process"}, {"num_envs": 2, "wrappers": [lambda env: env]}):
        with pytest.raises(PlanError, match="backend='envpool'"):
            paddock.make("CartPole-v1", backend="envpool", **options)
    with pytest.raises(NameNotFound, match="EnvPool has no task 'Jungle-v0'"):
        paddock.make("envpool:Jungle-v0", num_envs=2)


def test_what_envpool_has_not_is_refused():
    for autoreset in ("SameStep", "Disabled"):
        options = paddock.LaneOptions(autoreset=autoreset)
        with pytest.raises(PlanError, match=f"has no {autoreset}. Pass backend='loop'"):
            lanes_of("CartPole-v1", 2, lanes=options)
        with lanes_of("CartPole-v1", 2, lanes=options, backend="loop") as lanes:
            assert equal(lanes.reset(seed=3)[0], native("CartPole-v1", 3, 2).reset()[0])
    for name, value in (("seed", 3), ("batch_size", 1), ("env_type", "dm")):
        with pytest.raises(PlanError, match=f"{name}= can't be passed on"):
            lanes_of("CartPole-v1", 2, **{name: value})
    with pytest.raises(CustomSpaceError, match="has 2 players"):
        lanes_of("Backgammon-v1", 2)
    with pytest.raises(PlanError, match="RecordEpisodeStatistics"):
        lanes_of("CartPole-v1", 2, lanes=paddock.LaneOptions(statistics=True))


def test_without_a_limit_it_goes_on():
    lanes = paddock.make_vec("envpool:Pendulum-v1", num_envs=1, max_episode_steps=-1)
    lanes.reset(seed=1)
    assert not any(lanes.step(np.zeros((1, 1), np.float32))[3].any() for _ in range(250))
    assert paddock.make_vec("envpool:Pendulum-v1", num_envs=1).spec.max_episode_steps == 200


def test_pictures_of_all_lanes():
    lanes = lanes_of("Pong-v5", 2, render_mode="rgb_array")
    lanes.reset(seed=1)
    frames = lanes.render()
    assert len(frames) == 2 and frames[0].ndim == 3


@pytest.mark.filterwarnings("ignore")  # what it says of the library's own spaces and seeds
def test_the_checker_passes():
    check_env(paddock.make("envpool:CartPole-v1"))


@pytest.mark.parametrize("isolation", ["process", "sandbox"])
def test_apart_from_this_process_it_is_the_same(isolation):
    with paddock.make_vec("envpool:CartPole-v1", num_envs=2, isolation=isolation) as lanes:
        chosen = actions(lanes.single_action_space, 40)
        for lane, results in enumerate(played_in_lanes(lanes, 5, chosen)):
            here = paddock.make("envpool:CartPole-v1")
            assert same_numbers(results, played_with_pauses(here, 5 + lane, chosen))


def test_a_server_has_them_too(tmp_path):
    with serving("envpool:CartPole-v1", cwd=tmp_path) as server:
        url = server.with_token("/CartPole-v1")
        with paddock.make(url) as env:
            chosen = actions(env.action_space, 30)
            assert same_numbers(played(env, 5, chosen), played(paddock.make("envpool:CartPole-v1"), 5, chosen))
        with paddock.make(url, num_envs=16) as lanes:  # as many as are stepped together there
            assert equal(lanes.reset(seed=3)[0], native("CartPole-v1", 3, 16).reset()[0])
