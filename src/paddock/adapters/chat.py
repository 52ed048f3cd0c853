"""Let a chat-completions API act in an environment. Any callable will do; no client library is imported.

``create`` is called as OpenAI's clients are, ``create(messages=[...], tools=[...], **request)``, and may be async. It
may return their object or the same as dicts. A model that gets a call wrong is told so and may try again.
"""

from __future__ import annotations

import inspect
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from paddock.adapters.seat import AsyncEnv, make_for_async
from paddock.agentic.chat import Conversation, assistant_message, refusal_text, to_dict
from paddock.agentic.rollouts.episode import Episode, Job, Setup, Turn, play_here
from paddock.agentic.rollouts.options import Options, Spending
from paddock.agentic.rollouts.results import Rollout
from paddock.core.env import Env, Info
from paddock.errors import PlanError
from paddock.hosting.private_loop import PrivateLoop
from paddock.record.model_call import ModelCall
from paddock.seeding import to_seed

Create = Callable[..., Any]

_TOOL_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_HOW = """\
Call a tool by writing <tool_call>{"name": ..., "arguments": {...}}</tool_call>. The tools are, one on a line:
"""
_UNRECORDED = frozenset({"api_key", "extra_headers", "headers"})  # where clients take keys


def chat_policy(create: Create, **request: Any) -> Callable[[Turn], Any]:
    """Return a policy for ``paddock.agentic.rollout`` that asks ``create`` for each turn, always with ``request``.

    >>> from paddock.agentic import rollout
    >>> def create(messages, tools, model):  # client.chat.completions.create, say
    ...     return {"choices": [{"message": {"content": messages[-1]["content"].split()[-1]}}]}
    >>> played = rollout("paddock/Echo", chat_policy(create, model="parrot"), tasks="test", progress=False)
    >>> played.mean_return().value
    1.0
    """

    def body(turn: Turn) -> dict[str, Any]:  # APIs refuse an empty list of tools
        return {"messages": list(turn.messages), **({"tools": list(turn.tools)} if turn.tools else {})}

    def read(turn: Turn, sent: dict[str, Any], began_s: float, response: Any) -> dict[str, Any]:
        message = assistant_message(response)
        reply = {"choices": [{"message": message}]} if isinstance(response, str) else to_dict(response)
        turn.record(ModelCall({**known, **sent}, reply, began_s=began_s, seconds=time.time() - began_s))
        return message

    def note(turn: Turn, sent: dict[str, Any], began_s: float, error: Exception) -> None:
        # Its text may quote a key.
        failure = "POLICY_ERROR", type(error).__name__
        turn.record(ModelCall({**known, **sent}, None, failure, began_s, time.time() - began_s))

    def policy(turn: Turn) -> Any:
        sent, began_s = body(turn), time.time()
        try:
            response = create(**sent, **request)
            if not inspect.isawaitable(response):
                return read(turn, sent, began_s, response)
        except Exception as error:
            note(turn, sent, began_s, error)
            raise
        return wait(turn, sent, began_s, response)

    async def wait(turn: Turn, sent: dict[str, Any], began_s: float, response: Any) -> dict[str, Any]:
        try:
            return read(turn, sent, began_s, await response)
        except Exception as error:
            note(turn, sent, began_s, error)
            raise

    async def async_policy(turn: Turn) -> Any:
        sent, began_s = body(turn), time.time()
        return await wait(turn, sent, began_s, create(**sent, **request))

    known = {name: value for name, value in request.items() if name not in _UNRECORDED}
    return async_policy if inspect.iscoroutinefunction(inspect.unwrap(create)) else policy


def play(
    env: Env[Any, Any],
    create: Create,
    *,
    seed: int | None = None,
    options: Info | None = None,
    max_turns: int = 32,
    **request: Any,
) -> Rollout:
    """Play one episode in ``env``, which stays open. Each of the model's tool calls is one step; words are a step too.

    Errors of the environment and of ``create`` are raised. ``rollout`` plays many at once, and keeps errors instead.
    """
    if max_turns < 1:
        raise PlanError(f"max_turns={max_turns}: expected at least 1.")
    work = Setup(secrets.randbits(31) if seed is None else to_seed(seed), options, {})
    most = Options(timeout_s=None, max_turns=max_turns)
    policy, episode = chat_policy(create, **request), Episode(Job(0, 0, 0, work), most, Spending())
    loop = PrivateLoop()

    async def wait(answer: Any) -> Any:
        return await answer

    def ask(turn: Turn) -> Any:
        answer = policy(turn)
        return loop.run(wait(answer)) if inspect.isawaitable(answer) else answer

    try:
        play_here(episode.play(env, None), ask)
    finally:
        loop.close()
    return episode.rollout()


# ── For frameworks that sample the model themselves ──
#
# A failure of the environment is raised, never a reward of 0: each framework has its own way to leave a rollout out.


class Player:
    """``await Player.of(target)``, then ``begin`` and ``act`` until ``over``. Each step's reward is in ``rewards``."""

    def __init__(self, env: AsyncEnv) -> None:
        self._env = env
        self._conversation = Conversation(env)  # type: ignore[arg-type]  # it reads the metadata alone
        self.tools = self._conversation.tools
        self.rewards: list[float] = []
        self.terminated = self.truncated = False
        self.info: Info = {}

    @classmethod
    async def of(cls, target: Any, **make_kwargs: Any) -> Player:
        """Make the environment, with the keywords of ``make``."""
        return cls(await make_for_async(target, **make_kwargs))

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    @property
    def total(self) -> float:
        """The return so far."""
        return float(sum(self.rewards))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The whole conversation."""
        return self._conversation.messages

    async def begin(self, row: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Begin the episode of a row: its ``split``, ``index`` and ``seed``, where it has them. The first messages."""
        row = row or {}
        options = {name: row[name] for name in ("split", "index") if row.get(name) is not None}
        self._conversation = Conversation(self._env)  # type: ignore[arg-type]
        self.rewards, self.terminated, self.truncated = [], False, False
        observation, self.info = await self._env.reset(seed=row.get("seed"), options=options or None)
        self._conversation.begin(observation)
        return list(self.messages)

    async def act(self, answer: Any) -> list[dict[str, Any]]:
        """Take what the model said, text or an assistant's message, and return the messages that answer it."""
        conversation, before = self._conversation, len(self.messages)
        requests = conversation.read_answer(answer)
        for request in requests:
            if self.over:
                conversation.reply(request, "The episode is over.")
                continue
            if request.call is not None and request.call.problem is not None:
                conversation.reply(request, request.call.problem)
                continue
            try:
                found = await self._env.step(request.action)
            except Exception as error:
                if (words := refusal_text(error)) is None:
                    raise
                conversation.reply(request, f"Error: {words}")
                continue
            observation, reward, self.terminated, self.truncated, self.info = found
            self.rewards.append(float(reward))
            conversation.add_observation(request, observation)
        return self.messages[before + 1 :]

    async def close(self) -> None:
        await self._env.close()

    async def __aenter__(self) -> Player:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def read_text(text: str) -> dict[str, Any]:
    """Read an assistant's message from what a model wrote: ``<tool_call>{"name": …, "arguments": …}</tool_call>``."""
    calls = [{"id": f"call_{at}", **_call(found)} for at, found in enumerate(_TOOL_CALL.findall(text))]
    message: dict[str, Any] = {"role": "assistant", "content": _TOOL_CALL.sub("", text).strip()}
    return {**message, "tool_calls": calls} if calls else message


def explain_tools(tools: list[dict[str, Any]]) -> str:
    """Tell a model about tools in words, where a framework passes nothing but text; '' if there are none."""
    return _HOW + "\n".join(json.dumps(tool["function"]) for tool in tools) if tools else ""


def _call(text: str) -> dict[str, Any]:
    try:
        call = json.loads(text)
        function = {"name": call["name"], "arguments": call.get("arguments", {})}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        function = {"name": "", "arguments": text}
    return {"type": "function", "function": function}
