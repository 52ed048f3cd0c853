"""make() with isolation="process": one environment, and lanes, in worker processes."""

import os
import subprocess
import sys

import numpy as np
import pytest

import paddock
import paddock.gym as gym
from paddock import LaneOptions
from paddock.errors import PlanError
from paddock.vector.processes import ProcessVectorEnv
from tests.toys import Counter


@pytest.mark.process
def test_one_environment_in_a_process_plays_the_same_episode():
    here, there = paddock.make("CartPole-v1"), paddock.make("CartPole-v1", isolation="process")
    with there:
        assert there.spec == here.spec
        assert there.observation_space == here.observation_space
        np.testing.assert_array_equal(here.reset(seed=5)[0], there.reset(seed=5)[0])
        for action in (0, 1, 1, 0):
            ours, theirs = here.step(action), there.step(action)
            np.testing.assert_array_equal(ours[0], theirs[0])
            assert ours[1:] == theirs[1:]
        assert there.state().step_count == paddock.state(there).step_count == 4
        assert there.get_wrapper_attr("gravity") == 9.8


@pytest.mark.process
def test_wrappers_and_arguments_go_into_the_worker():
    wrappers = [lambda env: paddock.wrappers.TimeLimit(env, 2)]
    with paddock.make("CartPole-v1", isolation="process", wrappers=wrappers, sutton_barto_reward=True) as env:
        env.reset(seed=0)
        assert env.step(0)[1] == 0.0
        assert env.step(1)[3]


@pytest.mark.process
def test_lanes_in_processes_and_their_spec_makes_them_again():
    with paddock.make_vec("CartPole-v1", 3, isolation="process", lanes=LaneOptions(workers=2)) as lanes:
        assert isinstance(lanes, ProcessVectorEnv)
        with paddock.make(lanes.spec) as again:
            assert isinstance(again, ProcessVectorEnv)
            assert again.num_envs == 3


@pytest.mark.process
def test_lanes_of_an_environment_registered_here(fresh_registry):
    paddock.register("Here-v0", Counter)
    with paddock.make_vec("Here-v0", 2, isolation="process") as lanes:
        lanes.reset()
        assert lanes.step(np.array([0, 1]))[0].tolist() == [[1.0], [1.0]]


@pytest.mark.process
def test_gymnasiums_way_to_ask_for_processes():
    with gym.make_vec("CartPole-v1", 2, vectorization_mode="async", vector_kwargs={"workers": 1}) as lanes:
        assert isinstance(lanes, gym.vector.AsyncVectorEnv)
        assert lanes.spec.kwargs["vectorization_mode"] == "async"
        assert len(lanes.processes) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isolation": "process", "backend": "loop", "num_envs": 2}, "Drop one of them"),
        ({"num_envs": 2, "backend": "loop", "lanes": LaneOptions(workers=2)}, "isolation='process'"),
        ({"num_envs": 2, "lanes": LaneOptions(deadline_s=1.0)}, "isolation='process'"),
        ({"num_envs": 2, "lanes": LaneOptions(on_fault="mask")}, "backend='loop'"),
        ({"num_envs": 2, "isolation": "process", "lanes": LaneOptions(threads=2)}, "compiled lanes"),
        ({"isolation": "process", "lanes": LaneOptions(workers=1)}, "num_envs=n"),
    ],
)
def test_wishes_that_clash_are_a_plan_error_with_a_way_out(options, said):
    with pytest.raises(PlanError, match=said.replace("(", "\\(")):
        paddock.make("CartPole-v1", **options)


@pytest.mark.parametrize("option", [{"workers": 0}, {"deadline_s": 0.0}, {"batch_size": 9}, {"on_fault": "hope"}])
def test_bad_lane_options_start_nothing(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        paddock.make_vec("CartPole-v1", 2, isolation="process", lanes=LaneOptions(**option))


@pytest.mark.process
def test_a_class_of_the_main_script_reaches_the_worker(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import paddock\n"
        "from tests.toys import Counter\n"
        "class Mine(Counter):\n"
        "    pass\n"
        "paddock.register('Mine-v0', Mine)\n"
        "env = paddock.make('Mine-v0', isolation='process')\n"  # no `if __name__ == '__main__'` is needed
        "print(env.reset()[0], env.step(1)[1])\n"
        "env.close()\n"
    )
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, env=found)
    assert done.stdout.split() == ["[0.]", "1.0"], done.stderr


@pytest.mark.process
def test_an_attribute_set_on_this_side_is_refused_with_the_way_out():
    with paddock.make("CartPole-v1", isolation="process") as env:
        with pytest.raises(AttributeError, match="set_wrapper_attr"):
            env.unwrapped.gravity = 100.0
        with pytest.raises(AttributeError, match="get_wrapper_attr"):
            _ = env.unwrapped.gravity
        assert env.set_wrapper_attr("gravity", 50.0)
        assert env.get_wrapper_attr("gravity") == 50.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lanes": {"workers": 2}}, "LaneOptions"),
        ({"wrappers": ["FrameStackObservation"]}, "expected a list of wrapper"),
        ({"wrappers": paddock.WrapperSpec("a", "b:c", {})}, "expected a list of wrapper"),
    ],
)
def test_options_of_the_wrong_kind_are_a_plan_error(options, said):
    with pytest.raises(PlanError, match=said):
        paddock.make_vec("CartPole-v1", 2, isolation="process", **options)


@pytest.mark.process
def test_bad_lane_options_say_what_is_expected():
    with pytest.raises(PlanError, match="'NextStep'"):
        LaneOptions(autoreset="next")
    with pytest.raises(PlanError, match="deadline_s"):
        paddock.make_vec("CartPole-v1", 2, isolation="process", lanes=LaneOptions(deadline_s="3"))
    with pytest.raises(TypeError, match="LaneOptions\\(workers"):
        paddock.make_vec("CartPole-v1", 2, isolation="process", workers=2)
