"""OpenEnv's clients for language models: one prompt, or messages with tools, to an endpoint.

The packages ``openai`` and ``anthropic`` are imported when a client is made. A key is never part of the endpoint,
because programs log endpoints.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

Messages = list[dict[str, Any]]


@dataclass
class ToolCall:
    """A call of a tool that the model wants."""

    id: str
    name: str
    args: dict[str, Any]


@dataclass
class LLMResponse:
    """A model's answer: text, calls of tools, or both."""

    content: str
    tool_calls: list[ToolCall] = field(default_factory=list)

    def to_message_dict(self) -> dict[str, Any]:
        """Return it as an assistant's message in OpenAI's format."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.args)}}
                for call in self.tool_calls
            ]
        return message


class LLMClient(ABC):
    """A client of one endpoint. Write ``complete``, and ``complete_with_tools`` if the endpoint has tools.

    ``endpoint`` is an http(s) URL, which may have a port and a path; ``port`` is for one that does not name a port.
    """

    def __init__(self, endpoint: str, port: int | None) -> None:
        self.endpoint, self.port = endpoint, port

    @abstractmethod
    async def complete(self, prompt: str, **kwargs: Any) -> str:
        """Return the model's text; ``temperature`` and ``max_tokens`` replace the defaults."""

    async def complete_with_tools(self, messages: Messages, tools: Messages, **kwargs: Any) -> LLMResponse:
        """Send messages in OpenAI's format with tools in MCP's."""
        raise NotImplementedError(f"{type(self).__name__} does not support tool calling")

    @property
    def base_url(self) -> str:
        """The endpoint with its port."""
        return urlunsplit(_with_port(self.endpoint, self.port))


def _with_port(endpoint: str, port: int | None) -> SplitResult:
    user, at, _ = endpoint.partition("://")[2].partition("/")[0].rpartition("@")
    shown = endpoint.replace(f"{user}{at}", "***@", 1) if at else endpoint  # a password must not get into a log
    try:
        parts = urlsplit(endpoint)
        found = parts.port
        for wrong, why in (
            (parts.scheme not in ("http", "https"), "expected an http:// or https:// URL"),
            (not parts.hostname, "missing host"),
            (parts.username is not None or parts.password is not None, "credentials in the URL: use api_key"),
            (parts.query or parts.fragment, "query strings and fragments are not supported"),
            (parts.netloc.endswith(":"), "empty port"),
            (found == 0, "port 0 is out of range 1-65535"),
            (port is not None and not 1 <= port <= 65535, f"port {port} is out of range 1-65535"),
        ):
            if wrong:
                raise ValueError(why)
    except ValueError as error:
        raise ValueError(f"Invalid endpoint URL {shown!r}: {error}") from None
    if found is not None and port not in (None, found):
        raise ValueError(
            f"Endpoint URL {shown!r} already specifies port {found}, which conflicts with port={port}. Pass port=None."
        )
    netloc = f"{parts.netloc}:{port}" if found is None and port is not None else parts.netloc
    return parts._replace(netloc=netloc, path=parts.path.rstrip("/"))


class _SDKClient(LLMClient):
    """What the two clients below have in common: a model, defaults for sampling, and the vendor's package."""

    def __init__(
        self,
        endpoint: str,
        port: int | None,
        model: str,
        api_key: str | None = None,
        system_prompt: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 256,
    ) -> None:
        super().__init__(endpoint, port)
        self.model, self.system_prompt = model, system_prompt
        self.temperature, self.max_tokens = temperature, max_tokens
        url, key = self._sdk_url(), "not-needed" if api_key is None else api_key
        # Looked up in this module on use, so that a program can put another class there, as in OpenEnv's.
        self._client = getattr(sys.modules[__name__], self._sdk)(base_url=url, api_key=key)

    _sdk: str

    def _sdk_url(self) -> str:
        return self.base_url


class OpenAIClient(_SDKClient):
    """For any endpoint that speaks OpenAI's chat completions: OpenAI, vLLM, TGI, Ollama.

    ``/v1`` is added to an endpoint without a path. Newer models of OpenAI want ``use_max_completion_tokens``, and take
    no temperature then.
    """

    _sdk = "AsyncOpenAI"

    def __init__(
        self,
        endpoint: str,
        port: int | None,
        model: str,
        api_key: str | None = None,
        system_prompt: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 256,
        use_max_completion_tokens: bool = False,
    ) -> None:
        super().__init__(endpoint, port, model, api_key, system_prompt, temperature, max_tokens)
        self._new_names = use_max_completion_tokens

    def _sdk_url(self) -> str:
        return self.base_url if urlsplit(self.base_url).path else f"{self.base_url}/v1"

    async def complete(self, prompt: str, **kwargs: Any) -> str:
        system = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        message = await self._ask([*system, {"role": "user", "content": prompt}], kwargs)
        return message.content or ""

    async def complete_with_tools(self, messages: Messages, tools: Messages, **kwargs: Any) -> LLMResponse:
        described = _mcp_tools_to_openai(tools)
        message = await self._ask(messages, kwargs, **({"tools": described} if described else {}))
        calls = [
            ToolCall(id=call.id, name=call.function.name, args=json.loads(call.function.arguments))
            for call in message.tool_calls or ()
        ]
        return LLMResponse(content=message.content or "", tool_calls=calls)

    async def _ask(self, messages: Messages, sampling: dict[str, Any], **more: Any) -> Any:
        length = sampling.get("max_tokens", self.max_tokens)
        if self._new_names:
            more["max_completion_tokens"] = length
        else:
            more |= {"max_tokens": length, "temperature": sampling.get("temperature", self.temperature)}
        reply = await self._client.chat.completions.create(model=self.model, messages=messages, **more)
        return reply.choices[0].message


class AnthropicClient(_SDKClient):
    """For Anthropic's Messages API."""

    _sdk = "AsyncAnthropic"

    async def complete(self, prompt: str, **kwargs: Any) -> str:
        blocks = await self._ask([{"role": "user", "content": prompt}], self.system_prompt, kwargs)
        return "".join(block.text for block in blocks if block.type == "text")

    async def complete_with_tools(self, messages: Messages, tools: Messages, **kwargs: Any) -> LLMResponse:
        system, turns = _openai_msgs_to_anthropic(messages)
        described = _mcp_tools_to_anthropic(tools)
        more = {"tools": described} if described else {}
        blocks = await self._ask(turns, system or self.system_prompt, kwargs, **more)
        calls = [ToolCall(id=one.id, name=one.name, args=one.input) for one in blocks if one.type == "tool_use"]
        return LLMResponse(content="".join(one.text for one in blocks if one.type == "text"), tool_calls=calls)

    async def _ask(self, messages: Messages, system: str | None, sampling: dict[str, Any], **more: Any) -> Any:
        if system:
            more["system"] = system
        reply = await self._client.messages.create(
            model=self.model,
            messages=messages,
            temperature=sampling.get("temperature", self.temperature),
            max_tokens=sampling.get("max_tokens", self.max_tokens),
            **more,
        )
        return reply.content


_HOSTED: dict[str, tuple[str, type[_SDKClient]]] = {
    "openai": ("https://api.openai.com", OpenAIClient),
    "anthropic": ("https://api.anthropic.com", AnthropicClient),
}
_NEW_NAMES = ("gpt-5-mini", "o1", "o3", "o4-mini")  # models that want max_completion_tokens


def create_llm_client(
    provider: str,
    model: str,
    api_key: str,
    *,
    system_prompt: str | None = None,
    temperature: float = 0.0,
    max_tokens: int = 4096,
) -> LLMClient:
    """Return a client of a hosted model: ``provider`` is "openai" or "anthropic"."""
    if provider.lower() not in _HOSTED:
        raise ValueError(f"Unsupported provider: {provider!r}. Supported: {sorted(_HOSTED)}")
    endpoint, cls = _HOSTED[provider.lower()]
    more = {"use_max_completion_tokens": True} if cls is OpenAIClient and model.startswith(_NEW_NAMES) else {}
    sampling = {"system_prompt": system_prompt, "temperature": temperature, "max_tokens": max_tokens}
    return cls(endpoint, 443, model, api_key=api_key, **sampling, **more)  # type: ignore[arg-type]


def _mcp_tools_to_openai(mcp_tools: Messages) -> Messages:
    return [{"type": "function", "function": _describe(tool, "parameters")} for tool in mcp_tools]


def _mcp_tools_to_anthropic(mcp_tools: Messages) -> Messages:
    return [_describe(tool, "input_schema") for tool in mcp_tools]


def _describe(tool: dict[str, Any], schema_key: str) -> dict[str, Any]:
    """Describe a tool of MCP's as a vendor's function."""
    schema = _clean_mcp_schema(tool.get("inputSchema", {"type": "object", "properties": {}, "required": []}))
    return {"name": tool["name"], "description": tool.get("description", ""), schema_key: schema}


def _clean_mcp_schema(schema: Any) -> dict[str, Any]:
    """Return the schema as a single object, which is all that the vendors take.

    Of alternatives it is the first object; several that hold at once are merged.
    """
    nothing: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    if not isinstance(schema, dict):
        return nothing
    whole: dict[str, Any] = dict(schema)
    for word in ("oneOf", "allOf", "anyOf"):
        parts = [part for part in whole.get(word, ()) if isinstance(part, dict)]
        if word == "allOf" and word in whole:
            whole = {
                "type": "object",
                "properties": {name: one for part in parts for name, one in part.get("properties", {}).items()},
                "required": [name for part in parts for name in part.get("required", ())],
            }
        elif word in whole:
            whole = next((dict(part) for part in parts if part.get("type") == "object"), nothing)
    if whole.setdefault("type", "object") == "object":
        whole.setdefault("properties", {})
    return whole


def _openai_msgs_to_anthropic(messages: Messages) -> tuple[str, Messages]:
    """Return the system's text, and the other messages in Anthropic's format: tool results are the user's there."""
    system: list[str] = []
    turns: Messages = []
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "system":
            system.append(message["content"])
        elif role == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            if turns and turns[-1]["role"] == "user" and isinstance(turns[-1]["content"], list):
                turns[-1]["content"].append(result)
            else:
                turns.append({"role": "user", "content": [result]})
        elif role == "assistant" and message.get("tool_calls"):
            text = [{"type": "text", "text": content}] if content else []
            turns.append({"role": role, "content": [*text, *map(_tool_use, message["tool_calls"])]})
        elif role in ("user", "assistant"):
            turns.append({"role": role, "content": content or ""})
    return "\n\n".join(system), turns


def _tool_use(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call["function"]["arguments"]
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments}


_SDKS = {"AsyncOpenAI": "openai", "AsyncAnthropic": "anthropic"}


def __getattr__(name: str) -> Any:
    if name not in _SDKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = _SDKS[name]
    try:
        return getattr(import_module(package), name)
    except ImportError as error:
        client = name.replace("Async", "") + "Client"
        raise ImportError(
            f"{client} requires the {package!r} package, which is not installed: pip install {package}"
        ) from error
