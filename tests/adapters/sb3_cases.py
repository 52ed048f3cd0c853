"""Stable-Baselines3 over our lanes; run by test_sb3.py in the venv of the peer ``sb3``."""

import copy
import time
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan, VecEnv, VecMonitor, VecNormalize

import paddock
import paddock.gym as gym
from paddock import LaneOptions
from paddock.adapters.evaluation import Evaluations
from paddock.adapters.sb3 import as_vec_env, evaluation_callback, vec_env
from paddock.bench.training import read_training
from paddock.core.vector_env import AutoresetMode
from paddock.core.vector_wrapper import VectorWrapper
from paddock.errors import InvalidLanes, WrongClass
from paddock.record.trace import replay
from paddock.spaces import Dict, Discrete
from paddock.vector import SyncVectorEnv
from paddock.vector.threads import ThreadVectorEnv
from paddock.wrappers import ClipReward
from tests.adapters.trainer_pages import run_section
from tests.peers import ROOT
from tests.toys import Counter, Painter

torch.set_num_threads(1)

WAYS = {
    "compiled": {},
    "buffers": {"lanes": LaneOptions(copy=False)},
    "by hand": {"lanes": LaneOptions(autoreset="Disabled")},
    "by hand, buffers": {"lanes": LaneOptions(autoreset="Disabled", copy=False)},
    "loop": {"backend": "loop"},
    "loop by hand": {"backend": "loop", "lanes": LaneOptions(autoreset="Disabled", copy=False)},
    "processes": {"isolation": "process", "lanes": LaneOptions(workers=2)},
}
# FrozenLake observes a number and tells one, Taxi tells an array, Pendulum is driven by an array and only truncated.
CASES = [("CartPole-v1", way) for way in WAYS]
CASES += [(id, way) for id in ("FrozenLake-v1", "Pendulum-v1", "Taxi-v4") for way in ("compiled", "loop", "by hand")]


@pytest.mark.parametrize("way", [{}, {"backend": "loop"}, {"lanes": LaneOptions(autoreset="Disabled")}])
def test_action_masks_are_those_of_the_next_action_also_where_an_episode_has_just_begun(way):
    from gymnasium.wrappers import TimeLimit

    theirs = DummyVecEnv([lambda: TimeLimit(gymnasium.make("Taxi-v4").unwrapped, 3)] * 4)
    ours = vec_env("Taxi-v4", 4, max_episode_steps=3, **way)
    for envs in (theirs, ours):
        envs.seed(5)
        envs.reset()
    for step in range(8):
        masks = [env.unwrapped.action_mask(env.unwrapped.s).astype(bool) for env in theirs.envs]
        assert ours.has_attr("action_masks")
        np.testing.assert_array_equal(np.stack(ours.env_method("action_masks")), masks)
        actions = np.array([np.flatnonzero(mask)[step % mask.sum()] for mask in masks])
        np.testing.assert_array_equal(ours.step(actions)[0], theirs.step(actions)[0])
    assert not vec_env("CartPole-v1", 2).has_attr("action_masks")


def test_maskable_ppo_trains_and_takes_no_masked_action():
    from sb3_contrib import MaskablePPO

    env = vec_env("Taxi-v4", 4)
    taken, send = [], env.step_async

    def step_async(actions):
        taken.append(all(mask[action] for mask, action in zip(env.env_method("action_masks"), actions, strict=True)))
        send(actions)

    env.step_async = step_async
    MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=1).learn(256)
    assert len(taken) == 64 and all(taken)


def native(id, count):
    return DummyVecEnv([lambda: Monitor(gymnasium.make(id))] * count)


@pytest.mark.parametrize(("id", "way"), CASES)
def test_lanes_are_what_the_library_s_own_loop_over_gymnasium_is(id, way, seed):
    theirs, ours = native(id, 5), vec_env(id, 5, **WAYS[way])
    assert isinstance(ours, VecEnv)
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    assert ours.seed(seed) == theirs.seed(seed)
    ours.action_space.seed(seed)
    same(ours.reset(), theirs.reset())
    same(ours.reset_infos, theirs.reset_infos)
    ended, kept = 0, []
    for _ in range(450):
        actions = np.array([ours.action_space.sample() for _ in range(5)])
        ours_now, theirs_now = ours.step(actions), theirs.step(actions)
        kept.append((ours_now, copy.deepcopy(ours_now)))
        same(without_time(ours_now), without_time(theirs_now))
        same(ours.reset_infos, theirs.reset_infos)
        ended += theirs_now[2].sum()
    assert ended >= 10
    same(*zip(*kept, strict=True))  # what was returned before is still what it was
    same(ours.reset(), theirs.reset())
    ours.close()


def without_time(result):
    observations, rewards, dones, infos = result
    infos = [dict(info) for info in infos]
    for info in infos:
        if "episode" in info:
            info["episode"] = {key: info["episode"][key] for key in ("r", "l")}
            assert type(info["episode"]["r"]) is float
    return observations, rewards, dones, infos


def same(ours, theirs):
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            same(ours[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None) or np.ndim(theirs) == 0
        np.testing.assert_array_equal(ours, theirs)


class Pair(Counter):
    """Observes a dict, and tells of every second step and of each beginning."""

    def __init__(self):
        super().__init__(goal=4)
        self.observation_space = Dict({"here": self.observation_space, "parity": Discrete(2)})

    def reset(self, *, seed=None, options=None):
        seen, _ = super().reset(seed=seed)
        return {"here": seen, "parity": 0}, {"began": True}

    def step(self, action):
        seen, reward, terminated, truncated, _ = super().step(action)
        told = {"even": self.count} if self.count % 2 == 0 else {}
        return {"here": seen, "parity": self.count % 2}, reward, terminated, truncated, told


@pytest.mark.parametrize("copy_", [True, False], ids=["copies", "buffers"])
@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_observations_that_are_dicts_and_infos_of_some_steps(mode, copy_):
    theirs = DummyVecEnv([lambda: Monitor(paddock.to_gymnasium(Pair()))] * 2)
    ours = as_vec_env(SyncVectorEnv([Pair] * 2, autoreset_mode=mode, copy=copy_))
    same(ours.reset(), theirs.reset())
    kept = []
    for _ in range(9):
        ours_now, theirs_now = ours.step(np.ones(2, int)), theirs.step(np.ones(2, int))
        kept.append((ours_now, copy.deepcopy(ours_now)))
        same(without_time(ours_now), without_time(theirs_now))
        same(ours.reset_infos, theirs.reset_infos)
    same(*zip(*kept, strict=True))


def test_what_a_step_returns_is_the_caller_s_to_change():
    env = vec_env("CartPole-v1", 3)
    env.seed(0)
    env.reset()
    first = env.step(np.zeros(3, int))
    first[1][:] = 7
    first[3][0]["mine"] = True
    again = env.step(np.zeros(3, int))
    assert again[1].tolist() == [1, 1, 1]
    assert again[3] == [{"TimeLimit.truncated": False}] * 3
    assert len({id(info) for info in again[3]}) == 3


def test_the_library_s_own_wrappers_go_around():
    env = VecNormalize(VecCheckNan(vec_env("CartPole-v1", 4), raise_exception=True))
    env.seed(0)
    assert env.reset().shape == (4, 4)
    seen = [env.step(np.ones(4, int)) for _ in range(30)]
    ended = [info for *_, infos in seen for info in infos if "episode" in info]
    assert ended and all(info["terminal_observation"].shape == (4,) for info in ended)
    with pytest.warns(UserWarning, match="already wrapped"):
        monitored = VecMonitor(vec_env("CartPole-v1", 1))
    monitored.reset()
    while not (told := monitored.step(np.ones(1, int))[3][0]).get("episode"):
        pass
    assert told["episode"]["l"] == told["episode"]["r"] > 5


class Failing(Counter):
    """Counts; the first, third, … episode of all fails at its third step."""

    resets = 0

    def reset(self, *, seed=None, options=None):
        Failing.resets += 1
        self.fails = Failing.resets % 2 == 1
        return super().reset(seed=seed)

    def step(self, action):
        if self.fails and self.count == 2:
            raise ValueError("no way forward")
        return super().step(action)


def test_a_lane_that_failed_is_cut_off_and_begins_anew_at_once():
    Failing.resets = 0
    lanes = SyncVectorEnv([Failing] * 2, autoreset_mode=AutoresetMode.SAME_STEP, on_fault="restart")
    env = as_vec_env(lanes)
    env.reset()
    for _ in range(2):
        env.step(np.ones(2, int))
    seen, rewards, dones, infos = env.step(np.ones(2, int))
    assert dones.tolist() == [True, False]
    assert "no way forward" in infos[0]["lane_error"]
    assert infos[0]["terminal_observation"].tolist() == [2.0] and infos[0]["TimeLimit.truncated"]
    assert infos[0]["episode"]["l"] == 3
    assert seen.tolist() == [[0.0], [3.0]]
    seen, *_ = env.step(np.ones(2, int))
    assert seen.tolist() == [[1.0], [4.0]]  # no step was spent on beginning


def test_lanes_of_another_mode_and_what_are_no_lanes_are_refused():
    with pytest.raises(InvalidLanes, match="autoreset='SameStep'"):
        as_vec_env(paddock.make_vec("CartPole-v1", 2))
    with pytest.raises(InvalidLanes, match="without batch_size"):
        vec_env("CartPole-v1", 2, isolation="process", lanes=LaneOptions(batch_size=1))
    with pytest.raises(WrongClass, match="to_gymnasium"):
        as_vec_env(paddock.make("CartPole-v1"))


def test_attributes_of_compiled_lanes():
    env = vec_env("CartPole-v1", 3)
    env.seed(0)
    env.reset()
    assert env.get_attr("gravity", indices=[0, 2]) == [9.8, 9.8]
    env.set_attr("gravity", 3.7)
    assert env.get_attr("gravity") == [3.7] * 3
    with pytest.raises(InvalidLanes, match="share gravity"):
        env.set_attr("gravity", 1.6, indices=1)
    assert env.has_attr("gravity") and env.has_attr("reset") and not env.has_attr("wings")
    before = env.step(np.ones(3, int))[0]
    with pytest.raises(AttributeError, match="backend='loop'"):
        env.get_attr("reset")
    assert env.env_method("get_wrapper_attr", "gravity") == [3.7] * 3
    for refused in ({"method_name": "reset"}, {"method_name": "get_wrapper_attr", "indices": 1}):
        with pytest.raises(InvalidLanes, match="backend='loop'"):
            env.env_method(**refused)
    assert env.env_is_wrapped(Monitor) == [True] * 3
    assert env.env_is_wrapped(gymnasium.wrappers.TimeLimit, indices=0) == [False]
    assert not np.array_equal(env.step(np.ones(3, int))[0], before)


def test_attributes_of_lanes_in_a_loop():
    env = vec_env("CartPole-v1", 3, backend="loop", wrappers=[ClipReward.wrapper_spec(min_reward=0)])
    env.seed(0)
    env.reset()
    env.set_attr("gravity", 1.6, indices=[1])
    assert env.get_attr("gravity") == [9.8, 1.6, 9.8]
    assert env.env_is_wrapped(ClipReward) == [True] * 3
    (first,) = env.env_method("reset", seed=7, indices=2)
    assert first[0].tolist() == paddock.make("CartPole-v1").reset(seed=7)[0].tolist()
    assert [callable(method) for method in env.get_attr("reset")] == [True] * 3


def test_a_change_to_one_lane_is_told_to_lanes_that_step_together():
    looks = []
    made = [lambda: paddock.make("Pendulum-v1")] * 2
    env = as_vec_env(
        ThreadVectorEnv(made, autoreset_mode="SameStep", recogniser=lambda envs, _: looks.append(envs[1].unwrapped.g))
    )
    env.set_attr("g", 1.6, indices=[1])
    assert looks[-1] == 1.6
    env.env_method("set_wrapper_attr", "g", 3.7, indices=1)
    assert looks[-1] == 3.7
    before = len(looks)
    with pytest.raises(TypeError):
        env.env_method("set_wrapper_attr", indices=1)
    assert len(looks) == before + 1
    env.close()


class Untold(VectorWrapper):
    """As the ALE's own lanes: nothing is told of the episode that ended but its last observation."""

    def recv(self):
        *result, infos = super().recv()
        return *result, {key: value for key, value in infos.items() if "final_info" not in key}


def test_lanes_that_tell_no_last_info():
    env = as_vec_env(Untold(SyncVectorEnv([Pair] * 2, autoreset_mode=AutoresetMode.SAME_STEP)))
    env.reset()
    for _ in range(4):
        *_, dones, infos = env.step(np.ones(2, int))
    assert dones.all()
    assert infos[0].keys() == {"terminal_observation", "TimeLimit.truncated", "episode"}
    assert env.reset_infos == [{"began": True}] * 2


def test_options_go_to_all_lanes():
    env = vec_env("CartPole-v1", 2)
    env.seed(0)
    env.set_options({"low": 0.01, "high": 0.02})
    seen = env.reset()
    assert ((seen >= 0.01) & (seen <= 0.02)).all()
    env.set_options([{"low": 0.01}, {}])
    with pytest.raises(InvalidLanes, match="one dict"):
        env.reset()


def test_pictures_of_all_lanes_side_by_side():
    painters = [lambda: Painter(render_mode="rgb_array")] * 3
    env = as_vec_env(SyncVectorEnv(painters, autoreset_mode=AutoresetMode.SAME_STEP))
    env.reset()
    assert env.render_mode == "rgb_array"
    assert env.render().shape == (8, 10, 3)
    assert len(env.get_images()) == 3
    with pytest.raises(InvalidLanes, match="render_mode='rgb_array'"):
        vec_env("CartPole-v1", 1).get_images()


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_one_environment_passes_the_library_s_checker(id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="We recommend you to use a symmetric and normalized Box action")
        check_env(paddock.to_gymnasium(paddock.make(id)))


def test_code_of_the_page_runs():
    run_section("Stable-Baselines3")


def test_the_readmes_first_agent_masters_cart_pole_over_compiled_lanes(capsys):
    """Within five minutes, of which installing takes most, and in 30 lines."""
    began_s = time.monotonic()
    namespace = run_section("Train", ROOT / "README.md")
    assert namespace["mean"] >= 475 and namespace["model"].num_timesteps <= 51_200
    assert time.monotonic() - began_s < 240


@pytest.mark.full
def test_ppo_masters_cart_pole_in_one_environment():
    assert returns_after_ppo(paddock.to_gymnasium(paddock.make("CartPole-v1")), n_steps=1024) >= 475


def returns_after_ppo(env, *, n_steps):
    """Mean return of the policy over 24 episodes, with fifty thousand steps of training."""
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=n_steps,
        batch_size=256,
        n_epochs=10,
        gamma=0.98,
        gae_lambda=0.8,
        learning_rate=lambda left: 2e-3 * left,
        clip_range=lambda left: 0.2 * left,
        seed=1,
        device="cpu",
    )
    model.learn(50_000)
    judges = vec_env("CartPole-v1", 8)
    judges.seed(1000)
    return evaluate_policy(model, judges, n_eval_episodes=24, deterministic=True)[0]


@pytest.mark.parametrize("make", [gym.make, paddock.make])
def test_an_environment_goes_into_stable_baselines3_as_it_is(make, tmp_path):
    model = PPO("MlpPolicy", make("CartPole-v1"), n_steps=64, batch_size=32, seed=1, device="cpu").learn(128)
    twin = PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=64, batch_size=32, seed=1, device="cpu").learn(128)
    for name, value in model.get_parameters()["policy"].items():
        assert torch.equal(value, twin.get_parameters()["policy"][name])
    model.save(tmp_path / "model.zip")
    again = PPO.load(tmp_path / "model.zip", env=make("CartPole-v1"))
    assert evaluate_policy(again, Monitor(make("CartPole-v1")), 2)[0] > 0


def test_an_environment_of_ones_own_passes_stable_baselines3s_checks():
    class Own(gym.Env[dict]):
        observation_space = gym.spaces.Dict(place=gym.spaces.Box(0, 1, (2,)), room=gym.spaces.Discrete(3))
        action_space = gym.spaces.MultiDiscrete([2, 3])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.2), False, {}

    check_env(Own())
    PPO("MultiInputPolicy", Own(), n_steps=64, batch_size=32, device="cpu").learn(64)


def test_the_buffers_of_cleanrls_scripts_take_the_spaces_of_lanes():
    lanes = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 2)
    buffer = ReplayBuffer(8, lanes.single_observation_space, lanes.single_action_space, n_envs=2)
    assert buffer.observations.shape == (4, 2, 3)


def test_evaluations_of_a_training_are_recorded(tmp_path):
    path = tmp_path / "training.jsonl"
    with Evaluations("CartPole-v1", path, episodes=3) as evaluations:
        model = PPO("MlpPolicy", vec_env("CartPole-v1", 4), n_steps=64, batch_size=64, seed=1)
        model.learn(1024, callback=evaluation_callback(evaluations, every=500))
    training = read_training(path)
    assert [steps for steps, _ in training.points] == [0, 500, 1000]
    assert [figures.n for _, figures in training.points] == [3, 3, 3]
    assert replay(path, paddock.make("CartPole-v1")).same
