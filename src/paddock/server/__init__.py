"""What listens: the environment service. Its session layer is pure, so that a simulator can drive it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.server.agent_seat import Seat


def seat(target: Any, task: Any = None, **keywords: Any) -> Seat:
    """Seat an agent program in an environment, for one episode::

        async with paddock.seat("paddock/Wordle", task=3, model="qwen3", base_url="http://127.0.0.1:8000/v1") as seat:
            await my_agent(seat.prompt, mcp=seat.mcp_url, openai=seat.model_url)
        print(seat.reward, seat.trace, seat.tokens)

    ``target`` and other keywords are those of ``make``. ``task``: an index, (split, index) or a task's row. ``model``:
    the name that is sent on, in place of the agent's own, or a ModelEndpoint; ``base_url`` is by default that of
    ``OPENAI_BASE_URL``, or OpenAI's. ``budget``: when it is spent, the model refuses; tools do when its ``seconds``
    are over, an hour by default. ``trace``: where to record the episode.
    """
    from paddock.server.agent_seat import open_seat  # here: it brings asyncio

    return open_seat(target, task, **keywords)
