"""Train with TRL's GRPOTrainer on any paddock environment with tools: here, behind a wall, or at a server.

``environment_factory`` lets TRL run the conversation: GRPOTrainer steps one rollout after another, and what the model
says last never reaches the environment. ``rollout_func`` runs it here: all rollouts at once, words included.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from paddock.adapters.background_loop import LOOP
from paddock.adapters.seat import Episode, Failures, SeatRules
from paddock.adapters.trl_dialogue import Parse
from paddock.adapters.trl_env import Plan, TrainerEnvType, make_env_class
from paddock.adapters.trl_rollout import TASK, RolloutFunc
from paddock.core.spec import EnvSpec
from paddock.errors import DependencyNotInstalled, PlanError

__all__ = ["Episode", "Failures", "SeatRules", "env_reward", "environment_factory", "rollout_func", "task_rows"]

Target = str | os.PathLike[str] | EnvSpec


def environment_factory(
    target: Target,
    *,
    name: str | None = None,
    say: str | None = None,
    prompt: bool = True,
    seed: int | None = None,
    options: Sequence[str] = ("split", "index"),
    rules: SeatRules = SeatRules(),  # noqa: B008 - frozen
    **make_kwargs: Any,
) -> TrainerEnvType:
    """A class for ``GRPOTrainer(environment_factory=...)``, or for a dict of several.

    ``target`` and all other keywords are those of ``make``. One environment is made at once, to ask for its tools.

    A row's column ``seed`` and those named in ``options`` choose the episode, see ``task_rows``; rows without them
    begin with ``seed``, plus one for each further instance, and go on from there. ``prompt=False``: the words that
    begin the episode are not added to the row's prompt. ``say``: the name of a further tool that takes words, for
    environments that are answered in words. ``name``: what TRL logs the rewards under.

    The reward is the sum over the episode. One that broke has None, which TRL leaves out; the class counts them in
    ``failures``, and the instance's ``episode`` says why. Instances need no closing.
    """
    plan = Plan(target, name, say, prompt, seed, tuple(options), rules, make_kwargs)
    return make_env_class(plan)


def rollout_func(
    target: Target,
    *,
    max_turns: int = 16,
    parse: Parse | None = None,
    prompt: bool = True,
    seed: int | None = None,
    rules: SeatRules = SeatRules(),  # noqa: B008 - frozen
    **make_kwargs: Any,
) -> RolloutFunc:
    """A function for ``GRPOTrainer(rollout_func=..., reward_funcs=env_reward)``.

    ``target`` and all other keywords are those of ``make``. The model's tool calls are steps, and so are its words
    where it calls no tool. ``parse`` reads what the model wrote, ``parse(text) -> message``; without it the tokenizer
    does, or calls are read as ``<tool_call>{"name": ..., "arguments": ...}</tool_call>``. All generations of a prompt
    get the same task. ``failures`` of what is returned counts episodes that broke; nothing is learned from those.
    """
    if find_spec("trl") is None:
        raise DependencyNotInstalled("TRL is not installed. To install: pip install trl")
    plan = Plan(target, prompt=prompt, seed=seed, rules=rules, make_kwargs=make_kwargs)
    return RolloutFunc(plan, max_turns=max_turns, parse=parse)


def env_reward(*, env_reward: list[float | None], **_: Any) -> list[float | None]:
    """The reward function for ``rollout_func``: what the environment gave, None for an episode that broke."""
    return env_reward


def task_rows(
    target: Target, split: str | None = None, *, start: int = 0, count: int | None = None, **make_kwargs: Any
) -> list[dict[str, Any]]:
    """Rows for a dataset, one for each task of a split: ``datasets.Dataset.from_list(task_rows("paddock/Echo"))``.

    All generations of a row then work on the same task, as GRPO wants it. ``split``: the first by default. An endless
    split needs a ``count``. Prompts are empty, for the environment's own words are added when the episode begins.
    """
    split, known = LOOP.wait(_ask_tasks(target, split, make_kwargs))
    if known is None and count is None:
        raise PlanError(f"The split {split!r} is endless: say how many tasks, task_rows(..., count=1000).")
    stop = start + count if count is not None else known
    assert stop is not None
    stop = stop if known is None else min(stop, known)
    return [_row(split, index) for index in range(start, stop)]


def _row(split: str, index: int) -> dict[str, Any]:
    task = {"split": split, "index": index}
    # In the message too: rollout_func is given prompts and no columns.
    return {"prompt": [{"role": "user", "content": "", TASK: task}], **task}


async def _ask_tasks(target: Target, split: str | None, make_kwargs: dict[str, Any]) -> tuple[str, int | None]:
    plan = Plan(target, make_kwargs=make_kwargs)
    env = await plan.make()
    try:
        splits = env.metadata.get("splits")
        if not splits:
            raise PlanError(
                f"{plan.shown:.200} has no tasks. Make a dataset of prompts, with a column 'seed' if you like."
            )
        split = split or splits[0]["name"]
        try:
            return split, int(await env.call("task", "num_tasks", split))
        except NotImplementedError:
            return split, None
    finally:
        await env.close()
