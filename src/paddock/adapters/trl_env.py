"""The class that TRL makes its environments from: one async method for each tool, ``reset`` and ``get_reward``.

TRL takes every public function of the class for a tool, so all else here is private. It calls ``reset`` from plain code
and tools from a loop of its own, keeps instances for ever and closes none.
"""

from __future__ import annotations

import base64
import copyreg
import io
import itertools
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from paddock.adapters.async_env import AsyncEnv, make_for_async
from paddock.adapters.background_loop import LOOP
from paddock.adapters.seat import Episode, Failures, Seat, SeatRules
from paddock.adapters.tool_signature import ToolSignature, tool_signature
from paddock.agentic.chat_form import call_tool, say
from paddock.core.spec import EnvSpec
from paddock.errors import DependencyNotInstalled, PlanError, ToolFailed
from paddock.hosting.tool_list import told_tools
from paddock.making.target import locate

_RESERVED = frozenset({"reset", "get_reward", "episode"})


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
    def shown(self) -> str:
        """The target, for people."""
        return locate(self.target).text

    def make(self) -> Awaitable[AsyncEnv]:
        """A new environment."""
        return make_for_async(self.target, **self.make_kwargs)

    async def ask(self) -> tuple[dict[str, Any], EnvSpec | None]:
        """What an environment says of itself, from one that is made for this."""
        env = await self.make()
        LOOP.begin(env.close)
        return env.metadata, env.spec


class TrainerEnvType(type):
    """The type of these classes, for what must not be seen from their instances."""

    _plan: Plan
    _failures: Failures

    @property
    def failures(cls) -> Failures:
        """Episodes that broke, of all instances together."""
        return cls._failures


def make_env_class(plan: Plan) -> TrainerEnvType:
    """Ask the environment for its tools, and make the class."""
    metadata, spec = LOOP.wait(plan.ask())
    tools = told_tools(metadata) or []
    if plan.say is not None:
        tools.append(_say_tool(plan.say))
    if not tools:
        raise PlanError(
            f"{plan.shown:.200} has no tools, and TRL's environment_factory knows nothing else. Use rollout_func, "
            f"where the model answers in words, or give it a tool for words: environment_factory(..., say='answer')."
        )
    methods: dict[str, Any] = {}
    for tool in tools:
        form = tool_signature(tool["name"], tool["description"], tool["input_schema"], taken={*_RESERVED, *methods})
        for_words = plan.say is not None and tool is tools[-1]
        methods[form.name] = _method(form, _said if for_words else partial(call_tool, tool["name"]))
    name = plan.name or _class_name(spec.id if spec is not None else plan.shown)
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
        """Begin an episode with the row's seed and task; the text that begins it, which TRL adds to the prompt."""
        plan = type(self)._plan
        options = {name: columns[name] for name in plan.options if columns.get(name) is not None}
        seed = columns.get("seed")
        if seed is None and not options:
            seed, self._seed = self._seed, None
        observation = LOOP.wait(self._seat.reset(None if seed is None else int(seed), options or None))
        return None if observation is None or not plan.prompt else _first_words(observation)

    def get_reward(self) -> float | None:
        """The sum of the episode's rewards; None for one that broke, which then teaches nothing."""
        return self.episode.reward


# Where TRL runs rollouts in a process of their own, the class is made again there from its plan.
copyreg.pickle(TrainerEnvType, lambda cls: (make_env_class, (cls._plan,)))


def _said(arguments: dict[str, Any]) -> dict[str, Any]:
    return say(str(arguments.get("text", "")))


def _say_tool(name: str) -> dict[str, Any]:
    text = {"type": "string", "description": "what to say."}
    schema = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    return {"name": name, "description": "Say something: an answer, or a move.", "input_schema": schema}


def _method(form: ToolSignature, action_of: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., Any]:
    """The method for one tool. Its signature is what TRL shows the model; the environment judges the arguments."""

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


def _first_words(observation: dict[str, Any]) -> Any:
    messages = observation.get("messages") or ()
    blocks = [block for message in messages for block in message["content"]]
    return _content(blocks or observation.get("content") or ())


def _content(blocks: Any) -> Any:
    """Text, or where there are images the list that TRL takes for a model with eyes."""
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
    """TRL logs rewards under it: ``paddock/Echo-v0`` is Echo."""
    last = id.rstrip("/").rpartition("/")[2].partition("@")[0].partition("-v")[0]
    name = "".join(part[:1].upper() + part[1:] for part in last.replace(":", "_").split("_"))
    return "".join(letter for letter in name if letter.isalnum()) or "Environment"
