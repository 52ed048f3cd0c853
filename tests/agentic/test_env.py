"""ToolEnv: episodes, rewards, ends, and the three kinds of failure."""

import asyncio
import json
import logging
import threading
from copy import deepcopy

import numpy as np
import pytest

import paddock
from paddock.agentic import (
    CallTool,
    GradedObservation,
    Image,
    ListTools,
    Message,
    Observation,
    Say,
    Task,
    Tasks,
    Text,
    ToolEnv,
    ToolFailed,
    tool,
)
from paddock.agentic.rubrics import Rubric
from paddock.errors import EpisodeFailed, GradingFailed, InvalidAction, InvalidTask, ResetNeeded
from paddock.hosting.messages import read_tools
from paddock.wrappers.guard import Guard


class NearGuess(ToolEnv):
    """Find a number between 1 and 10."""

    tasks = Tasks(
        train=lambda i: Task(seed=i, prompt="Guess my number.", metadata={"i": i}, hidden={"tip": i}),
        test=[Task(seed=7, prompt="Guess."), Task(seed=8, prompt="Guess again.")],
    )

    def begin(self, task):
        self.secret = int(self.np_random.integers(1, 11))

    @tool
    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: between 1 and 10.
        """
        self.info["near"] = abs(number - self.secret) < 2
        if number == self.secret:
            self.award(1.0)
            self.finish()
            return "Right!"
        return "Higher." if number < self.secret else "Lower."


@pytest.fixture
def env():
    with NearGuess() as env:
        yield env


def secret_of(seed):
    return int(np.random.default_rng(seed).integers(1, 11))


# Episodes


def test_a_whole_episode(env):
    observation, info = env.reset(options={"split": "test", "index": 0})
    assert observation.content == [Text("Guess.")]
    assert observation.messages == [Message("user", [Text("Guess.")])]
    assert [one.name for one in observation.tools] == ["guess"]
    assert info == {"task": {"split": "test", "index": 0, "prompt": "Guess.", "seed": 7, "metadata": {}}}
    assert env.secret == secret_of(7)
    wrong = env.secret % 10 + 1
    seen, reward, terminated, truncated, info = env.step(CallTool("guess", {"number": wrong}))
    assert (seen.tool_name, seen.result) == ("guess", "Higher." if wrong < env.secret else "Lower.")
    assert (reward, terminated, truncated) == (0.0, False, False) and info == {"near": abs(wrong - env.secret) < 2}
    result = env.step(CallTool("guess", {"number": env.secret}))
    assert result[0] == Observation(tool_name="guess", result="Right!", content=[Text("Right!")])
    assert result[1:] == (1.0, True, False, {"near": True})
    with pytest.raises(ResetNeeded):
        env.step(ListTools())


def test_every_observation_is_in_the_space(env):
    assert env.reset(seed=1)[0] in env.observation_space
    for action in (ListTools(), CallTool("guess", {"number": 0}), CallTool("x"), CallTool("guess"), Say("hm")):
        assert action in env.action_space
        assert env.step(action)[0] in env.observation_space


def test_actions_may_be_plain_data_and_what_is_none_is_refused(env):
    env.reset(seed=1)
    assert env.step({"type": "call_tool", "tool_name": "guess", "arguments": {"number": 0}})[0].result == "Higher."
    with pytest.raises(InvalidAction, match="type: expected one of 'call_tool', 'list_tools', 'say', got 'sing'"):
        env.step({"type": "sing"})
    assert env.step(CallTool("guess", {"number": 0}))[0].result == "Higher."


def test_listing_the_tools_changes_nothing(env):
    at_first = env.reset(seed=1)[0].tools
    assert env.step(ListTools()) == (Observation(tools=at_first), 0.0, False, False, {})


def test_saying_something_ends_the_episode_unless_the_environment_listens():
    class Talk(NearGuess):
        """Talk."""

        async def listen(self, text):
            await asyncio.sleep(0)
            if text == "bye":
                self.award(2)
                self.finish(truncated=True)
            if text == "?":
                raise ToolFailed("What?")
            return [f"You said {text}.", Image("aGk=")]

    with NearGuess() as env:
        env.reset(seed=1)
        assert env.step(Say("4")) == (Observation(), 0.0, True, False, {})
    with Talk() as env:
        env.reset(seed=1)
        seen, reward, *ends, _ = env.step(Say("hi"))
        assert seen.content == [Text("You said hi."), Image("aGk=")] and (reward, *ends) == (0.0, False, False)
        assert env.step(Say("?"))[0].error.message == "What?"
        assert env.step(Say("bye"))[1:4] == (2.0, False, True)


def test_what_begin_returns_is_what_the_agent_reads():
    class Begin(ToolEnv):
        """All else failing, this."""

        def begin(self, task):
            return self.options.get("what")

    with Begin() as env:
        assert env.reset()[0].content == [Text("All else failing, this.")]
        assert env.reset(options={"what": ["a", Image("aGk=")]})[0].content == [Text("a"), Image("aGk=")]
        messages = [Message("system", [Text("Be kind.")]), Message("user", [Text("Go.")])]
        begun, _ = env.reset(options={"what": messages})
        assert begun.messages == messages and begun.content == [Text("Go.")]
        assert env.reset(options={"what": ""})[0].messages == []
        for wrong in (3, [3], [messages[0], "x"], Text(3), Text("\ud800"), Image("é")):
            with pytest.raises(EpisodeFailed, match="begin"):
                env.reset(options={"what": wrong})


def test_prompts_may_be_messages():
    class Chat(ToolEnv):
        """Chat."""

        tasks = Tasks(train=[Task(prompt=[Message("system", [Text("Be kind.")]), Message("user", [Text("Go.")])])])

    with Chat() as env:
        assert [one.role for one in env.reset()[0].messages] == ["system", "user"]


# Tasks and seeds


def test_the_task_is_drawn_by_the_seed(env):
    places = [(env.reset(seed=seed)[1]["task"]["index"], env.secret) for seed in (1, 2, 1, 2)]
    assert places[:2] == places[2:] and places[0] != places[1]
    assert [secret for _, secret in places] == [secret_of(1), secret_of(2)] * 2
    picked = {env.reset(seed=seed, options={"split": "test"})[1]["task"]["index"] for seed in range(20)}
    assert picked == {0, 1}


def test_without_a_seed_the_tasks_own_begins_the_stream_and_tasks_go_on_changing(env):
    env.reset(seed=3)
    drawn = [env.reset()[1]["task"] for _ in range(20)]
    assert len({task["index"] for task in drawn}) == 20
    env.reset(options={"index": 5})
    first = env.secret
    env.reset(options={"index": 5})
    assert env.secret == first == secret_of(5)
    env.reset(seed=6, options={"index": 5})
    assert env.secret == secret_of(6) and env.task.seed == 5


@pytest.mark.parametrize("options", [{"split": "nope"}, {"index": -1}, {"index": "x"}, {"split": "test", "index": 2}])
def test_a_task_that_is_not_there_is_refused(env, options):
    with pytest.raises(InvalidTask):
        env.reset(options=options)
    with pytest.raises(ResetNeeded):
        env.step(ListTools())


def test_a_prompt_that_is_too_long_for_an_info_is_in_the_observation_alone():
    class Long(ToolEnv):
        """Long."""

        tasks = Tasks(train=[Task(prompt="x" * 100_000, seed=3), Task(metadata={"x": "x" * 100_000})])

    with Long() as env:
        observation, info = env.reset(options={"index": 0})
        assert observation.content == [Text("x" * 100_000)]
        assert info == {"task": {"split": "train", "index": 0, "seed": 3, "metadata": {}}}
        assert env.reset(options={"index": 1})[1] == {"task": {"split": "train", "index": 1, "seed": None}}


def test_an_instance_may_have_tasks_of_its_own():
    class Own(ToolEnv):
        """Own."""

        def __init__(self, count=2):  # and does not call super().__init__()
            self.tasks = Tasks(train=[f"Task {i}." for i in range(count)], more=["x"])

    with Own(3) as env:
        assert env.reset(options={"index": 2})[0].content == [Text("Task 2.")]
        assert [split["name"] for split in env.metadata["splits"]] == ["train", "more"]


def test_tasks_must_be_tasks():
    with pytest.raises(InvalidTask, match=r"expected Tasks\(train=\[...\]\)"):
        type("Wrong", (ToolEnv,), {"tasks": ["a"]})


def test_from_outside_a_task_is_the_task_api_and_nothing_hidden(env):
    env.reset(options={"index": 3})
    assert env.task.hidden == {"tip": 3}
    ask = Guard(env).get_wrapper_attr("task")
    assert ask("get_task", "train", 3) == {"prompt": "Guess my number.", "seed": 3, "metadata": {"i": 3}}
    assert paddock.state(env).public == {"task": {"split": "train", "index": 3}}


# What is told of it


class Threads(ToolEnv):
    """Tells in which thread its code runs."""

    def begin(self, task):
        self.begun_in = threading.current_thread()

    @tool
    def where(self) -> bool:
        """Whether the caller's thread runs this."""
        assert self.begun_in is threading.current_thread(), "all of an environment's code runs in one thread"
        return threading.current_thread() is threading.main_thread()

    @tool
    async def where_async(self) -> bool:
        """The same of a coroutine."""
        return threading.current_thread() is threading.main_thread()


class Limited(Threads):
    @tool(timeout_s=5.0)
    def limited(self) -> str:
        """It has a limit of its own."""
        return ""


@pytest.mark.parametrize(
    ("cls", "limits", "in_callers"),
    [
        (Threads, {}, False),
        (Threads, {"timeout_s": None}, False),
        (Threads, {"begin_timeout_s": None}, False),
        (Threads, {"timeout_s": None, "begin_timeout_s": None}, True),
        (Limited, {"timeout_s": None, "begin_timeout_s": None}, False),
    ],
)
def test_an_environment_without_any_limit_runs_in_the_callers_thread(cls, limits, in_callers):
    env = cls()
    vars(env).update(limits)
    try:
        env.reset(seed=0)
        assert env.step(CallTool("where"))[0].result is in_callers
        assert env.step(CallTool("where_async"))[0].result is False
    finally:
        env.close()


def test_a_misspelt_choice_of_task_is_refused_and_other_options_are_the_authors(env):
    with pytest.raises(InvalidTask, match=r"options: 'splt' does not choose a task\. Did you mean 'split'\?"):
        env.reset(options={"splt": "test"})
    env.reset(options={"split": "test", "difficulty": 3})
    assert env.unwrapped.options["difficulty"] == 3


def test_metadata_tells_tools_splits_and_description():
    told = NearGuess.metadata
    assert told["render_modes"] == [] and told["description"] == "Find a number between 1 and 10."
    assert told["splits"] == [{"name": "train", "type": "train"}, {"name": "test", "type": "test"}]
    (one,) = told["tools"]
    assert json.loads(one["input_schema"])["properties"] == {
        "number": {"type": "integer", "description": "between 1 and 10."}
    }
    assert read_tools(told)[0]["input_schema"] == NearGuess.tools["guess"].info.input_schema
    assert json.loads(one["output_schema"]) == {"type": "string"}


def test_metadata_of_ones_own_is_kept():
    class Drawn(NearGuess):
        metadata = {"render_modes": ["ansi"], "author": "me"}

    class More(Drawn):
        metadata = {"author": "you"}

    assert Drawn.metadata["render_modes"] == ["ansi"] and Drawn.metadata["tools"] == NearGuess.metadata["tools"]
    assert Drawn.description == NearGuess.description
    assert More.metadata["render_modes"] == ["ansi"] and More.metadata["author"] == "you"


def test_check_env_has_nothing_against_it():
    paddock.check_env(NearGuess())
    paddock.check_env(Guard(NearGuess()))


def test_copies_go_on_alone(env):
    env.reset(options={"index": 4})
    copied = deepcopy(env)
    assert copied.step(CallTool("guess", {"number": env.secret}))[2]
    assert env.step(CallTool("guess", {"number": 0}))[0].result == "Higher."
    copied.close()


# Failures


class Broken(ToolEnv):
    """Whatever can go wrong."""

    timeout_s = 0.05

    def __init__(self):
        self.gate = threading.Event()
        self.done = threading.Event()

    @tool
    def fail(self) -> str:
        """Fail."""
        raise ValueError("/etc/secret: the answer is 4")

    @tool
    def say_no(self, why: str = "") -> str:
        """Fail in words."""
        self.award(-1.0)
        raise ToolFailed(f"No. {why}")

    @tool
    def leave(self) -> str:
        """Leave."""
        raise SystemExit(3)

    @tool
    def hang(self) -> str:
        """Hang, and award when nobody waits any more."""
        self.gate.wait(60)
        try:
            self.award(99.0)
        finally:
            self.done.set()
        return "late"

    @tool
    async def sleep(self) -> str:
        """Hang politely."""
        await asyncio.sleep(600)
        return "late"

    @tool(most_chars=10)
    def flood(self, count: int) -> str:
        """Flood."""
        return "x" * count

    @tool
    def lie(self, kind: str) -> int:
        """Return something else."""
        return {"text": "4", "none": None, "list": [1], "object": object(), "nan": float("nan")}[kind]

    @tool
    def surrogate(self) -> str:
        """Return what is no text."""
        return "\ud800"

    @tool
    def ok(self) -> str:
        """Work."""
        return "ok"

    @tool(on_error="end")
    def fail_for_good(self) -> str:
        """Fail."""
        raise ValueError("/etc/secret")

    @tool(on_error="end", timeout_s=0.01)
    async def sleep_for_good(self) -> str:
        """Hang."""
        await asyncio.sleep(600)
        return ""

    @tool(on_error="end")
    def lie_for_good(self) -> int:
        """Lie."""
        return "4"

    @tool(on_error="end", most_chars=3)
    def flood_for_good(self) -> str:
        """Flood."""
        return "xxxx"

    @tool(on_error="end")
    def refuse(self, n: int) -> str:
        """Refuse."""
        raise ToolFailed("No.")

    @tool
    def stop(self) -> str:
        """End the episode as failed."""
        raise EpisodeFailed("the database is gone")


@pytest.fixture
def broken():
    with Broken() as env:
        env.reset(seed=1)
        yield env
        env.gate.set()


def error_of(env, name, **arguments):
    seen, reward, terminated, truncated, _ = env.step(CallTool(name, arguments))
    assert not terminated and not truncated and seen in env.observation_space
    assert seen.content == [Text(seen.error.message)] and seen.result is None
    return seen.error.error_type, seen.error.message


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "message"),
    [
        ("fail", {}, "execution_error", "fail failed: ValueError"),
        ("say_no", {"why": "Ask later."}, "execution_error", "No. Ask later."),
        ("leave", {}, "execution_error", "leave failed: SystemExit"),
        ("sleep", {}, "timeout", "sleep timed out: no result within 0.05 s"),
        (
            "flood",
            {"count": 11},
            "execution_error",
            "flood failed: its result has 11 characters, at most 10 are allowed",
        ),
        ("lie", {"kind": "text"}, "execution_error", "lie failed: it returned str, which is not what it declares"),
        ("lie", {"kind": "none"}, "execution_error", "lie failed: it returned NoneType, which is not what it declares"),
        ("lie", {"kind": "list"}, "execution_error", "lie failed: it returned list, which is not what it declares"),
        ("lie", {"kind": "object"}, "execution_error", "lie failed: it returned object, which is not what it declares"),
        ("lie", {"kind": "nan"}, "execution_error", "lie failed: it returned float, which is not what it declares"),
        ("surrogate", {}, "execution_error", "surrogate failed: it returned str, which is not what it declares"),
        ("nope", {}, "tool_not_found", "there is no tool 'nope'; the tools are: fail, say_no"),
        ("flood", {"count": "many"}, "invalid_args", "flood: count: expected int, got 'many'"),
        ("refuse", {"n": 1}, "execution_error", "No."),
        ("refuse", {}, "invalid_args", "refuse: n: this field is missing"),
    ],
)
def test_a_tool_that_fails_tells_the_model_and_the_episode_goes_on(broken, name, arguments, kind, message):
    told = error_of(broken, name, **arguments)
    assert told[0] == kind and told[1].startswith(message)
    assert broken.step(CallTool("ok"))[0].result == "ok"


def test_what_an_exception_says_goes_to_the_log_alone(broken, caplog):
    with caplog.at_level(logging.WARNING, "paddock.agentic"):
        told = broken.step(CallTool("fail"))[0]
    assert "/etc/secret" not in repr(told) and "/etc/secret" in caplog.text


def test_awards_before_words_of_failure_count(broken):
    assert broken.step(CallTool("say_no"))[1] == -1.0


def test_a_tool_that_hangs_keeps_others_out_and_its_late_award_counts_nowhere(broken):
    assert error_of(broken, "hang") == ("timeout", "hang timed out: no result within 0.05 s")
    assert error_of(broken, "ok") == ("timeout", "ok timed out: an earlier call has not returned yet")
    with pytest.raises(EpisodeFailed, match=r"begin\(\) timed out: an earlier call has not returned yet"):
        broken.reset()
    broken.gate.set()
    assert broken.done.wait(60)
    broken.reset()
    assert broken.step(CallTool("ok"))[:2] == (Observation(tool_name="ok", result="ok", content=[Text("ok")]), 0.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fail_for_good", "fail_for_good failed: ValueError"),
        ("sleep_for_good", "sleep_for_good timed out"),
        ("lie_for_good", "lie_for_good failed: it returned str"),
        ("flood_for_good", "flood_for_good failed: its result has 4 characters"),
        ("stop", "the database is gone"),
    ],
)
def test_a_failure_that_is_declared_to_end_the_episode_is_an_error_and_no_reward(broken, name, words):
    with pytest.raises(EpisodeFailed, match=words) as failed:
        broken.step(CallTool(name))
    assert "/etc/secret" not in str(failed.value) and failed.value.session_alive
    with pytest.raises(ResetNeeded):
        broken.step(CallTool("ok"))
    broken.reset()
    assert broken.step(CallTool("ok"))[0].result == "ok"


def test_begin_and_listen_that_fail_fail_the_episode():
    class Bad(ToolEnv):
        """Bad."""

        def begin(self, task):
            if self.options.get("fail"):
                raise OSError("no disk /secret")

        def listen(self, text):
            if text == "raise":
                raise KeyError("secret")
            return 3 if text == "lie" else text

    with Bad() as env:
        with pytest.raises(EpisodeFailed, match=r"^begin\(\) failed: OSError\.$"):
            env.reset(options={"fail": True})
        with pytest.raises(ResetNeeded):
            env.step(ListTools())
        for text, words in (
            ("raise", r"^listen\(\) failed: KeyError\.$"),
            ("lie", "listen.. did not return content"),
        ):
            env.reset()
            with pytest.raises(EpisodeFailed, match=words):
                env.step(Say(text))


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "1", None, 1j, pytest.param(10**5000, id="huge")])
def test_an_award_that_is_no_number_fails_the_episode(reward):
    class Odd(ToolEnv):
        """Odd."""

        @tool
        def pay(self) -> str:
            """Pay."""
            self.award(reward)
            return ""

    with Odd() as env:
        env.reset()
        with pytest.raises(GradingFailed, match="expected a finite number"):
            env.step(CallTool("pay"))


def test_awards_and_ends_belong_to_steps(env):
    with pytest.raises(GradingFailed, match="during its step"):
        env.award(1.0)
    with pytest.raises(EpisodeFailed, match="during its step"):
        env.finish()


# Rubrics


class Right(Rubric):
    def __init__(self):
        self.seen = []

    def forward(self, action, observation):
        self.seen.append(observation)
        return float(observation.result == "Right!")

    def reset(self):
        self.seen.clear()


class Graded(ToolEnv):
    """Graded."""

    rubric = Right()
    tasks = Tasks(train=[Task(prompt="Go.", hidden={"answer": "Right!"})])

    @tool
    def answer(self, text: str) -> str:
        """Answer."""
        self.info["length"] = len(text)
        if text == "pay":
            self.award(1.0)
        if text == "end":
            self.finish(truncated=True)
        return text


def test_a_rubric_sees_the_task_and_the_outcome_and_gives_the_reward():
    with Graded() as env:
        env.reset()
        *_, reward, terminated, truncated, info = env.step(CallTool("answer", {"text": "Right!"}))
        assert (reward, terminated, truncated) == (1.0, False, False)
        assert info == {"length": 6, "rubric": {"score": 1.0, "parts": {}, "replayable": True}}
        (seen,) = env.rubric.seen
        assert type(seen) is GradedObservation and seen.task.hidden == {"answer": "Right!"}
        assert (seen.result, seen.info, seen.done) == ("Right!", {"length": 6}, False)
        assert env.step(CallTool("answer", {"text": "end"}))[1:4] == (0.0, False, True)
        assert (env.rubric.seen[1].done, env.rubric.seen[1].truncated) == (True, True)
        env.reset()
        assert env.rubric.seen == []


def test_a_rubric_is_asked_of_errors_too_and_not_of_listing_tools():
    with Graded() as env:
        env.reset()
        env.step(ListTools())
        env.step(CallTool("nope"))
        env.step(Say("x"))
        assert [one.error and one.error.error_type for one in env.rubric.seen] == ["tool_not_found", None]


def test_each_environment_has_a_rubric_of_its_own():
    with Graded() as one, Graded() as other:
        one.reset(), other.reset()
        one.step(CallTool("answer", {"text": "a"}))
        assert len(one.rubric.seen) == 1 and other.rubric.seen == Graded.rubric.seen == []


def test_a_class_of_rubrics_is_made_for_each_environment():
    class Lazy(Graded):
        """Lazy."""

        rubric = Right

    with Lazy() as env:
        env.reset()
        assert env.step(CallTool("answer", {"text": "Right!"}))[1] == 1.0 and isinstance(env.rubric, Right)


def test_who_has_a_rubric_does_not_award():
    with Graded() as env:
        env.reset()
        with pytest.raises(GradingFailed, match=r"award\(1.0\): Graded has a rubric, which gives the reward"):
            env.step(CallTool("answer", {"text": "pay"}))


class Failing(Rubric):
    def __init__(self):
        self.gate = None

    def forward(self, action, observation):
        if observation.result == "hang":
            self.gate = threading.Event()
            self.gate.wait(60)
        if observation.result == "nan":
            return float("nan")
        if observation.result == "raise":
            raise ValueError("the answer is 4")
        return 0.5


@pytest.mark.parametrize("text", ["nan", "raise", "hang"])
def test_a_rubric_that_fails_fails_the_episode_and_never_gives_zero(text):
    class Bad(Graded):
        """Bad."""

        rubric = Failing()
        rubric_timeout_s = 0.05

    with Bad() as env:
        env.reset()
        with pytest.raises(GradingFailed) as failed:
            env.step(CallTool("answer", {"text": text}))
        assert "the answer is 4" not in str(failed.value)
        with pytest.raises(ResetNeeded):
            env.step(CallTool("answer", {"text": "a"}))
        hung = env.rubric.gate
        env.reset()
        assert env.step(CallTool("answer", {"text": "a"}))[1] == 0.5
        if hung is not None:
            hung.set()


def test_a_tool_that_hangs_is_graded_all_the_same():
    class Slow(Graded):
        """Slow."""

        @tool(timeout_s=0.02)
        def hang(self) -> str:
            """Hang."""
            self.gate = threading.Event()
            self.gate.wait(60)
            return ""

    with Slow() as env:
        env.reset()
        assert env.step(CallTool("hang"))[1] == 0.0
        assert env.step(CallTool("answer", {"text": "Right!"}))[0].error.error_type == "timeout"
        env.gate.set()
