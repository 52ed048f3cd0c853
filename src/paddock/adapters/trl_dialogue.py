"""A conversation as a trainer's tokens: what the model wrote counts (mask 1), what it was told does not (mask 0).

Nothing that the model wrote is ever tokenised again: another split of the same text would train on tokens that it never
sampled. Replies are rendered after a stand-in for the turn before, and only their own tokens are taken.
"""

from __future__ import annotations

import copy
import json
import re
import weakref
from collections.abc import Callable
from typing import Any

from paddock.errors import PlanError

Message = dict[str, Any]
Parse = Callable[[str], Message]

_TOOL_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class Template:
    """How a trainer's tokenizer writes conversations, and how what its model wrote is read."""

    def __init__(self, trainer: Any, tools: list[dict[str, Any]], parse: Parse | None) -> None:
        # A copy: the trainer reads completions by its own, and must not find our parser there.
        self.tokenizer = copy.copy(getattr(trainer.processing_class, "tokenizer", trainer.processing_class))
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise PlanError("rollout_func needs a tokenizer with a chat template: set tokenizer.chat_template.")
        self.tools = tools
        self.ends: frozenset[int] = frozenset(trainer.eos_token_ids)
        self.of = weakref.ref(trainer)
        self._words = trainer.chat_template_kwargs
        self._chat_template = _prefix_preserving(self.tokenizer)
        self._parse = parse
        self._known = parse is None and _knows_calls(self.tokenizer)

    def prompt(self, messages: list[Message]) -> list[int]:
        """The tokens of a conversation that the model is to go on with."""
        return self._render(messages, tools=self.tools or None, add_generation_prompt=True)

    def replies(self, messages: list[Message]) -> list[int]:
        """The tokens between the end of the model's turn and the beginning of its next."""
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
            raise PlanError("The tokenizer's chat template writes earlier turns anew: no tokens can be added to them.")
        return whole[len(prefix) :]

    def read(self, ids: list[int], before: list[int]) -> Message:
        """The message that the model wrote after ``before``; what can't be read as one with calls is text."""
        if self._known:
            from trl.chat_template_utils import parse_response

            return dict(parse_response(self.tokenizer, ids, prefix=before, tools=self.tools))
        text = self.tokenizer.decode(ids, skip_special_tokens=self._parse is not None)
        return self._parse(text) if self._parse is not None else self._read_plainly(text)

    def _render(self, messages: list[Message], **words: Any) -> list[int]:
        rendered = self.tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=False, chat_template=self._chat_template, **words, **self._words
        )
        return list(rendered)

    def _read_plainly(self, text: str) -> Message:
        said = _without(text, self.tokenizer.all_special_tokens)
        calls = [_call(found) for found in _TOOL_CALL.findall(said)]
        message: Message = {"role": "assistant", "content": _TOOL_CALL.sub("", said).strip()}
        return {**message, "tool_calls": calls} if calls else message


class Dialogue:
    """One rollout's tokens. ``prompt_ids`` begin it; all later ones are its completion, at most ``most`` of them."""

    def __init__(self, template: Template, messages: list[Message], most: int) -> None:
        self._template, self._most = template, most
        self.prompt_ids = template.prompt(messages)
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []
        self.turns = 0
        self.full = False  # no room for another turn

    def heard(self, ids: list[int], logprobs: list[float] | None) -> Message:
        """Take a turn of the model's, and say what it wrote."""
        ids, before = ids[: self._most - len(self.completion_ids)], self.prompt_ids + self.completion_ids
        self._add(ids, 1, logprobs)
        self.turns += 1
        # Cut off before its end, so whatever would follow is no answer to it.
        self.full = len(self.completion_ids) >= self._most or not ids or ids[-1] not in self._template.ends
        return self._template.read(ids, before)

    def told(self, messages: list[Message]) -> None:
        """Take the answers to it."""
        ids = self._template.replies(messages)
        if len(self.completion_ids) + len(ids) >= self._most:
            self.full = True
        else:
            self._add(ids, 0, None)

    def broke(self, end: int) -> None:
        """Nothing of this one is to be learned; a completion must not be empty, though."""
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


def _prefix_preserving(tokenizer: Any) -> str | None:
    """The template to train with, where the tokenizer's own changes earlier turns; None for its own."""
    from trl.chat_template_utils import get_training_chat_template, is_chat_template_prefix_preserving

    try:
        if is_chat_template_prefix_preserving(tokenizer):
            return None
    except Exception:  # a template without tools: replies() finds out whether it will do
        return None
    training: str | None = get_training_chat_template(tokenizer)
    return training


def _without(text: str, tokens: list[str]) -> str:
    for token in tokens:
        text = text.replace(token, "")
    return text


def _call(text: str) -> dict[str, Any]:
    try:
        call = json.loads(text)
        function = {"name": call["name"], "arguments": call.get("arguments", {})}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        function = {"name": "", "arguments": text}
    return {"type": "function", "function": function}
