"""ModelCall: one request to a model and its reply, as they were, in the form of chat-completions APIs.

Headers, and so keys, are left out. Token ids and log probabilities are there if the endpoint sent them: vLLM and
SGLang do for ``return_token_ids`` and ``logprobs``, llama.cpp for ``logprobs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TOKEN_ID = "token_id:"  # noqa: S105 - how vLLM writes a token as its id


@dataclass(frozen=True)
class ModelCall:
    """``request`` is the body that was sent; ``reply`` the body that came, unknown fields included.

    A call that failed has an ``error``, (code, message), and may have the reply that was refused. ``turn`` is the
    policy's, ``retry`` counts the calls of that turn that failed before. ``began_s`` is Unix time. ``cost`` is known if
    the prices are.
    """

    request: dict[str, Any]
    reply: Any = None
    error: tuple[str, str] | None = None
    began_s: float = 0.0
    seconds: float = 0.0
    turn: int = 0
    retry: int = 0
    cost: float = 0.0

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation that was sent."""
        return self.request.get("messages") or []

    @property
    def model(self) -> str | None:
        """The model that answered, or that was asked."""
        return _get(self.reply, "model") or self.request.get("model")

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments of the request besides the model, the messages and the tools."""
        return {name: value for name, value in self.request.items() if name not in ("model", "messages", "tools")}

    @property
    def message(self) -> dict[str, Any] | None:
        """The assistant's message, as it came."""
        message = _get(self._choice, "message")
        return message if isinstance(message, dict) else None

    @property
    def finish_reason(self) -> str | None:
        return _get(self._choice, "finish_reason")  # type: ignore[no-any-return]

    @property
    def cut_off(self) -> bool:
        """Whether the reply ended because it reached its limit of tokens."""
        return self.finish_reason == "length"

    @property
    def usage(self) -> dict[str, Any]:
        found = _get(self.reply, "usage")
        return found if isinstance(found, dict) else {}

    @property
    def prompt_tokens(self) -> int:
        return _count(self.usage.get("prompt_tokens"), self.prompt_ids)

    @property
    def completion_tokens(self) -> int:
        return _count(self.usage.get("completion_tokens"), self.completion_ids)

    @property
    def prompt_ids(self) -> list[int] | None:
        return _numbers(_get(self._choice, "prompt_token_ids") or _get(self.reply, "prompt_token_ids"), int)  # type: ignore[no-any-return]

    @property
    def completion_ids(self) -> list[int] | None:
        found = _get(self._choice, "token_ids")
        if found is None:
            found = [_token_id(entry) for entry in self._entries] or None
        return _numbers(found, int)  # type: ignore[no-any-return]

    @property
    def logprobs(self) -> list[float] | None:
        """The log probability of each token of the reply."""
        return _numbers([_get(entry, "logprob") for entry in self._entries] or None, (int, float))  # type: ignore[no-any-return]

    @property
    def _choice(self) -> Any:
        choices = _get(self.reply, "choices")
        return choices[0] if isinstance(choices, list) and choices else None

    @property
    def _entries(self) -> list[Any]:
        content = _get(_get(self._choice, "logprobs"), "content")
        if isinstance(content, list) and content:
            return content
        pairs = _get(_get(self._choice, "meta_info"), "output_token_logprobs")  # SGLang's: [logprob, id, text]
        if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) >= 2 for pair in pairs):
            return []
        return [{"logprob": pair[0], "id": pair[1]} for pair in pairs]


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else None


def _token_id(entry: Any) -> Any:
    """The id of a token in a list of log probabilities: a field of llama.cpp's, or part of vLLM's text."""
    token = _get(entry, "token")
    if isinstance(token, str) and token.startswith(_TOKEN_ID) and token[len(_TOKEN_ID) :].isdecimal():
        return int(token[len(_TOKEN_ID) :])
    return _get(entry, "id")


def _numbers(found: Any, kind: Any) -> Any:
    """The list, if it is one of numbers."""
    return found if isinstance(found, list) and all(isinstance(one, kind) for one in found) else None


def _count(counted: Any, ids: list[int] | None) -> int:
    return counted if type(counted) is int else len(ids or ())
