"""Run by test_torch_trainers.py where Tianshou is: its Collector takes environments and lanes, number for number."""

import runpy
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import BaseVectorEnv, DummyVectorEnv, VectorEnvNormObs
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor

import paddock
import paddock.gym as gym
from paddock.adapters.tianshou import as_vector_env, vector_env
from paddock.errors import ClosedEnvironmentError, InvalidAction, InvalidLanes, NoArrayForm, ResetNeeded, WrongClass
from paddock.spaces import Box, Dict, Discrete, Tuple
from paddock.vector.loop import SyncVectorEnv
from tests.adapters.many_spaces import ManySpaces
from tests.adapters.trainer_pages import run_section
from tests.conftest import SEED
from tests.peers import ROOT
from tests.toys import Counter, Painter

torch.set_num_threads(1)


def dummies(id, count, **options):
    return DummyVectorEnv([lambda: paddock.to_gymnasium(paddock.make(id, **options)) for _ in range(count)])


def test_environments_go_into_tianshous_own_vector_environments_as_they_are():
    ours, theirs = (DummyVectorEnv([partial(library.make, "CartPole-v1")] * 2) for library in (gym, gymnasium))
    np.testing.assert_array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    collector = Collector(random_policy(ours.action_space[0]), ours, VectorReplayBuffer(200, 2))
    assert collector.collect(n_step=100, reset_before_collect=True).n_collected_steps == 100


def loop(make_one, count=3, **options):
    return SyncVectorEnv([make_one] * count, autoreset_mode="Disabled", **options)


def random_policy(space):
    """Chooses by an untrained net: its actions depend on the observations."""
    torch.manual_seed(0)
    body = Net(state_shape=4, hidden_sizes=(8,))
    actor = DiscreteActor(preprocess_net=body, action_shape=2, softmax_output=False)
    return DiscreteActorPolicy(actor=actor, action_space=space, deterministic_eval=True).eval()


@pytest.mark.parametrize("kind", ["compiled", "loop", "process"])
def test_any_lanes_in_any_order_are_tianshous_own(kind):
    """The same orders to its DummyVectorEnv and to ours: single environments on one side, lanes on the other."""
    options = {"compiled": {}, "loop": {"backend": "loop"}, "process": {"isolation": "process"}}[kind]
    ours, theirs = (
        vector_env("CartPole-v1", 4, seed=3, max_episode_steps=12, **options),
        dummies("CartPole-v1", 4, max_episode_steps=12),
    )
    first = [theirs.reset(lane, seed=3 + lane)[0][0] for lane in range(4)]
    assert np.array_equal(ours.reset()[0], first)
    random, ended = np.random.default_rng(SEED), np.zeros(4, bool)
    for _ in range(200):
        ids = random.permutation(4)[: random.integers(1, 5)]
        if ended[ids].any():
            ids = ids[ended[ids]]
            a, b = ours.reset(ids), theirs.reset(ids)
            ended[ids] = False
        else:
            actions = random.integers(2, size=len(ids))
            a, b = ours.step(actions, ids), theirs.step(actions, ids)
            ended[ids] = a[2] | a[3]
        for one, other in zip(a[:-1], b[:-1], strict=True):
            assert np.array_equal(one, other)
            assert np.asarray(one).dtype == np.asarray(other).dtype
        assert [info.get("env_id") for info in a[-1]] == [info.get("env_id") for info in b[-1]]
    ours.close()


@pytest.mark.parametrize("make_envs", [dummies, vector_env], ids=["single", "lanes"])
def test_a_collector_collects(make_envs):
    envs = make_envs("CartPole-v1", 4, max_episode_steps=30)
    collector = Collector(random_policy(envs.action_space[0]), envs, VectorReplayBuffer(2000, 4))
    told = collector.collect(n_step=100, reset_before_collect=True)
    assert (told.n_collected_steps, len(collector.buffer)) == (100, 100)
    told = collector.collect(n_episode=6, reset_before_collect=True)
    assert told.n_collected_episodes == 6
    assert (told.lens == told.returns).all()
    assert told.lens.max() <= 30
    random = collector.collect(n_step=100, random=True, reset_before_collect=True)
    assert random.n_collected_steps == 100
    collector.close()


def test_what_is_collected_is_what_plain_environments_tell():
    envs = vector_env("CartPole-v1", 3, max_episode_steps=15)
    collector = Collector(random_policy(envs.action_space[0]), envs, VectorReplayBuffer(300, 3))
    collector.collect(n_step=90, reset_before_collect=True, gym_reset_kwargs={"seed": 9})
    for lane in range(3):
        rows = collector.buffer[np.arange(lane * 100, lane * 100 + 15)]
        env = paddock.make("CartPole-v1", max_episode_steps=15)
        seen, _ = env.reset(seed=9 + lane)
        for at, action in enumerate(rows.act):
            assert np.array_equal(rows.obs[at], seen)
            seen, reward, terminated, truncated, _ = env.step(action)
            assert np.array_equal(rows.obs_next[at], seen)
            assert (rows.rew[at], rows.terminated[at], rows.truncated[at]) == (reward, terminated, truncated)
            if terminated or truncated:
                break
        assert terminated or truncated


def test_dicts_are_collected_by_their_keys():
    def one():
        return ManySpaces(goal=5, actions=Discrete(2))

    def without_tuples(env):
        env.observation_space = Dict({k: v for k, v in env.observation_space.items() if k != "pair"})
        return env

    envs = as_vector_env(loop(lambda: without_tuples(one()), 2), seed=1)

    class Zeros(DiscreteActorPolicy):
        def forward(self, batch, state=None, **kwargs):
            return Batch(act=np.zeros(len(batch.obs.box), int))

    policy = Zeros(actor=random_policy(envs.action_space[0]).actor, action_space=envs.action_space[0])
    collector = Collector(policy, envs, VectorReplayBuffer(40, 2))
    collector.collect(n_step=20, reset_before_collect=True)
    rows = collector.buffer[np.arange(5)]
    assert rows.obs.box.shape == (5, 2, 3)
    assert rows.obs.inside.deep.shape == (5, 1)
    assert rows.info.count.tolist() == [1, 2, 3, 4, 5]
    assert np.array_equal(rows.obs_next.box[:-1], rows.obs.box[1:])


def test_it_is_one_of_tianshous_vector_environments():
    envs = vector_env("CartPole-v1", 3, seed=1)
    assert isinstance(envs, BaseVectorEnv)
    assert len(envs) == envs.env_num == 3
    assert envs.action_space == [gymnasium.spaces.Discrete(2)] * 3
    assert len({id(space) for space in envs.action_space}) == 3
    assert envs.observation_space[0].shape == (4,)
    assert envs.spec[0].id == "CartPole-v1"
    assert "render_modes" in envs.metadata[0]
    normed = VectorEnvNormObs(envs)
    assert normed.reset()[0].shape == (3, 4)


def test_seeds_repeat():
    first, second, third = (vector_env("CartPole-v1", 2) for _ in range(3))
    assert first.seed(7) == [[7], [8]]
    second.seed([7, 8])
    expected = first.reset()[0]
    assert np.array_equal(second.reset()[0], expected)
    assert np.array_equal(third.reset(seed=7)[0], expected)
    assert first.action_space[0].sample() == second.action_space[0].sample()
    assert not np.array_equal(first.reset()[0], expected)


def test_attributes_of_lanes():
    envs = as_vector_env(loop(Counter))
    envs.set_env_attr("goal", 9, [1])
    assert envs.get_env_attr("goal") == [5, 9, 5]
    assert envs.get_env_attr("goal", 1) == [9]
    envs.set_env_attr("goal", 2)
    assert envs.get_env_attr("goal", [0, 2]) == [2, 2]


def test_frames():
    envs = as_vector_env(loop(lambda: Painter(render_mode="ansi"), 2))
    envs.reset()
    envs.step([0], [1])
    assert envs.render() == ["count 0", "count 1"]


def test_buffers_that_are_used_again_are_copied():
    envs = as_vector_env(loop(Counter, copy=False))
    first, _ = envs.reset()
    envs.step([0, 0, 0])
    assert first.tolist() == [[0.0]] * 3


def test_mistakes_are_named():
    envs = as_vector_env(loop(lambda: Counter(goal=1)))
    envs.reset([0])  # and the others
    for ids in ([3], [-1], [0, 0], [0.5], []):
        with pytest.raises(InvalidLanes, match="are not lanes; expected different numbers from 0 to 2"):
            envs.step(np.zeros(len(ids), int), ids)
    with pytest.raises(InvalidAction, match="2 actions for 1 lanes"):
        envs.step([0, 0], [1])
    with pytest.raises(InvalidAction, match="None actions for 3 lanes"):
        envs.step(None)
    envs.step([0], [1])
    with pytest.raises(ResetNeeded, match="lane 1"):
        envs.step([0, 0, 0])
    envs.close()
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.reset()


def with_spaces(observation_space, action_space):
    env = Counter()
    env.observation_space, env.action_space = observation_space, action_space
    return env


def test_what_it_does_not_take_is_named():
    one, pair = Discrete(2), Tuple((Discrete(2), Discrete(2)))
    with pytest.raises(NoArrayForm, match=r"observation_space\['a'\] is Tuple"):
        as_vector_env(loop(lambda: with_spaces(Dict({"a": pair}), one)))
    with pytest.raises(NoArrayForm, match="action_space is Dict"):
        as_vector_env(loop(lambda: with_spaces(Box(0, 1), Dict({"a": one}))))
    with pytest.raises(InvalidLanes, match="'NextStep'"):
        as_vector_env(paddock.make("CartPole-v1", num_envs=2))
    with pytest.raises(WrongClass, match="takes lanes"):
        as_vector_env(paddock.make("CartPole-v1"))


def test_the_example_trains(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tianshou_collect.py", "--epochs", "1"])
    runpy.run_path(str(ROOT / "examples" / "tianshou_collect.py"), run_name="__main__")
    assert "best mean return " in capsys.readouterr().out


def test_the_page_is_true():
    run_section("Tianshou")
