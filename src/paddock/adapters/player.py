"""Player: episodes spoken to in messages of chat APIs, for frameworks that sample the model themselves.

A failure of the environment is raised, never a reward of 0: each framework has its own way to leave such a rollout out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from paddock.adapters.seat import AsyncEnv, make_for_async
from paddock.agentic.chat import Conversation, refusal_text
from paddock.core.env import Info

_TOOL_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_HOW = """\
Call a tool by writing <tool_call>{"name": ..., "arguments": {...}}</tool_call>. The tools are, one on a line:
"""


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
