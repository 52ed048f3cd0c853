"""Run by test_torch_trainers.py where TorchRL is: its environments are exactly our lanes."""

import runpy
import sys
import warnings

import numpy as np
import pytest
import torch
from torchrl.collectors import Collector
from torchrl.data import Bounded, Categorical, MultiCategorical, Unbounded
from torchrl.envs import Compose, EnvBase, RewardSum, StepCounter, TransformedEnv
from torchrl.envs.utils import check_env_specs

import paddock
from paddock.adapters.torchrl import as_batched_env, batched_env
from paddock.core.vector_wrapper import VectorWrapper
from paddock.errors import InvalidLanes, InvalidSpace, NoArrayForm, PlanError, ResetNeeded, WrongClass
from paddock.spaces import Box, Dict, Discrete, Text
from paddock.vector.loop import SyncVectorEnv
from tests.adapters.many_spaces import ManySpaces
from tests.adapters.trainer_pages import run_section
from tests.peers import ROOT
from tests.toys import Counter

torch.set_num_threads(1)
STARTS = np.array([5, -7])  # of the space "several"
BY_HAND = paddock.LaneOptions(autoreset="Disabled")


def loop(make_one, count=3):
    return SyncVectorEnv([make_one] * count, autoreset_mode="Disabled")


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "Blackjack-v1", "FrozenLake-v1", "Taxi-v4"])
def test_specs_hold(id):
    env = batched_env(id, 3, seed=0)
    assert isinstance(env, EnvBase)
    assert env.batch_size == (3,)
    check_env_specs(env)


def test_specs_of_every_space_hold():
    env = as_batched_env(loop(ManySpaces))
    check_env_specs(env)
    seen = env.observation_spec
    assert isinstance(seen["one"], Categorical) and seen["one"].space.n == 3
    assert isinstance(seen["several"], MultiCategorical) and seen["grid"].shape == (3, 2, 2)
    assert isinstance(seen["box"], Bounded) and isinstance(seen["free"], Unbounded)
    assert (seen["pixels"].dtype, seen["wide"].dtype, seen["free"].dtype) == (torch.uint8, torch.int32, torch.float64)
    assert ("action", "inside", "deep") in env.action_keys


def test_values_of_every_space_are_the_lanes_own():
    env, plain = as_batched_env(loop(ManySpaces, 2), seed=7), loop(ManySpaces, 2)
    told, expected = env.reset(), plain.reset(seed=7)[0]
    torch.manual_seed(3)
    for _ in range(4):
        for key in ("box", "pixels", "wide", "free", "grid", "bits"):
            assert np.array_equal(told[key].numpy(), expected[key])
        assert np.array_equal(told["one"].numpy() - 1, expected["one"])
        assert np.array_equal(told["several"].numpy() + STARTS, expected["several"])
        assert np.array_equal(told["inside", "deep"].numpy(), expected["inside"]["deep"])
        for at in (0, 1):
            assert np.array_equal(told["pair", str(at)].numpy(), expected["pair"][at])
        chosen = env.rand_action(told)
        told = env.step(chosen)["next"]
        for lane, one in enumerate(env.lanes.envs):
            given = one.given[-1]
            assert given in one.action_space
            assert given["one"] == chosen["action", "one"][lane] - 1
            assert np.array_equal(given["several"], chosen["action", "several"][lane].numpy() + STARTS)
        expected = plain.step(plain.action_space.sample())[0]


def single_lane(id, seed, chosen, **options):
    """What a plain environment tells when it is reset as soon as it has ended: (observation, what the step gave)."""
    env, found = paddock.make(id, **options), []
    seen, _ = env.reset(seed=seed)
    for action in chosen:
        after, reward, terminated, truncated, _ = env.step(action)
        found.append((seen, after, np.float32(reward), terminated, truncated))
        seen = env.reset()[0] if terminated or truncated else after
    return found


@pytest.mark.parametrize(
    ("id", "options"),
    [
        ("CartPole-v1", {"max_episode_steps": 17}),
        ("Pendulum-v1", {"max_episode_steps": 9}),
        ("CartPole-v1", {"max_episode_steps": 11, "backend": "loop"}),
        ("CartPole-v1", {"max_episode_steps": 11, "isolation": "process"}),
    ],
    ids=["compiled", "floats", "loop", "processes"],
)
def test_a_rollout_is_what_plain_environments_tell(id, options):
    env = batched_env(id, 3, seed=4, **options)
    torch.manual_seed(1)
    batch = env.rollout(60, break_when_any_done=False)
    env.close()
    single = {"max_episode_steps": options["max_episode_steps"]}
    truncations = 0
    for lane in range(3):
        told = batch[lane]
        expected = single_lane(id, 4 + lane, told["action"].numpy(), **single)
        for at, (seen, after, reward, terminated, truncated) in enumerate(expected):
            assert np.array_equal(told["observation"][at].numpy(), seen), (lane, at)
            assert np.array_equal(told["next", "observation"][at].numpy(), after), (lane, at)
            assert told["next", "reward"][at].item() == reward
            flags = [told["next", name][at].item() for name in ("terminated", "truncated", "done")]
            assert flags == [terminated, truncated, terminated or truncated]
            truncations += truncated
    assert truncations > 0


def test_lanes_that_ended_wait_until_all_have():
    env = batched_env("CartPole-v1", 4, seed=0)
    torch.manual_seed(0)
    batch = env.rollout(500, break_when_any_done=False, break_when_all_done=True)
    done = batch["next", "done"].squeeze(-1)
    first = done.int().argmax(dim=1)
    assert done[:, -1].all()
    assert first.min() < first.max() == batch.shape[1] - 1
    for lane, end in enumerate(first.tolist()):
        assert not done[lane, :end].any()
        assert done[lane, end:].all()
        assert (batch["next", "observation"][lane, end:] == batch["next", "observation"][lane, end]).all()
    assert not env.reset()["done"].any()


def test_a_step_of_a_lane_that_ended_is_refused():
    env = as_batched_env(loop(lambda: Counter(goal=1)))
    env.rand_step(env.reset())
    with pytest.raises(ResetNeeded, match="lane 0"):
        env.rand_step()


def test_a_reset_of_some_lanes_leaves_the_others():
    env = as_batched_env(loop(Counter, 3))
    told = env.rand_step(env.reset())["next"]
    told["_reset"] = torch.tensor([[False], [True], [False]])
    told = env.reset(told)
    assert told["observation"].flatten().tolist() == [1.0, 0.0, 1.0]
    told["_reset"] = torch.zeros(3, 1, dtype=torch.bool)
    assert env.reset(told)["observation"].flatten().tolist() == [1.0, 0.0, 1.0]
    assert env.rand_step()["next", "observation"].flatten().tolist() == [2.0, 1.0, 2.0]


class Breaks(Counter):
    """Fails in its third step."""

    def step(self, action):
        if self.count == 2:
            raise RuntimeError("broken")
        return super().step(action)


def test_a_lane_that_fails_is_truncated_and_begins_anew():
    lanes = SyncVectorEnv([Counter, Breaks], autoreset_mode="Disabled", on_fault="restart")
    told = as_batched_env(lanes).rollout(8, break_when_any_done=False)["next"]
    assert told["observation"][1].flatten().tolist() == [1, 2, 2, 1, 2, 2, 1, 2]
    assert told["truncated"][1].flatten().tolist() == [False, False, True] * 2 + [False] * 2
    assert told["observation"][0].flatten().tolist() == [1, 2, 3, 4, 5, 1, 2, 3]
    assert told["terminated"][0].flatten().tolist() == [False] * 4 + [True] + [False] * 3


def test_the_first_reset_begins_every_lane():
    env = as_batched_env(loop(Counter, 2))
    asked = env.reset().select().set("_reset", torch.tensor([[True], [False]]))
    with pytest.raises(ResetNeeded):
        as_batched_env(loop(Counter, 2)).reset(asked)


def test_seeds_repeat_rollouts():
    env, other = batched_env("CartPole-v1", 2), batched_env("CartPole-v1", 2, seed=8)
    env.set_seed(8)
    first, same, alike = env.reset(), other.reset(), env.reset(seed=8)
    assert (first["observation"] == same["observation"]).all()
    assert (first["observation"] == alike["observation"]).all()
    assert (first["observation"][0] != first["observation"][1]).any()
    assert (env.reset()["observation"] != first["observation"]).any()


def test_a_seed_waits_for_each_lanes_next_episode():
    env = batched_env("CartPole-v1", 2, seed=1)
    expected = batched_env("CartPole-v1", 2, seed=50).reset()["observation"]
    env.reset()
    env.set_seed(50)
    told = env.rand_step()["next"]
    for lane in (1, 0):
        told["_reset"] = (torch.arange(2) == lane).unsqueeze(-1)
        told = env.reset(told)
        assert (told["observation"][lane] == expected[lane]).all()


def test_options_reach_the_lanes():
    env = batched_env("CartPole-v1", 2)
    seen = env.reset(options={"low": 0.01, "high": 0.011})["observation"]
    assert ((seen >= 0.0099) & (seen <= 0.0111)).all()


class Spy(VectorWrapper):
    """Keeps what passed."""

    def step(self, actions):
        self.last = super().step(actions)
        return self.last


def test_observations_share_the_lanes_memory():
    spy = Spy(paddock.make("CartPole-v1", num_envs=2, lanes=BY_HAND))
    env = as_batched_env(spy)
    env.reset()
    told = env.rand_step()["next", "observation"]
    assert np.shares_memory(told.numpy(), spy.last[0])
    env.rand_step()
    assert not np.shares_memory(told.numpy(), spy.last[0])


def test_buffers_that_are_used_again_are_copied():
    lanes = paddock.make("CartPole-v1", num_envs=2, lanes=paddock.LaneOptions(autoreset="Disabled", copy=False))
    env = as_batched_env(lanes, seed=1)
    told = env.reset()["observation"]
    before = told.clone()
    env.rand_step()
    assert (told == before).all()


def test_arrays_that_torch_does_not_take_are_copied_without_a_warning():
    class Frozen(VectorWrapper):
        def reset(self, **kwargs):
            seen, infos = super().reset(**kwargs)
            seen = seen[:, ::-1]
            seen.flags.writeable = False
            return seen, infos

    env = as_batched_env(Frozen(loop(Counter)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset()


def test_transforms_and_collectors_take_it():
    env = TransformedEnv(batched_env("CartPole-v1", 4, seed=2), Compose(StepCounter(), RewardSum()))
    check_env_specs(env)
    collector = Collector(env, None, frames_per_batch=4 * 50, total_frames=4 * 100)
    batches = [batch.clone() for batch in collector]
    collector.shutdown()
    assert [batch.shape for batch in batches] == [(4, 50)] * 2
    batch = torch.cat(batches, dim=1)
    done = batch["next", "done"]
    assert done.sum() > 4
    assert (batch["next", "episode_reward"][done] == batch["next", "step_count"][done]).all()
    assert env.base_env.lanes.closed


def test_closing_twice_is_fine():
    env = batched_env("CartPole-v1", 2)
    env.close()
    env.close()
    assert env.lanes.closed and env.is_closed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU; it runs where there is one")
def test_tensors_live_on_the_gpu():
    env = batched_env("CartPole-v1", 2, device="cuda", seed=0)
    check_env_specs(env)
    told = env.rollout(5)
    assert told.device.type == told["next", "observation"].device.type == "cuda"


def with_spaces(observation_space=None, action_space=None):
    env = Counter()
    env.observation_space = observation_space or env.observation_space
    env.action_space = action_space or env.action_space
    return env


@pytest.mark.parametrize(
    ("spaces", "error", "words"),
    [
        ({"action_space": Text(5)}, NoArrayForm, "action_space is Text"),
        ({"observation_space": Dict({"a": Text(5)})}, NoArrayForm, r"observation_space\['a'\] is Text"),
        ({"observation_space": Dict({"reward": Discrete(5)})}, InvalidSpace, "the key 'reward'"),
        ({"observation_space": Box(0, 9, (1,), dtype=np.uint64)}, NoArrayForm, "Box of uint64"),
    ],
    ids=["text", "nested text", "reserved key", "uint64"],
)
def test_spaces_that_it_can_not_have_are_named(spaces, error, words):
    with pytest.raises(error, match=words):
        as_batched_env(loop(lambda: with_spaces(**spaces)))


def test_lanes_that_begin_anew_themselves_are_refused():
    with pytest.raises(InvalidLanes, match="autoreset of these is 'NextStep'"):
        as_batched_env(paddock.make("CartPole-v1", num_envs=2))
    with pytest.raises(WrongClass, match="takes lanes"):
        as_batched_env(paddock.make("CartPole-v1"))
    with pytest.raises(PlanError, match="batch_size=1"):
        batched_env("CartPole-v1", 2, isolation="process", lanes=paddock.LaneOptions(batch_size=1))


def test_the_example_learns(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["torchrl_rollout.py", "--batches", "6", "--num-envs", "32", "--steps", "64"])
    runpy.run_path(str(ROOT / "examples" / "torchrl_rollout.py"), run_name="__main__")
    returns = [float(line.split()[4]) for line in capsys.readouterr().out.splitlines() if line.startswith("batch ")]
    assert len(returns) == 6
    assert returns[-1] > returns[0]


def test_the_page_is_true():
    run_section("TorchRL")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU; runs wherever there is none")
def test_a_device_that_is_not_there_is_refused_before_lanes_are_made():
    with pytest.raises(PlanError, match="device='cuda': .*Expected one that Torch has here"):
        batched_env("no-such-env-v0", 2, device="cuda")
