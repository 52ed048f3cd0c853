"""TRL's rollout_func: all rollouts of a batch turn by turn, generated together and stepped at once.

TRL hands over each prompt once for each generation, the copies one after another; what it says about that is otherwise.
It hands over nothing but prompts, so a row's task comes with its last message: see ``task_rows``.
"""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass
from typing import Any

from paddock.adapters.background_loop import LOOP
from paddock.adapters.seat import Failures, Seat
from paddock.adapters.trl_dialogue import Dialogue, Message, Parse, Template
from paddock.adapters.trl_env import Plan
from paddock.agentic.chat_form import calls_of, openai_tools, opening, say, text_in, words_of
from paddock.errors import PlanError, ToolFailed
from paddock.hosting.tool_list import told_tools
from paddock.seeding import derived_seed

TASK = "task"  # in a prompt's last message


@dataclass
class _Rollout:
    seat: Seat
    dialogue: Dialogue

    @property
    def goes_on(self) -> bool:
        return not (self.seat.episode.over or self.dialogue.full)


class RolloutFunc:
    """For ``GRPOTrainer(rollout_func=...)``. Its environments are kept from batch to batch."""

    def __init__(self, plan: Plan, *, max_turns: int, parse: Parse | None) -> None:
        if max_turns < 1:
            raise PlanError(f"max_turns={max_turns}: expected at least 1.")
        self._plan, self._max_turns, self._parse = plan, max_turns, parse
        self.failures = Failures()
        self._seats: list[Seat] = []
        self._tools: list[dict[str, Any]] | None = None
        self._template: Template | None = None
        self._batches = 0

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """The rollouts of a batch, one for each prompt."""
        self._batches += 1
        seats = self._seats_for(len(prompts))
        observations = LOOP.wait(_together([seat.reset(*self._start(at, prompts, trainer)) for at, seat in seats]))
        template = self._template_of(trainer)
        rollouts = []
        for (_, seat), prompt, seen in zip(seats, prompts, observations, strict=True):
            messages = _conversation(prompt, seen or {}, with_words=self._plan.prompt)
            rollouts.append(_Rollout(seat, Dialogue(template, messages, trainer.max_completion_length)))
        sampled = False
        for _ in range(self._max_turns):
            going = [one for one in rollouts if one.goes_on]
            if not going:
                break
            ids, logprobs = _generate(trainer, [one.dialogue.prompt_ids + one.dialogue.completion_ids for one in going])
            sampled = logprobs is not None
            said = [
                one.dialogue.heard(ids[at], logprobs[at] if logprobs is not None else None)
                for at, one in enumerate(going)
            ]
            LOOP.wait(_together([_act(one, message) for one, message in zip(going, said, strict=True)]))
        return _batch(rollouts, template, sampled=sampled)

    def _seats_for(self, count: int) -> list[tuple[int, Seat]]:
        while len(self._seats) < count:
            seat = Seat(self._plan.make, self._plan.rules, self.failures)
            weakref.finalize(self, seat.leave).atexit = False
            self._seats.append(seat)
        return list(enumerate(self._seats[:count]))

    def _template_of(self, trainer: Any) -> Template:
        if self._tools is None:
            metadata, _ = LOOP.wait(self._plan.ask())
            self._tools = openai_tools(told_tools(metadata) or [])
        if self._template is None or self._template.of() is not trainer:
            self._template = Template(trainer, self._tools, self._parse)
        return self._template

    def _start(self, at: int, prompts: list[Any], trainer: Any) -> tuple[int | None, dict[str, Any] | None]:
        """Seed and options of a rollout: those of its row, else the same seed for all generations of a prompt."""
        told = prompts[at][-1].get(TASK) if isinstance(prompts[at], list) else None
        row = {name: value for name, value in (told or {}).items() if value is not None}
        seed = row.pop("seed", None)
        if seed is None and not row:
            group = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
            place = (trainer.accelerator.process_index * len(prompts) + at) // group
            seed = derived_seed(derived_seed(self._plan.seed or 0, self._batches), place)
        return (None if seed is None else int(seed)), row or None


async def _act(rollout: _Rollout, message: Message) -> None:
    """Do what the message asks for, and tell the dialogue what came of it, unless nobody would read that."""
    calls, replies = calls_of(message), list[Message]()
    for call in calls:
        told = call.problem or await _step(rollout.seat, call.action)
        replies.append({"role": "tool", "name": call.name or "unknown", "content": told})
    if not calls:
        replies.append({"role": "user", "content": await _step(rollout.seat, say(text_in(message)))})
    if rollout.goes_on:
        rollout.dialogue.told(replies)


async def _step(seat: Seat, action: dict[str, Any]) -> str:
    try:
        return _text(words_of(await seat.step(action)))
    except ToolFailed as error:
        return str(error)


def _text(content: Any) -> str:
    """Without images: a template for text would write their bytes."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else "[image]" for part in content)


async def _together(work: list[Any]) -> list[Any]:
    return list(await asyncio.gather(*work))


def _conversation(prompt: Any, observation: dict[str, Any], *, with_words: bool) -> list[Message]:
    """The row's messages with the environment's words added to the last; where that is empty, the environment's own."""
    given: list[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    given = [{name: value for name, value in message.items() if name != TASK} for message in given]
    if not with_words:
        return given
    own = [{**message, "content": _text(message["content"])} for message in opening(observation)]
    if not given[-1]["content"]:
        return given[:-1] + own
    words = "\n".join(message["content"] for message in own)
    return [*given[:-1], {**given[-1], "content": f"{given[-1]['content']}{words}"}]


def _generate(trainer: Any, ids: list[list[int]]) -> tuple[list[list[int]], list[list[float]] | None]:
    """Through the trainer's own way, be it vLLM or the model itself. One for each: every rollout has its own past."""
    if not hasattr(trainer, "_generate_single_turn"):
        raise PlanError("This TRL generates otherwise than 1.16 does, so rollout_func can't. Use environment_factory.")
    made: tuple[list[list[int]], list[list[float]] | None] = trainer._generate_single_turn(ids, None, {}, 1)
    return made


def _batch(rollouts: list[_Rollout], template: Template, *, sampled: bool) -> dict[str, Any]:
    for one in rollouts:
        if one.seat.episode.failure is not None:
            one.dialogue.broke(min(template.ends))
    episodes = [one.seat.episode for one in rollouts]
    dialogues = [one.dialogue for one in rollouts]
    return {
        "prompt_ids": [one.prompt_ids for one in dialogues],
        "completion_ids": [one.completion_ids for one in dialogues],
        "logprobs": [one.logprobs for one in dialogues] if sampled else None,
        "env_mask": [one.mask for one in dialogues],
        "env_reward": [one.reward for one in episodes],
        "env_failure": [one.failure for one in episodes],
        "env_turns": [one.turns for one in dialogues],
    }
