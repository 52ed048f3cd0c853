"""Evaluate with Inspect AI on any environment with tools: its tasks as a dataset, a solver that plays, a scorer.

The environment grades; the scorer passes its return on. One that failed is an error of the sample, and no score.
"""

from __future__ import annotations

from typing import Any

from paddock.adapters import need
from paddock.adapters.chat import Player
from paddock.adapters.trl import task_rows

_STORE = "paddock"


def task(
    target: Any,
    split: str | None = None,
    *,
    start: int = 0,
    count: int | None = None,
    max_turns: int = 32,
    name: str | None = None,
    **make_kwargs: Any,
) -> Any:
    """Return an ``inspect_ai.Task``: ``eval(task("paddock/Echo"), model="openai/gpt-…")``.

    ``target`` and other keywords are those of ``make``. ``split``, ``start``, ``count``: which tasks; an endless split
    needs a count.
    """
    need("inspect_ai")
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample

    rows = task_rows(target, split, start=start, count=count, **make_kwargs)
    samples = [
        Sample(input=f"{row['split']}[{row['index']}]", id=f"{row['split']}-{row['index']}", metadata=dict(row))
        for row in rows
    ]
    named = name or str(target).rpartition("/")[2] or "paddock"
    dataset = MemoryDataset(samples, name=named)
    return Task(dataset, solver=play(target, max_turns, **make_kwargs), scorer=total_return(), name=named)


def play(target: Any, max_turns: int = 32, **make_kwargs: Any) -> Any:
    """Return a solver that plays a sample's episode, for a Task of your own; ``metadata`` has its split and index."""
    need("inspect_ai")
    from inspect_ai.model import ChatMessageUser, execute_tools, get_model
    from inspect_ai.solver import solver
    from inspect_ai.tool import ToolDef, ToolParams

    @solver(name="paddock_play")  # type: ignore[untyped-decorator]
    def playing() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            async with await Player.of(target, **make_kwargs) as player:
                state.messages = [_to_theirs(one) for one in await player.begin(state.metadata)]

                def tool_of(described: dict[str, Any]) -> Any:
                    async def call(**arguments: Any) -> str:
                        function = {"name": described["name"], "arguments": arguments}
                        replies = await player.act(
                            {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
                        )
                        return "\n".join(_words(one["content"]) for one in replies)

                    parameters = ToolParams.model_validate({**described["parameters"], "additionalProperties": False})
                    words = described["description"] or described["name"]
                    return ToolDef(call, described["name"], words, parameters).as_tool()

                state.tools = [tool_of(one["function"]) for one in player.tools]
                for _ in range(max_turns):
                    state.output = await get_model().generate(state.messages, state.tools)
                    state.messages.append(state.output.message)
                    if state.output.message.tool_calls:
                        answered, _ = await execute_tools(state.messages, state.tools)
                        state.messages += answered
                    else:
                        replies = await player.act(state.output.message.text)
                        state.messages += [ChatMessageUser(content=_words(one["content"])) for one in replies]
                    if player.over or state.completed:
                        break
                over = "terminated" if player.terminated else "truncated" if player.truncated else "turns"
                state.store.set(_STORE, {"return": player.total, "steps": len(player.rewards), "ended": over})
            return state

        return solve

    return playing()


def total_return() -> Any:
    """Return a scorer: the environment's return, with how the episode ended as its metadata."""
    need("inspect_ai")
    from inspect_ai.scorer import Score, mean, scorer, stderr

    @scorer(name="total_return", metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]
    def scoring() -> Any:
        async def score(state: Any, target: Any) -> Any:
            found = state.store.get(_STORE)
            if found is None:
                raise RuntimeError("The episode has no return: it was not played by paddock.adapters.inspect_ai.play.")
            return Score(value=found["return"], metadata=found)

        return score

    return scoring()


def _to_theirs(message: dict[str, Any]) -> Any:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds = {"system": ChatMessageSystem, "assistant": ChatMessageAssistant}
    return kinds.get(message["role"], ChatMessageUser)(content=_words(message["content"]))


def _words(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return "\n".join(part.get("text", "[picture]") for part in parts)
