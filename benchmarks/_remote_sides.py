"""The two sides of remote.py: servers and the drivers of their clients, each in processes of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import paddock

HERE = Path(__file__).parent
SESSIONS = 16
Round = tuple[int, float, list[float]]  # what was done, in how many seconds, and the time of each step


def peer_python():
    """The interpreter with OpenEnv 0.10; PADDOCK_PEER_OPENENV10 names another than the one that scripts/peer makes."""
    if given := os.environ.get("PADDOCK_PEER_OPENENV10"):
        return given
    made = subprocess.run([HERE.parent / "scripts" / "peer", "openenv10"], capture_output=True, text=True, check=True)
    return made.stdout.strip()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def wait_healthy(port, process):
    """Until /health is answered."""
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the server has ended") from None
            time.sleep(0.005)


class Process:
    """A server in a process of its own, ready when made. ``ready_s``: how long that took."""

    def __init__(self, command, port, *, cwd, paths=()):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in (*sys.path, *paths) if path)}
        began_s = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd)
        self.port = port
        wait_healthy(port, self.process)
        self.ready_s = time.perf_counter() - began_s

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Paddock(Process):
    """``paddock serve`` with these arguments: every environment behind a wall. ``paths``: where else packages are."""

    def __init__(self, *arguments, paths=()):
        port = free_port()
        command = [sys.executable, "-m", "paddock", "serve", *arguments, "--port", str(port)]
        super().__init__(command, port, cwd=HERE, paths=paths)
        lines = ""
        while "token" not in lines:
            lines += self.process.stdout.readline()
        self.token = re.search(r"token (\S+)", lines)[1]

    def url(self, id, user=""):
        return f"http://{user}{self.token}@127.0.0.1:{self.port}/{id}"


class OpenEnv(Process):
    """OpenEnv's own server; ``program``: the one with an environment of tools, if not the other."""

    def __init__(self, python, program="_openenv_peer.py", *folder):
        port = free_port()
        super().__init__([python, str(HERE / program), "server", str(port), *map(str, folder)], port, cwd="/")


class OpenEnvClients:
    """OpenEnv's own clients, driven in their own process."""

    def __init__(self, python, url, *action, program="_openenv_peer.py"):
        self._process = subprocess.Popen(
            [python, str(HERE / program), "client", url, *action],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        self.pid = self._process.pid
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("OpenEnv's clients did not start")

    def run(self, case, seconds) -> Round:
        self._process.stdin.write(f"{case} {seconds}\n")
        self._process.stdin.flush()
        return tuple(json.loads(self._process.stdout.readline()))

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class Waiting:
    """paddock's client as most programs use it: one environment, one step after the other."""

    def __init__(self, url, actions=(0, 1)):
        self._env, self._actions = paddock.make(url), actions
        self._env.reset(seed=0)

    def run(self, seconds) -> Round:
        env, took, actions = self._env, [], self._actions
        began_s = time.perf_counter()
        ends_s = began_s + seconds
        while (before_s := time.perf_counter()) < ends_s:
            _, _, terminated, truncated, _ = env.step(actions[len(took) & 1])
            took.append(time.perf_counter() - before_s)
            if terminated or truncated:
                env.reset()
        return len(took), time.perf_counter() - began_s, took

    def close(self):
        self._env.close()


class Lanes:
    """paddock's client with many lanes, which are stepped by one message."""

    def __init__(self, url, count):
        self._envs, self._count = paddock.make(url, num_envs=count), count
        self._envs.reset(seed=0)
        self._actions = self._envs.action_space.sample()

    def run(self, seconds) -> Round:
        done = 0
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < seconds:
            self._envs.step(self._actions)
            done += self._count
        return done, time.perf_counter() - began_s, []

    def close(self):
        self._envs.close()


class Sessions:
    """Several environments at once in one loop, each with a session of its own; as OpenEnv's are driven."""

    def __init__(self, url, count=SESSIONS):
        self._runner = asyncio.Runner() if hasattr(asyncio, "Runner") else _Runner()
        self._envs = self._runner.run(self._make(url, count))

    async def _make(self, url, count):
        envs = [await paddock.make_async(url) for _ in range(count)]
        for env in envs:
            await env.reset(seed=0)
        return envs

    def run(self, seconds) -> Round:
        return self._runner.run(self._run(seconds))

    async def _run(self, seconds):
        took = []
        began_s = time.perf_counter()
        await asyncio.gather(*(_stepping(env, began_s + seconds, took) for env in self._envs))
        return len(took), time.perf_counter() - began_s, took

    def close(self):
        self._runner.run(self._close())
        self._runner.close()

    async def _close(self):
        for env in self._envs:
            await env.close()


async def _stepping(env, ends_s, took):
    at = 0
    while (before_s := time.perf_counter()) < ends_s:
        _, _, terminated, truncated, _ = await env.step(at & 1)
        took.append(time.perf_counter() - before_s)
        at += 1
        if terminated or truncated:
            await env.reset()


class _Runner:
    """asyncio.Runner, as far as it is used here, for Python 3.10."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()

    def run(self, coroutine):
        return self._loop.run_until_complete(coroutine)

    def close(self):
        self._loop.close()
