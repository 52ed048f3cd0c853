"""Calls of OpenEnv's rubrics, clients for models, evals, harness and tools; what they return, as plain records.

Run with the real package and with ours. Only OpenEnv's names are used, so it does not know which one it speaks with.
"""

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

ROOMS = {}


def room(function):
    ROOMS[function.__name__] = function
    return function


def records():
    return {name: [plain(one) for one in play()] for name, play in ROOMS.items()}


def plain(value):
    """As data that can be compared after a journey as JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    elif hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    return json.loads(json.dumps(value, default=repr))


def attempt(call, kind, *, words=True):
    """The text of the error that the call should raise; only that it did, where the texts are each package's own."""
    try:
        return ["no error", call()]
    except kind as error:
        return [kind.__name__, str(error.args[0]).rstrip(".") if words else ""]


# ── Rubrics ──


def make_rubrics():
    from openenv.core.rubrics import Rubric

    class Fixed(Rubric):
        def __init__(self, score):
            super().__init__()
            self.score = score

        def forward(self, action, observation):
            return self.score

    class Slow(Fixed):
        async def forward(self, action, observation):
            await asyncio.sleep(0)
            return self.score

    return Fixed, Slow


@room
def rubrics():
    from openenv.core.rubrics import Gate, RubricDict, RubricList, Sequential, WeightedSum

    Fixed, Slow = make_rubrics()
    for kind in (Fixed, Slow):
        for rubric in (
            Sequential(),
            Sequential(kind(0.5), Fixed(0.25)),
            Sequential(Fixed(0.5), kind(0.0), Fixed(1.0)),
            Gate(kind(0.5), threshold=0.5),
            Gate(kind(0.4), threshold=0.5),
            WeightedSum([kind(1.0), Fixed(0.5)], [0.75, 0.25]),
            WeightedSum([Gate(kind(1.0)), Sequential(kind(0.5))], [0.5, 0.5]),
        ):
            log = []
            rubric.register_forward_pre_hook(lambda rubric, action, observation, log=log: log.append("before"))
            rubric.register_forward_hook(lambda rubric, action, observation, score, log=log: log.append(score))
            if kind is Fixed:
                yield [rubric("a", "o"), rubric.last_score, log]

            async def ask(rubric=rubric):
                score = rubric("a", "o")
                return await score if hasattr(score, "__await__") else score

            yield [asyncio.run(ask()), rubric.last_score, log]
            yield [[name for name, _ in rubric.named_rubrics()], len(list(rubric.children()))]
    yield attempt(lambda: WeightedSum([Fixed(1)], [0.5, 0.5]), ValueError)
    yield attempt(lambda: Sequential(Fixed(1)).get_rubric("no.such"), KeyError, words=False)
    yield attempt(lambda: RubricList([Fixed(1)])("a", "o"), NotImplementedError, words=False)
    yield attempt(lambda: RubricDict({"a": Fixed(1)})("a", "o"), NotImplementedError, words=False)
    games = RubricDict({"pong": Fixed(0.5)})
    games.update({"chess": Fixed(1.0)})
    yield [list(games.keys()), "pong" in games, len(games), games["chess"]("a", "o"), games.pong.score]


@room
def awaited_sequential():
    """A coroutine in OpenEnv, a number in paddock.agentic: awaiting it works in both."""
    from openenv.core.rubrics import Sequential

    Fixed, _ = make_rubrics()

    async def ask():
        return [await Sequential(Fixed(0.5))("a", "o"), await Sequential()("a", "o")]

    yield asyncio.run(ask())


@room
def trajectories():
    from openenv.core.rubrics import ExponentialDiscountingTrajectoryRubric

    class Won(ExponentialDiscountingTrajectoryRubric):
        def score_trajectory(self, trajectory):
            return float(trajectory[-1][0] == "win")

    rubric = Won(gamma=0.5, intermediate_reward=0.1)
    yield rubric.compute_step_rewards()
    yield [rubric(move, SimpleNamespace(done=move == "win")) for move in ("a", "b", "win")]
    yield [rubric.compute_step_rewards(), len(rubric.trajectory), rubric.state_dict()]
    rubric.reset()
    rubric.load_state_dict({"gamma": 1.0})
    yield [rubric.trajectory, rubric.gamma, attempt(lambda: Won(gamma=1.5), ValueError)]


@room
def judges():
    from openenv.core.llm_client import LLMClient
    from openenv.core.rubrics.llm_judge import LLMJudge

    class Scripted(LLMClient):
        def __init__(self, reply):
            super().__init__("http://model", 80)
            self.reply, self.prompts = reply, []

        async def complete(self, prompt, **kwargs):
            self.prompts.append(prompt)
            return self.reply

    for reply, options in (
        ("Score: 0.75!", {}),
        ("7 of 10", {}),
        ("7 of 10", {"normalize": False}),
        ("none", {"default_score": 0.5}),
        ("<s>0.3</s> 0.9", {"score_pattern": r"<s>([\d.]+)"}),
    ):
        client = Scripted(reply)
        judge = LLMJudge("{action} and {observation}", client, **options)
        yield [asyncio.run(judge("act", "saw")), client.prompts, judge.state_dict()["normalize"]]
    judge.load_state_dict({"default_score": 0.125, "prompt_template": "{action}"})
    yield [judge.state_dict()["default_score"], judge.prompt_template]


# ── Types and functions of the server ──


@room
def serialization():
    from openenv.core.env_server.interfaces import Message
    from openenv.core.env_server.mcp_types import CallToolAction
    from openenv.core.env_server.serialization import deserialize_action_with_preprocessing as read
    from openenv.core.env_server.types import Action
    from pydantic import BaseModel

    class Move(Action):
        action_id: int = 0
        tokens: list = []
        type: str = ""
        arguments: str = ""

    class Chat(BaseModel):
        messages: list[Message]

    for data, cls in (
        ({"action_id": "3"}, Move),
        ({"action_id": 3, "tokens": "[1, 2]"}, Move),
        ({"tokens": "no list"}, Move),
        ({"tokens": [1]}, Move),
        ({"type": "call_tool", "arguments": '{"a": 1}'}, Move),
        ({"type": "call_tool", "tool_name": "t", "arguments": '{"a": 1}'}, CallToolAction),
        ({"type": "list_tools"}, Action),
    ):
        action = read(data, cls)
        yield [type(action).__name__, action]
    yield attempt(lambda: read({"action_id": "x"}, Move), ValueError, words=False)
    yield attempt(
        lambda: read({"type": "call_tool", "tool_name": "t", "arguments": "x"}, Action), ValueError, words=False
    )
    yield Chat(messages=[{"role": "user", "content": "hi"}])
    yield attempt(lambda: Chat(messages=[{"role": "user"}]), ValueError, words=False)


@room
def small_things():
    from openenv.core.env_server.route_config import GetEndpointConfig
    from openenv.core.utils import convert_to_ws_url, hf_space_subdomain, run_async_safely

    async def inside():
        return run_async_safely(asyncio.sleep(0, "inside"))

    yield [convert_to_ws_url(url) for url in ("http://a/", "https://a:1/b/", "ws://a", "wss://a", "a:80")]
    yield [hf_space_subdomain("openenv/Echo_Env.x"), run_async_safely(asyncio.sleep(0, 1)), asyncio.run(inside())]
    yield GetEndpointConfig("/x", int, dict, "tag", "summary", "description")


@room
def metadata():
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.web_interface import load_environment_metadata

    class Plain(Environment):
        def reset(self, seed=None, episode_id=None, **kwargs): ...
        def step(self, action, timeout_s=None, **kwargs): ...
        def state(self): ...

    def factory():
        raise AssertionError("never called")

    for env in (Plain(), Plain, factory, partial(factory)):
        yield [load_environment_metadata(env), load_environment_metadata(env, "named")]
    with tempfile.NamedTemporaryFile("w", suffix=".md") as readme:
        readme.write("# Hello")
        readme.flush()
        os.environ["ENV_README_PATH"] = readme.name
        yield load_environment_metadata(Plain)
        del os.environ["ENV_README_PATH"]


# ── Models ──


class FakeSDK:
    """Stands for AsyncOpenAI and AsyncAnthropic: keeps what it is called with."""

    calls = []

    def __init__(self, **options):
        self.calls.append(options)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.openai))
        self.messages = SimpleNamespace(create=self.anthropic)

    async def openai(self, **options):
        self.calls.append(options)
        function = SimpleNamespace(name="look", arguments='{"at": 1}')
        calls = [SimpleNamespace(id="c1", function=function)] if "tools" in options else None
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=None, tool_calls=calls))])

    async def anthropic(self, **options):
        self.calls.append(options)
        text = SimpleNamespace(type="text", text="yes")
        use = SimpleNamespace(type="tool_use", id="c1", name="look", input={"at": 1})
        return SimpleNamespace(content=[text, use, text])


@room
def models():
    from openenv.core import llm_client

    llm_client.AsyncOpenAI = FakeSDK
    sys.modules["anthropic"] = SimpleNamespace(AsyncAnthropic=FakeSDK)
    tools = [
        {"name": "look", "description": "d", "inputSchema": {"properties": {"at": {"type": "integer"}}}},
        {"name": "bare"},
        {"name": "one", "inputSchema": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["x"]}]}},
        {"name": "none", "inputSchema": {"anyOf": [{"type": "string"}]}},
        {
            "name": "all",
            "inputSchema": {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}, "required": ["b"]}]},
        },
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "tool", "tool_call_id": "c2", "content": "more"},
        {"role": "system", "content": "and brief"},
        {"role": "assistant", "content": "done"},
    ]
    clients = [
        llm_client.OpenAIClient("http://localhost", 8000, "m", system_prompt="s"),
        llm_client.OpenAIClient("http://localhost:9/openai/v1/", None, "m", "key", None, 0.5, 9, True),
        llm_client.AnthropicClient("https://host", 443, "m", api_key="k", system_prompt="s"),
        llm_client.create_llm_client("OpenAI", "o3-mini", "k"),
        llm_client.create_llm_client("anthropic", "claude", "k", max_tokens=5),
    ]
    for client in clients:
        yield [client.base_url, client.model, client.temperature, client.max_tokens]
        yield asyncio.run(client.complete("prompt", temperature=0.9))
        yield asyncio.run(client.complete_with_tools(messages, tools, max_tokens=3))
        yield asyncio.run(client.complete_with_tools(messages, []))
    yield FakeSDK.calls
    yield llm_client.LLMResponse("t", [llm_client.ToolCall("c", "n", {"a": 1})]).to_message_dict()
    yield llm_client.LLMResponse("t").to_message_dict()
    yield attempt(lambda: llm_client.create_llm_client("other", "m", "k"), ValueError)
    for endpoint, port in (("ftp://h", 1), ("http://", 1), ("http://h?q=1", 1), ("http://h:", 1), ("http://h", 70000)):
        yield attempt(partial(llm_client.OpenAIClient, endpoint, port, "m"), ValueError)
    yield attempt(lambda: llm_client.OpenAIClient("http://u:secret@h", 1, "m"), ValueError)[1].split(":", 2)[0]
    yield attempt(lambda: llm_client.OpenAIClient("http://h:8", 9, "m"), ValueError)[1][:50]


@room
def evaluations():
    from openenv.core.evals import EvalConfig, EvalHarness, InspectAIHarness

    class Own(EvalHarness):
        def run(self, harness_version, library_versions, dataset, eval_parameters):
            return {"said": [harness_version, library_versions, dataset, eval_parameters]}

    config = EvalConfig(
        harness_name="h", harness_version="1", library_versions={"a": "2"}, dataset="d", eval_parameters={"model": "m"}
    )
    yield [Own().run_from_config(config), Own().name]
    calls, logs = [], []
    sys.modules["inspect_ai"] = SimpleNamespace(eval=lambda *args, **kwargs: calls.append([args, kwargs]) or logs)
    run = InspectAIHarness(log_dir="logs").run
    options = {"model": "m", "task": "t", "task_args": {}, "model_args": {"a": 1}, "epochs": 2, "solver": None}
    yield attempt(lambda: run("1", {}, "d", options), RuntimeError, words=False)
    scores = [SimpleNamespace(metrics={"acc": SimpleNamespace(value=0.5)}), SimpleNamespace(metrics={})]
    for log in (
        SimpleNamespace(status="error", results=None),
        SimpleNamespace(status="success", results=None),
        SimpleNamespace(status="success", results=SimpleNamespace(scores=scores)),
    ):
        logs[:] = [log]
        yield attempt(lambda: InspectAIHarness().run("1", {}, "d", {"model": "m"}), RuntimeError)
    yield attempt(lambda: run("1", {}, "d", {}), ValueError, words=False)
    yield calls


# ── Harness ──


class CountingClient:
    """A client whose episode ends at three."""

    def __init__(self):
        self.total, self.log = 0, []

    def reset(self, **kwargs):
        from openenv.core.client_types import StepResult

        self.log.append(kwargs)
        return StepResult({"total": 0}, reward=0.0)

    def step(self, action):
        from openenv.core.client_types import StepResult

        self.total += action["by"]
        return StepResult({"total": self.total}, reward=float(self.total), done=self.total >= 3)

    def state(self):
        from openenv.core.env_server.types import State

        return State(episode_id="e", step_count=self.total)

    def close(self):
        self.log.append("closed")


def make_session(client, **options):
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.harness import StepEnvSessionAdapter

    options.setdefault("tool_specs", [Tool(name="add", description="adds", input_schema={})])
    return StepEnvSessionAdapter(
        client,
        task="count",
        action_builder=lambda name, arguments: {"by": int(arguments["by"])},
        initial_messages_builder=lambda result, task: [
            {"role": "user", "content": f"{task} from {result.observation}"}
        ],
        **options,
    )


def script(*turns):
    """A model that says these: each a list of amounts to add."""
    from openenv.core.harness import ModelStepResult
    from openenv.core.llm_client import LLMResponse, ToolCall

    left = list(turns)

    def step(messages, tools, sampling):
        calls = [ToolCall(f"c{at}", "add", {"by": by}) for at, by in enumerate(left.pop(0))]
        return ModelStepResult(LLMResponse(f"{len(messages)} {len(tools)} {sampling}", calls), [1], [2], [-0.5])

    return step


@room
def sessions():
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.harness import SessionMCPBridge

    client = CountingClient()
    session = make_session(client, seed=3, episode_id="e", reset_kwargs={"seed": 4, "level": 1})
    yield [session.initial_messages(), session.list_tools(), session.verify([])]
    yield [session.call_tool("add", {"by": 1}), session.verify([{}], None)]
    yield attempt(lambda: session.call_tool("other", {}), KeyError)
    yield attempt(lambda: session.call_tool("reset", {}), KeyError)
    bridge = SessionMCPBridge(session)
    for request in (
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"by": 2}}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {}},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "close"}},
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "other"}},
        {"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "add", "arguments": {"by": "x"}}},
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "add", "arguments": {"by": []}}},
        {"jsonrpc": "2.0", "id": 8, "method": "other"},
        {"id": 9, "method": "tools/list"},
    ):
        yield bridge.handle_request(request)
    session.close()
    session.close()
    yield client.log
    reserved = [Tool(name="step", description="", input_schema={})]
    yield attempt(lambda: make_session(CountingClient(), tool_specs=reserved), ValueError)


@room
def rollouts():
    from openenv.core import harness

    adapter = harness.MCPHarnessAdapter()
    for turns, limits in (
        ([[1], [1, 1], [5]], None),
        ([[1], []], None),
        ([[1, 1, 1]], harness.HarnessRunLimits(max_total_tool_calls=2)),
        ([[1, 1], [1, 1]], harness.HarnessRunLimits(max_turns=2, max_tool_calls_per_turn=1, sampling={"t": 1})),
    ):
        yield adapter.run_white_box(script(*turns), make_session(CountingClient()), limits)
    yield attempt(lambda: adapter.run_black_box(None), NotImplementedError, words=False)

    def runner(bridge, session, limits):
        return harness.HarnessRolloutResult(done=True, metrics={"turns": limits.max_turns})

    black = harness.CLIHarnessAdapter(runner)
    yield black.run_black_box(make_session(CountingClient()))
    yield attempt(lambda: black.run_white_box(None, None), NotImplementedError, words=False)
    factory = SimpleNamespace(create=lambda task: make_session(CountingClient()))
    rollout = harness.build_harness_rollout_func(
        session_factory=factory, harness_adapter=adapter, model_step_builder=lambda trainer, session: script([1], [2])
    )
    yield [rollout(["a", "b"], None), rollout([], None)]
    from openenv.core.harness.rollout import _resolve_env_reward

    nothing = harness.HarnessRolloutResult()
    yield attempt(lambda: _resolve_env_reward(nothing, harness.VerifyResult()), ValueError)
    yield _resolve_env_reward(nothing, harness.VerifyResult(env_reward=2))
    stepped = harness.HarnessRolloutResult(
        tool_trace=[harness.ToolTraceEntry("t", {}, harness.ToolResult({"reward": 1}))]
    )
    yield attempt(lambda: _resolve_env_reward(stepped, harness.VerifyResult(env_reward=2)), ValueError)


@room
def training_traces():
    from openenv.core.harness import LoopOwningSession, TrainableSession, TrainingTrace, TrainingTurn

    good = {
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3],
        "per_token_logps": [-0.5],
        "loss_mask": [0, 0, 1],
        "metadata": {"node_id": "a", "more": 1},
    }
    trace = TrainingTrace.from_entries([good])
    yield [trace, trace.to_trace_entries()]
    yield attempt(lambda: TrainingTrace.from_entries([good, good]), ValueError, words=False)
    for wrong in (
        {"per_token_logps": [0.5]},
        {"per_token_logps": []},
        {"loss_mask": [0, 1, 1]},
        {"loss_mask": [0, 0]},
        {"loss_mask": [0, 0, 2]},
        {"prompt_token_ids": [], "loss_mask": [1]},
        {"completion_token_ids": [-3]},
        {"per_token_logps": [float("nan")]},
    ):
        turn = {**good, **wrong, "node_id": "a"}
        yield attempt(lambda turn=turn: TrainingTurn(**turn), ValueError, words=False)
    owner = SimpleNamespace(wait_for_completion=1, fetch_proxy_trace=2)
    yield [isinstance(owner, LoopOwningSession), isinstance(owner, TrainableSession)]


@room
def tool_names():
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.harness import resolve_tool_conflicts

    def tools(*names):
        return [Tool(name=name, description="", input_schema={}) for name in names]

    yield resolve_tool_conflicts(tools("a", "b"), {"a"})
    for names, builtin in ((("reset",), ()), (("a", "a"), ()), (("a", "env_a"), ("a",)), (("a",), ("a", "env_a"))):
        yield attempt(partial(resolve_tool_conflicts, tools(*names), builtin), ValueError)


PROGRAM = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print("told", file=sys.stderr, flush=True)
    print("got " + line.strip(), flush=True)
"""


@room
def processes():
    from openenv.core.harness import HarnessError, HarnessNotRunningError, HarnessProcess, HarnessStartupError

    async def play():
        process = HarnessProcess([sys.executable, "-c", PROGRAM], cwd="/", env_vars={"A": "b"})
        yield [process.is_running(), await process.read_line(timeout_s=0.01)]
        await process.start(ready_check=lambda line: line == "ready")
        with suppress(HarnessStartupError):
            await process.start()
            yield "started twice"
        await process.write_line("one")
        yield [process.is_running(), await process.read_line(timeout_s=20), await process.read_line(timeout_s=0.05)]
        await process.stop()
        await process.stop()
        yield [process.is_running(), process.drain_stderr().strip(), issubclass(HarnessStartupError, HarnessError)]
        try:
            await process.write_line("two")
        except HarnessNotRunningError as error:
            yield str(error)
        for command in (["/no/such/program"], [sys.executable, "-c", "raise SystemExit(3)"]):
            try:
                await HarnessProcess(command, cwd="/").start(ready_check=bool)
            except HarnessStartupError as error:
                yield str(error).split(":")[0]

    async def collect():
        return [one async for one in play()]

    yield from asyncio.run(collect())


@room
def harness_environments():
    from openenv.core.env_server.types import Action
    from openenv.core.harness import (
        AgenticHarnessAdapter,
        HarnessAction,
        HarnessConfig,
        HarnessEnvironment,
        HarnessError,
        HarnessEvent,
        HarnessNotRunningError,
        HarnessTurnTimeoutError,
    )
    from openenv.core.rubrics import Rubric

    class Scripted(AgenticHarnessAdapter):
        def __init__(self):
            super().__init__(HarnessConfig(name="s", command=["x"], working_directory="/w", session_timeout_s=5))
            self.log, self.alive, self.count = [], False, 0

        async def start(self, working_directory):
            self.log.append(f"start {working_directory}")
            self.alive = True

        async def stop(self):
            self.log.append("stop")
            self.alive = False

        async def inject_tools(self, tools, bridge_url=None):
            self.log.append([tools, bridge_url])

        async def is_alive(self):
            return self.alive

        async def send_message_streaming(self, message):
            self.count += 1
            if message in ("crash", "late"):
                raise {"crash": HarnessError, "late": HarnessTurnTimeoutError}[message](message)
            if message == "hang":
                await asyncio.sleep(60)
            yield HarnessEvent(type="text_output", timestamp=1.0, data={"text": message})
            if message != "cut":
                yield HarnessEvent(
                    type="turn_complete", timestamp=2.0, data={"response": message.upper(), "done": message == "bye"}
                )

    def observe(observation):
        data = plain(observation)
        for event in data["metadata"].get("turn_events", ()):
            event.pop("timestamp")
        return data

    class Length(Rubric):
        def forward(self, action, observation):
            return float(len(action.message))

    adapter = Scripted()
    env = HarnessEnvironment(adapter, rubric=Length())
    yield attempt(lambda: env.step(HarnessAction(message="early")), HarnessNotRunningError)
    yield observe(env.reset(episode_id="e"))
    yield [observe(env.step(HarnessAction(message=text))) for text in ("hi", "bye")]
    yield [env.state, len(env.trajectory)]
    yield attempt(lambda: env.step(Action()), TypeError)
    for message, seconds in (("crash", None), ("late", None), ("cut", None), ("hang", 0.05)):
        env.reset(episode_id="e")
        yield observe(env.step(HarnessAction(message=message), timeout_s=seconds))
        yield attempt(lambda: env.step(HarnessAction(message="after")), HarnessNotRunningError)
    env.reset(episode_id="e")
    adapter.alive = False
    yield observe(env.step(HarnessAction(message="hi")))

    async def turn():
        await env.reset_async(episode_id="f")
        return await env.step_async(HarnessAction(message="async"))

    yield observe(asyncio.run(turn()))
    env.close()
    env.close()
    yield [adapter.alive, [one for one in adapter.log if one != "stop"]]
    yield attempt(lambda: HarnessConfig(name="n", command=[]), ValueError, words=False)


@room
def bridges():
    """Tools of the environment for the agent's program, over a real socket."""
    from fastmcp import Client, FastMCP
    from openenv.core.env_server._utils import overrides_method
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.mcp_environment import get_server_tools
    from openenv.core.harness import (
        AgenticHarnessAdapter,
        HarnessConfig,
        HarnessEnvironment,
        HarnessError,
        HarnessMCPBridge,
        build_bridge_server,
    )

    class Idle(AgenticHarnessAdapter):
        BUILTIN_TOOL_NAMES = frozenset({"look"})
        fails = False

        async def start(self, working_directory):
            if self.fails:
                raise HarnessError("no start")

        async def stop(self): ...

        async def inject_tools(self, tools, bridge_url=None):
            self.tools, self.url = [tool.name for tool in tools], bridge_url

        async def is_alive(self):
            return True

        async def send_message_streaming(self, message):
            yield

    server = FastMCP("tools")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def look(at: str) -> str:
        return f"saw {at}"

    yield sorted(get_server_tools(server))
    bridge = HarnessMCPBridge(server)
    bridge.stop()
    url = bridge.start()
    yield [bridge.url == url == bridge.start(), url.rpartition(":")[0], url.endswith("/mcp")]
    bridge.stop()
    bridge.stop()
    yield bridge.url
    yield asyncio.run(build_bridge_server(server, {})) is server
    yield attempt(lambda: asyncio.run(build_bridge_server(server, {"new": "none"})), HarnessError)

    adapter = Idle(HarnessConfig(name="idle", command=["x"]))
    env = HarnessEnvironment(adapter, mcp=server)
    env._mode = "production"

    @env.tool(mode="production")
    def only_here(x: int) -> int:
        return x

    async def talk():
        begun = await env.reset_async()
        async with Client(adapter.url) as client:
            names = sorted(tool.name for tool in await client.list_tools())
            results = [await client.call_tool("add", {"a": 1, "b": 2}), await client.call_tool("env_look", {"at": "x"})]
        return [sorted(begun.metadata["injected_tools"]), names, [one.content[0].text for one in results]]

    yield asyncio.run(talk())
    yield [
        [plain(tool) for tool in env.step(action_of("list_tools")).tools],
        env.step(action_of("call_tool", tool_name="add", arguments={"a": 1, "b": 1})).error,
    ]
    adapter.fails = True
    yield attempt(env.reset, HarnessError)
    yield [env._bridge.url, overrides_method(env.reset_async, Environment.reset_async)]
    env.close()
    yield env._bridge


def action_of(kind, **fields):
    from openenv.core.env_server.serialization import deserialize_action
    from openenv.core.env_server.types import Action

    return deserialize_action({"type": kind, **fields}, Action)


# ── Tools ──


@room
def git():
    from openenv.core.tools import GitServerClient

    with tempfile.TemporaryDirectory() as folder:
        quiet = {
            "cwd": folder,
            "check": True,
            "capture_output": True,
            "env": {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
        }
        subprocess.run(["git", "init", "-q", "-b", "main", "me/it.git"], **quiet)
        quiet["cwd"] = f"{folder}/me/it.git"
        Path(quiet["cwd"], "file").write_text("1")
        subprocess.run(["git", "add", "."], **quiet)
        commit = ["git", "-c", "user.name=me", "-c", "user.email=me@host", "commit", "-qm", "one"]
        subprocess.run(commit, **quiet)
        client = GitServerClient(f"file://{folder}", "me", "secret", f"{folder}/work")
        yield attempt(lambda: client.clone_to_workspace("it"), RuntimeError)[1][:25]
        client.is_ready = True
        yield [client.domain, client.port, client.workspace_exists("it")]
        yield client.clone_to_workspace("it").removeprefix(folder)
        work = Path(folder, "work", "it")
        work.joinpath("file").write_text("2")
        work.joinpath("new").write_text("3")
        yield [client.workspace_exists("it"), len(client.get_current_commit("it"))]
        yield client.execute_git_command("status --short", "it")
        yield [
            client.reset_workspace("it"),
            client.execute_git_command("status --short", "it"),
            sorted(os.listdir(work)),
        ]
        yield client.execute_git_command("log --format=%s%an", "it")[:2]
        yield [client.execute_git_command("config user.name"), client.execute_git_command("status", "none")[0]]
        yield attempt(lambda: client.reset_workspace("none"), RuntimeError)
        yield attempt(lambda: client.get_current_commit("none"), RuntimeError)
        yield attempt(lambda: client.clone_to_workspace("none"), RuntimeError)[1].split(":")[0]
        yield [client.list_repositories(), client.wait_for_ready(timeout=0)]


if __name__ == "__main__":  # with the real package: write what the tests compare with
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one, sort_keys=True)}" for name, one in records().items())
    Path(__file__).with_name("rooms_0_10.json").write_text(f"{{\n{lines}\n}}\n")
