"""Train with veRL on any environment with tools: an agent loop, chosen by configuration. Importing this imports veRL.

The configuration is a file that ``actor_rollout_ref.rollout.agent.agent_loop_config_path`` names::

    - name: paddock
      _target_: paddock.adapters.verl.PaddockAgentLoop
      target: paddock/Wordle
      max_turns: 8
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from paddock.adapters.chat import Player, read_text


@register("paddock")
class PaddockAgentLoop(AgentLoopBase):  # type: ignore[misc]  # veRL has no types for mypy
    """Plays the episode that a row's ``extra_info`` names by ``split`` and ``index``. Its prompt may be empty.

    What the model wrote has the mask 1, the environment's words 0. Calls are ``<tool_call>…</tool_call>``, as Qwen and
    Hermes write them. An environment that fails raises: veRL has no place for a rollout without a reward.
    """

    def __init__(
        self, *args: Any, target: str, max_turns: int = 16, make_kwargs: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._target, self._max_turns, self._make_kwargs = target, max_turns, dict(make_kwargs or {})

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        most, id = self.rollout_config.response_length, uuid4().hex
        mask: list[int] = []
        logprobs: list[float] | None = None
        async with await Player.of(self._target, **self._make_kwargs) as player:
            messages = [*kwargs.get("raw_prompt", ()), *await player.begin(kwargs.get("extra_info"))]
            tokens = list(await self.ct_build_initial_tokens(messages, tools=player.tools or None))
            turns = 0
            while turns < self._max_turns and len(mask) < most and not player.over:
                said = await self.server_manager.generate(
                    request_id=id, prompt_ids=tokens, sampling_params=sampling_params
                )
                known = logprobs if logprobs is not None or mask or not said.log_probs else []
                merged, mask, logprobs = await self.ct_merge_assistant_token(
                    tokens, said.token_ids, mask, known, assistant_logprobs=said.log_probs or None
                )
                tokens, turns = merged.token_ids, turns + 1
                message = read_text(self.tokenizer.decode(said.token_ids, skip_special_tokens=True))
                replies = await player.act(message)
                if player.over or not replies or len(mask) >= most:
                    break
                before = [*messages, message]
                messages = [*before, *replies]
                merged, mask, logprobs = await self.ct_merge_context_msg(
                    before, messages, tokens, mask, logprobs, tools=player.tools or None
                )
                tokens = merged.token_ids
            start = len(tokens) - len(mask)
            return AgentLoopOutput(
                prompt_ids=tokens[:start],
                response_ids=tokens[start:][:most],
                response_mask=mask[:most],
                response_logprobs=logprobs[:most] if logprobs else None,
                reward_score=player.total,
                num_turns=2 * turns + 1,
                metrics=AgentLoopMetrics(),
                extra_fields={"turn_scores": list(player.rewards), "tool_rewards": []},
            )
