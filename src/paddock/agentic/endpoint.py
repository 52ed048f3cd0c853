"""ModelEndpoint: a model behind an OpenAI-compatible API, such as vLLM, SGLang, llama.cpp or a hosted service.

It is a policy for ``rollout``, a client for ``LLMJudge``, and what a proxy forwards calls with. It makes one call at a
time: to try again is up to the caller, who knows how long that makes sense. Redirects and proxies are not followed.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from paddock.agentic.chat import assistant_message, message_text
from paddock.errors import (
    ModelCallFailed,
    ModelOverloaded,
    ModelReplyCutOff,
    ModelReplyInvalid,
    ModelTimeout,
    ModelUnavailable,
    PlanError,
)
from paddock.hosting.remote_address import is_loopback, parse_address
from paddock.hosting.websocket.endpoint import default_context
from paddock.record.model_call import ModelCall
from paddock.sandbox.http1 import Headers, Refused, Stream, head_bytes, parse_answer, values

if TYPE_CHECKING:
    from paddock.agentic.rollouts.episode import Turn

REPLY_BYTES = 64 << 20
_ERROR_CHARS = 300
_OVERLOADED = (429, 503, 529)
_SERVER_FAILED = (408, 409, 425)  # and all from 500 on
_MASK = "***"


class Answer(NamedTuple):
    """An HTTP answer, whole."""

    status: int
    headers: Headers
    body: bytes


class ModelEndpoint:
    """``base_url`` is that of the API, ``http://127.0.0.1:8000/v1`` say. ``sampling`` is part of each request.

    The key is the value of the environment variable ``api_key_env``, if it is set. It appears in no record and in no
    error, and is not sent without TLS to another machine unless ``insecure``. ``prices`` are those of a million tokens,
    (prompt, completion). ``requests_per_minute`` and ``tokens_per_minute`` delay calls.

    >>> ModelEndpoint("qwen3", "http://127.0.0.1:8000/v1", temperature=0.7)
    ModelEndpoint('qwen3', 'http://127.0.0.1:8000/v1', temperature=0.7)
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        api_key_env: str | None = "OPENAI_API_KEY",
        timeout_s: float = 300.0,
        insecure: bool = False,
        prices: tuple[float, float] | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        **sampling: Any,
    ) -> None:
        self.model, self.timeout_s, self.sampling, self.prices = model, timeout_s, sampling, prices
        self._key = (os.environ.get(api_key_env) or None) if api_key_env else None
        self._address = address = parse_address(base_url, token=self._key, insecure=True, environ={})
        if address.authorization and not (address.secure or address.unix or insecure or is_loopback(address.host)):
            raise PlanError(
                f"{address.host} is another machine, and http would show the key in {api_key_env} to anyone who "
                f"listens. Use https://, another variable with api_key_env=, or allow it with insecure=True."
            )
        self.base_url = str(address)
        fixed = {"Host": address.endpoint().host_header, "Authorization": address.authorization}
        fixed |= {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "paddock"}
        self._headers = tuple((name, value) for name, value in fixed.items() if value)
        self._context = default_context() if address.secure else None
        self._idle: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Connection]] = WeakKeyDictionary()
        self._gap_s = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._token_s = 60.0 / tokens_per_minute if tokens_per_minute else 0.0
        self._free_s = 0.0  # when the next call may begin, by the monotonic clock

    def __repr__(self) -> str:
        sampling = "".join(f", {name}={value!r}" for name, value in self.sampling.items())
        return f"ModelEndpoint({self.model!r}, {self.base_url!r}{sampling})"

    async def __call__(self, turn: Turn) -> dict[str, Any]:
        """Act as a policy."""
        return assistant_message((await self.answer(turn)).reply)

    async def answer(self, turn: Turn, *, keep_alive: bool = True) -> ModelCall:
        """Make the call of a turn, which records it whether it fails or not."""
        try:
            call = await self.chat(turn.messages, turn.tools, keep_alive=keep_alive)
        except ModelCallFailed as error:
            if error.call is not None:
                turn.record(error.call)
            raise
        turn.record(call)
        return call

    async def complete(self, prompt: str) -> str:
        """Return the model's words: what ``LLMJudge`` wants of a client."""
        call = await self.chat([{"role": "user", "content": prompt}], keep_alive=False)
        if call.cut_off:
            raise ModelReplyCutOff(f"The reply was cut off after {call.completion_tokens} tokens.", call=call)
        return message_text(assistant_message(call.reply))

    async def chat(self, messages: Any, tools: Any = (), *, keep_alive: bool = True, **request: Any) -> ModelCall:
        """Make one call. A ModelCallFailed says why there is no reply, and has the record as its ``call``."""
        body = {"model": self.model, "messages": list(messages), **({"tools": list(tools)} if tools else {})}
        return await self.forward({**body, **self.sampling, **request}, keep_alive=keep_alive)

    async def forward(self, request: dict[str, Any], *, keep_alive: bool = True) -> ModelCall:
        """Send a request as it is; like ``chat`` otherwise."""
        try:
            data = msgspec.json.encode(request)
        except (TypeError, ValueError):  # a lone surrogate, which only an escape can carry
            data = json.dumps(request).encode("ascii")
        await self._wait_until_free()
        began_s, clock_s = time.time(), time.monotonic()

        def record(reply: Any = None, error: ModelCallFailed | None = None) -> ModelCall:
            words = None if error is None else (error.code, str(error))
            return ModelCall(request, reply, words, began_s, time.monotonic() - clock_s)

        try:
            answer = await self.post("/chat/completions", data, keep_alive=keep_alive)
            reply = self._read(answer)
        except ModelCallFailed as error:
            error.call = record(error.call, error)
            if isinstance(error, ModelOverloaded) and error.retry_after_s is not None:
                self._free_s = max(self._free_s, time.monotonic() + error.retry_after_s)
            raise
        call = record(reply)
        if self.prices is not None:
            cost = call.prompt_tokens * self.prices[0] + call.completion_tokens * self.prices[1]
            call = replace(call, cost=cost / 1e6)
        if self._token_s:
            self._free_s += self._token_s * (call.prompt_tokens + call.completion_tokens)
        return call

    async def post(self, path: str, body: bytes, *, keep_alive: bool = True) -> Answer:
        """POST below the base URL, within ``timeout_s``. ModelUnavailable if no answer comes, of whatever status."""
        try:
            return await asyncio.wait_for(self._post(path, body, keep_alive), self.timeout_s)
        except asyncio.TimeoutError:
            raise ModelTimeout(f"{self.base_url} did not answer within {self.timeout_s:g} s.") from None
        except (OSError, EOFError, Refused) as error:
            raise ModelUnavailable(f"No answer from {self.base_url}: {error or type(error).__name__}.") from None

    async def close(self) -> None:
        """Close the connections of this loop that are not in use."""
        for connection in self._idle.pop(asyncio.get_running_loop(), ()):
            connection.close()
        await asyncio.sleep(0)  # the loop closes their sockets in its next round

    async def _post(self, path: str, body: bytes, keep_alive: bool) -> Answer:
        idle = self._idle.setdefault(asyncio.get_running_loop(), [])
        headers = (*self._headers, ("Content-Length", str(len(body))))
        head = head_bytes(f"POST {self._address.path}{path} HTTP/1.1", headers)
        while True:
            reused = bool(idle)
            connection = idle.pop() if reused else await _Connection.open(self._address, self._context)
            try:
                answer = await connection.exchange(head + body)
            except BaseException as error:
                connection.close()
                # The server closed a connection that was idle, just as this took it: it has not read the request.
                if reused and isinstance(error, (OSError, EOFError, Refused)) and not connection.answered:
                    continue
                raise
            if connection.reusable and keep_alive:
                idle.append(connection)
            else:
                connection.close()
            return answer

    def _read(self, answer: Answer) -> Any:
        """The reply of an answer; a ModelCallFailed, with what came in the place of its ``call``, if there is none."""
        body = answer.body
        if self._key and self._key.encode() in body:  # an error that quotes it
            body = body.replace(self._key.encode(), _MASK.encode())
        reply = _parse(body)
        if answer.status != 200:
            raise self._refusal(answer, reply)
        choices = reply.get("choices") if isinstance(reply, dict) else None
        message = choices[0].get("message") if isinstance(choices, list) and _is_object(choices[:1]) else None
        if not isinstance(message, dict) or not {"content", "tool_calls"} & message.keys():
            raise ModelReplyInvalid(f"{self.base_url} sent no reply of an assistant: {_quote(body)}", call=reply)
        return reply

    def _refusal(self, answer: Answer, reply: Any) -> ModelCallFailed:
        status, found = answer.status, reply
        for name in ("error", "message"):
            found = found.get(name, found) if isinstance(found, dict) else found
        words = f"{self.base_url} answered with status {status}: {_quote(found)}"
        if status in _OVERLOADED:
            return ModelOverloaded(words, status=status, retry_after_s=_retry_after_s(answer.headers), call=reply)
        kind = ModelUnavailable if status >= 500 or status in _SERVER_FAILED else ModelCallFailed
        return kind(words, status=status, retry_after_s=_retry_after_s(answer.headers), call=reply)

    async def _wait_until_free(self) -> None:
        now = time.monotonic()
        begins_s = max(now, self._free_s)
        if self._gap_s:
            self._free_s = begins_s + self._gap_s
        if begins_s > now:
            await asyncio.sleep(begins_s - now)


class _Connection:
    """A connection for one exchange after another. ``answered``: whether the last one had an answer begin."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.answered = self.reusable = False

    @classmethod
    async def open(cls, address: Any, context: Any) -> _Connection:
        to = {"unix": address.unix, "context": context, "whom": "the endpoint"}
        return cls(await Stream.to(address.host, address.port, **to))

    async def exchange(self, request: bytes) -> Answer:
        self.answered = self.reusable = False
        await self._stream.send(request)
        while (lines := await self._stream.head()) is not None:
            self.answered = True
            answer = parse_answer(lines, "POST")
            if answer.status >= 200:
                break
        else:
            raise ConnectionResetError("the connection was closed")
        pieces = [piece async for piece in self._stream.body(answer.length, REPLY_BYTES)]
        closes = any(line[:11].lower() == b"connection:" and b"close" in line.lower() for line in lines)
        self.reusable = not closes and lines[0].startswith(b"HTTP/1.1") and answer.length != "until close"
        return Answer(answer.status, answer.headers, b"".join(pieces))

    def close(self) -> None:
        self._stream.writer.transport.abort()


def _parse(body: bytes) -> Any:
    """The JSON in a body, NaN and infinities included; its beginning as text if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return body[:_ERROR_CHARS].decode("utf-8", "replace")


def _is_object(items: Any) -> bool:
    return bool(items) and isinstance(items[0], Mapping)


def _quote(found: Any) -> str:
    text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    return repr(text if len(text) <= _ERROR_CHARS else text[:_ERROR_CHARS] + "…")


def _retry_after_s(headers: Headers) -> float | None:
    """When the server wants to be called again; a number of seconds, of milliseconds in another header, or a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        for text in values(headers, name)[:1]:
            try:
                wait_s = float(text) / unit
            except ValueError:
                try:
                    wait_s = parsedate_to_datetime(text).timestamp() - time.time()
                except (ValueError, TypeError, OverflowError):
                    continue
            if wait_s == wait_s:
                return min(max(0.0, wait_s), 3600.0)
    return None
