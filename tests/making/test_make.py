"""make: what it builds, what it refuses, and that nothing stays open when it fails."""

import warnings

import gymnasium
import numpy as np
import pytest

import paddock
import paddock.gym as gym
from paddock import WrapperSpec
from paddock.errors import InvalidId, InvalidManifest, PlanError, RegistrationError
from paddock.making import locate, plan
from paddock.wrappers import Guard, RenderCollection, TimeLimit
from tests.toys import Counter

pytestmark = pytest.mark.usefixtures("fresh_registry")


@pytest.fixture(autouse=True)
def toys(fresh_registry):
    paddock.register("toy/Counter-v0", "tests.toys:Counter", max_episode_steps=4, kwargs={"goal": 9})
    paddock.register("toy/Painter-v0", "tests.toys:Painter")
    paddock.register("toy/Mover-v0", "tests.toys:Mover")


def test_cartpole_equals_gymnasiums_bit_for_bit():
    ours, theirs = paddock.make("CartPole-v1"), gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(0)
    for seed in range(20):
        got, expected = ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0]
        ended = False
        while not ended:
            np.testing.assert_array_equal(got, expected)
            assert got.dtype == expected.dtype
            action = int(rng.integers(2))
            got, *flags = ours.step(action)
            expected, *their_flags = theirs.step(action)
            assert flags == their_flags
            ended = flags[1] or flags[2]


def test_arguments_reach_the_environment_and_the_spec():
    env = paddock.make("toy/Counter-v0", goal=3)
    assert env.unwrapped.goal == env.spec.kwargs["goal"] == 3
    assert paddock.spec("toy/Counter-v0").kwargs == {"goal": 9}


def test_an_argument_with_a_reserved_name_goes_through_env_kwargs():
    class Odd(Counter):
        def __init__(self, backend="none"):
            super().__init__()
            self.backend = backend

    paddock.register("toy/Odd-v0", Odd)
    assert paddock.make("toy/Odd-v0", env_kwargs={"backend": "mine"}).unwrapped.backend == "mine"


def test_a_misspelt_isolation_never_reaches_an_environment_that_takes_any_keyword():
    class Any(Counter):
        def __init__(self, **kwargs):
            super().__init__()

    paddock.register("toy/Any-v0", Any)
    with pytest.raises(PlanError, match=r"isolaton= would go to the environment\. Did you mean isolation=\?"):
        paddock.make("toy/Any-v0", isolaton="sandbox")
    paddock.make("toy/Any-v0", color="red", env_kwargs={"isolaton": "mine"})


def test_the_caller_can_change_and_lift_the_limit():
    assert paddock.make("toy/Counter-v0").spec.max_episode_steps == 4
    assert paddock.make("toy/Counter-v0", max_episode_steps=2).spec.max_episode_steps == 2
    lifted = paddock.make("toy/Counter-v0", max_episode_steps=-1)
    assert lifted.spec.max_episode_steps is None
    assert not isinstance(lifted, TimeLimit)


def test_the_two_doors_differ_in_strictness():
    outside = np.array([2.0, 0.0], np.float32)
    for make, strict in ((paddock.make, True), (gym.make, False)):
        env = make("toy/Mover-v0")
        env.reset()
        if strict:
            with pytest.raises(paddock.InvalidAction):
                env.step(outside)
        else:
            env.step(outside)


def test_validation_can_be_switched_off_through_both_doors():
    for env in (paddock.make("toy/Mover-v0", validate=False), gym.make("toy/Mover-v0", disable_env_checker=True)):
        env.reset()
        env.step("anything")
        assert env.spec.disable_env_checker


def test_wrappers_as_callables_and_as_data():
    limit = WrapperSpec("TimeLimit", "paddock.wrappers:TimeLimit", {"max_episode_steps": 2})
    env = paddock.make("toy/Counter-v0", wrappers=[paddock.Wrapper, limit])
    assert type(env) is TimeLimit
    assert type(env.env) is paddock.Wrapper
    assert type(env.env.env) is Guard


def test_additional_wrappers_of_a_spec_are_applied_once():
    entry = WrapperSpec("TimeLimit", "paddock.wrappers:TimeLimit", {"max_episode_steps": 2})
    paddock.register("toy/Wrapped-v0", "tests.toys:Counter", additional_wrappers=(entry,))
    env = paddock.make("toy/Wrapped-v0")
    assert type(env) is TimeLimit
    assert type(env.env) is Guard


def test_a_target_may_name_the_module_that_registers_it(monkeypatch, tmp_path):
    (tmp_path / "my_lab.py").write_text("import paddock\npaddock.register('lab/C-v0', 'tests.toys:Counter')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert paddock.make("my_lab:lab/C-v0").spec.id == "lab/C-v0"
    with pytest.raises(ModuleNotFoundError, match="Environment registration via importing a module failed"):
        paddock.make("no_such_lab:lab/C-v0")


@pytest.mark.parametrize("target", ["a:b:c d", ":X-v0", "../x:Y-v0", "1a:X-v0", ""])
def test_malformed_targets_are_refused(target):
    with pytest.raises((InvalidId, PlanError, InvalidManifest)):
        paddock.make(target)


def test_a_constructor_that_refuses_its_arguments_is_named():
    with pytest.raises(TypeError, match="was raised from the environment creator for toy/Counter-v0 with kwargs"):
        paddock.make("toy/Counter-v0", no_such_argument=1)


def test_an_entry_point_that_is_no_environment_is_refused():
    paddock.register("toy/Not-v0", "builtins:dict")
    with pytest.raises(TypeError, match=r"must inherit from paddock.Env"):
        paddock.make("toy/Not-v0")
    paddock.register("toy/Gone-v0", "tests.toys:Missing")
    with pytest.raises(RegistrationError, match="has no 'Missing'"):
        paddock.make("toy/Gone-v0")
    paddock.register("toy/Number-v0", "sys:maxsize")
    with pytest.raises(RegistrationError, match="'sys:maxsize' is an int, expected a class or function"):
        paddock.make("toy/Number-v0")


def test_an_environment_is_closed_when_dressing_it_fails():
    made = []

    def create():
        made.append(Counter())
        return made[0]

    paddock.register("toy/Lambda-v0", create)

    def broken(env):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        paddock.make("toy/Lambda-v0", wrappers=[broken])
    assert made[0].closed == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_envs": 0}, "num_envs=0"),
        ({"num_envs": "3"}, "num_envs='3'"),
        ({"backend": "loop"}, "Pass num_envs=n"),
        ({"backend": "warp", "num_envs": 2}, "not one of auto, loop, threads, compiled, ale, ray, envpool"),
        ({"backend": "compiled", "num_envs": 2}, "no vector entry point"),
        ({"max_episode_steps": 0}, "max_episode_steps=0"),
        ({"isolation": "moat"}, "isolation='moat'"),
        ({"remote": paddock.RemoteOptions(token="t")}, "remote="),
    ],
)
def test_a_clash_is_named_with_its_ways_out(options, words):
    with pytest.raises(PlanError, match=words):
        paddock.make("toy/Counter-v0", **options)


def test_a_token_is_not_shown():
    assert "hunter2" not in repr(paddock.RemoteOptions(token="hunter2"))


def test_planning_is_pure_and_readable():
    text = dict(plan(locate("toy/Counter-v0"), num_envs=3).lines())
    assert text["target"] == "toy/Counter-v0 (registered)"
    assert text["lanes"].startswith("3, stepped in a loop")
    assert text["time limit"] == "4 steps"
    assert text["arguments"] == "goal=9"


def test_render_modes_are_negotiated():
    assert paddock.make("toy/Painter-v0", render_mode="rgb_array").render_mode == "rgb_array"
    env = paddock.make("toy/Painter-v0", render_mode="rgb_array_list")
    assert type(env) is RenderCollection
    env.reset()
    env.step(0)
    assert len(env.render()) == 2
    with pytest.warns(UserWarning, match="not in the possible render_modes"):
        paddock.make("toy/Painter-v0", render_mode="hologram")


def test_openenv_is_make():
    env = paddock.OpenEnv("CartPole-v1")
    observation, info = env.reset()
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert env.state().step_count == 1


def test_making_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = paddock.make("CartPole-v1")
        env.reset(seed=0)
        env.step(0)
        env.close()
