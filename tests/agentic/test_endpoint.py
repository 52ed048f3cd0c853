"""The built-in client of models: what it sends, what it makes of what comes back, and what it never tells."""

import asyncio
import json

import pytest

from paddock.agentic import LLMJudge, ModelEndpoint, Rollouts, rollout
from paddock.errors import (
    ModelCallFailed,
    ModelOverloaded,
    ModelReplyCutOff,
    ModelReplyInvalid,
    ModelTimeout,
    ModelUnavailable,
    PlanError,
)
from paddock.record.trace import TraceReader
from tests.agentic.model_server import model_server, reply
from tests.agentic.rollout_envs import Guess, Parlour

KEY = "sk-very-secret-0123456789"


def ask(server, **options):
    async def once():
        endpoint = ModelEndpoint("toy", server.url, **options)
        try:
            return await endpoint.chat([{"role": "user", "content": "hi"}])
        finally:
            await endpoint.close()

    return asyncio.run(once())


def test_a_call_is_recorded_as_it_was_with_unknown_fields():
    document = reply("Hi.", message={"reasoning_content": "Greet.", "odd": [1]}, usage={"prompt_tokens": 3}, extra="x")
    with model_server(lambda request: document) as server:
        call = ask(server, temperature=0.5, seed=1)
    assert server.requests == [
        {"model": "toy", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5, "seed": 1}
    ]
    assert (call.request, call.reply) == (server.requests[0], document)
    assert (call.finish_reason, call.prompt_tokens, call.model) == ("stop", 3, "toy")
    assert call.sampling == {"temperature": 0.5, "seed": 1}
    assert call.error is None and call.seconds > 0 and call.began_s > 1e9


def test_connections_are_kept_and_an_idle_one_that_was_closed_is_replaced():
    def answer(request):
        if request["messages"][-1]["content"] == "bye":
            return b"HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n" + json.dumps(reply("x")).encode()[:42]
        return reply("Hi.")

    async def several(url):
        endpoint = ModelEndpoint("toy", url)
        for word in ("a", "b", "bye", "c"):
            try:
                await endpoint.chat([{"role": "user", "content": word}])
            except ModelReplyInvalid:
                assert word == "bye"
        await endpoint.close()

    with model_server(answer) as server:
        asyncio.run(several(server.url))
    assert [request["messages"][0]["content"] for request in server.requests] == ["a", "b", "bye", "c"]
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((429, {"Retry-After": "7"}, {"error": {"message": "slow down"}}), ModelOverloaded),
        ((503, {}, "busy"), ModelOverloaded),
        ((500, {}, {"detail": "boom"}), ModelUnavailable),
        ((400, {}, {"error": {"message": "bad"}}), ModelCallFailed),
        ((401, {}, {"error": {"message": f"wrong key {KEY}"}}), ModelCallFailed),
        ((200, {}, "{not json"), ModelReplyInvalid),
        ((200, {}, "[" * 100_000), ModelReplyInvalid),
        ((200, {}, {"choices": []}), ModelReplyInvalid),
        ((200, {}, {"choices": [{"message": {"role": "assistant"}}]}), ModelReplyInvalid),
        ((200, {}, {"choices": {"0": 1}}), ModelReplyInvalid),
        ((302, {"Location": "http://127.0.0.1:1/"}, ""), ModelCallFailed),
        (b"SSH-2.0-nonsense\r\n\r\n", ModelUnavailable),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{", ModelUnavailable),
        (b"", ModelUnavailable),
    ],
    ids=range(14),
)
def test_what_is_no_reply_is_an_error_of_its_class_with_its_record(answer, kind, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with model_server(lambda request: answer) as server, pytest.raises(kind) as caught:
        ask(server)
    assert type(caught.value) is kind
    assert caught.value.call.error == (kind.code, str(caught.value))
    assert KEY not in str(caught.value) and KEY not in repr(caught.value.call)
    assert caught.value.retry_after_s == (7.0 if kind is ModelOverloaded and answer[0] == 429 else None)


def test_an_endpoint_that_hangs_is_given_up():
    with model_server(lambda request: None) as server, pytest.raises(ModelTimeout, match="within 0.2 s"):
        ask(server, timeout_s=0.2)


def test_no_server_is_told_as_such():
    with model_server(lambda request: None) as server:
        pass
    with pytest.raises(ModelUnavailable, match="No answer from http://127.0.0.1:"):
        ask(server)


def test_the_key_is_sent_and_never_recorded_or_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("MY_KEY", KEY)
    with model_server(lambda request: reply("Tea, please.", echo=f"you sent {KEY}")) as server:
        endpoint = ModelEndpoint("toy", server.url, api_key_env="MY_KEY")
        done = rollout(Parlour, endpoint, trace=tmp_path / "t.jsonl", progress=False)
    assert f"Authorization: Bearer {KEY}" in server.headers[0]
    assert done[0].calls[0].reply["echo"] == "you sent ***"
    assert KEY not in (tmp_path / "t.jsonl").read_text() + repr(done[0].calls) + repr(endpoint) + repr(vars(done[0]))


def test_a_key_is_not_sent_without_tls_to_another_machine(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(PlanError, match="http would show the key in OPENAI_API_KEY"):
        ModelEndpoint("toy", "http://gpu.example:8000/v1")
    ModelEndpoint("toy", "http://gpu.example:8000/v1", insecure=True)
    ModelEndpoint("toy", "http://gpu.example:8000/v1", api_key_env=None)


def test_a_limit_of_requests_spaces_them():
    async def several(url):
        endpoint = ModelEndpoint("toy", url, requests_per_minute=1200)
        calls = await asyncio.gather(*(endpoint.chat([{"role": "user", "content": "hi"}]) for _ in range(5)))
        await endpoint.close()
        return sorted(call.began_s for call in calls)

    with model_server(lambda request: reply("x")) as server:
        began = asyncio.run(several(server.url))
    assert began[-1] - began[0] >= 4 * 0.05 - 0.02


def test_a_cut_off_reply_is_a_failure_unless_it_may_be_graded():
    with model_server(lambda request: reply("Tea, please", finish="length")) as server:
        endpoint = ModelEndpoint("toy", server.url)
        (failed,) = rollout(Parlour, endpoint, progress=False)
        (graded,) = rollout(Parlour, endpoint, progress=False, cut_off="grade")
        with pytest.raises(ModelReplyCutOff):
            asyncio.run(endpoint.complete("hi"))
    assert (failed.error.code, failed.error.where, failed.total_return) == ("MODEL_REPLY_CUT_OFF", "policy", None)
    assert "Raise max_tokens" in failed.error.message and not failed.cut_off
    assert (graded.total_return, graded.cut_off) == (1.0, True)


def test_an_endpoint_is_a_judge_too():
    with model_server(lambda request: reply("Score: 0.25")) as server:
        judge = LLMJudge("Rate {action}.", ModelEndpoint("toy", server.url))
        assert asyncio.run(judge("x", None)) == 0.25
    assert server.requests[0]["messages"] == [{"role": "user", "content": "Rate x."}]


def play_guess(request):
    """Halve the range, with a reason for each call that must come back in the next request."""
    words = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    low, high, number = 1, 10, 5
    for word in words:
        low, high = (number + 1, high) if word == "Higher." else (low, number - 1)
        number = (low + high) // 2
    message = {"reasoning_content": f"between {low} and {high}", "refusal": None}
    ids = {"token_ids": [number, 0], "prompt_token_ids": [1, *range(len(words))]}
    return reply(calls=[("guess", {"number": number})], message=message, choice=ids, usage={"completion_tokens": 2})


def test_reasoning_goes_back_and_a_trace_loads_as_it_was_played(tmp_path):
    with model_server(play_guess) as server:
        endpoint = ModelEndpoint("toy", server.url, temperature=1.0)
        done = rollout(Guess, endpoint, "test", attempts=2, trace=tmp_path / "t.jsonl", progress=False)
    assert [one.total_return for one in done] == [1.0] * 6
    several = next(one for one in done if one.turns > 1)
    second = several.calls[1].request["messages"]
    assert second[1]["reasoning_content"] == "between 1 and 10" and "refusal" not in second[1]
    assert [call.turn for call in several.calls] == list(range(several.turns))
    loaded = Rollouts.load(tmp_path / "t.jsonl")
    for one, other in zip(done, loaded, strict=True):
        for name in ("place", "name", "task", "attempt", "seed", "rewards", "turns", "messages", "ended", "error"):
            assert getattr(one, name) == getattr(other, name), name
        assert [(c.request, c.reply, c.error, c.turn) for c in one.calls] == [
            (c.request, c.reply, c.error, c.turn) for c in other.calls
        ]
    assert loaded[0].calls[0].completion_ids == done[0].calls[0].reply["choices"][0]["token_ids"]


def test_a_call_in_a_trace_has_only_the_messages_that_are_new(tmp_path):
    with model_server(play_guess) as server:
        rollout(Guess, ModelEndpoint("toy", server.url), 8, trace=tmp_path / "t.jsonl", progress=False)
    calls = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines() if '"type":"call"' in line]
    later = [call for call in calls if call.get("turn")]
    assert later and all(len(call["messages"]) == 2 and "tools" in call["same"] for call in later)


@pytest.mark.parametrize("change", [{"kept": 9}, {"kept": -1}, {"same": ["tools"]}, {"kept": "1"}, {"request": 3}])
def test_a_call_that_repeats_what_was_not_there_is_refused(tmp_path, change):
    path = tmp_path / "t.jsonl"
    with model_server(play_guess) as server:
        rollout(Guess, ModelEndpoint("toy", server.url), 1, trace=path, progress=False)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    first = next(line for line in lines if line["type"] == "call")
    first.update(change)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(Exception, match="line 3") as caught:
        list(TraceReader(path))
    assert caught.value.code == "INVALID_TRACE"
