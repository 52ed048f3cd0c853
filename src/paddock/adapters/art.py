"""Train with ART (openpipe-art) on any environment with tools: a rollout function that returns its trajectories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from paddock.adapters import need
from paddock.adapters.chat import Player


def rollout_func(target: Any, *, max_turns: int = 16, **make_kwargs: Any) -> Callable[..., Awaitable[Any]]:
    """Return ``async rollout(model, row) -> art.Trajectory``; ``row`` is one of ``paddock.adapters.trl.task_rows``.

    ``model`` is ART's: its own OpenAI client and inference name are used, so what it samples is what is trained on. An
    environment that fails raises, which ``art.gather_trajectory_groups`` leaves out of the group.
    """
    need("art")

    async def rollout(model: Any, row: Mapping[str, Any] | None = None, **request: Any) -> Any:
        import art

        client, name = model.openai_client(), model.get_inference_name()
        async with await Player.of(target, **make_kwargs) as player:
            first = await player.begin(row)
            told: list[Any] = list(first)
            trajectory = art.Trajectory(messages_and_choices=told, tools=player.tools or None, reward=0.0)
            for _ in range(max_turns):
                tools = {"tools": player.tools} if player.tools else {}
                messages = trajectory.messages()
                answer = await client.chat.completions.create(model=name, messages=messages, **tools, **request)
                trajectory.messages_and_choices.append(answer.choices[0])
                trajectory.messages_and_choices.extend(await player.act(answer))
                if player.over:
                    break
            trajectory.reward = player.total
            trajectory.metrics |= {"steps": len(player.rewards), "terminated": player.terminated}
            return trajectory.finish()

    return rollout
