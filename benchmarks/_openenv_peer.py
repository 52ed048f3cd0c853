"""The peer of remote.py, in the venv of `scripts/peer openenv10`: OpenEnv's own server, and a driver of its clients.

    python _openenv_peer.py server PORT [FOLDER]
    python _openenv_peer.py client URL [FIELD | ACTION]

The server has the app of an OpenEnv folder, or one of its own. The driver reads lines ``case seconds`` and answers each
with a line of JSON: what was done, in how many seconds, and how long the single steps took. FIELD is the action's;
"action" is that of environments that paddock serves. With an ACTION, as JSON, there is one client only, because such
folders have few slots.
"""

import asyncio
import json
import sys
import time
from importlib import import_module
from pathlib import Path

SESSIONS = 16


def serve(port, folder=None):
    import uvicorn

    if folder is not None:
        sys.path.insert(0, str(Path(folder).parent))
        app = import_module(f"{Path(folder).name}.server.app").app
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")
        return
    from openenv.core.env_server import create_app
    from openenv_worlds.worlds import Asked, Echo, Seen

    app = create_app(Echo, Asked, Seen, env_name="bench", max_concurrent_envs=64)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


ACTIONS = {"sync": 1, "one": 1, "sessions": 1, "frames": 84 * 84 * 4, "megabyte": 1 << 20}


async def stepping(client, action, ends_s, took):
    while (began_s := time.perf_counter()) < ends_s:
        await client.step(action)
        took.append(time.perf_counter() - began_s)


async def run_async(clients, action, seconds):
    took = []
    ends_s = time.perf_counter() + seconds
    await asyncio.gather(*(stepping(client, action, ends_s, took) for client in clients))
    return took


def run_sync(client, action, seconds):
    took = []
    ends_s = time.perf_counter() + seconds
    while (began_s := time.perf_counter()) < ends_s:
        client.step(action)
        took.append(time.perf_counter() - began_s)
    return took


async def drive(url, field):
    from openenv.core import GenericEnvClient

    given = json.loads(field) if field.startswith("{") else None
    clients = [GenericEnvClient(base_url=url) for _ in range(1 if given else SESSIONS)]
    for client in clients:
        await client.connect()
        await client.reset()
    if given is None:
        waiting = GenericEnvClient(base_url=url).sync()
        waiting.connect()
        waiting.reset()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        case, seconds = line.split()
        action = given or {field: ACTIONS[case]}
        began_s = time.perf_counter()
        if case == "sync":
            took = await loop.run_in_executor(None, run_sync, waiting, action, float(seconds))
        else:
            took = await run_async(clients if case == "sessions" else clients[:1], action, float(seconds))
        print(json.dumps([len(took), time.perf_counter() - began_s, took]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]), *sys.argv[3:])
    else:
        asyncio.run(drive(sys.argv[2], *(sys.argv[3:] or ["value"])))
