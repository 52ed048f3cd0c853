"""A judge that is a model: which clients it takes, what it asks, how it reads a reply."""

import asyncio
import copy
import threading

import pytest

from paddock.agentic.rubrics import LLMJudge, WeightedSum
from paddock.agentic.rubrics.rubric import NoScore
from paddock.errors import InvalidRubric
from tests.agentic.rubrics.parts import ask


class Model:
    """A client that keeps what it was asked, and can't be copied."""

    def __init__(self, reply="0.5"):
        self.reply, self.asked, self.lock = reply, [], threading.Lock()

    def complete(self, prompt):
        self.asked.append(prompt)
        return self.reply


class AsyncModel(Model):
    async def complete(self, prompt):
        await asyncio.sleep(0)
        return super().complete(prompt)


class Called:
    def __init__(self, model):
        self.model = model

    def __call__(self, prompt):
        return self.model.complete(prompt)


class AsyncCalled(Called):
    async def __call__(self, prompt):
        return self.model.complete(prompt)


CLIENTS = {
    "function": lambda model: lambda prompt: model.complete(prompt),
    "method": lambda model: model.complete,
    "object with complete": lambda model: model,
    "callable object": Called,
    "async callable object": lambda model: AsyncCalled(Model(model.reply)),
}


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("model", [Model, AsyncModel])
def test_any_client_will_do(kind, model):
    assert ask(LLMJudge("Rate {action}", CLIENTS[kind](model("0.75")))) == 0.75


def test_prompt_has_action_and_observation():
    model = Model()
    judge = LLMJudge("{{score}} {action!r} after {observation.name}: ", model)
    ask(judge, "hi", type("Seen", (), {"name": "this"}))
    assert model.asked == ["{score} 'hi' after this: "]


def test_braces_in_what_the_agent_wrote_are_only_text():
    model = Model()
    ask(LLMJudge("{action}", model), "{observation} {0} {", None)
    assert model.asked == ["{observation} {0} {"]


@pytest.mark.parametrize("template", ["{answer}", "{}", "{0}", "{action", '{"score": 1}', None])
def test_template_with_other_places_is_refused_at_once(template):
    with pytest.raises(InvalidRubric, match="prompt_template"):
        LLMJudge(template, Model())


def test_client_that_cannot_be_called_is_refused_at_once():
    with pytest.raises(InvalidRubric, match="can't be called"):
        LLMJudge("{action}", "model-name")


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("0.5", 0.5),
        ("Score: 0.25 of 1", 0.25),
        ("1", 1.0),
        ("1.", 1.0),
        ("8/10", 1.0),
        ("I give it 0.9, not 0.1", 0.9),
        ("-0.5", 0.5),
        ("excellent", 0.0),
        ("", 0.0),
        ("nan", 0.0),
        ("9" * 400, 0.0),
    ],
)
def test_first_number_of_the_reply_cut_to_zero_and_one(reply, score):
    assert ask(LLMJudge("{action}", lambda prompt: reply)) == score


@pytest.mark.parametrize(
    ("pattern", "reply", "score"),
    [
        (r"SCORE=(-?[\d.]+)", "0.9 SCORE=0.25", 0.25),
        (r"-?\d+", "-3", 0.0),
        (r"(yes)|(\d)", "yes", 0.125),
        (r"(\d)?x", "x", 0.125),
        (r"(nan|inf)", "nan", 0.125),
        (r"(nan|inf)", "inf", 0.125),
    ],
)
def test_pattern_of_ones_own(pattern, reply, score):
    assert ask(LLMJudge("{action}", lambda prompt: reply, score_pattern=pattern, default_score=0.125)) == score


def test_scores_as_they_are_without_normalize():
    assert ask(LLMJudge("{action}", lambda prompt: "8 of 10", normalize=False)) == 8.0


def test_reply_without_a_score_can_fail_instead():
    with pytest.raises(NoScore, match="has no score"):
        ask(LLMJudge("{action}", lambda prompt: "excellent", default_score=None))


def test_client_must_return_text():
    with pytest.raises(NoScore, match="returned a dict; expected the model's text"):
        ask(LLMJudge("{action}", lambda prompt: {"text": "1"}))


def test_error_of_the_client_is_an_error_and_no_score():
    def client(prompt):
        raise ConnectionError("refused")

    with pytest.raises(ConnectionError):
        ask(LLMJudge("{action}", client))


def test_subclass_may_build_the_prompt_and_read_the_reply():
    class Letters(LLMJudge):
        def _render_prompt(self, action, observation):
            return action.upper()

        def _parse_score(self, response):
            return {"A": 1.0, "B": 0.5}[response]

    model = Model("B")
    assert ask(Letters("", model), "hi") == 0.5
    assert model.asked == ["HI"]


def test_sync_clients_wait_at_the_same_time():
    meeting = threading.Barrier(2)

    def client(prompt):
        meeting.wait(10)
        return "1"

    judges = [LLMJudge("{action}", client), LLMJudge("{action}", client)]
    assert ask(WeightedSum(judges, [0.5, 0.5])) == 1.0


def test_copy_shares_the_client():
    judge = LLMJudge("{action}", Model())
    other = copy.deepcopy(WeightedSum([judge], [1.0]))
    assert ask(other) == 0.5
    assert len(judge._client.asked) == 1 and other[0] is not judge
