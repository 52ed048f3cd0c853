"""A chat-completions endpoint on loopback, for tests: answers come from a function, and what was asked is kept."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

Answer = Callable[[dict[str, Any]], Any]


def reply(content=None, *, calls=(), finish="stop", **more):
    """A response with words, or with calls of tools: (name, arguments)."""
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for at, (name, arguments) in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish, **more.pop("choice", {})}
    return {"id": "r", "object": "chat.completion", "model": "toy", "choices": [choice], **more}


class ModelServer:
    """``answer(request)`` returns a document, raw bytes to send as they are, or None to say nothing at all.

    A tuple is (status, headers, document).
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.connections = 0
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length")
                )
                self.headers.append(head)
                self.requests.append(json.loads(await reader.readexactly(length)))
                answer = self._answer(self.requests[-1])
                if asyncio.iscoroutine(answer):
                    answer = await answer
                if answer is None:
                    await reader.read()
                    return
                if isinstance(answer, bytes):
                    writer.write(answer)
                    return
                status, headers, document = answer if isinstance(answer, tuple) else (200, {}, answer)
                body = document if isinstance(document, str) else json.dumps(document)
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                size = len(body.encode())
                writer.write(f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {size}\r\n\r\n{body}".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@contextmanager
def model_server(answer: Answer):
    """Serve in a thread while the block runs."""
    server, ready = ModelServer(answer), threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def main() -> None:
        listening = await asyncio.start_server(server._serve, "127.0.0.1", 0)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        ready.set()
        await stop.wait()
        listening.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
