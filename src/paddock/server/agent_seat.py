"""Seat: a place in an environment for any agent program, which acts over MCP and asks its model through our proxy.

Both are on one port of this machine, below a secret that dies with the seat. The agent never sees the model's key, and
none of its own headers is recorded. What its calls may use together is limited.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from paddock import __version__
from paddock.agentic.chat import openai_tools, opening_messages, plain_observation
from paddock.agentic.endpoint import ModelEndpoint
from paddock.agentic.messages import Action, Say
from paddock.agentic.rollouts.options import Budget, Spending
from paddock.agentic.rollouts.results import Failure, Rollout, Rollouts
from paddock.errors import (
    BudgetExceeded,
    EnvFailed,
    ModelCallFailed,
    ModelTimeout,
    PaddockError,
    PlanError,
    ResetNeeded,
)
from paddock.hosting import mcp as form
from paddock.hosting import messages as m
from paddock.hosting.openenv.tool_form import ToolObservation, Tools
from paddock.hosting.openenv.wire import dump
from paddock.making import make
from paddock.record.model_call import ModelCall
from paddock.record.trace import Episode, TraceReader
from paddock.record.trace.writer import Opening, TraceWriter
from paddock.sandbox.http1 import Reader, Refused, Stream
from paddock.server.http import Request, Response
from paddock.server.http_connection import RequestReader
from paddock.server.mcp import IdempotentRequests

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_BODY_BYTES = 64 << 20
_OPENAI = "https://api.openai.com/v1"
_HEAD_S = 300.0  # an agent may think between two requests


@dataclass(frozen=True)
class CallTokens:
    """The tokens of one call of the model, if its endpoint sends them: ids, and the reply's log probabilities."""

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float] | None


def open_seat(
    target: Any,
    task: Any = None,
    *,
    model: str | ModelEndpoint | None = None,
    base_url: str | None = None,
    api_key_env: str | None = "OPENAI_API_KEY",
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    budget: Budget = Budget(seconds=3600.0),  # noqa: B008 - frozen
    trace: str | os.PathLike[str] | None = None,
    **make_kwargs: Any,
) -> Seat:
    """See ``paddock.seat``."""
    chosen = dict(options or {})
    if isinstance(task, dict):
        chosen |= {name: task[name] for name in ("split", "index") if name in task}
    elif isinstance(task, (tuple, list)):
        chosen |= dict(zip(("split", "index"), task, strict=True))
    elif task is not None:
        chosen["index"] = task
    if isinstance(model, ModelEndpoint):
        endpoint = model
    else:
        url = base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
        endpoint = ModelEndpoint(model or "", url, api_key_env=api_key_env)
    if budget.money is not None and endpoint.prices is None:
        raise PlanError("Budget(money=…) needs to know what tokens cost: pass model=ModelEndpoint(…, prices=(…, …)).")
    return Seat(target, endpoint, budget, seed=seed, options=chosen or None, trace=trace, make_kwargs=make_kwargs)


class Seat:
    """One episode of an agent program. Made by ``paddock.seat``; ``async with`` begins and ends it.

    ``mcp_url`` and ``model_url`` are for the agent; any key will do, ``api_key`` if one must be named. ``prompt`` is
    the task in words. ``reward`` is the return so far, and None if the episode, or the agent, failed: see ``error``.
    """

    def __init__(
        self,
        target: Any,
        endpoint: ModelEndpoint,
        budget: Budget,
        *,
        seed: int | None,
        options: dict[str, Any] | None,
        trace: Any,
        make_kwargs: dict[str, Any],
    ) -> None:
        self._target, self._endpoint, self.budget, self.spending = target, endpoint, budget, Spending()
        self._seed, self._options, self._make_kwargs = seed, options, make_kwargs
        self._path = None if trace is None else Path(trace)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="paddock-seat")  # environments keep to one thread
        self._open = ExitStack()
        self._requests = IdempotentRequests()
        self._episode: Episode | None = None
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        # What a call uses is known at its end, so within a budget the next one has to wait for that.
        limited = any(limit is not None for limit in (budget.calls, budget.tokens, budget.money))
        self._turn: asyncio.Lock | nullcontext[None] = asyncio.Lock() if limited else nullcontext()
        self.api_key = secrets.token_urlsafe(24)
        self.prompt, self.messages, self.tools = "", list[dict[str, Any]](), list[dict[str, Any]]()
        self.rewards: list[float] = []
        self.terminated = self.truncated = False
        self.error: Failure | None = None
        self.calls: list[ModelCall] = []

    # ── For the program around the agent ──

    @property
    def mcp_url(self) -> str:
        """Where the environment's tools are, over MCP's Streamable HTTP."""
        return f"{self._base}/mcp"

    @property
    def model_url(self) -> str:
        """The base URL of a chat-completions API that asks the model and records what passes."""
        return f"{self._base}/v1"

    @property
    def reward(self) -> float | None:
        return None if self.error is not None else float(sum(self.rewards))

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated or self.error is not None

    @property
    def tokens(self) -> list[CallTokens]:
        """The tokens of each call whose endpoint sent them: ``ModelEndpoint(…, return_token_ids=True)`` for vLLM."""
        return [
            CallTokens(call.prompt_ids, call.completion_ids, call.logprobs)
            for call in self.calls
            if call.prompt_ids is not None and call.completion_ids is not None
        ]

    @property
    def trace(self) -> Episode:
        """The episode as it was recorded, with the model's calls; complete once the seat is closed."""
        if self._episode is not None:
            return self._episode
        assert self._path is not None, "a seat records from its beginning"
        return list(TraceReader(self._path))[-1]

    @property
    def rollout(self) -> Rollout:
        """The same as a rollout, for ``Rollouts([...])``."""
        assert self._path is not None
        return self._rollouts[-1] if self._episode is not None else Rollouts.load(self._path)[-1]

    async def say(self, text: str) -> float:
        """Give the agent's last words to the environment, as a step. Returns its reward."""
        result = await self._in_thread(self._step, Say(text))
        return float(result[1])

    async def __aenter__(self) -> Seat:
        try:
            await self._in_thread(self._begin)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._connection, "127.0.0.1", 0)
            port = self._server.sockets[0].getsockname()[1]
            self._base = f"http://127.0.0.1:{port}/{self.api_key}"
            self.spending = Spending()  # time counts from here
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.error is None:
            self._fail(type(error).__name__, "The agent program failed.", "policy")
        await self._close()

    # ── The environment, in its thread ──

    def _begin(self) -> None:
        env = self._env = self._open.enter_context(make(self._target, **self._make_kwargs))
        tools = Tools.of(env.metadata)
        if tools is None:
            raise PlanError(f"{str(self._target)[:200]!r} has no tools, so no agent can act in it over MCP.")
        if self._path is None:
            folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="paddock-seat-"))
            self._path = Path(folder) / "run.jsonl"
        self._tools = tools
        observation, info = env.reset(seed=self._seed, options=self._options)
        opening = Opening.of(env, seed=self._seed, options=self._options, task=info.get("task"))
        self._writer = self._open.enter_context(TraceWriter(self._path)).begin(opening)
        self._writer.reset(observation, info)
        self.messages = opening_messages(plain_observation(observation))
        first = ToolObservation.of(observation)
        self.prompt = "" if first is None else first.words
        self.tools = openai_tools(m.read_tools(env.metadata) or [])

    def _step(self, action: Any) -> list[Any]:
        if self.over:
            raise ResetNeeded("The episode is over.")
        if self.budget.seconds is not None and self.spending.seconds >= self.budget.seconds:
            raise ResetNeeded("The time of this seat is over.")
        try:
            observation, reward, terminated, truncated, info = self._env.step(action)
        except PaddockError as error:
            self._fail(error.code, str(error), "step")
            raise
        self._writer.step(action, observation, reward, terminated, truncated, info)
        self.rewards.append(float(reward))
        self.terminated, self.truncated = bool(terminated), bool(truncated)
        return [observation, reward, terminated, truncated, info]

    def _end(self) -> None:
        """End the trace, keep what it says, and free everything."""
        with self._open:
            if "_writer" not in vars(self):
                return
            error = self.error
            last = self.calls[-1] if self.calls else None
            messages = self.messages if last is None else [*last.messages, *filter(None, [last.message])]
            self._writer.rollout(
                messages,
                turns=len(self.calls),
                seconds=self.spending.seconds,
                where=None if error is None else error.where,
            )
            self._writer.end(None if error is None else (error.code, error.message))
            assert self._path is not None
            self._episode = list(TraceReader(self._path))[-1]
            self._rollouts = Rollouts.load(self._path)

    def _fail(self, code: str, message: str, where: Any) -> None:
        self.error = Failure(code, message, where, len(self.rewards))

    async def _in_thread(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            for talk in self._talks:
                talk.cancel()
            await asyncio.gather(*self._talks, return_exceptions=True)
        await self._endpoint.close()
        await self._in_thread(self._end)
        self._thread.shutdown(wait=False)

    # ── What the agent reaches ──

    def _connection(self) -> asyncio.StreamReaderProtocol:
        reader = Reader()

        def begin(_: Any, writer: asyncio.StreamWriter) -> None:
            talk = asyncio.ensure_future(self._talk(reader, writer))
            self._talks.add(talk)
            talk.add_done_callback(self._talks.discard)

        return asyncio.StreamReaderProtocol(reader, begin)

    async def _talk(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        requests = RequestReader(Stream(reader, writer), max_body=_BODY_BYTES, knows=self._knows)
        try:
            while (found := await asyncio.wait_for(requests.next(), _HEAD_S)) is not None:
                request, stays = found
                response = await self._answer(request)
                writer.write(response.head(close=not stays) + response.body)
                await writer.drain()
                requests.release()
                if not stays:
                    break
        except (Refused, OSError, EOFError, asyncio.TimeoutError):
            pass
        finally:
            requests.release()
            writer.close()

    def _knows(self, request: Request) -> bool:
        parts = request.segments
        return bool(parts) and hmac.compare_digest(parts[0].encode(), self.api_key.encode())

    async def _answer(self, request: Request) -> Response:
        if not self._knows(request):
            return Response.of({"detail": "Not found."}, 404)
        match request.method, request.segments[1:]:
            case "POST", ("mcp",):
                return await self._answer_mcp(request)
            case "DELETE", ("mcp",):
                return Response.of({})
            case "POST", ("v1", "chat", "completions"):
                return await self._answer_model(request)
            case "GET", ("v1", "models"):
                return Response.of({"object": "list", "data": [{"id": self._endpoint.model, "object": "model"}]})
        words = f"{request.method} of {'/'.join(request.segments[1:])[:100]!r}: a seat has mcp and v1/chat/completions."
        return Response.of(_error(words, "not_found"), 404)

    async def _answer_mcp(self, request: Request) -> Response:
        if (refused := form.refusal(request.headers)) is not None:
            return Response(refused[0], dump(refused[1]))
        try:
            message = form.read_message(msgspec.json.decode(request.body))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return Response(400, dump(form.failure(None, -32700, "Parse error.")))
        if not isinstance(message, form.Message):
            return Response(400, dump(message))
        if message.id is None:
            return Response(202)
        if message.method == form.INITIALIZE:
            version = form.negotiate_version(message)
            if not isinstance(version, str):
                return Response(200, dump(version))
            about = form.initialize_answer(message, version, ("paddock", __version__), self.prompt)
            self._requests = IdempotentRequests()  # a client counts its requests from the beginning
            return Response(200, dump(about), headers={form.SESSION_HEADER: secrets.token_urlsafe(16)})
        found = self._requests.answer(message.id, request.body, lambda: self._answer_call(message))
        if isinstance(found, str):
            return Response(200, dump(form.failure(message.id, -32600, f"The id came before: {found}.")))
        return Response(200, await asyncio.shield(found))

    async def _answer_call(self, message: form.Message) -> bytes:
        step = form.request_of(message, self._tools)
        if not isinstance(step, m.Step):
            return dump(step)
        try:
            reply: Any = m.Done([await self._in_thread(self._step, msgspec.convert(step.actions[0], Action))])
        except ResetNeeded as error:
            reply = m.Done([m.Failed(error.code, str(error))])
        except (PaddockError, msgspec.ValidationError) as error:  # the program around the agent has the reason
            reply = m.Done([m.Failed(getattr(error, "code", EnvFailed.code), "The environment failed.")])
        return dump(form.answer_to(message, self._tools, reply))

    async def _answer_model(self, request: Request) -> Response:
        try:
            body = msgspec.json.decode(request.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return Response.of(_error("The body is not a JSON object.", "invalid_request_error"), 400)
        async with self._turn:
            return await self._ask_model(body)

    async def _ask_model(self, body: dict[str, Any]) -> Response:
        try:
            self.budget.check(self.spending)
        except BudgetExceeded as error:
            return Response.of(_error(str(error), "budget_exceeded"), 403)  # clients try again after a 429
        streams = bool(body.pop("stream", False))
        body.pop("stream_options", None)
        sent = {**body, **self._endpoint.sampling, "model": self._endpoint.model or body.get("model")}
        try:
            call = await self._endpoint.forward(sent)
        except ModelCallFailed as error:
            self._keep(error.call)
            status = 504 if isinstance(error, ModelTimeout) else error.status or 502
            return Response.of(_error(_words(error), error.code.lower()), status if 400 <= status < 600 else 502)
        self._keep(call)
        if streams:
            return Response(200, _as_stream(call.reply), content_type="text/event-stream")
        return Response(200, json.dumps(call.reply).encode())

    def _keep(self, call: ModelCall | None) -> None:
        if call is not None:
            self.calls.append(call)
            self.spending.add(call)
            with suppress(PaddockError):  # a reply that no trace can hold isn't the agent's fault
                self._writer.call(call)


def _words(error: ModelCallFailed) -> str:
    """What the endpoint said, without its address."""
    found = getattr(error.call, "reply", None)
    for name in ("error", "message"):
        found = found.get(name, found) if isinstance(found, dict) else found
    return found[:2000] if isinstance(found, str) else f"The model can't be reached: {type(error).__name__}."


def _error(message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": kind}}


def _as_stream(reply: dict[str, Any]) -> bytes:
    """A whole reply as the events of a stream, for agents that ask for one."""
    choices = []
    for choice in reply.get("choices", []):
        delta = dict(choice.get("message") or {})
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(calls)]
        choices.append({**{k: v for k, v in choice.items() if k != "message"}, "delta": delta})
    chunk = {**reply, "object": "chat.completion.chunk", "choices": choices}
    return b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
