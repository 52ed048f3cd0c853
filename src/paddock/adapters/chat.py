"""Let a chat-completions API act in an environment. Any callable will do; no client library is imported.

``create`` is called as OpenAI's clients are, ``create(messages=[...], tools=[...], **request)``, and may be async. It
may return their object or the same as dicts. A model that gets a call wrong is told so and may try again.
"""

from __future__ import annotations

import inspect
import secrets
import time
from collections.abc import Callable
from typing import Any

from paddock.agentic.chat import assistant_message, to_dict
from paddock.agentic.rollouts.episode import Episode, InThread, Job, Setup, Turn, play_here
from paddock.agentic.rollouts.options import Limits, Spending
from paddock.agentic.rollouts.results import Rollout
from paddock.core.env import Env, Info
from paddock.errors import PlanError
from paddock.hosting.private_loop import PrivateLoop
from paddock.record.model_call import ModelCall
from paddock.seeding import to_seed

Create = Callable[..., Any]
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

    def policy(turn: Turn) -> Any:
        sent, began_s = body(turn), time.time()
        response = create(**sent, **request)
        if inspect.isawaitable(response):
            return wait(turn, sent, began_s, response)
        return read(turn, sent, began_s, response)

    async def wait(turn: Turn, sent: dict[str, Any], began_s: float, response: Any) -> dict[str, Any]:
        return read(turn, sent, began_s, await response)

    async def async_policy(turn: Turn) -> Any:
        sent, began_s = body(turn), time.time()
        return read(turn, sent, began_s, await create(**sent, **request))

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
    limits = Limits(timeout_s=None, max_turns=max_turns)
    playing = Episode(Job(0, 0, 0, work), chat_policy(create, **request), limits, Spending())
    loop = PrivateLoop()

    async def wait(answer: Any) -> Any:
        return await answer

    try:
        play_here(playing, env, None, InThread(lambda answer, by_s: loop.run(wait(answer))))
    finally:
        loop.close()
    return playing.rollout()
