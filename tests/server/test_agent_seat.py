"""seat(): an agent program plays an episode by MCP and by a proxy of its model. Agents and models here are scripts."""

import asyncio
import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

import paddock
from paddock.agentic import Budget, CallTool, Task, Tasks, ToolEnv, tool
from paddock.agentic.endpoint import ModelEndpoint
from paddock.errors import EpisodeFailed, PlanError
from paddock.record.trace import TraceReader, replay
from tests.agentic.model_server import model_server, reply

KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def post(url, document, **headers):
    """Status, headers and document of an answer; as an agent program would ask, blocking, in its own thread."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text[:1] == b"{" else text
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.loads(error.read())


class Agent:
    """A black box with two URLs: a loop over a chat API whose tools are those of an MCP server."""

    def __init__(self, mcp, openai):
        self.mcp, self.openai, self.number = mcp, openai, 0
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        self.told = self.rpc("initialize", **about)

    def rpc(self, method, **params):
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        status, _, answer = post(self.mcp, request, Accept="application/json, text/event-stream")
        assert status == 200
        return answer.get("result") or answer

    def ask(self, messages, **more):
        request = {"model": "gpt-x", "messages": messages, **more}
        return post(f"{self.openai}/chat/completions", request, Authorization="Bearer whatever")

    def play(self, turns=3):
        functions = [{"name": one["name"], "parameters": one["inputSchema"]} for one in self.rpc("tools/list")["tools"]]
        tools = [{"type": "function", "function": one} for one in functions]
        messages = [{"role": "user", "content": self.told["instructions"]}]
        for _ in range(turns):
            message = self.ask(messages, tools=tools)[2]["choices"][0]["message"]
            messages.append(message)
            for call in message.get("tool_calls", ()):
                name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
                done = self.rpc("tools/call", name=name, arguments=arguments)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": done["content"][0]["text"]})
                if "_meta" in done:
                    return


def parrot(request):
    """A model that echoes the last word of its first message, with token ids as vLLM sends them."""
    word = request["messages"][0]["content"].split()[-1]
    size = len(request["messages"])
    ids = {"prompt_token_ids": list(range(size)), "usage": {"prompt_tokens": size, "completion_tokens": 2}}
    entries = [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]
    choice = {"token_ids": [7, 8], "logprobs": {"content": entries}}
    return reply(calls=[("echo_message", {"message": word})], choice=choice, **ids)


def run(play, target="paddock/Echo", answer=parrot, **kwargs):
    """Seat an agent; the seat after its end, and the server of its model."""

    async def main(url):
        kwargs.setdefault("task", 0)
        async with paddock.seat(target, base_url=url, **kwargs) as seat:
            await asyncio.to_thread(play, seat)
        return seat

    with model_server(answer) as server:
        return asyncio.run(main(server.url)), server


def test_agent_plays_an_episode_and_its_reward_trace_and_tokens_are_there():
    seat, server = run(lambda seat: Agent(seat.mcp_url, seat.model_url).play())
    assert seat.reward == 1.0 and seat.over and seat.error is None
    assert [step.action.tool_name for step in seat.trace.steps] == ["echo_message"]
    assert [call.reply["choices"][0]["finish_reason"] for call in seat.trace.calls] == ["stop"]
    (tokens,) = seat.tokens
    assert (tokens.prompt_ids, tokens.completion_ids, tokens.logprobs) == ([0], [7, 8], [-0.5, -0.25])
    assert seat.rollout.total_return == 1.0 and len(seat.rollout.calls) == 1
    assert (seat.spending.calls, seat.spending.tokens) == (1, 3)
    assert "Echo this" in seat.prompt and seat.tools[0]["function"]["name"] == "echo_message"
    assert server.requests[0]["model"] == "gpt-x"


def test_key_reaches_the_model_and_nothing_else(tmp_path):
    pages = []

    def play(seat):
        agent = Agent(seat.mcp_url, seat.model_url)
        agent.play()
        pages.append(repr(vars(agent)) + seat.mcp_url + seat.model_url + seat.api_key + repr(agent.ask([])))

    def answer(request):
        return parrot(request) if request["messages"] else (401, {}, {"error": {"message": f"bad key {KEY}"}})

    seat, server = run(play, answer=answer, trace=tmp_path / "run.jsonl")
    assert f"Bearer {KEY}" in server.headers[0]
    assert KEY not in pages[0] + (tmp_path / "run.jsonl").read_text() + repr(seat.calls)
    assert "whatever" not in str(server.headers)


def test_trace_is_a_trace_like_any_other_and_plays_again(tmp_path):
    run(lambda seat: Agent(seat.mcp_url, seat.model_url).play(), trace=tmp_path / "run.jsonl", seed=3)
    assert replay(tmp_path / "run.jsonl", paddock.make("paddock/Echo")).same
    (episode,) = TraceReader(tmp_path / "run.jsonl")
    assert episode.task["index"] == 0 and episode.rollout.turns == 1


@pytest.mark.parametrize(("limit", "words"), [({"calls": 1}, "1 calls"), ({"tokens": 3}, "3 tokens")])
def test_budget_is_enforced(limit, words):
    answers = []

    def play(seat):
        agent = Agent(seat.mcp_url, seat.model_url)
        answers.extend(agent.ask([{"role": "user", "content": "a"}]) for _ in range(3))

    _, server = run(play, budget=Budget(**limit))
    assert [status for status, *_ in answers] == [200, 403, 403] and len(server.requests) == 1
    assert words in answers[1][2]["error"]["message"] and answers[1][2]["error"]["code"] == "budget_exceeded"


def test_calls_side_by_side_do_not_get_round_the_budget():
    async def slow(request):
        await asyncio.sleep(0)
        return parrot(request)

    def play(seat):
        agent = Agent(seat.mcp_url, seat.model_url)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: agent.ask([{"role": "user", "content": "a"}])[0], range(8)))
        assert sorted(answers) == [200] + [403] * 7

    _, server = run(play, answer=slow, budget=Budget(calls=1))
    assert len(server.requests) == 1


def test_cost_is_counted_by_prices_and_needs_them():
    async def main(url):
        model = ModelEndpoint("m", url, prices=(1e6, 2e6))
        async with paddock.seat("paddock/Echo", 0, model=model, budget=Budget(money=5.0)) as seat:
            agent = await asyncio.to_thread(Agent, seat.mcp_url, seat.model_url)
            return [(await asyncio.to_thread(agent.ask, [{"role": "user", "content": "a"}]))[0] for _ in range(2)], seat

    with model_server(parrot) as server:
        statuses, seat = asyncio.run(main(server.url))
    assert statuses == [200, 403] and seat.spending.money == 5.0 and server.requests[0]["model"] == "m"
    with pytest.raises(PlanError, match="prices="):
        paddock.seat("paddock/Echo", 0, base_url="http://127.0.0.1:1/v1", budget=Budget(money=1.0))


def test_time_of_the_seat_ends_model_and_tools():
    def play(seat):
        agent = Agent(seat.mcp_url, seat.model_url)
        seat.budget = Budget(seconds=1e-9)
        assert agent.ask([])[0] == 403
        assert agent.rpc("tools/call", name="echo_message", arguments={"message": "a"})["isError"]

    assert run(play)[0].reward == 0.0


def test_only_who_knows_the_secret_gets_in_and_only_while_the_seat_is_open():
    urls = []

    def play(seat):
        urls.append(seat.mcp_url)
        wrong = seat.mcp_url.replace(seat.api_key, "x" * len(seat.api_key))
        for url in (wrong, wrong.replace("/mcp", "/v1/chat/completions"), seat.mcp_url.rsplit("/", 2)[0] + "/mcp"):
            assert post(url, {})[0] == 404
        assert seat.mcp_url.startswith("http://127.0.0.1:")

    run(play)
    with pytest.raises(OSError):
        post(urls[0], {})


def test_streams_are_answered_as_streams():
    def play(seat):
        status, headers, text = Agent(seat.mcp_url, seat.model_url).ask([{"role": "user", "content": "a"}], stream=True)
        assert status == 200 and headers["content-type"] == "text/event-stream"
        first, done = [line for line in text.decode().split("\n") if line]
        chunk = json.loads(first.removeprefix("data: "))
        assert done == "data: [DONE]" and chunk["object"] == "chat.completion.chunk"
        assert chunk["choices"][0]["delta"]["tool_calls"][0]["index"] == 0

    _, server = run(play)
    assert "stream" not in server.requests[0]


def test_model_that_fails_is_an_error_of_the_api_and_is_recorded():
    answers = []

    def play(seat):
        answers.append(Agent(seat.mcp_url, seat.model_url).ask([{"role": "user", "content": "a"}]))

    seat, _ = run(play, answer=lambda request: (400, {}, {"error": {"message": "context too long"}}))
    assert answers[0][0] == 400 and answers[0][2]["error"]["message"] == "context too long"
    assert seat.trace.calls[0].error[0] == "MODEL_CALL_FAILED" and seat.spending.calls == 1


def test_mistakes_of_the_agent_are_answered(capsys):
    def play(seat):
        agent = Agent(seat.mcp_url, seat.model_url)
        unknown = agent.rpc("tools/call", name="nope", arguments={})
        assert unknown["isError"] and "there is no tool 'nope'" in unknown["content"][0]["text"]
        assert agent.rpc("prompts/list")["error"]["code"] == -32601
        assert post(seat.mcp_url, b"{", Accept="*/*")[0] == 400
        assert post(f"{seat.model_url}/chat/completions", b"[]")[0] == 400
        assert post(f"{seat.model_url}/responses", {})[0] == 404
        agent.rpc("tools/call", name="echo_message", arguments={"message": "a"})
        assert agent.rpc("tools/call", name="echo_message", arguments={"message": "a"})["isError"]  # it is over

    assert run(play)[0].reward == 1.0


class Fragile(ToolEnv):
    """Breaks."""

    tasks = Tasks(train=[Task(prompt="Go.")])

    @tool(on_error="end")
    def crash(self) -> str:
        """Crash."""
        raise OSError("/secret")

    def listen(self, text):
        self.award(2.0)
        self.finish()


@pytest.fixture
def fragile(fresh_registry):
    paddock.register("test/Fragile-v0", Fragile)
    return "test/Fragile-v0"


def test_environment_that_fails_gives_no_reward(fragile):
    def play(seat):
        agent = Agent(seat.mcp_url, seat.model_url)
        answer = agent.rpc("tools/call", name="crash", arguments={})
        assert "error" in answer and "secret" not in str(answer)

    seat, _ = run(play, target=fragile)
    assert seat.reward is None and seat.error.code == EpisodeFailed.code
    assert seat.trace.error is not None and seat.rollout.total_return is None


def test_agent_that_fails_gives_no_reward():
    def play(seat):
        raise RuntimeError("the agent crashed")

    async def main():
        seat = paddock.seat("paddock/Echo", 0, base_url="http://127.0.0.1:1/v1")
        with pytest.raises(RuntimeError):
            async with seat:
                play(seat)
        return seat

    seat = asyncio.run(main())
    assert seat.reward is None and seat.error.where == "policy" and seat.trace.error.code == "RuntimeError"


def test_last_words_are_a_step(fragile):
    async def main():
        async with paddock.seat(fragile, base_url="http://127.0.0.1:1/v1") as seat:
            assert await seat.say("done") == 2.0
        return seat

    assert asyncio.run(main()).reward == 2.0


def test_environment_without_tools_is_refused():
    async def main():
        async with paddock.seat("CartPole-v1", base_url="http://127.0.0.1:1/v1"):
            raise AssertionError

    with pytest.raises(PlanError, match="has no tools"):
        asyncio.run(main())


@pytest.mark.process
def test_seat_in_an_environment_behind_the_wall():
    seat, _ = run(lambda seat: Agent(seat.mcp_url, seat.model_url).play(), isolation="sandbox")
    assert seat.reward == 1.0 and seat.trace.steps[0].action == CallTool("echo_message", {"message": "a"})


def test_many_seats_at_once():
    async def main(url):
        async def one(index):
            async with paddock.seat("paddock/Echo", ("train", index), base_url=url) as seat:
                agent = await asyncio.to_thread(Agent, seat.mcp_url, seat.model_url)
                await asyncio.to_thread(agent.play)
            return seat.reward

        return await asyncio.gather(*map(one, range(8)))

    with model_server(parrot) as server:
        assert asyncio.run(main(server.url)) == [1.0] * 8
