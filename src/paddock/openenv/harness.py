"""OpenEnv's rollouts by a harness: a session has tools, a harness plays an episode with them, the session verifies it.

A reward comes from the environment alone: ``verify`` may pass it on, never make one. Everything runs in the caller's
thread, one episode after another; ``paddock.agentic.rollout`` plays many at once.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypedDict, TypeVar, runtime_checkable

from paddock.openenv.client import StepResult
from paddock.openenv.llm_client import LLMResponse
from paddock.openenv.types import (
    RESERVED_TOOL_NAMES,
    BaseModel,
    ConfigDict,
    Field,
    JsonRpcErrorCode,
    JsonRpcResponse,
    State,
    Tool,
    model_validator,
)
from paddock.server import seat as seat
from paddock.server.agent_seat import Seat as Seat  # a harness of OpenEnv's is an agent program: this seats any

Message = dict[str, Any]


@dataclass
class ToolResult:
    """What a call of a tool gave."""

    data: Any = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass
class VerifyResult:
    """What a session says of a rollout at its end. ``env_reward`` is the environment's own reward."""

    env_reward: float | None = None
    done: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, Any] = field(default_factory=dict)


@dataclass
class RolloutEvent:
    """Something that happened in a rollout."""

    type: str
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass
class ToolTraceEntry:
    """A call of a tool, with its result."""

    tool_name: str
    arguments: dict[str, Any]
    result: ToolResult


@dataclass
class ModelStepResult:
    """What the model answered, with the tokens if the caller samples itself."""

    response: LLMResponse
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass
class HarnessRolloutResult:
    """A whole rollout."""

    messages: list[Message] = field(default_factory=list)
    tool_trace: list[ToolTraceEntry] = field(default_factory=list)
    events: list[RolloutEvent] = field(default_factory=list)
    done: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass
class HarnessRunLimits:
    """How long a rollout may be; ``sampling`` goes on to the model."""

    max_turns: int = 10
    max_tool_calls_per_turn: int | None = None
    max_total_tool_calls: int | None = None
    sampling: dict[str, Any] = field(default_factory=dict)


class ModelStep(Protocol):
    """Samples the model once."""

    def __call__(self, messages: list[Message], tools: list[Tool], sampling: dict[str, Any]) -> ModelStepResult: ...


class TraceEntry(TypedDict, total=False):
    """One call of a model, as a trace of it has it. Any key may be missing; a reward of None means: not scored."""

    request: dict[str, Any]
    response: dict[str, Any]
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    completion_tokens: list[str]
    per_token_logps: list[float]
    loss_mask: list[int]
    reward: float | None
    metadata: dict[str, Any]


class TrainingTurn(BaseModel):
    """One call of a model, for a trainer. ``loss_mask`` covers the prompt, which is never trained on, and the rest."""

    model_config = ConfigDict(strict=True, extra="forbid")

    node_id: str = Field(min_length=1)
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    per_token_logps: list[float]
    loss_mask: list[int]
    request: dict[str, Any] = Field(default_factory=dict)
    response: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def validate_capture(self) -> TrainingTurn:
        prompt, sampled, logps, mask = (
            self.prompt_token_ids,
            self.completion_token_ids,
            self.per_token_logps,
            self.loss_mask,
        )
        faults = {
            "no prompt_token_ids": not prompt,
            "token ids must be non-negative integers": any(token < 0 for token in (*prompt, *sampled)),
            "logprobs must be finite numbers": not all(map(math.isfinite, logps)),
            "logprobs must not be positive": any(logp > 0 for logp in logps),
            f"{len(logps)} logprobs vs {len(sampled)} sampled ids": len(logps) != len(sampled),
            "loss_mask must cover prompt plus completion": len(mask) != len(prompt) + len(sampled),
            "loss_mask must contain only integer 0 or 1": not set(mask) <= {0, 1},
            "prompt tokens must remain context": any(mask[: len(prompt)]),
        }
        if any(faults.values()):
            raise ValueError("invalid training turn: " + "; ".join(text for text, wrong in faults.items() if wrong))
        return self


class TrainingTrace(BaseModel):
    """The calls of a rollout that belong to the agent, each with a ``node_id`` of its own."""

    model_config = ConfigDict(strict=True, extra="forbid")

    schema_version: Literal[1] = 1
    turns: list[TrainingTurn]

    @model_validator(mode="after")
    def unique_calls(self) -> TrainingTrace:
        if len({turn.node_id for turn in self.turns}) != len(self.turns):
            raise ValueError("training trace contains duplicate node_ids")
        return self

    @classmethod
    def from_entries(cls, entries: list[dict[str, Any]]) -> TrainingTrace:
        """Read entries as ``to_trace_entries`` writes them."""
        fields = set(TrainingTurn.model_fields)
        return cls(
            turns=[
                TrainingTurn(
                    node_id=one["metadata"]["node_id"],
                    **{name: value for name, value in one.items() if name in fields - {"node_id"}},
                )
                for one in entries
            ]
        )

    def to_trace_entries(self) -> list[dict[str, Any]]:
        return [
            {**turn.model_dump(exclude={"node_id"}), "metadata": {**turn.metadata, "node_id": turn.node_id}}
            for turn in self.turns
        ]


@runtime_checkable
class LoopOwningSession(Protocol):
    """A session whose agent plays by itself; its calls of the model are read afterwards."""

    def wait_for_completion(self, timeout_s: float | None = ...) -> int: ...

    def fetch_proxy_trace(self) -> list[TraceEntry]: ...


@runtime_checkable
class TrainableSession(Protocol):
    """The same, with a trace that a trainer can use."""

    def wait_for_completion(self, timeout_s: float | None = ...) -> int: ...

    def fetch_training_trace(self) -> TrainingTrace: ...


class ResourceSession(ABC):
    """An episode as a harness sees it: messages to begin with, and tools."""

    @abstractmethod
    def initial_messages(self) -> list[Message]:
        """The task, as messages."""

    @abstractmethod
    def list_tools(self) -> list[Tool]:
        """The tools of the agent; never reset, step, state or close."""

    @abstractmethod
    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call one; KeyError if there is none of that name."""

    @abstractmethod
    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        """Say how it went, with the environment's reward."""

    @abstractmethod
    def close(self) -> None:
        """End the session; safe to call twice."""


SessionT = TypeVar("SessionT", bound=ResourceSession)


class ResourceSessionFactory(ABC, Generic[SessionT]):
    """Makes a session for a task."""

    @abstractmethod
    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> SessionT:
        """A session that has not begun."""


class HarnessAdapter(ABC):
    """Plays an episode, by sampling the model itself (white box) or by an agent that does (black box)."""

    @abstractmethod
    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult: ...

    @abstractmethod
    def run_black_box(
        self, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult: ...


class StepEnvSessionAdapter(ResourceSession):
    """A session over a client with reset and step: a call of a tool is a step, whose action ``action_builder`` makes.

    It resets the client at once. An async client is used through its ``sync()``.
    """

    def __init__(
        self,
        client: Any,
        *,
        task: Any = None,
        seed: int | None = None,
        episode_id: str | None = None,
        tool_specs: list[Tool],
        action_builder: Callable[[str, dict[str, Any]], Any],
        initial_messages_builder: Callable[[StepResult[Any], Any], list[Message]],
        tool_result_builder: Callable[[str, dict[str, Any], StepResult[Any], Any], ToolResult] | None = None,
        verify_builder: Callable[[list[Message], Any | None, StepResult[Any] | None, Any], VerifyResult] | None = None,
        reset_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self._client = client.sync() if callable(getattr(client, "sync", None)) else client
        self._task, self._tools = task, {tool.name: tool for tool in tool_specs}
        self._build_action, self._build_messages = action_builder, initial_messages_builder
        self._build_result, self._build_verify = tool_result_builder or _tool_result, verify_builder or _verify
        self._closed = False
        refuse_reserved(list(self._tools))
        chosen = {"seed": seed, "episode_id": episode_id}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        self._last: StepResult[Any] | None = None
        try:
            self._first: StepResult[Any] = self._client.reset(**{**chosen, **(reset_kwargs or {})})
            self._state = self._read_state()
        except Exception:
            self.close()
            raise

    def _read_state(self) -> Any:
        read = getattr(self._client, "state", None)
        return read() if callable(read) else None

    def initial_messages(self) -> list[Message]:
        return list(self._build_messages(self._first, self._task))

    def list_tools(self) -> list[Tool]:
        return list(self._tools.values())

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        if name in RESERVED_TOOL_NAMES:
            raise KeyError(f"Reserved orchestration tool: {name}")
        if name not in self._tools:
            raise KeyError(f"Unknown tool: {name}")
        self._last = self._client.step(self._build_action(name, dict(arguments)))
        self._state = self._read_state()
        return self._build_result(name, dict(arguments), self._last, self._state)

    def verify(self, transcript: list[Message], final_state: Any | None = None) -> VerifyResult:
        return self._build_verify(list(transcript), final_state, self._last, self._state)

    def close(self) -> None:
        close = getattr(self._client, "close", None)
        if not self._closed and callable(close):
            close()
        self._closed = True


def refuse_reserved(names: list[str]) -> None:
    """ValueError if a tool is called as what starts and ends episodes."""
    reserved = sorted(RESERVED_TOOL_NAMES.intersection(names))
    if reserved:
        raise ValueError("Tool names are reserved for orchestration controls: " + ", ".join(reserved))


def _tool_result(name: str, arguments: dict[str, Any], result: StepResult[Any], state: Any) -> ToolResult:
    outcome = {"observation": result.observation, "reward": result.reward, "done": result.done}
    return ToolResult(
        data={"tool_name": name, "arguments": arguments, **outcome},
        done=bool(result.done),
        metadata={"reward": result.reward, "state": _plain(state)},
    )


def _verify(transcript: list[Message], final_state: Any, last: StepResult[Any] | None, state: Any) -> VerifyResult:
    data = _plain(state)
    counted = isinstance(state, (State, dict)) and "step_count" in data
    return VerifyResult(
        env_reward=None if last is None else last.reward,
        done=last is not None and bool(last.done),
        metrics={"step_count": data["step_count"]} if counted else {},
        artifacts={"final_state": data, "transcript_length": len(transcript)},
    )


def _plain(state: Any) -> Any:
    return state.model_dump() if hasattr(state, "model_dump") else state


class SessionMCPBridge:
    """Answers JSON-RPC requests for a session's tools, in the caller's process."""

    def __init__(self, session: ResourceSession) -> None:
        self.session = session

    def handle_request(self, request: dict[str, Any]) -> dict[str, Any]:
        number, params = request.get("id"), request.get("params") or {}
        try:
            answer = JsonRpcResponse.success(self._answer(request, params), request_id=number)
        except _Refused as error:
            answer = JsonRpcResponse.error_response(error.code, message=str(error), request_id=number)
        return answer.model_dump()

    def _answer(self, request: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        if request.get("jsonrpc") != "2.0":
            raise _Refused(JsonRpcErrorCode.INVALID_REQUEST, "Invalid Request")
        if request.get("method") == "tools/list":
            tools = self.session.list_tools()
            return {
                "tools": [
                    {"name": one.name, "description": one.description, "inputSchema": one.input_schema} for one in tools
                ]
            }
        if request.get("method") != "tools/call":
            raise _Refused(JsonRpcErrorCode.METHOD_NOT_FOUND, "Method not found")
        if "name" not in params:
            raise _Refused(JsonRpcErrorCode.INVALID_PARAMS, "Missing tool name")
        if params["name"] in RESERVED_TOOL_NAMES:
            raise _Refused(JsonRpcErrorCode.INVALID_PARAMS, f"Reserved orchestration tool: {params['name']}")
        try:
            return _fields(self.session.call_tool(params["name"], dict(params.get("arguments", {}))))
        except KeyError as error:
            words = str(error.args[0]) if error.args else "Method not found"
            raise _Refused(JsonRpcErrorCode.METHOD_NOT_FOUND, words) from error
        except ValueError as error:
            raise _Refused(JsonRpcErrorCode.INVALID_PARAMS, str(error)) from error
        except Exception as error:
            raise _Refused(JsonRpcErrorCode.INTERNAL_ERROR, str(error)) from error


class _Refused(Exception):
    def __init__(self, code: JsonRpcErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def _fields(result: ToolResult) -> dict[str, Any]:
    """As a dict of its fields. Not ``asdict``, which would copy the data."""
    return {"data": result.data, "done": result.done, "metadata": dict(result.metadata), "error": result.error}


class MCPHarnessAdapter(HarnessAdapter):
    """White box: asks the model, calls the tools that it wants, and so on until it wants none."""

    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        limits = limits or HarnessRunLimits()
        tools, result = session.list_tools(), HarnessRolloutResult(messages=list(session.initial_messages()))
        for turn in range(limits.max_turns):
            step = model_step(result.messages, tools, dict(limits.sampling))
            result.messages.append(step.response.to_message_dict())
            result.prompt_ids.extend(step.prompt_ids)
            result.completion_ids.extend(step.completion_ids)
            result.logprobs.extend(step.logprobs)
            calls = step.response.tool_calls
            wanted = [{"id": one.id, "name": one.name, "arguments": dict(one.args)} for one in calls]
            payload = {"turn": turn, "content": step.response.content, "tool_calls": wanted}
            result.events.append(RolloutEvent("model_response", payload))
            result.done = not calls
            for call in calls[: limits.max_tool_calls_per_turn]:
                if limits.max_total_tool_calls is not None and len(result.tool_trace) >= limits.max_total_tool_calls:
                    result.metrics["truncated"] = True
                    return result
                self._call(session, call, result)
                if result.done:
                    break
            if result.done:
                break
        result.metrics["turns"] = sum(event.type == "model_response" for event in result.events)
        result.metrics["tool_calls"] = len(result.tool_trace)
        return result

    def _call(self, session: ResourceSession, call: Any, result: HarnessRolloutResult) -> None:
        got = session.call_tool(call.name, dict(call.args))
        result.done = got.done
        result.tool_trace.append(ToolTraceEntry(call.name, dict(call.args), got))
        payload = {"tool_name": call.name, "arguments": dict(call.args), "done": got.done}
        result.events.append(RolloutEvent("tool_call", payload))
        text = got.data if isinstance(got.data, str) else json.dumps(got.data, sort_keys=True, default=str)
        answer = {"role": "tool", "tool_call_id": call.id, "name": call.name}
        result.messages.append({**answer, "content": "" if got.data is None else text})

    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        raise NotImplementedError(
            "MCPHarnessAdapter is a white-box harness. Use CLIHarnessAdapter for an agent that samples by itself."
        )


class CLIHarnessAdapter(HarnessAdapter):
    """Black box: ``runner(bridge, session, limits)`` runs the agent and returns the rollout."""

    def __init__(
        self, runner: Callable[[SessionMCPBridge, ResourceSession, HarnessRunLimits], HarnessRolloutResult]
    ) -> None:
        self._runner = runner

    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        raise NotImplementedError("CLIHarnessAdapter only supports black-box evaluation rollouts.")

    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        return self._runner(SessionMCPBridge(session), session, limits or HarnessRunLimits())


def build_harness_rollout_func(
    *,
    session_factory: Any,
    harness_adapter: HarnessAdapter,
    model_step_builder: Callable[[Any, ResourceSession], ModelStep],
    limits: HarnessRunLimits | None = None,
    reward_key: str = "env_reward",
) -> Callable[[list[Any], Any], dict[str, list[Any]]]:
    """Return a ``rollout_func`` for TRL: one session per prompt, one after another."""

    def play(prompt: Any, trainer: Any) -> dict[str, Any]:
        session = session_factory.create(task=prompt)
        try:
            model_step = model_step_builder(trainer, session)
            rollout = harness_adapter.run_white_box(model_step=model_step, session=session, limits=limits)
            verified = session.verify(transcript=rollout.messages, final_state=_final_state(rollout))
        finally:
            session.close()
        return {
            "prompt_ids": list(rollout.prompt_ids),
            "completion_ids": list(rollout.completion_ids),
            "logprobs": list(rollout.logprobs),
            reward_key: _resolve_env_reward(rollout, verified),
            "verify_metrics": dict(verified.metrics),
        }

    def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {
            name: [] for name in ("prompt_ids", "completion_ids", "logprobs", reward_key, "verify_metrics")
        }
        for prompt in prompts:
            for name, value in play(prompt, trainer).items():
                columns[name].append(value)
        return columns

    return rollout_func


def _final_state(rollout: HarnessRolloutResult) -> dict[str, Any]:
    calls = rollout.tool_trace
    return {
        "done": rollout.done,
        "metrics": dict(rollout.metrics),
        "events": [{"type": one.type, "payload": dict(one.payload)} for one in rollout.events],
        "tool_trace": [
            {"tool_name": one.tool_name, "arguments": dict(one.arguments), "result": _fields(one.result)}
            for one in calls
        ],
    }


def _resolve_env_reward(rollout: HarnessRolloutResult, verify: VerifyResult) -> float:
    """Return the reward of the last step that had one; what ``verify`` says must be the same."""
    rewards = [_reward_of(entry.result) for entry in rollout.tool_trace]
    stepped = next((reward for reward in reversed(rewards) if reward is not None), None)
    verified = None if verify.env_reward is None else float(verify.env_reward)
    if stepped is None and verified is None:
        raise ValueError("rollout did not produce an environment reward")
    if stepped is None or verified is None:
        return stepped if verified is None else verified  # type: ignore[return-value]
    if not math.isclose(verified, stepped, rel_tol=1e-9, abs_tol=1e-6):
        raise ValueError("verify.env_reward must forward the environment reward from the rollout")
    return stepped


def _reward_of(result: ToolResult) -> float | None:
    reward = result.metadata.get("reward")
    if reward is None and isinstance(result.data, dict):
        reward = result.data.get("reward")
    return None if reward is None else float(reward)
