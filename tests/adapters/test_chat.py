"""A scripted model acts through chat completions: in every form that clients answer in, and with every mistake."""

import json
from types import SimpleNamespace

import pytest

import paddock
from paddock.adapters.chat import chat_policy, play
from paddock.agentic import Task, Tasks, ToolEnv, rollout, tool
from paddock.core.registry import register
from paddock.errors import EpisodeFailed, PlanError


class Doors(ToolEnv):
    """Three doors, one prize."""

    tasks = Tasks(train=[Task(prompt="Open the second door.", seed=1)])

    @tool
    def open(self, number: int) -> str:
        """Open a door.

        Args:
            number: 1 to 3.
        """
        self.award(1.0 if number == 2 else -0.25)
        if number == 2:
            self.finish()
        return "A prize!" if number == 2 else "Nothing."

    @tool(on_error="end")
    def collapse(self) -> str:
        """Bring the house down."""
        raise RuntimeError("dust")

    def listen(self, text):
        if text == "bye":
            self.finish()
            return None
        return f"Nobody hears you say {text!r}."


@pytest.fixture
def doors(fresh_registry):
    register("test/Doors-v0", entry_point=Doors)
    return "test/Doors-v0"


@pytest.fixture
def env(doors):
    with paddock.make(doors) as made:
        yield made


def calls(*asked):
    """A message as dicts, with calls of (name, arguments as text)."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(asked)
        ],
    }


class Model:
    """Answers from a script, and keeps what it was asked. ``form`` is how a client packs a message."""

    def __init__(self, *script, form=lambda message: {"choices": [{"message": message}]}):
        self.script, self.form, self.requests = list(script), form, []

    def create(self, **request):
        self.requests.append(json.loads(json.dumps(request)))  # as it would go over a wire
        return self.form(self.script.pop(0))

    async def create_async(self, **request):
        return self.create(**request)


def objects(message):
    made = json.loads(json.dumps(message), object_hook=lambda fields: SimpleNamespace(**fields))
    return SimpleNamespace(choices=[SimpleNamespace(message=made)])


@pytest.mark.parametrize(
    "form", [lambda message: {"choices": [{"message": message}]}, objects, lambda message: message]
)
@pytest.mark.parametrize("way", ["create", "create_async"])
def test_every_form_of_an_answer_is_understood(env, form, way):
    model = Model(calls(("open", '{"number": 1}')), calls(("open", '{"number": 2}')), form=form)
    played = play(env, getattr(model, way), model="scripted", temperature=0)
    assert (played.rewards, played.terminated, played.turns) == ((-0.25, 1.0), True, 2)
    assert [message["role"] for message in played.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert played.messages[2] == {"role": "tool", "tool_call_id": "c0", "content": "Nothing."}


def test_request_has_messages_tools_and_what_was_given(env):
    model = Model(calls(("open", '{"number": 2}')))
    play(env, model.create, model="scripted", temperature=0)
    (request,) = model.requests
    assert request["messages"] == [{"role": "user", "content": "Open the second door."}]
    assert (request["model"], request["temperature"]) == ("scripted", 0)
    first = request["tools"][0]["function"]
    assert (first["name"], first["description"]) == ("open", "Open a door.")
    assert first["parameters"]["required"] == ["number"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (("open", "{number: 2}"), "not JSON"),
        (("open", '{"number": 2'), "not JSON"),
        (("open", "[2]"), "JSON object"),
        (("open", '"2"'), "JSON object"),
        (("open", '{"number": "two"}'), "expected int"),
        (("open", '{"number": NaN}'), "finite"),
        (("open", "{}"), "number"),
        (("close", "{}"), "no tool 'close'"),
        (("", "{}"), "name a tool"),
        ((None, None), "name a tool"),
        (("open", "[" * 100_000), "not JSON"),
    ],
)
def test_call_that_is_wrong_is_told_to_the_model_and_the_episode_goes_on(env, bad, told):
    played = play(env, Model(calls(bad), calls(("open", '{"number": 2}'))).create)
    assert told in played.messages[2]["content"] and len(played.messages[2]["content"]) < 1000
    assert (played.rewards[-1], played.terminated) == (1.0, True)


def test_calls_of_one_message_are_steps_in_their_order_until_the_end(env):
    asked = calls(*(("open", json.dumps({"number": number})) for number in (3, 2, 1)))
    played = play(env, Model(asked).create)
    told = [message["content"] for message in played.messages if message["role"] == "tool"]
    assert told == ["Nothing.", "A prize!", "The episode is over."]
    assert played.rewards == (-0.25, 1.0)


def test_words_are_a_step_and_are_answered(env):
    played = play(env, Model({"content": "hello"}, {"content": "bye"}).create)
    assert [message["content"] for message in played.messages[1:]] == ["hello", "Nobody hears you say 'hello'.", "bye"]
    assert (played.terminated, played.turns) == (True, 2)


def test_turns_are_bounded(env):
    played = play(env, Model(*[{"content": "hello"}] * 9).create, max_turns=3)
    assert (played.turns, played.terminated, played.truncated) == (3, False, False)
    with pytest.raises(PlanError, match="max_turns=0"):
        play(env, None, max_turns=0)


def test_errors_of_the_environment_and_of_the_client_are_raised(env):
    with pytest.raises(EpisodeFailed):
        play(env, Model(calls(("collapse", "{}"))).create)

    def refuses(**request):
        raise ConnectionError("no credit")

    with pytest.raises(ConnectionError, match="no credit"):
        play(env, refuses)


def test_environment_without_tools_is_asked_without_them(fresh_registry):
    class Talk(ToolEnv):
        """Talk."""

    register("test/Talk-v0", entry_point=Talk)
    with paddock.make("test/Talk-v0") as env:
        model = Model({"content": "hello"})
        play(env, model.create)
    assert "tools" not in model.requests[0]


@pytest.mark.parametrize("way", ["create", "create_async"])
def test_policy_plays_in_rollouts(doors, way):
    answer = calls(("open", '{"number": 2}'))
    model = Model(*[answer] * 6)
    policy = chat_policy(getattr(model, way), model="scripted")
    played = rollout(doors, policy, [0], attempts=6, concurrency=3, progress=False)
    assert [one.total_return for one in played] == [1.0] * 6
    assert len(model.requests) == 6


def test_malformed_call_in_rollouts_is_no_error_of_the_rollout(doors):
    model = Model(calls(("open", "{")), calls(("open", '{"number": 2}')))
    (played,) = rollout(doors, chat_policy(model.create), [0], progress=False)
    assert (played.error, played.total_return) == (None, 1.0)


@pytest.mark.process
def test_same_conversation_behind_a_wall(tmp_path):
    from tests.peers import ROOT

    model = Model(calls(("press", '{"colour": "grey"}')), calls(("press", '{"colour": "blue"}')))
    with paddock.make(f"{ROOT}/tests/adapters/buttons:Buttons-v0") as env:
        played = play(env, model.create, options={"split": "fixed"})
    assert (played.rewards, played.terminated) == ((0.0, 1.0), True)


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": []},
        {"choices": [], "error": {"message": "overloaded"}},
        {"error": {"message": "overloaded"}},
        {"choices": [{"finish_reason": "error"}]},
        SimpleNamespace(choices=[], error=None),
        {},
        None,
    ],
)
def test_a_service_that_failed_is_an_error_and_no_word_of_a_model(env, doors, reply):
    with pytest.raises(ValueError, match="has no message"):
        play(env, lambda **asked: reply)
    (kept,) = rollout(doors, chat_policy(lambda **asked: reply), progress=False)
    assert (kept.total_return, kept.error.code) == (None, "POLICY_ERROR")
