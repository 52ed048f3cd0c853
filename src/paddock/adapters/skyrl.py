"""Train with SkyRL on any environment with tools: a text environment of skyrl-gym, registered by ``register``.

What the model writes is one turn; tools are called as ``<tool_call>{"name": …, "arguments": …}</tool_call>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from paddock.adapters import need
from paddock.adapters.chat import Player, explain_tools, read_text
from paddock.adapters.seat import LOOP
from paddock.adapters.trl import task_rows as _task_rows


def register(target: Any, id: str = "paddock", *, max_turns: int = 16, **make_kwargs: Any) -> str:
    """Register an environment in skyrl-gym, and return its id there: the ``env_class`` of a dataset's rows.

    SkyRL's workers are processes of their own: call it in the entry point that they run, as for environments of yours.
    """
    need("skyrl_gym")
    from skyrl_gym.envs.registration import register as register_there

    register_there(id=id, entry_point=partial(_text_env, target, max_turns, make_kwargs))
    return id


def task_rows(target: Any, split: str | None = None, *, id: str = "paddock", **options: Any) -> list[dict[str, Any]]:
    """Return a row for each task: its prompt (the environment adds its own words), and where to find the task."""
    rows = _task_rows(target, split, **options)
    return [{"prompt": [], "env_class": id, "split": row["split"], "index": row["index"]} for row in rows]


def _text_env(
    target: Any, max_turns: int, make_kwargs: dict[str, Any], env_config: Any = None, extras: Any = None
) -> Any:
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

    class PaddockTextEnv(BaseTextEnv):  # type: ignore[misc]  # skyrl-gym has no types for mypy
        """An episode of paddock's. An environment that fails raises: SkyRL must not learn from it."""

        def __init__(self, row: Mapping[str, Any]) -> None:
            super().__init__()
            self.max_turns = int(row.get("max_turns", max_turns))
            self._row = {**row.get("extra_info", {}), **row}
            self.player: Player = LOOP.wait(Player.of(target, **make_kwargs))

        def init(self, prompt: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
            first = LOOP.wait(self.player.begin(self._row))
            how = explain_tools(self.player.tools)
            return [*prompt, *([{"role": "system", "content": how}] if how else []), *first], {}

        def step(self, action: str) -> Any:
            self.turns += 1
            before = len(self.player.rewards)
            replies = LOOP.wait(self.player.act(read_text(action)))
            # Its templates need not know the role of a tool: what comes back is the user's.
            words = [{"role": "user", "content": reply["content"]} for reply in replies if reply["content"]]
            done = self.player.over or self.turns >= self.max_turns
            reward = float(sum(self.player.rewards[before:]))
            return BaseTextEnvStepOutput(observations=[] if done else words, reward=reward, done=done, metadata={})

        def get_metrics(self) -> dict[str, Any]:
            return {"steps": len(self.player.rewards), "return": self.player.total}

        def close(self) -> None:
            LOOP.wait(self.player.close())

    return PaddockTextEnv(extras or {})
