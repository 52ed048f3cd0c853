"""Lanes in actors of a Ray cluster with two nodes. Run with the peer `rllib`, where Ray is installed; see test_ray."""

import os

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

import paddock
from paddock import LaneOptions
from paddock.errors import PlanError
from paddock.vector.ray_lanes import begin_ray


class Chance(paddock.Env):
    """Not deterministic: what it shows is drawn from the system."""

    observation_space = paddock.spaces.Box(0.0, 1.0, (2,), np.float64)
    action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.random.default_rng().random(2), {}

    def step(self, action):
        self.count += 1
        return np.random.default_rng().random(2), 1.0, False, False, {"count": self.count}


paddock.register("trials/Chance-v0", Chance, nondeterministic=True)


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 100 << 20})
    made.second = made.add_node(num_cpus=2, object_store_memory=100 << 20)
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def play(lanes, steps, seed=7):
    """All that a batch answers, as bytes."""
    rng = np.random.default_rng(1)
    observations, _ = lanes.reset(seed=seed)
    out = [observations.tobytes()]
    for _ in range(steps):
        actions = rng.integers(0, lanes.single_action_space.n, lanes.num_envs)
        observations, rewards, terminations, truncations, _ = lanes.step(actions)
        out.append((observations.tobytes(), rewards.tobytes(), terminations.tobytes(), truncations.tobytes()))
        yield out[-1]


def test_ray_asks_for_a_token(cluster):
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert begin_ray() is ray


def test_a_cluster_without_authentication_is_not_begun(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(PlanError, match="RAY_AUTH_MODE=disabled"):
        begin_ray()


@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1"])
def test_sixty_four_lanes_on_two_nodes_equal_those_of_a_loop(cluster, id):
    options = LaneOptions(lanes_per_actor=16)
    with (
        paddock.make_vec(id, 64, backend="ray", lanes=options) as far,
        paddock.make_vec(id, 64, backend="loop") as here,
    ):
        assert len(far._channels) == 4 and len(set(far.nodes)) == 2
        assert list(play(far, 60)) == list(play(here, 60))
        kept, ones = far.snapshot(), np.ones(64, np.int64)
        after = far.step(ones)[0].tobytes()
        far.restore(kept)
        assert after == far.step(ones)[0].tobytes() == here.step(ones)[0].tobytes()


def test_a_step_of_many_lanes_is_one_call_per_actor_and_infos_arrive_whole(cluster):
    options = LaneOptions(lanes_per_actor=3)
    with paddock.make_vec("FrozenLake-v1", 8, backend="ray", lanes=options) as lanes:
        before = [channel._number for channel in lanes._channels.values()]
        _, infos = lanes.reset(seed=1)
        assert infos["prob"].shape == (8,) and infos["_prob"].all()
        lanes.step(np.zeros(8, np.int64))
        assert [channel._number for channel in lanes._channels.values()] == [count + 2 for count in before]


def test_lanes_of_a_lost_actor_go_on_as_if_nothing_had_been(cluster):
    options = LaneOptions(lanes_per_actor=8)
    with (
        paddock.make_vec("CartPole-v1", 16, backend="ray", lanes=options) as far,
        paddock.make_vec("CartPole-v1", 16, backend="loop") as here,
    ):
        for step, (there, expected) in enumerate(zip(play(far, 620), play(here, 620), strict=True)):
            assert there == expected, step
            if step in (5, 610):  # before and after the first snapshot
                ray.kill(far._channels[1].actor)
        assert far.rebuilt == 2
        assert len(far._channels[1]._log) < 200, "it begins at the snapshot"


def test_a_lost_node_loses_no_step_and_ends_no_healthy_lane(cluster):
    third = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    cluster.wait_for_nodes()
    options = LaneOptions(lanes_per_actor=16)
    with (
        paddock.make_vec("CartPole-v1", 64, backend="ray", lanes=options) as far,
        paddock.make_vec("CartPole-v1", 64, backend="loop") as here,
    ):
        assert len(set(far.nodes)) == 3
        after = 0
        for step, (there, expected) in enumerate(zip(play(far, 50_000), play(here, 50_000), strict=True)):
            assert there == expected, step
            if step == 20:
                cluster.remove_node(third, allow_graceful=False)
            after += far.rebuilt > 0  # its actors outlive it by a moment
            if after == 20:
                break
        assert after == 20


def test_lanes_that_are_not_deterministic_are_truncated_with_the_cause_and_the_batch_goes_on(cluster):
    options = LaneOptions(lanes_per_actor=2)
    with paddock.make_vec("trials/Chance-v0", 6, backend="ray", lanes=options) as lanes:
        lanes.reset(seed=1)
        ones = np.ones(6, np.int64)
        before = lanes.step(ones)[0]
        ray.kill(lanes._channels[1].actor)
        observations, rewards, _, truncations, infos = lanes.step(ones)
        assert truncations.tolist() == [False, False, True, True, False, False]
        assert observations[2:4].tobytes() == before[2:4].tobytes(), "the last good ones"
        assert rewards.tolist() == [1, 1, 0, 0, 1, 1]
        assert infos["lane_error"][2].startswith("ENV_LOST: lane 2: The Ray actor was lost: ActorDiedError")
        assert "not deterministic" in infos["lane_error"][3] and infos["lane_error"][0] is None
        observations, rewards, _, truncations, infos = lanes.step(ones)
        assert not truncations.any() and rewards.tolist() == [1, 1, 0, 0, 1, 1], "they begin"
        *_, infos = lanes.step(ones)
        assert infos["count"].tolist() == [4, 4, 1, 1, 4, 4]


def test_walled_lanes_inside_actors(cluster):
    options = LaneOptions(lanes_per_actor=2, workers=1)
    with (
        paddock.make_vec("CartPole-v1", 4, backend="ray", isolation="auto", lanes=options) as far,
        paddock.make_vec("CartPole-v1", 4, backend="loop") as here,
    ):
        assert list(play(far, 30)) == list(play(here, 30))


def test_resources_that_no_node_has_are_an_error_and_no_hang(cluster, monkeypatch):
    from paddock.vector import ray_lanes

    monkeypatch.setattr(ray_lanes, "_START_S", 2.0)
    options = LaneOptions(lanes_per_actor=2, resources={"unobtainable": 1})
    with pytest.raises(paddock.WorkerLost, match="has the cluster room for it"):
        paddock.make_vec("CartPole-v1", 2, backend="ray", lanes=options)


def test_rllib_steps_lanes_of_the_cluster(cluster):
    from paddock.adapters.rllib import Maker

    maker = Maker("CartPole-v1", {"backend": "ray", "lanes": LaneOptions(lanes_per_actor=2)})
    lanes = maker({"num_envs": 4})
    observations, _ = lanes.reset(seed=3)
    assert observations.shape == (4, 4)
    assert lanes.step(np.ones(4, np.int64))[1].tolist() == [1.0] * 4
    lanes.close()


def test_rollouts_play_in_actors_as_they_do_here(cluster):
    from paddock.agentic import rollout
    from tests.agentic.rollout_envs import Guess

    def policy(turn):
        return turn.number % 2

    there = rollout("CartPole-v1", policy, tasks=4, concurrency=2, backend="ray", progress=False)
    here = rollout("CartPole-v1", policy, tasks=4, concurrency=2, progress=False)
    assert [one.total_return for one in there] == [one.total_return for one in here]
    talks = [
        rollout(Guess, lambda turn: "5", tasks=1, max_turns=1, progress=False, **how)[0]
        for how in ({}, {"backend": "ray"})
    ]
    assert talks[0].total_return == talks[1].total_return and talks[1].error is None
