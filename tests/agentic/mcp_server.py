"""An MCP server of ten tools' worth of trouble, as a program on standard input and output, and as a handler of HTTP.

Run as a program, it imports nothing but the standard library: it stands behind a wall of its own.
"""

import json
import os
import sys

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": name, "description": f"Does {name}.", "inputSchema": SCHEMA}
    for name in ("echo", "count", "fail", "refuse", "picture", "structured", "die", "wander", "hang", "odd.name")
]
PAGE = 4


class Server:
    """Answers messages. It counts its calls, so that a session that goes on can be told from a new one."""

    def __init__(self):
        self.count = 0

    def answer(self, message):
        """The messages to send for one that came; None to end at once."""
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        if id is None or method is None:
            return []
        if method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            return [reply(id, {**result, "serverInfo": {"name": "trouble", "version": "1"}})]
        if method == "tools/list":
            start = int(params.get("cursor", 0))
            more = {} if start + PAGE >= len(TOOLS) else {"nextCursor": str(start + PAGE)}
            return [reply(id, {"tools": TOOLS[start : start + PAGE], **more})]
        return self.call(id, params["name"], params["arguments"])

    def call(self, id, name, arguments):
        self.count += 1
        text = str(arguments.get("text"))
        if name == "die":
            return None
        if name == "hang":
            return []
        if name == "refuse":
            return [{"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": f"I refuse {text}."}}]
        if name == "fail":
            return [reply(id, {"content": [{"type": "text", "text": "It failed."}], "isError": True})]
        if name == "picture":
            return [reply(id, {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]})]
        if name == "structured":
            return [reply(id, {"content": [], "structuredContent": {"result": [1, text]}})]
        if name == "wander":
            text = reach(text)
        if name == "count":
            text = str(self.count)
        asks = [{"jsonrpc": "2.0", "id": 99, "method": "roots/list"}, {"jsonrpc": "2.0", "method": "notifications/x"}]
        return [*asks, reply(id, {"content": [{"type": "text", "text": text}]})]


def reply(id, result):
    return {"jsonrpc": "2.0", "id": id, "result": result}


def reach(path):
    """What a program behind a wall must not reach: a file, or a variable of this process."""
    if path.startswith("$"):
        return str(os.environ.get(path[1:]))
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        return type(error).__name__


def main():
    server = Server()
    print("not a message")
    sys.stderr.write("words beside\n" * 20_000)
    for line in sys.stdin:
        answers = server.answer(json.loads(line))
        if answers is None:
            return
        for answer in answers:
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
