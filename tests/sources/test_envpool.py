"""Lanes over a pool that behaves as EnvPool's do, as measured. The package itself: tests/families, make test-full."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import gymnasium.spaces as theirs
import numpy as np
import pytest

import paddock
from paddock.errors import InvalidAction, InvalidLanes, InvalidSeed, NameNotFound, PlanError
from paddock.vector import AutoresetMode

TINY, MOST = np.finfo(np.float32).tiny, np.finfo(np.float32).max
SPACES = {"look": theirs.Box(TINY, MOST, (2,), np.float32), "way": theirs.Discrete(9)}


class Pool:
    """Episodes of three steps. The step after the end ignores its action and begins anew, as in EnvPool."""

    made = []

    def __init__(self, task, env_type, seed, num_envs, max_episode_steps, **rest):
        assert env_type == "gymnasium"
        self.made.append({"seed": seed, "limit": max_episode_steps, **rest})
        self.seed, self.steps, self.over = np.array(seed), np.zeros(num_envs, np.int32), np.zeros(num_envs, bool)
        self.observation_space = theirs.Dict(SPACES)

    def reset(self, lanes):
        self.steps[lanes], self.over[lanes] = 0, False
        return self._seen(lanes), self._told(lanes)

    def send(self, actions, lanes=None):
        self.lanes = np.arange(len(self.steps), dtype=np.int32) if lanes is None else lanes
        self.actions = actions
        self.begun = self.over[self.lanes]

    def recv(self):
        lanes = self.lanes
        self.steps[lanes] = np.where(self.begun, 0, self.steps[lanes] + 1)
        self.over[lanes] = self.steps[lanes] == 3
        rewards = np.where(self.begun, 0, self.actions).astype(np.float32)
        return self._seen(lanes), rewards, self.over[lanes], np.zeros(len(lanes), bool), self._told(lanes)

    def _seen(self, lanes):
        look = np.stack([self.seed[lanes], self.steps[lanes]], axis=1).astype(np.float32)
        return {"look": look, "way": self.steps[lanes].astype(np.int32)}

    def _told(self, lanes):
        return {"env_id": lanes, "players": {"env_id": lanes}, "elapsed_step": self.steps[lanes].copy()}


@pytest.fixture(autouse=True)
def pool(monkeypatch):
    module = ModuleType("envpool")
    module.__spec__ = ModuleSpec("envpool", None)
    module.make, module.list_all_envs = Pool, lambda: ["Lamp-v1"]
    module.make_spec = lambda task, **rest: SimpleNamespace(
        config=SimpleNamespace(max_episode_steps=70, reward_threshold=2.0),
        gymnasium_observation_space=theirs.Dict(SPACES),
        gymnasium_action_space=theirs.Discrete(4),
    )
    monkeypatch.setitem(sys.modules, "envpool", module)
    monkeypatch.setattr(Pool, "made", [])
    return Pool


def test_lanes_have_our_spaces_modes_and_dtypes():
    lanes = paddock.make_vec("envpool:Lamp-v1", num_envs=2)
    assert lanes.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    seen, infos = lanes.reset(seed=5)
    assert lanes.observation_space.contains(seen)  # its integers are of 32 bits
    assert np.isneginf(lanes.single_observation_space["look"].low).all()  # and this is how it says "no bound"
    assert infos.keys() == {"elapsed_step", "_elapsed_step"}
    results = [lanes.step([3, 1]) for _ in range(4)]
    assert [one[1].tolist() for one in results] == [[3, 1], [3, 1], [3, 1], [0, 0]]
    assert [one[2].tolist() for one in results] == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert results[0][1].dtype == np.float64
    names = {one.episode_id for one in lanes.state()}
    assert len(names) == 2 and all(name.endswith("-2") for name in names)
    assert (lanes.spec.id, lanes.spec.max_episode_steps, lanes.spec.reward_threshold) == ("Lamp-v1", 70, 2.0)


def test_a_seed_makes_a_new_pool_and_no_seed_goes_on(pool):
    lanes = paddock.make_vec("envpool:Lamp-v1", num_envs=2, num_threads=3, frame_skip=2)
    assert pool.made == []
    lanes.reset(seed=5)
    lanes.reset()
    lanes.reset(seed=[8, 2])
    assert [one["seed"] for one in pool.made] == [[5, 6], [8, 2]]
    assert pool.made[0] == {"seed": [5, 6], "limit": 70, "num_threads": 3, "frame_skip": 2}
    lanes.np_random = np.random.default_rng(3)
    lanes.reset(seed=[None, 4])
    assert pool.made[-1]["seed"] == [int(np.random.default_rng(3).integers(1 << 31, size=2)[0]), 4]
    with pytest.raises(InvalidSeed, match=r"below 2\*\*31"):
        lanes.reset(seed=(1 << 31) - 1)


def test_the_limit_is_envpools_own_to_keep(pool):
    for asked, given in ((None, 70), (9, 9), (-1, (1 << 31) - 1)):
        paddock.make_vec("envpool:Lamp-v1", num_envs=1, max_episode_steps=asked).reset(seed=1)
        assert pool.made[-1]["limit"] == given


def test_rows_of_lanes_that_wait_or_begin_stay_where_they_are():
    lanes = paddock.make_vec("envpool:Lamp-v1", num_envs=3)
    lanes.reset(seed=5)
    lanes.step([1, 1, 1])
    mask = np.array([False, True, False])
    seen, infos = lanes.reset(options={"reset_mask": mask})
    assert (seen["way"].tolist(), infos["_elapsed_step"].tolist()) == ([1, 0, 1], mask.tolist())
    lanes.hold(mask)
    seen, rewards, *_, infos = lanes.step([2, 2, 2])
    assert (seen["way"].tolist(), rewards.tolist(), infos["elapsed_step"].tolist()) == ([2, 0, 2], [2, 0, 2], [2, 0, 2])
    assert lanes.observation_space.contains(seen)
    with pytest.raises(InvalidLanes, match="no lane that moves"):
        lanes.hold(~np.zeros(3, bool))
    with pytest.raises(InvalidSeed, match="when all lanes begin"):
        lanes.reset(seed=1, options={"reset_mask": mask})


def test_actions_and_order_are_checked():
    lanes = paddock.make_vec("envpool:Lamp-v1", num_envs=2)
    with pytest.raises(paddock.errors.ResetNeeded):
        lanes.step([0, 0])
    lanes.reset(seed=1)
    for wrong in ([0, 4], [-1, 0], [0], [0.5, 1.0], "ab"):
        with pytest.raises(InvalidAction, match="expected 2 integers of Discrete"):
            lanes.step(wrong)
    with pytest.raises(paddock.errors.NoAsyncCallError):
        lanes.recv()
    lanes.close()
    with pytest.raises(paddock.errors.ClosedEnvironmentError):
        lanes.reset()


def test_one_environment_is_a_pool_of_one(pool):
    env = paddock.make("envpool:Lamp-v1")
    seen, info = env.reset(seed=5)
    assert (seen["look"].tolist(), seen["way"], info) == ([5, 0], 0, {"elapsed_step": 0})
    assert [env.step(2)[1:3] for _ in range(3)] == [(2.0, False), (2.0, False), (2.0, True)]
    assert pool.made[0]["num_threads"] == 1
    lanes = paddock.make_vec("envpool:Lamp-v1", num_envs=2, wrappers=[lambda env: env])  # into each lane
    assert lanes.reset(seed=5)[0]["look"][:, 0].tolist() == [5, 6]


def test_backend_envpool_means_its_task_of_that_name():
    assert paddock.make_vec("gymnasium:Lamp-v1", num_envs=2, backend="envpool").task == "Lamp-v1"
    with pytest.raises(NameNotFound, match="EnvPool has no task 'CartPole-v1'"):
        paddock.make_vec("CartPole-v1", num_envs=2, backend="envpool")
    with pytest.raises(NameNotFound, match="EnvPool has no task 'Pong-v5'"):
        paddock.make_vec("ALE/Pong-v5", num_envs=2, backend="envpool")
    for options in ({}, {"num_envs": 2, "isolation": "sandbox"}, {"num_envs": 2, "wrappers": [lambda env: env]}):
        with pytest.raises(PlanError, match="backend='envpool'"):
            paddock.make("CartPole-v1", backend="envpool", **options)


def test_what_envpool_has_not_is_refused():
    for option, words in (
        ({"autoreset": "SameStep"}, "no SameStep"),
        ({"statistics": True}, "RecordEpisodeStatistics"),
    ):
        with pytest.raises(PlanError, match=words):
            paddock.make_vec("envpool:Lamp-v1", num_envs=2, lanes=paddock.LaneOptions(**option))
    with pytest.raises(PlanError, match="seed= can't be passed on"):
        paddock.make_vec("envpool:Lamp-v1", num_envs=2, seed=1)
