"""Train with TRL's GRPOTrainer on any paddock environment with tools: here, behind a wall, or at a server.

``environment_factory`` lets TRL run the conversation: GRPOTrainer steps one rollout after another, and what the model
says last never reaches the environment. ``rollout_func`` runs it here: all rollouts at once, words included.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import copyreg
import inspect
import io
import itertools
import json
import keyword
import os
import re
import weakref
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, Union

from paddock.adapters.chat import read_text
from paddock.adapters.seat import LOOP, AsyncEnv, Episode, Failures, Seat, SeatRules, make_for_async
from paddock.agentic.chat import (
    call_tool_action,
    message_calls,
    message_text,
    openai_tools,
    opening_messages,
    reply_content,
    say_action,
)
from paddock.core.spec import EnvSpec
from paddock.errors import DependencyNotInstalled, PlanError, ToolFailed
from paddock.hosting.messages import read_tools
from paddock.making.target import locate
from paddock.seeding import derived_seed

__all__ = ["Episode", "Failures", "SeatRules", "env_reward", "environment_factory", "rollout_func", "task_rows"]

TASK = "task"  # in a prompt's last message

Target = str | os.PathLike[str] | EnvSpec
Message = dict[str, Any]
Parse = Callable[[str], Message]


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
    """Return a class for ``GRPOTrainer(environment_factory=...)``, or for a dict of several.

    ``target`` and all other keywords are those of ``make``. One environment is made at once, to ask for its tools.

    A row's column ``seed`` and those named in ``options`` choose the episode, see ``task_rows``; rows without them
    begin with ``seed``, plus one for each further instance, and go on from there. ``prompt=False`` does not add the
    environment's first words to the row's prompt. ``say``: the name of a further tool that takes words, for
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
    """Return a function for ``GRPOTrainer(rollout_func=..., reward_funcs=env_reward)``.

    ``target`` and all other keywords are those of ``make``. The model's tool calls are steps, and so are its words
    if it calls no tool. ``parse`` reads what the model wrote, ``parse(text) -> message``; without it the tokenizer
    does, or calls are read as ``<tool_call>{"name": ..., "arguments": ...}</tool_call>``. All generations of a prompt
    get the same task. Its ``failures`` counts episodes that broke; nothing is learned from those.
    """
    if find_spec("trl") is None:
        raise DependencyNotInstalled("TRL is not installed. To install: pip install trl")
    plan = Plan(target, prompt=prompt, seed=seed, rules=rules, make_kwargs=make_kwargs)
    return RolloutFunc(plan, max_turns=max_turns, parse=parse)


def env_reward(*, env_reward: list[float | None], **_: Any) -> list[float | None]:
    """Return what the environment gave, None for an episode that broke: the reward function for ``rollout_func``."""
    return env_reward


def task_rows(
    target: Target, split: str | None = None, *, start: int = 0, count: int | None = None, **make_kwargs: Any
) -> list[dict[str, Any]]:
    """Return rows for a dataset, one per task of a split: ``datasets.Dataset.from_list(task_rows("paddock/Echo"))``.

    All generations of a row then work on the same task, as GRPO wants it. ``split``: the first by default. An endless
    split needs a ``count``. Prompts are empty: the environment's own words are added when the episode begins.
    """
    split, known = LOOP.wait(_ask_tasks(target, split, make_kwargs))
    if known is None and count is None:
        raise PlanError(f"The split {split!r} is endless. Pass how many tasks you want: task_rows(..., count=1000).")
    stop = start + count if count is not None else known
    assert stop is not None
    tasks = [{"split": split, "index": index} for index in range(start, stop if known is None else min(stop, known))]
    # In the message too: TRL gives rollout_func prompts and no columns.
    return [{"prompt": [{"role": "user", "content": "", TASK: task}], **task} for task in tasks]


async def _ask_tasks(target: Target, split: str | None, make_kwargs: dict[str, Any]) -> tuple[str, int | None]:
    plan = Plan(target, make_kwargs=make_kwargs)
    env = await plan.make()
    try:
        splits = env.metadata.get("splits")
        if not splits:
            raise PlanError(
                f"{plan.label:.200} has no tasks. Make a dataset of prompts, with a column 'seed' if you like."
            )
        split = split or splits[0]["name"]
        try:
            return split, int(await env.call("task", "num_tasks", split))
        except NotImplementedError:
            return split, None
    finally:
        await env.close()


class RolloutFunc:
    """Plays all rollouts of a batch turn by turn, generated together and stepped at once; keeps its environments.

    TRL passes each prompt once per generation, the copies one after another, whatever its documentation says. It passes
    nothing but prompts, so a row's task comes with its last message: see ``task_rows``.
    """

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
        if not hasattr(trainer, "_generate_single_turn"):
            raise PlanError("rollout_func needs TRL 1.16; this version generates differently. Use environment_factory.")
        self._batches += 1
        while len(self._seats) < len(prompts):
            seat = Seat(self._plan.make, self._plan.rules, self.failures)
            weakref.finalize(self, seat.leave).atexit = False
            self._seats.append(seat)
        seats = self._seats[: len(prompts)]
        starts = [seat.reset(*self._start(at, prompts, trainer)) for at, seat in enumerate(seats)]
        observations = LOOP.wait(_gather(starts))
        template = self._template_for(trainer)
        rollouts = []
        for seat, prompt, seen in zip(seats, prompts, observations, strict=True):
            messages = _conversation(prompt, seen or {}, with_words=self._plan.prompt)
            rollouts.append(Rollout(seat, template, messages, trainer.max_completion_length))
        sampled = False
        for _ in range(self._max_turns):
            going = [one for one in rollouts if one.goes_on]
            if not going:
                break
            contexts = [one.prompt_ids + one.completion_ids for one in going]
            # As the trainer does, by vLLM or the model itself. One for each: every rollout has its own past.
            ids, logprobs = trainer._generate_single_turn(contexts, None, {}, 1)
            sampled = logprobs is not None
            said = [one.add_turn(ids[at], logprobs[at] if sampled else None) for at, one in enumerate(going)]
            LOOP.wait(_gather([one.act(message) for one, message in zip(going, said, strict=True)]))
        return _batch(rollouts, template, sampled=sampled)

    def _template_for(self, trainer: Any) -> Template:
        if self._tools is None:
            metadata, _ = LOOP.wait(self._plan.ask())
            self._tools = openai_tools(read_tools(metadata) or [])
        if self._template is None or self._template.of() is not trainer:
            self._template = Template(trainer, self._tools, self._parse)
        return self._template

    def _start(self, at: int, prompts: list[Any], trainer: Any) -> tuple[int | None, dict[str, Any] | None]:
        """Return seed and options of a rollout: its row's, else the same seed for all generations of a prompt."""
        task = prompts[at][-1].get(TASK) if isinstance(prompts[at], list) else None
        row = {name: value for name, value in (task or {}).items() if value is not None}
        seed = row.pop("seed", None)
        if seed is None and not row:
            group = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
            place = (trainer.accelerator.process_index * len(prompts) + at) // group
            seed = derived_seed(derived_seed(self._plan.seed or 0, self._batches), place)
        return (None if seed is None else int(seed)), row or None


async def _step(seat: Seat, action: dict[str, Any]) -> str:
    try:
        return _text(reply_content(await seat.step(action)))
    except ToolFailed as error:
        return str(error)


def _text(content: Any) -> str:
    """Return the text without images: a template for text would write their bytes."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else "[image]" for part in content)


async def _gather(work: list[Any]) -> list[Any]:
    return list(await asyncio.gather(*work))


def _conversation(prompt: Any, observation: dict[str, Any], *, with_words: bool) -> list[Message]:
    """Return the row's messages with the environment's words added to the last, or in its place if it is empty."""
    given: list[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    given = [{name: value for name, value in message.items() if name != TASK} for message in given]
    if not with_words:
        return given
    own = [{**message, "content": _text(message["content"])} for message in opening_messages(observation)]
    if not given[-1]["content"]:
        return given[:-1] + own
    words = "\n".join(message["content"] for message in own)
    return [*given[:-1], {**given[-1], "content": f"{given[-1]['content']}{words}"}]


def _batch(rollouts: list[Rollout], template: Template, *, sampled: bool) -> dict[str, Any]:
    for one in rollouts:
        if one.seat.episode.failure is not None:
            one.discard(min(template.ends))
    return {
        "prompt_ids": [one.prompt_ids for one in rollouts],
        "completion_ids": [one.completion_ids for one in rollouts],
        "logprobs": [one.logprobs for one in rollouts] if sampled else None,
        "env_mask": [one.mask for one in rollouts],
        "env_reward": [one.seat.episode.reward for one in rollouts],
        "env_failure": [one.seat.episode.failure for one in rollouts],
        "env_turns": [one.turns for one in rollouts],
    }


class Template:
    """Writes conversations as a trainer's tokenizer does, and reads what its model wrote."""

    def __init__(self, trainer: Any, tools: list[dict[str, Any]], parse: Parse | None) -> None:
        # A copy: the trainer reads completions by its own, and must not find our parser there.
        self.tokenizer = copy.copy(getattr(trainer.processing_class, "tokenizer", trainer.processing_class))
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise PlanError("rollout_func needs a tokenizer with a chat template: set tokenizer.chat_template.")
        self.tools = tools
        self.ends: frozenset[int] = frozenset(trainer.eos_token_ids)
        self.of = weakref.ref(trainer)
        self._options = trainer.chat_template_kwargs
        self._chat_template = _training_template(self.tokenizer)
        self._parse = parse
        self._known = parse is None and _knows_calls(self.tokenizer)

    def prompt(self, messages: list[Message]) -> list[int]:
        return self._render(messages, tools=self.tools or None, add_generation_prompt=True)

    def replies(self, messages: list[Message]) -> list[int]:
        """Return the tokens between the end of the model's turn and the beginning of its next.

        They are rendered after a stand-in for the turn before, and only their own tokens are taken.
        """
        before: list[Message] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": ""}]
        if messages[0]["role"] == "tool":
            call = {"name": messages[0]["name"], "arguments": {}}  # some templates write the name again
            before[1]["tool_calls"] = [{"type": "function", "function": call}]
        prefix = self._render(before, add_generation_prompt=False)
        whole = self._render([*before, *messages], add_generation_prompt=True)
        # Many templates end a turn by a token and a new line; the model wrote only the token.
        last = max((at for at, token in enumerate(prefix) if token in self.ends), default=len(prefix) - 1)
        prefix = prefix[: last + 1]
        if whole[: len(prefix)] != prefix:
            raise PlanError("The tokenizer's chat template rewrites earlier turns: no tokens can be added to them.")
        return whole[len(prefix) :]

    def read(self, ids: list[int], before: list[int]) -> Message:
        """Return the message that the model wrote after ``before``; what can't be read as a call is text."""
        if self._known:
            from trl.chat_template_utils import parse_response

            return dict(parse_response(self.tokenizer, ids, prefix=before, tools=self.tools))
        text = self.tokenizer.decode(ids, skip_special_tokens=self._parse is not None)
        if self._parse is not None:
            return self._parse(text)
        for token in self.tokenizer.all_special_tokens:
            text = text.replace(token, "")
        return read_text(text)

    def _render(self, messages: list[Message], **options: Any) -> list[int]:
        rendered = self.tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=False, chat_template=self._chat_template, **options, **self._options
        )
        return list(rendered)


class Rollout:
    """A seat and its tokens. ``prompt_ids`` begin them; all later ones are the completion, at most ``most`` of them.

    What the model wrote counts (mask 1), the replies do not (mask 0). What it wrote is never tokenised again: another
    split of the same text would train on tokens that it never sampled.
    """

    def __init__(self, seat: Seat, template: Template, messages: list[Message], most: int) -> None:
        self.seat, self._template, self._most = seat, template, most
        self.prompt_ids = template.prompt(messages)
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []
        self.turns = 0
        self._full = False  # no room for another turn

    @property
    def goes_on(self) -> bool:
        return not (self.seat.episode.over or self._full)

    def add_turn(self, ids: list[int], logprobs: list[float] | None) -> Message:
        """Add a turn of the model, and return what it wrote."""
        ids, before = ids[: self._most - len(self.completion_ids)], self.prompt_ids + self.completion_ids
        self._add(ids, 1, logprobs)
        self.turns += 1
        # A turn that was cut off can't be answered.
        self._full = len(self.completion_ids) >= self._most or not ids or ids[-1] not in self._template.ends
        return self._template.read(ids, before)

    async def act(self, message: Message) -> None:
        """Do what the message asks for, and add the replies, unless the rollout ends here."""
        calls, replies = message_calls(message), list[Message]()
        for call in calls:
            content = call.problem or await _step(self.seat, call.action)
            replies.append({"role": "tool", "name": call.name or "unknown", "content": content})
        if not calls:
            replies.append({"role": "user", "content": await _step(self.seat, say_action(message_text(message)))})
        if self.goes_on:
            ids = self._template.replies(replies)
            self._full = len(self.completion_ids) + len(ids) >= self._most
            if not self._full:
                self._add(ids, 0, None)

    def discard(self, end: int) -> None:
        """Let nothing be learned from this one; its completion must not be empty, though."""
        if not self.completion_ids:
            self._add([end], 0, None)
        self.mask = [0] * len(self.mask)

    def _add(self, ids: list[int], mask: int, logprobs: list[float] | None) -> None:
        self.completion_ids += ids
        self.mask += [mask] * len(ids)
        self.logprobs += [0.0] * len(ids) if logprobs is None else logprobs[: len(ids)]


def _knows_calls(tokenizer: Any) -> bool:
    """Whether transformers can read this tokenizer's calls, by its own knowledge or by what TRL knows of templates."""
    from trl.chat_template_utils import add_response_schema

    if getattr(tokenizer, "response_template", None) or getattr(tokenizer, "response_schema", None):
        return True
    try:
        add_response_schema(tokenizer)
    except ValueError:
        return False
    return True


def _training_template(tokenizer: Any) -> str | None:
    """Return the template to train with, if the tokenizer's own changes earlier turns; else None."""
    from trl.chat_template_utils import get_training_chat_template, is_chat_template_prefix_preserving

    try:
        if is_chat_template_prefix_preserving(tokenizer):
            return None
    except Exception:  # a template without tools: replies() finds out whether it will do
        return None
    training: str | None = get_training_chat_template(tokenizer)
    return training


# ── The class that TRL makes its environments from: one async method for each tool, `reset` and `get_reward` ──
#
# TRL takes every public function of the class for a tool, so all else in it is private. It calls `reset` from plain
# code and tools from a loop of its own, keeps instances forever and closes none.

_RESERVED = frozenset({"reset", "get_reward", "episode"})
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}
_DEEPEST = 8  # of a schema; deeper parts, and those that contain themselves, may be anything
_LONGEST = 600  # characters of JSON in a description
_HEADS = {"Args:": "Arguments:", "Returns:": "Gives:", "Raises:": "Refuses:"}  # where readers of docstrings cut


@dataclass(frozen=True)
class Plan:
    """What an environment class is made from; a process that TRL starts makes it again from this."""

    target: str | os.PathLike[str] | EnvSpec = field(repr=False)  # a URL may hold a token
    name: str | None = None
    say: str | None = None
    prompt: bool = True
    seed: int | None = None
    options: tuple[str, ...] = ("split", "index")
    rules: SeatRules = field(default_factory=SeatRules)
    make_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return locate(self.target).text

    def make(self) -> Awaitable[AsyncEnv]:
        return make_for_async(self.target, **self.make_kwargs)

    async def ask(self) -> tuple[dict[str, Any], EnvSpec | None]:
        """Return what an environment says of itself; one is made for this."""
        env = await self.make()
        LOOP.begin(env.close)
        return env.metadata, env.spec


class TrainerEnvType(type):
    """The type of these classes, for what their instances must not show."""

    _plan: Plan
    _failures: Failures

    @property
    def failures(cls) -> Failures:
        """Episodes that broke, of all instances together."""
        return cls._failures


def make_env_class(plan: Plan) -> TrainerEnvType:
    """Ask the environment for its tools, and make the class."""
    metadata, spec = LOOP.wait(plan.ask())
    tools = read_tools(metadata) or []
    if plan.say is not None:
        text = {"type": "string", "description": "what to say."}
        schema = {"type": "object", "properties": {"text": text}, "required": ["text"]}
        tools.append({"name": plan.say, "description": "Say something: an answer, or a move.", "input_schema": schema})
    if not tools:
        raise PlanError(
            f"{plan.label:.200} has no tools, and TRL's environment_factory knows nothing else. Use rollout_func, "
            f"where the model answers in words, or give it a tool for words: environment_factory(..., say='answer')."
        )
    methods: dict[str, Any] = {}
    act: Callable[[dict[str, Any]], dict[str, Any]]
    for tool in tools:
        form = tool_signature(tool["name"], tool["description"], tool["input_schema"], taken={*_RESERVED, *methods})
        act = partial(call_tool_action, tool["name"])
        if plan.say is not None and tool is tools[-1]:
            act = lambda arguments: say_action(str(arguments.get("text", "")))  # noqa: E731 - one of two
        methods[form.name] = _method(form, act)
    name = plan.name or _class_name(spec.id if spec is not None else plan.label)
    body = {
        "__doc__": f"{metadata.get('description') or name}",
        "__module__": __name__,
        "_plan": plan,
        "_failures": Failures(),
        "_numbers": itertools.count(),
        **methods,
    }
    return TrainerEnvType(name, (TrainerEnv,), body)


class TrainerEnv(metaclass=TrainerEnvType):
    """One place for a rollout. ``episode`` tells reward functions what happened in it."""

    _numbers = itertools.count()

    def __init__(self) -> None:
        plan = type(self)._plan
        self._seat = Seat(plan.make, plan.rules, type(self)._failures)
        number = next(type(self)._numbers)
        self._seed = None if plan.seed is None else plan.seed + number  # for its first episode
        # Not kept alive by this: the seat knows nothing of the instance.
        weakref.finalize(self, self._seat.leave).atexit = False
        self._seat.prepare()

    @property
    def episode(self) -> Episode:
        """The one that runs, or ended last."""
        return self._seat.episode

    def reset(self, **columns: Any) -> Any:
        """Begin an episode with the row's seed and task, and return its first text, which TRL adds to the prompt."""
        plan = type(self)._plan
        options = {name: columns[name] for name in plan.options if columns.get(name) is not None}
        seed = columns.get("seed")
        if seed is None and not options:
            seed, self._seed = self._seed, None
        observation = LOOP.wait(self._seat.reset(None if seed is None else int(seed), options or None))
        if observation is None or not plan.prompt:
            return None
        blocks = [block for message in observation.get("messages") or () for block in message["content"]]
        return _content(blocks or observation.get("content") or ())

    def get_reward(self) -> float | None:
        """The sum of the episode's rewards; None for one that broke, which then teaches nothing."""
        return self.episode.reward


# Where TRL runs rollouts in a process of their own, the class is made again there from its plan.
copyreg.pickle(TrainerEnvType, lambda cls: (make_env_class, (cls._plan,)))


def _method(form: ToolSignature, action_of: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., Any]:
    """Return the method for one tool. TRL shows its signature to the model; the environment checks the arguments."""

    async def method(self: TrainerEnv, /, *positional: Any, **given: Any) -> Any:
        names = [name for name in form.arguments if name not in given]
        given.update(zip(names, positional, strict=False))
        arguments = {form.arguments.get(name, name): value for name, value in given.items()}
        observation = await LOOP.of(self._seat.step(action_of(arguments)))
        if (error := observation.get("error")) is not None:
            raise ToolFailed(error["message"])  # TRL shows its text to the model, and counts it
        return _content(observation.get("content") or ())

    method.__name__ = form.name
    method.__qualname__ = f"TrainerEnv.{form.name}"
    method.__doc__ = form.docstring
    method.__signature__ = form.signature  # type: ignore[attr-defined]
    hints = {name: parameter.annotation for name, parameter in form.signature.parameters.items() if name != "self"}
    method.__annotations__ = {**hints, "return": str}
    return method


def _content(blocks: Any) -> Any:
    """Return text, or if there are images, the list that TRL takes for a vision model."""
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    try:
        from PIL import Image
    except ImportError:
        raise DependencyNotInstalled("TRL takes images as Pillow's. To install: pip install pillow") from None

    return [
        {"type": "text", "text": block["text"]}
        if block["type"] == "text"
        else {"type": "image", "image": Image.open(io.BytesIO(base64.b64decode(block["data"])))}
        for block in blocks
    ]


def _class_name(id: str) -> str:
    """Return the name under which TRL logs rewards: ``paddock/Echo-v0`` is Echo."""
    last = id.rstrip("/").rpartition("/")[2].partition("@")[0].partition("-v")[0]
    name = "".join(part[:1].upper() + part[1:] for part in last.replace(":", "_").split("_"))
    return "".join(letter for letter in name if letter.isalnum()) or "Environment"


@dataclass(frozen=True)
class ToolSignature:
    """``name`` and the parameters are Python's; ``arguments`` says which argument of the tool each parameter is."""

    name: str
    signature: inspect.Signature
    docstring: str
    arguments: dict[str, str]


def tool_signature(
    name: str, description: str, schema: Mapping[str, Any], *, taken: Container[str] = ()
) -> ToolSignature:
    """Return how a tool looks as a method; its name changes if Python, or ``taken``, has another use for it.

    Libraries that read tools from functions turn the signature and docstring into a schema again, which says less than
    JSON Schema does. What gets lost on the way (the fields of an object, say) goes into the argument's description.

    >>> schema = {"properties": {"from": {"type": "integer", "description": "the square"}}, "required": ["from"]}
    >>> tool = tool_signature("move", "Move a piece.", schema)
    >>> tool.signature
    <Signature (self, from_: int) -> str>
    >>> print(tool.docstring)
    Move a piece.
    <BLANKLINE>
    Args:
        from_: the square
    """
    properties, required = schema.get("properties") or {}, set(schema.get("required") or ())
    definitions = schema.get("$defs") or schema.get("definitions") or {}
    parameters, lines, arguments = [], list[str](), dict[str, str]()
    # Python wants those without a default first.
    for argument in sorted(properties, key=lambda one: one not in required):
        part = properties[argument] if isinstance(properties[argument], dict) else {}
        python = python_name(argument, {"self", *arguments})
        arguments[python] = argument
        parameters.append(_parameter(python, part, definitions, required=argument in required))
        lines.append(f"    {python}: {_description(argument, part, definitions)}")
    text = _without_heads(description.strip()) or f"{name}."
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return ToolSignature(
        name=python_name(name, taken),
        signature=inspect.Signature([receiver, *parameters], return_annotation=str),
        docstring="\n".join([text, "", "Args:", *lines]) if lines else text,
        arguments=arguments,
    )


def python_name(name: str, taken: Container[str] = ()) -> str:
    """Return a public Python name like ``name`` that is neither a keyword nor ``taken``."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_") or "tool"
    if name[0].isdigit():
        name = f"n{name}"
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def _parameter(name: str, part: dict[str, Any], definitions: dict[str, Any], *, required: bool) -> inspect.Parameter:
    hint = python_type(part, definitions)
    default: Any = inspect.Parameter.empty
    if not required:
        default = part.get("default")
        if default is None and hint is not Any:
            hint = Union[hint, None]  # noqa: UP007 - a hint that is a value
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=hint, default=default)


def python_type(part: Any, definitions: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
    """Return the hint of what a JSON Schema allows, or of somewhat more; ``Any`` if no hint says it.

    >>> python_type({"type": "array", "items": {"enum": ["a", "b"]}})
    list[typing.Literal['a', 'b']]
    """
    if not isinstance(part, dict) or depth > _DEEPEST:
        return Any
    definitions = definitions or {}
    if isinstance(reference := part.get("$ref"), str):
        return python_type(definitions.get(reference.rpartition("/")[2]), definitions, depth + 1)
    choices = [part["const"]] if "const" in part else part.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, (str, int, float, type(None))) for one in choices):
        return Literal[tuple(choices)]
    for word in ("anyOf", "oneOf"):
        if isinstance(part.get(word), list) and part[word]:
            return _union([python_type(one, definitions, depth + 1) for one in part[word]])
    kinds = part.get("type")
    if isinstance(kinds, list) and kinds:
        return _union([python_type({**part, "type": kind}, definitions, depth + 1) for kind in kinds])
    if kinds == "array" and isinstance(part.get("items"), dict):
        return list[python_type(part["items"], definitions, depth + 1)]  # type: ignore[misc]
    return _TYPES.get(kinds, Any) if isinstance(kinds, str) else Any


def _union(hints: list[Any]) -> Any:
    return Any if Any in hints else Union[tuple(hints)]  # noqa: UP007 - a hint that is a value


def _description(name: str, part: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return one line: only a new line ends one argument's text."""
    said = part.get("description") or part.get("title")
    text = " ".join(said.split()) if isinstance(said, str) else ""
    text = text or f"the {name.replace('_', ' ')}."
    if _has_fields(part, definitions):
        schema = json.dumps({**part, "$defs": definitions} if definitions else part, separators=(",", ":"), default=str)
        text += f" As JSON Schema: {schema if len(schema) <= _LONGEST else f'{schema[:_LONGEST]}…'}"
    # "(choices: …)" at the end is read as an enum.
    return re.sub(r"\(choices:", "(one of:", _without_heads(text), flags=re.IGNORECASE)


def _has_fields(part: Any, definitions: dict[str, Any], depth: int = 0) -> bool:
    if isinstance(part, list):
        return any(_has_fields(one, definitions, depth + 1) for one in part)
    if not isinstance(part, dict) or depth > _DEEPEST:
        return False
    if part.get("properties") or "$ref" in part:
        return True
    return any(_has_fields(part.get(word), definitions, depth + 1) for word in ("items", "anyOf", "oneOf"))


def _without_heads(text: str) -> str:
    for head, other in _HEADS.items():
        text = text.replace(head, other)
    return text
