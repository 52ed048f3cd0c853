"""A rubric at work in an environment: here, and behind a wall."""

import asyncio
import threading

import pytest

import paddock
from paddock.agentic import CallTool, Say, Task, Tasks, ToolEnv, tool
from paddock.agentic.rubrics import Gate, LLMJudge, Rubric, Sequential, Timeout, WeightedSum
from paddock.errors import EpisodeFailed, GradingFailed, ResetNeeded
from tests.agentic.rubrics.parts import Won


class Right(Rubric):
    def forward(self, action, observation):
        return observation.info.get("said") == observation.task.hidden["answer"]


class Short(Rubric):
    async def forward(self, action, observation):
        await asyncio.sleep(0)
        return 1.0 if len(observation.info.get("said", "")) <= 3 else 0.5


class Talk(ToolEnv):
    """Say the word."""

    tasks = Tasks(train=[Task(prompt="Which word?", hidden={"answer": "yes"})])
    rubric = Sequential(Gate(Right()), WeightedSum([Right(), Short()], [0.5, 0.5]))

    @tool
    def wait(self) -> str:
        """Do nothing."""
        return "Waited."

    def listen(self, text):
        self.info["said"] = text
        self.finish()
        return "Heard."


PARTS = {
    "rubric_0": 1.0,
    "rubric_0.rubric": 1.0,
    "rubric_1": 1.0,
    "rubric_1.rubric_0": 1.0,
    "rubric_1.rubric_1": 1.0,
}


@pytest.mark.process
@pytest.mark.parametrize("isolation", [None, "sandbox"])
def test_provenance_of_each_score_is_in_info(fresh_registry, isolation):
    paddock.register("talk/Talk-v0", f"{__name__}:Talk")
    with paddock.make("talk/Talk-v0", isolation=isolation) as env:
        env.reset(seed=1)
        _, reward, _, _, info = env.step(CallTool("wait"))
        assert (reward, info["rubric"]) == (
            0.0,
            {"score": 0.0, "parts": {"rubric_0": 0.0, "rubric_0.rubric": 0.0}, "replayable": True},
        )
        _, reward, terminated, _, info = env.step(Say("yes"))
        assert (reward, terminated) == (1.0, True)
        assert info["rubric"] == {"score": 1.0, "parts": PARTS, "replayable": True}


def test_each_environment_has_a_rubric_of_its_own_that_begins_anew_with_each_episode():
    class Length(Won):
        def score_trajectory(self, trajectory):
            return float(len(trajectory))

    class Counted(Talk):
        rubric = Length(gamma=0.5)

    one, two = Counted(), Counted()
    for env in (one, two, one):
        env.reset(seed=1)
        env.step(CallTool("wait"))
        _, reward, _, _, info = env.step(Say("x"))
        assert reward == 2.0
        assert info["rubric"]["step_rewards"] == [1.0, 2.0]
    assert Counted.rubric.trajectory == []
    one.close()
    two.close()


@pytest.mark.process
@pytest.mark.parametrize("isolation", [None, "sandbox"])
def test_failed_grading_is_no_reward_at_all_and_a_reset_goes_on(fresh_registry, isolation):
    paddock.register("talk/Broken-v0", f"{__name__}:Broken")
    with paddock.make("talk/Broken-v0", isolation=isolation) as env:
        env.reset(seed=1)
        with pytest.raises(GradingFailed, match=r"The rubric rubric_1 \(Mistaken\) failed: KeyError\.") as caught:
            env.step(Say("break"))
        assert "secret" not in str(caught.value)
        with pytest.raises(ResetNeeded):
            env.step(Say("yes"))
        env.reset(seed=1)
        assert env.step(Say("yes"))[1] == 1.0


class Mistaken(Rubric):
    def forward(self, action, observation):
        if observation.info["said"] == "break":
            raise KeyError("secret")
        return 1.0


class Broken(Talk):
    """Its rubric raises."""

    rubric = Sequential(Timeout(Short(), 60), Mistaken())


def test_late_grading_fails_the_episode():
    go = threading.Event()

    class Stuck(Rubric):
        def forward(self, action, observation):
            go.wait(60)
            return 1.0

    class Slow(Talk):
        rubric = Gate(Stuck())
        rubric_timeout_s = 0.05

    env = Slow()
    env.reset(seed=1)
    try:
        with pytest.raises(EpisodeFailed, match=r"rubric \(Stuck\) failed: no result within 0.05 s"):
            env.step(Say("yes"))
    finally:
        go.set()
        env.close()


def test_scores_of_a_judge_are_marked():
    class Judged(Talk):
        rubric = LLMJudge("Is this polite? {action.text}", lambda prompt: "0.75")

    env = Judged()
    env.reset(seed=1)
    _, reward, _, _, info = env.step(Say("please"))
    assert reward == 0.75
    assert info["rubric"] == {"score": 0.75, "parts": {}, "replayable": False}
    env.close()
