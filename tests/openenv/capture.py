"""What a real OpenEnv server answers to a list of frames and requests. Run in a venv of OpenEnv; prints JSON."""

import json
import sys

EXCHANGES = [
    "{",
    "",
    '{"type":"nope"}',
    '{"type":5}',
    "{}",
    '{"type":"reset","data":{"seed":3,"episode_id":"ep","colour":"red"}}',
    '{"type":"reset"}',
    '{"type":"reset","data":[]}',
    '{"type":"reset","more":1}',
    '{"type":"state"}',
    '{"type":"state","data":{}}',
    '{"type":"close","data":{}}',
    '{"type":"step"}',
    '{"type":"step","data":"a"}',
    '{"type":"step","data":{},"id":4}',
    '{"type":"step","data":{"text":"hi"}}',
    '{"type":"step","data":{"text":"hi","times":"3"}}',
    '{"type":"step","data":{"text":"hi","times":2.0,"metadata":{"a":[1]}}}',
    '{"type":"step","data":{"text":"HI"}}',
    '{"type":"step","data":{"text":"one"}}',
    '{"type":"step","data":{"text":"true"}}',
    '{"type":"step","data":{"text":"none"}}',
    '{"type":"step","data":{"text":"nan"}}',
    '{"type":"step","data":{"text":"special"}}',
    '{"type":"step","data":{"text":"end"}}',
    '{"type":"step","data":{"text":5,"times":0,"x":1}}',
    '{"type":"step","data":{}}',
    '{"type":"step","data":{"text":"crash"}}',
    '{"type":"state"}',
    '{"type":"mcp","data":{"jsonrpc":"2.0","method":"initialize","id":1}}',
    '{"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/list","id":"a"}}',
    '{"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"},"id":null}}',
    '{"type":"mcp"}',
]
HTTP = [
    ["POST", "/reset", ""],
    ["POST", "/reset", "{}"],
    ["POST", "/reset", '{"seed":42,"episode_id":"ep","colour":"red"}'],
    ["POST", "/reset", '{"seed":-1}'],
    ["POST", "/reset", '{"seed":"x"}'],
    ["POST", "/reset", '{"episode_id":5}'],
    ["POST", "/reset", "{"],
    ["POST", "/reset", "[]"],
    ["POST", "/step", ""],
    ["POST", "/step", "{}"],
    ["POST", "/step", '{"action":{"text":"hi"}}'],
    ["POST", "/step", '{"action":{"text":"HI"},"timeout_s":3,"request_id":"r","more":1}'],
    ["POST", "/step", '{"action":{"text":"one"}}'],
    ["POST", "/step", '{"action":{"text":"true"}}'],
    ["POST", "/step", '{"action":5}'],
    ["POST", "/step", '{"action":{},"timeout_s":0}'],
    ["POST", "/step", '{"action":{"text":5,"x":1}}'],
    ["POST", "/step", '{"action":{"text":"special"}}'],
    ["GET", "/state", ""],
    ["GET", "/health", ""],
    ["GET", "/metadata", ""],
    ["GET", "/schema", ""],
    ["GET", "/nothing", ""],
    ["POST", "/mcp", "{"],
    ["POST", "/mcp", "[]"],
    ["POST", "/mcp", '{"jsonrpc":"2.0","method":"initialize","id":1}'],
    ["POST", "/mcp", '{"jsonrpc":"2.0","method":"tools/list","id":1}'],
    ["POST", "/mcp", '{"jsonrpc":"2.0","method":"openenv/session/close","id":1}'],
    ["POST", "/mcp", '{"jsonrpc":"2.0","method":"openenv/session/close","params":{"session_id":"x"},"id":1}'],
    ["POST", "/mcp", '{"jsonrpc":"1.0","method":"tools/list","id":1}'],
]
TASKS = [
    ["GET", "/list_environments", ""],
    ["GET", "/taskENV/splits", ""],
    ["GET", "/other/splits", ""],
    ["POST", "/TaskEnv/tasks", '{"split":"train"}'],
    ["POST", "/TaskEnv/tasks", "{}"],
    ["POST", "/TaskEnv/num_tasks", '{"split":"train"}'],
    ["POST", "/TaskEnv/task", '{"split":"train","index":1}'],
    ["POST", "/TaskEnv/task", '{"split":"train","index":9}'],
    ["POST", "/TaskEnv/task", '{"split":"train","index":"x"}'],
    ["POST", "/TaskEnv/task_range", '{"split":"train","start":1}'],
    ["GET", "/EchoEnv/splits", ""],
]


def ask(client, requests):
    found = []
    for method, path, body in requests:
        answer = client.request(method, path, content=body.encode(), headers={"content-type": "application/json"})
        found.append([answer.status_code, answer.text])
    return found


def main():
    from fastapi.testclient import TestClient

    from tests.openenv import worlds

    with TestClient(worlds.app, raise_server_exceptions=False) as client:
        with client.websocket_connect("/ws") as socket:
            frames = []
            for text in EXCHANGES:
                socket.send_text(text)
                frames.append(socket.receive_text())
        http = ask(client, HTTP)
    tasks = []
    if hasattr(worlds._types, "ListTasksRequest"):
        for env in (worlds.TaskEnv, worlds.EchoEnv):
            with TestClient(worlds.create_app(env, worlds.EchoAction, worlds.EchoObservation)) as client:
                chosen = TASKS[:-1] if env is worlds.TaskEnv else TASKS[-1:]
                tasks += ask(client, chosen)
    print(json.dumps({"frames": frames, "http": http, "tasks": tasks}))


if __name__ == "__main__":
    sys.exit(main())
