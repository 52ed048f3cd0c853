"""Environments of Gymnasium inside paddock, with those that Gymnasium itself brings. The families have tests apart."""

import copy
import json
import subprocess
import sys
import textwrap

import gymnasium
import gymnasium.spaces as theirs
import numpy as np
import pytest

import paddock
from paddock.errors import DependencyNotInstalled, NameNotFound, SnapshotUnsupported, WrongClass
from paddock.sources import from_gymnasium
from paddock.sources.gymnasium import FromGymnasium
from tests.spaces.twins import same


class Lamp(gymnasium.Env):
    """Counts; returns the very objects that a test can look for."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}
    observation_space = theirs.Box(0, 100, (2,), np.float32)
    action_space = theirs.Discrete(3)

    def __init__(self, brightness=1, render_mode=None):
        self.brightness, self.render_mode, self.closings = brightness, render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.full(2, self.np_random.random(), np.float32), {"seed": seed, "options": options}

    def step(self, action):
        self.count += 1
        self.last = (np.full(2, self.count, np.float32), float(action), False, False, {})
        return self.last

    def render(self):
        return np.full((4, 6, 3), self.brightness, np.uint8)

    def close(self):
        self.closings += 1

    def greet(self, name):
        return f"hello {name}"


@pytest.fixture
def registered():
    gymnasium.register("lamp/Lamp-v0", Lamp, max_episode_steps=5, kwargs={"brightness": 7}, reward_threshold=3.0)
    gymnasium.register("lamp/Lamp-v2", Lamp, max_episode_steps=6)
    yield "gymnasium:lamp/Lamp-v0"
    for id in ("lamp/Lamp-v0", "lamp/Lamp-v2"):
        del gymnasium.registry[id]


def test_results_pass_through_as_they_are():
    lamp = Lamp()
    env = from_gymnasium(lamp)
    env.reset(seed=1)
    env.step(0)
    assert env.step(2) is lamp.last


def test_spaces_metadata_and_stream_are_its_own():
    lamp = Lamp(render_mode="rgb_array")
    env = from_gymnasium(lamp)
    assert env.observation_space == paddock.spaces.Box(0, 100, (2,), np.float32)
    assert env.action_space == paddock.spaces.Discrete(3)
    assert (env.metadata, env.render_mode) == (lamp.metadata, "rgb_array")
    env.reset(seed=np.int64(5))
    assert env.np_random is lamp.np_random
    assert env.np_random_seed == 5
    env.np_random = np.random.default_rng(3)
    assert lamp.np_random.bit_generator.state == np.random.default_rng(3).bit_generator.state
    assert env.render().shape == (4, 6, 3)


def test_the_guard_is_around_it():
    env = from_gymnasium(Lamp())
    with pytest.raises(paddock.errors.ResetNeeded):
        env.step(0)
    env.reset(seed=1, options={"a": 1})
    env.step(1)
    assert env.state().step_count == 1
    with pytest.raises(paddock.InvalidAction):
        env.step(3)
    assert from_gymnasium(Lamp(), validate=False).reset()


def test_attributes_are_reached_through_every_wrapper():
    lamp = Lamp()
    env = from_gymnasium(gymnasium.wrappers.RecordEpisodeStatistics(lamp))
    assert env.unwrapped.brightness == env.get_wrapper_attr("brightness") == 1
    assert env.get_wrapper_attr("greet")("you") == "hello you"
    env.set_wrapper_attr("brightness", 9)
    env.unwrapped.set_wrapper_attr("colour", "red")
    assert (lamp.brightness, lamp.colour) == (9, "red")
    assert not env.unwrapped.set_wrapper_attr("smell", 1, force=False)
    assert not env.has_wrapper_attr("antigravity")
    with pytest.raises(AttributeError):
        env.unwrapped.episode


def test_it_is_closed_once():
    lamp = Lamp()
    env = from_gymnasium(lamp)
    env.close()
    env.close()
    assert lamp.closings == 1


def test_what_to_gymnasium_made_is_taken_out_again():
    env = paddock.make("CartPole-v1")
    assert from_gymnasium(paddock.to_gymnasium(env)) is env


def test_what_is_no_environment_is_refused():
    with pytest.raises(WrongClass, match="takes one gymnasium.Env, got int"):
        from_gymnasium(3)


def test_a_copy_goes_its_own_way():
    env = from_gymnasium(Lamp())
    env.reset(seed=1)
    other = copy.deepcopy(env)
    env.step(0)
    assert same(other.step(0)[0], np.full(2, 1, np.float32))
    assert same(env.step(0)[0], np.full(2, 2, np.float32))
    assert other.np_random is not env.np_random


def test_what_can_not_be_saved_says_so():
    env = from_gymnasium(Lamp())
    env.reset(seed=1)
    with pytest.raises(SnapshotUnsupported, match="Lamp can't save its state: .* MuJoCo and of the ALE can"):
        env.snapshot()


def test_a_registered_id_is_made_with_limit_arguments_and_spec(registered):
    env = paddock.make(registered)
    assert isinstance(env.unwrapped, FromGymnasium)
    assert env.unwrapped.gymnasium_env.unwrapped is env.unwrapped.gymnasium_env  # no wrappers of theirs
    assert (env.spec.id, env.spec.kwargs, env.spec.max_episode_steps) == ("lamp/Lamp-v0", {"brightness": 7}, 5)
    assert env.spec.reward_threshold == 3.0
    env.reset(seed=1)
    assert [env.step(1)[3] for _ in range(5)] == [False] * 4 + [True]
    again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()), brightness=8)
    assert (again.unwrapped.brightness, again.spec.max_episode_steps) == (8, 5)


def test_without_a_version_the_newest_is_made(registered):
    assert paddock.make("gymnasium:lamp/Lamp").spec.id == "lamp/Lamp-v2"


def test_other_wrappers_that_the_id_is_registered_with_stay(registered):
    wrapper = gymnasium.wrappers.TransformReward.wrapper_spec(func=lambda reward: reward * 10)
    gymnasium.register("lamp/Bright-v0", Lamp, additional_wrappers=(wrapper,))
    try:
        env = paddock.make("gymnasium:lamp/Bright-v0")
        env.reset(seed=1)
        assert env.step(2)[1] == 20.0
    finally:
        del gymnasium.registry["lamp/Bright-v0"]


def test_render_modes_are_negotiated_by_its_class(registered):
    env = paddock.make(registered, render_mode="rgb_array_list")
    env.reset(seed=1)
    env.step(0)
    assert [frame.shape for frame in env.render()] == [(4, 6, 3)] * 2


def test_gymnasiums_own_is_meant_by_the_prefix_and_ours_by_the_id():
    assert type(paddock.make("gymnasium:CartPole-v1").unwrapped) is FromGymnasium
    assert type(paddock.make("CartPole-v1").unwrapped) is not FromGymnasium


@pytest.mark.parametrize("id", ["CartPole-v1", "Taxi-v4", "Blackjack-v1", "Pendulum-v1"])
def test_trajectories_are_gymnasiums(id):
    if id not in gymnasium.registry:
        pytest.skip(f"this Gymnasium has no {id}: runs with the 1.4 of the test extra")
    env, native = paddock.make(f"gymnasium:{id}"), gymnasium.make(id)
    env.action_space.seed(2)
    for seed in (4, None):
        assert same(env.reset(seed=seed), native.reset(seed=seed))
        for _ in range(30):
            action = env.action_space.sample()
            expected = native.step(action)
            assert same(env.step(action), expected)
            if expected[2] or expected[3]:
                break


def test_a_module_can_be_named_before_the_id(tmp_path, monkeypatch):
    write_torch(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    env = paddock.make("gymnasium:torch_lamp:Torch-v0")
    assert env.spec.id == "torch_lamp:Torch-v0"
    assert env.reset(seed=1)[0] == 3
    assert paddock.make(env.spec).reset(seed=1)[0] == 3
    del gymnasium.registry["Torch-v0"]


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's: it runs on Linux")
def test_behind_the_wall_its_code_is_shown_and_nothing_imported_here(tmp_path):
    write_torch(tmp_path)
    program = """
        import json, sys
        import paddock
        env = paddock.make("gymnasium:torch_lamp:Torch-v0", isolation="sandbox")
        lanes = paddock.make("gymnasium:CartPole-v1", isolation="sandbox", num_envs=2)
        seen = [int(env.reset(seed=1)[0]), env.step(1)[1], list(lanes.reset(seed=1)[0].shape)]
        env.close(), lanes.close()
        print(json.dumps([seen, sorted({"gymnasium", "torch_lamp"} & sys.modules.keys())]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": f"{tmp_path}:{paddock.__path__[0]}/.."},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[3, 1.0, [2, 4]], []]


def write_torch(folder):
    (folder / "torch_lamp.py").write_text(
        textwrap.dedent(
            """
            import gymnasium

            class Torch(gymnasium.Env):
                observation_space = action_space = gymnasium.spaces.Discrete(5)

                def reset(self, *, seed=None, options=None):
                    super().reset(seed=seed)
                    return 3, {}

                def step(self, action):
                    return 4, 1.0, True, False, {}

            gymnasium.register("Torch-v0", Torch)
            """
        )
    )


def test_an_unknown_id_says_what_gymnasium_says():
    with pytest.raises(NameNotFound, match="Gymnasium: Environment `Nowhere` doesn't exist"):
        paddock.make("gymnasium:Nowhere-v0")


class Graphs(gymnasium.Env):
    observation_space = theirs.Graph(theirs.Box(0, 1, (2,)), None)
    action_space = theirs.Graph(theirs.Discrete(3), theirs.Discrete(2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert isinstance(action, theirs.GraphInstance)
        return self.observation_space.sample(), 0.0, False, False, {}


def test_graphs_arrive_as_ours():
    env = from_gymnasium(Graphs())
    assert isinstance(env.reset(seed=1)[0], paddock.spaces.GraphInstance)
    env.action_space.seed(1)
    assert env.step(env.action_space.sample())[0] in env.observation_space


def test_without_gymnasium_the_error_names_the_command(monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: False)
    with pytest.raises(DependencyNotInstalled, match="pip install gymnasium$"):
        paddock.make("gymnasium:CartPole-v1")
