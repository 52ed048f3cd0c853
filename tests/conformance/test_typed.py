"""Typed records and agentic environments at every distance."""

from functools import partial

import numpy as np
import pytest

from paddock.agentic import CallTool, ListTools, Observation, Say, Text
from paddock.errors import EpisodeFailed, InvalidAction, InvalidTask, ResetNeeded
from tests.conformance.tiers import call, every_tier, reopen, state_of
from tests.conformance.typed_envs import SPACES, drawn, guessing

pytestmark = pytest.mark.process


@every_tier
@pytest.mark.parametrize("name", SPACES)
def test_records_arrive_as_they_were_sent(tier, name):
    bare, actions = drawn(name), SPACES[name]()
    actions.seed(8)
    with reopen(tier, partial(drawn, name)) as env:
        assert env.observation_space.to_json() == bare.observation_space.to_json()
        env.action_space.seed(9)
        assert plain(env, env.reset(seed=5)[0]) == plain(bare, bare.reset(seed=5)[0])
        for action in (actions.sample(), env.action_space.sample(), actions.sample()):
            near, *_, info = env.step(action)
            there, *_, told = bare.step(action)
            assert plain(env, near) == plain(bare, there)
            assert info == told


def plain(env, observation):
    return env.observation_space.to_jsonable([observation])


@every_tier
def test_pictures_in_records_are_arrays_on_both_sides(tier):
    with reopen(tier, partial(drawn, "image-in-a-record")) as env:
        seen, _ = env.reset(seed=5)
        image = seen["image"] if isinstance(seen, dict) else seen.image
        assert type(image) is np.ndarray and image.dtype == np.uint8 and image.shape == (4, 5, 3)


@every_tier
def test_a_record_that_is_wrong_is_refused_with_its_field(tier):
    with reopen(tier, partial(drawn, "tagged-union")) as env:
        env.reset(seed=5)
        with pytest.raises(InvalidAction, match="steps: expected int >= 1 and <= 9, got 0"):
            env.step({"type": "Wait", "steps": 0})


@every_tier
def test_an_agents_episode_is_the_same_everywhere(tier):
    with reopen(tier, guessing) as env:
        observation, info = env.reset(options={"index": 41})
        assert type(observation) is Observation
        assert observation.content == [Text("Guess number 41.")]
        assert [one.name for one in observation.tools] == ["guess", "draw", "break_down", "give_up"]
        assert info["task"]["index"] == 41 and "hidden" not in info["task"]
        assert env.step(ListTools())[0].tools == observation.tools
        seen, reward, terminated, truncated, info = env.step(CallTool("guess", {"number": 1}))
        assert (seen.result, reward, terminated, truncated, info) == ("Higher.", 0.0, False, False, {"asked": 1})
        drawn_here = env.step({"type": "call_tool", "tool_name": "draw"})[0].result
        assert drawn_here == np.random.default_rng(41).random(3).tolist()
        assert env.step(CallTool("guess", {"number": 2}))[:4] == (
            Observation(tool_name="guess", result="Right!", content=[Text("Right!")]),
            1.0,
            True,
            False,
        )


@every_tier
def test_failures_of_tools_are_told_and_those_of_episodes_are_raised(tier):
    with reopen(tier, guessing) as env:
        env.reset(options={"split": "test"})
        told = env.step(CallTool("break_down"))[0].error
        assert (told.error_type, told.message) == ("execution_error", "break_down failed: ValueError")
        assert env.step(CallTool("guess", {"number": "x"}))[0].error.error_type == "invalid_args"
        assert env.step(CallTool("fly"))[0].error.error_type == "tool_not_found"
        with pytest.raises(EpisodeFailed, match="give_up failed: ValueError"):
            env.step(CallTool("give_up"))
        with pytest.raises(ResetNeeded):
            env.step(CallTool("draw"))
        env.reset()
        assert env.step(Say("4"))[2] is True


@every_tier
def test_the_task_api_is_answered_and_hides_what_is_hidden(tier):
    with reopen(tier, guessing) as env:
        assert call(env, "task", "list_splits") == [
            {"name": "train", "type": "train"},
            {"name": "test", "type": "test"},
        ]
        row = {"prompt": "Guess number 3.", "seed": 3, "metadata": {}}
        assert call(env, "task", "get_task", "train", 3) == row
        assert call(env, "task", "get_task_range", "train", 3, 4) == [row]
        with pytest.raises(InvalidTask, match="no task 7 in the split 'test'"):
            call(env, "task", "get_task", "test", 7)
        env.reset(options={"index": 5})
        assert state_of(env).public == {"task": {"split": "train", "index": 5}}
