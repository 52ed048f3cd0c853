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
from paddock.agentic.rollouts.episode import Episode, Job, PolicyRunner, Setup, Turn
from paddock.agentic.rollouts.results import Rollout
from paddock.core.env import Env, Info
from paddock.errors import PlanError
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

    def policy(turn: Turn) -> Any:
        body = {"messages": list(turn.messages), **({"tools": list(turn.tools)} if turn.tools else {})}  # never empty
        began_s, clock_s = time.time(), time.monotonic()

        def read(response: Any) -> dict[str, Any]:
            message = assistant_message(response)
            reply = {"choices": [{"message": message}]} if isinstance(response, str) else to_dict(response)
            seconds = time.monotonic() - clock_s
            turn.record(ModelCall({**known, **body}, reply, began_s=began_s, seconds=seconds))
            return message

        async def wait(response: Any) -> dict[str, Any]:
            return read(await response)

        response = create(**body, **request)
        return wait(response) if inspect.isawaitable(response) else read(response)

    known = {name: value for name, value in request.items() if name not in _UNRECORDED}
    return policy


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
    asking = PolicyRunner(chat_policy(create, **request))
    playing = Episode(Job(0, 0, 0, work), asking, max_turns=max_turns, by_s=None)
    try:
        playing.run(env, None)
    finally:
        asking.close()
    return playing.rollout()
