"""What a step over the network costs: `paddock serve` and its client against OpenEnv 0.10's own server and clients.

    python benchmarks/remote.py [--quick] [--stock]

Every environment of paddock's is in a worker behind a wall, OpenEnv's are objects in its server. All sides take turns
in every round, on the same cores, over TCP on this machine. Sessions are driven alike: each side's own async client,
all 16 in one process and one event loop, the one that Python comes with. OpenEnv's figure for one client is that of its
faster one (blocking or async); it has no message for several environments, so lanes are compared with its best rate of
all, that of 16 sessions. For information the servers alone: the same written bytes from the same process for both
(``_raw_load.py``); and the CPU time of a step, which a busy machine changes less than the rates. The floor is what raw
blocking sockets of Python do with messages of a step's size.

The last rows are those of someone who keeps OpenEnv's client and its environments, and changes only the server: one
process drives OpenEnv's stock clients on both, and both serve the same classes (``openenv_worlds``), or the same
folders in OpenEnv's shape (``tests/openenv/folders``).
"""

from __future__ import annotations

import compileall
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from _cpu import cpu_below_s, cpu_s
from _raw_load import OpenEnvPeer, PaddockPeer, RawLoad
from _remote_sides import HERE, SESSIONS, Lanes, OpenEnv, OpenEnvClients, Paddock, Sessions, Waiting, peer_python
from _timing import Table

import paddock

QUICK = "--quick" in sys.argv
ROUNDS = 5 if QUICK else 15
SECONDS = 0.3 if QUICK else 0.6
STARTS = 1 if QUICK else 5
IMPORTS = 5 if QUICK else 15
LANES = 256
TURNS = ["one", "*one", "*sync", "mixed one", "floor", "sessions", "*sessions", "mixed sessions", "lanes"]
TURNS += ["raw sessions", "*raw", "frames", "*frames", "megabyte", "*megabyte"]
FOLDERS = {  # and an action; not chat_env, whose observations grow with every step
    "maze_env": {"direction": "up"},
    "word_env": {"message": "crane"},
    "connect4_env": {"column": 7},
    "coding_env": {"code": "1 + 1"},
    "typed_env": {"customer": "Ada", "lines": [{"item": {"kind": "cake", "slices": 2}}]},
    "echo_env": {"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": "hello"}},
    "frames_env": {"action_id": 1},
}
STEP_BYTES = 54  # a masked frame with a small action; replies are as small


class PingPong:
    """Raw blocking TCP sockets in two processes: the floor."""

    def __init__(self):
        code = (
            "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\n"
            "c, _ = s.accept()\nc.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
            "while data := c.recv(65536): c.sendall(data)"
        )
        self._process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        self._socket = socket.create_connection(("127.0.0.1", int(self._process.stdout.readline())))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self, seconds):
        done, message = 0, b"x" * STEP_BYTES
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < seconds:
            self._socket.sendall(message)
            self._socket.recv(65536)
            done += 1
        return done, time.perf_counter() - began_s, []

    def close(self):
        self._socket.close()
        self._process.wait(10)
        self._process.stdout.close()


def interleaved(cases):
    """Median rates, and all times of single steps, of cases that take turns."""
    found, times = {name: [] for name in cases}, {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, run in cases.items():
            done, seconds, took = run(SECONDS)
            found[name].append(done / seconds)
            times[name] += took
    return {name: statistics.median(rates) for name, rates in found.items()}, times


def cpu_times(table, cases, sides):
    """CPU time of a step; ``sides``: the server's and the client's process of a case."""
    for name, (server, client) in sides.items():
        found = []
        for _ in range(ROUNDS):
            before = cpu_s(client), cpu_s(server), cpu_below_s(server)
            done, _, _ = cases[name](SECONDS)
            after = cpu_s(client), cpu_s(server), cpu_below_s(server)
            found.append([(end - start) / done * 1e6 for start, end in zip(before, after, strict=True)])
        parts = [statistics.median(part) for part in zip(*found, strict=True)]
        client_us, server_us, workers_us = parts
        shown = f"client {client_us:.0f}, server {server_us:.0f}, workers {workers_us:.0f}"
        table.note(f"CPU of a step, µs, {name:10} {sum(parts):4.0f}: {shown}")


def cases_of(worlds, peer, theirs, mixed, stack):
    """Everything that is measured, by name: what is compared takes its turns one after the other.

    OpenEnv's begin with a star; those of its clients at our server are mixed.
    """

    def ours(side):
        return stack.enter_context(closing(side)).run

    cases = {
        "one": ours(Waiting(worlds.url("Echo-v0"))),
        "sessions": ours(Sessions(worlds.url("Echo-v0"))),
        "frames": ours(Waiting(worlds.url("Frames-v0"))),
        "megabyte": ours(Waiting(worlds.url("Megabyte-v0"))),
        "lanes": ours(Lanes(worlds.url("CartPole-v1"), LANES)),
        "floor": ours(PingPong()),
        "raw sessions": ours(RawLoad(lambda: PaddockPeer(worlds.url("Echo-v0")))),
        "*raw": ours(RawLoad(lambda: OpenEnvPeer(peer.port))),
    }
    for case in ("sync", "one", "sessions", "frames", "megabyte"):
        cases[f"*{case}"] = lambda seconds, case=case: theirs.run(case, seconds)
    for case in ("one", "sessions"):
        cases[f"mixed {case}"] = lambda seconds, case=case: mixed.run(case, seconds)
    return {name: cases[name] for name in TURNS}


def steps(table, rates, times):
    one = max(rates["*one"], rates["*sync"])
    table.row("steps/s, 1 client", rates["one"], one, 3)
    table.row(f"steps/s, {SESSIONS} sessions", rates["sessions"], rates["*sessions"], 5)
    table.row("steps/s, uint8[84, 84, 4]", rates["frames"], rates["*frames"], 20)
    table.row("steps/s, uint8[2^20]", rates["megabyte"], rates["*megabyte"], 30)
    table.row(f"steps/s, {LANES} lanes in one message", rates["lanes"], max(one, rates["*sessions"]), 200)
    p50, p99 = quantiles(times["sessions"])
    table.limit(f"p99 of a step / p50, {SESSIONS} sessions", p99 / p50, 4, f"p50 {p50:.2f} ms")
    p50, p99 = quantiles(times["*sessions"])
    table.note(f"OpenEnv's: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    table.row("for information: OpenEnv's client here, 1", rates["mixed one"], rates["*one"])
    table.row(f"the same, {SESSIONS} sessions", rates["mixed sessions"], rates["*sessions"])
    table.row(f"the servers alone, {SESSIONS} sessions", rates["raw sessions"], rates["*raw"])
    floor = rates["floor"]
    table.note(
        f"floor: {floor:,.0f} round trips/s; 1 client {rates['one'] / floor:.2f} of it, OpenEnv {one / floor:.2f}"
    )


STOCK = {"one": (1.1, "1 session"), "sessions": (1.05, f"{SESSIONS} sessions"), "calls": (1.1, "MCP tool call")}


def stock(table, python):
    """OpenEnv's stock client on both servers: alone, and beside as many busy processes as there are cores."""
    folder, packages = HERE / "openenv_worlds", Path(python).parents[1].glob("lib/python*/site-packages")
    tools = "_openenv_tools_peer.py"
    with ExitStack() as stack:

        def clients(url, *arguments, **program):
            return stack.enter_context(closing(OpenEnvClients(python, url, *arguments, **program))).run

        echo = stack.enter_context(Paddock(f"{folder}:Echo-v0"))
        called = stack.enter_context(Paddock(f"{folder}:Tools-v0", paths=map(str, packages)))
        peers = [stack.enter_context(OpenEnv(python, *program)) for program in ((), (tools,))]
        theirs, their_tools = (f"http://127.0.0.1:{peer.port}" for peer in peers)
        steps = clients(echo.url("Echo-v0", "any:")), clients(theirs)
        calls = [clients(url, "echo_message", program=tools) for url in (called.url("Tools-v0", "any:"), their_tools)]
        cases = {}
        for case in STOCK:
            ours, peers_own = calls if case == "calls" else steps
            cases[case] = lambda seconds, case=case, run=ours: run(case, seconds)
            cases[f"*{case}"] = lambda seconds, case=case, run=peers_own: run(case, seconds)
        for neighbours in (0, os.cpu_count()):
            with busy(neighbours):
                rates, _ = interleaved(cases)
            beside = f", {neighbours} busy neighbours" if neighbours else ""
            for case, (bar, what) in STOCK.items():
                row = f"stock client on both servers, {what}{beside}"
                table.row(row, rates[case], rates[f"*{case}"], None if neighbours else bar)


def folders(table, python):
    """The same client on both servers, which serve the same OpenEnv folders as they are."""
    packages = [str(path) for path in Path(python).parents[1].glob("lib/python*/site-packages")]
    for name, action in FOLDERS.items():
        folder, paths = HERE.parent / "tests" / "openenv" / "folders" / name, packages if name == "echo_env" else ()
        with ExitStack() as stack:
            ours = stack.enter_context(Paddock(str(folder), paths=paths))
            theirs = stack.enter_context(OpenEnv(python, "_openenv_peer.py", folder))
            urls = {"one": ours.url(name, "any:"), "*one": f"http://127.0.0.1:{theirs.port}"}
            sides = {
                case: stack.enter_context(closing(OpenEnvClients(python, url, json.dumps(action))))
                for case, url in urls.items()
            }
            cases = {case: lambda seconds, side=side: side.run("one", seconds) for case, side in sides.items()}
            rates, _ = interleaved(cases)
            table.row(f"the folder {name} on both servers, 1 session", rates["one"], rates["*one"], 1.0)


@contextmanager
def busy(count):
    """So many processes that do nothing but compute."""
    neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in neighbours:
            one.kill()
            one.wait()


def quantiles(times):
    ordered = sorted(times)
    return ordered[len(ordered) // 2] * 1e3, ordered[int(len(ordered) * 0.99)] * 1e3


class Limits(Table):
    """Also rows of what must not be more than a bar."""

    def limit(self, what, ratio, bar, beside=""):
        missed = bar is not None and ratio > bar
        self.failed |= missed
        verdict = "" if bar is None else f"at most {bar:g}x {'MISSED' if missed else 'ok'}"
        print(f"{what:44} {beside:>25} {ratio:7.2f}   {verdict}")


def starts(table, python):
    """From the start of the process to an answer of /health."""
    found = {"paddock": [], "peer": []}
    for _ in range(STARTS):
        with Paddock("CartPole-v1") as ours:
            found["paddock"].append(ours.ready_s)
        with OpenEnv(python) as theirs:
            found["peer"].append(theirs.ready_s)
    ours, theirs = (statistics.median(found[name]) for name in ("paddock", "peer"))
    table.limit("seconds to /health", ours / theirs, 0.3, f"{ours:.2f} s, peer {theirs:.2f} s")


def imports(table):
    """What a program that only uses environments of a server has to import."""
    lines = {
        "numpy": "import numpy",
        "client": "import paddock; paddock.make; import paddock.making.remote, paddock.hosting.remote_channel",
    }
    found = {name: [] for name in lines}
    for _ in range(IMPORTS):
        for name, line in lines.items():
            began_s = time.perf_counter()
            subprocess.run([sys.executable, "-c", line], check=True)
            found[name].append(time.perf_counter() - began_s)
    client, numpy = (statistics.median(found[name]) for name in ("client", "numpy"))
    table.limit("import of the client / numpy's", client / numpy, 1.6, f"{client * 1e3:.0f} ms")


def main():
    if "--stock" in sys.argv:
        table = Limits(f"OpenEnv's stock client on both servers, {os.cpu_count()} cores; peer: OpenEnv 0.10")
        stock(table, peer_python())
        folders(table, peer_python())
        return int(table.failed)
    # As an installed package is; workers behind a wall could not write byte code, and would compile at each start.
    compileall.compile_dir(Path(paddock.__file__).parent, quiet=2)
    python = peer_python()
    table = Limits(f"Over TCP on this machine, {os.cpu_count()} cores; peer: OpenEnv 0.10")
    with ExitStack() as stack:
        worlds = stack.enter_context(Paddock(str(HERE / "remote_worlds"), "CartPole-v1"))
        peer = stack.enter_context(OpenEnv(python))
        theirs = stack.enter_context(closing(OpenEnvClients(python, f"http://127.0.0.1:{peer.port}")))
        mixed = stack.enter_context(closing(OpenEnvClients(python, worlds.url("Echo-v0", "any:"), "action")))
        cases = cases_of(worlds, peer, theirs, mixed, stack)
        steps(table, *interleaved(cases))
        sides = {"sessions": (worlds.process.pid, os.getpid())}
        cpu_times(table, cases, {**sides, "*sessions": (peer.process.pid, theirs.pid)})
    stock(table, python)
    folders(table, python)
    starts(table, python)
    imports(table)
    return int(table.failed)


if __name__ == "__main__":
    raise SystemExit(main())
