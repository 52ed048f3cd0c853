"""The sides of the HTTP part of rollouts.py, each a process of its own: an endpoint, and clients that call it.

    python benchmarks/_rollouts_http.py endpoint | ours URL CALLS AT_ONCE | openai URL CALLS AT_ONCE

Clients print calls per second, and per second of their own CPU, as JSON. Nothing of paddock is imported for a peer.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

SLEEP_S = 0.05
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"number": 1}'}}
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "toy",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
}
MESSAGES = [{"role": "user", "content": "Count to five, one at a time. " * 10}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add a number.",
            "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
        },
    }
]
BODY = json.dumps(REPLY).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


async def endpoint():
    """Answer each request after 50 ms, whatever it is."""

    async def serve(reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                await asyncio.sleep(SLEEP_S)
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


async def clients(name, url, calls, at_once):
    if name == "ours":
        from paddock.agentic import ModelEndpoint

        model = ModelEndpoint("toy", url, api_key_env=None)

        async def call():
            return (await model.chat(MESSAGES, TOOLS)).message["tool_calls"][0]["function"]["name"]
    else:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

        async def call():
            reply = await client.chat.completions.create(model="toy", messages=MESSAGES, tools=TOOLS)
            return reply.choices[0].message.tool_calls[0].function.name

    async def several(count):
        for _ in range(count):
            if await call() != "add":
                raise RuntimeError("another reply")

    await asyncio.gather(*(several(1) for _ in range(at_once)))  # connections, and imports of a first call
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(several(calls // at_once) for _ in range(at_once)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"per_second": calls / wall, "per_cpu_second": calls / cpu}), flush=True)


if __name__ == "__main__":
    side, *more = sys.argv[1:]
    if side == "endpoint":
        asyncio.run(endpoint())
    else:
        asyncio.run(clients(side, more[0], int(more[1]), int(more[2])))
