"""Autoreset, and infos as a list."""

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import AutoresetMode, wrappers
from paddock.testing import data_equivalence
from paddock.wrappers import vector
from tests.wrappers.lanes import Wanderer, lanes


def test_equals_gymnasiums(seed):
    mine, theirs = wrappers.Autoreset(Wanderer()), gymnasium.wrappers.Autoreset(paddock.to_gymnasium(Wanderer()))
    assert np.array_equal(mine.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
    begun = 0
    for _ in range(60):
        one, other = mine.step(1), theirs.step(1)
        assert np.array_equal(one[0], other[0]) and one[1:] == other[1:]
        assert mine.autoreset == theirs.autoreset
        begun += one[4].get("begun") is not None
    assert begun > 5


def test_it_is_a_lane_that_begins_in_the_next_step(seed):
    mine, lane = wrappers.Autoreset(Wanderer()), lanes(AutoresetMode.NEXT_STEP, 1)
    mine.reset(seed=seed), lane.reset(seed=seed)
    for _ in range(40):
        observation, reward, terminated, truncated, _ = mine.step(1)
        observations, rewards, terminations, truncations, _ = lane.step([1])
        assert np.array_equal(observation, observations[0])
        assert (reward, terminated, truncated) == (rewards[0], terminations[0], truncations[0])


def test_a_reset_by_hand_begins_at_once():
    env = wrappers.Autoreset(Wanderer(0, chance=1.0))
    env.reset(seed=1)
    assert env.step(1)[2] and env.autoreset
    env.reset()
    assert not env.autoreset and env.step(1)[2]


def test_is_data_and_its_snapshot_knows_that_the_episode_is_over():
    env = wrappers.Autoreset(paddock.make("FrozenLake-v1"))
    assert [(entry.name, entry.kwargs) for entry in env.spec.additional_wrappers] == [("Autoreset", {})]
    other = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))
    env.reset(seed=1), other.reset(seed=2)
    while not env.autoreset:
        env.step(1)
    other.restore(env.snapshot())
    assert other.autoreset
    one, two = env.step(1), other.step(1)
    assert one == two and one[1] == 0.0


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_list_of_infos_is_gymnasiums(mode, seed):
    mine = vector.DictInfoToList(vector.RecordEpisodeStatistics(lanes(mode)))
    makers = [lambda lane=lane: paddock.to_gymnasium(Wanderer(lane)) for lane in range(4)]
    inner = gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode(mode.value))
    theirs = gymnasium.wrappers.vector.DictInfoToList(inner)
    assert mine.reset(seed=seed)[1] == theirs.reset(seed=seed)[1]
    told = 0
    for _ in range(40):
        one, other = mine.step([1, 0, 2, 1]), theirs.step([1, 0, 2, 1])
        for info, expected in zip(one[4], other[4], strict=True):
            told += info.pop("episode", None) is not None
            info.get("final_info", {}).pop("episode", None)
            assert info.keys() == expected.keys()
            if "final_obs" in info:
                assert np.array_equal(info.pop("final_obs"), expected.pop("final_obs"))
            assert info == expected
        if mode is AutoresetMode.DISABLED and (over := one[2] | one[3]).any():
            for env in (mine, theirs):
                env.reset(options={"reset_mask": over})
    assert told > 5


def test_the_list_is_met_by_send_and_recv_too():
    env = vector.DictInfoToList(lanes(AutoresetMode.NEXT_STEP, 2))
    env.reset(seed=1)
    env.send([1, 1])
    infos = env.recv()[4]
    assert [info["time"] for info in infos] == [1, 1]
    assert infos[0]["more"].keys() == {"place"}


def test_keys_without_a_mask_are_every_lanes():
    from paddock.wrappers.vector import info_list

    mask = np.array([False, True, True])
    deep = {"x": np.array([0, 5, 0]), "_x": np.array([False, True, False])}
    infos = {"all": np.arange(3), "some": np.array([0.0, 1.5, 0.0]), "_some": mask, "deep": deep, "_deep": mask}
    assert info_list(infos, 3) == [
        {"all": 0},
        {"all": 1, "some": 1.5, "deep": {"x": 5}},
        {"all": 2, "some": 0.0, "deep": {}},
    ]
    assert type(info_list(infos, 3)[1]["some"]) is np.float64
    assert info_list({}, 2) == [{}, {}]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_the_short_way_of_statistics_is_the_shells_own(mode):
    short, plain = (vector.RecordEpisodeStatistics(lanes(mode, chance=0.3)) for _ in range(2))
    short.reset(seed=1), plain.reset(seed=1)
    for _ in range(40):
        plain.hold(np.zeros(4, bool))  # nobody, but then the shell takes the long way
        mine, other = short.step(np.ones(4, np.int64)), plain.step(np.ones(4, np.int64))
        for infos in (mine[4], other[4]):
            infos.get("episode", {}).pop("t", None)
        assert data_equivalence(mine, other, exact=True)
        over = mine[2] | mine[3]
        if mode is AutoresetMode.DISABLED and over.any():
            short.reset(options={"reset_mask": over}), plain.reset(options={"reset_mask": over})
    assert list(short.return_queue) == list(plain.return_queue) != []
    assert short.episode_lengths.tolist() == plain.episode_lengths.tolist()
