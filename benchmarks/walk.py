"""The way of `env.step(1)` at each distance: which functions of paddock are called, and how often.

    python benchmarks/walk.py            # a table: calls, modules, and the bar
    python benchmarks/walk.py --way      # each call, in order

Counted in this process, for CartPole after a few steps; the worker's side is served here, over a socket pair. Bars are
two thirds of what the same steps took before steps were rows.
"""

import argparse
import re
import socket
import sys
from pathlib import Path

import numpy as np

import paddock
from paddock.hosting import messages as m
from paddock.hosting.codec import encode
from paddock.hosting.host import Host
from paddock.hosting.worker import Conversation

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.serving import serving

HOME = f"{Path(paddock.__file__).parent}/"
BARS = {"process": 20, "sandbox": 22, "remote": 31}


def walk(call):
    """The functions of paddock that a call enters, each as module.qualified name."""
    seen = []

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME):
            module = code.co_filename.removeprefix(HOME).removesuffix(".py").replace("/", ".")
            seen.append(f"{module}.{re.sub(r'<locals>.', '', code.co_qualname)}")

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def of_env(env):
    env.reset(seed=1)
    for _ in range(3):
        env.step(1)
    seen = walk(lambda: env.step(0))
    env.close()
    return seen


def of_worker():
    near, far = socket.socketpair()
    with near, far:
        conversation = Conversation(far, Host(lambda what: paddock.make("CartPole-v1")))
        action = np.int64(0).tobytes()
        step = m.StepRows(rows=action)
        for number, request in enumerate((m.Make(0, {}), m.Reset(0, 1), step, step, step), 1):
            near.sendall(b"".join(encode(request, number)))
            conversation.serve_one()
            near.recv(1 << 16)
        near.sendall(b"".join(encode(step, 6)))
        return walk(conversation.serve_one)


def ways():
    yield "one, here", of_env(paddock.make("CartPole-v1"))
    yield "process", of_env(paddock.make("CartPole-v1", isolation="process"))
    yield "sandbox", of_env(paddock.make("CartPole-v1", isolation="sandbox"))
    yield "worker", of_worker()
    with serving("CartPole-v1") as server:
        yield "remote", of_env(paddock.make(server.with_token("/CartPole-v1")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count the calls of a step at each distance.")
    parser.add_argument("--way", action="store_true", help="print each call")
    shows_way = parser.parse_args().way
    missed = False
    for name, seen in ways():
        bar = BARS.get(name)
        verdict = "" if bar is None else f", bar {bar}: {'met' if len(seen) <= bar else 'MISSED'}"
        missed |= bar is not None and len(seen) > bar
        modules = len({one.split(".")[-2] if "<" in one else one.rsplit(".", 2)[0] for one in seen})
        print(f"{name}: {len(seen)} calls in {modules} modules{verdict}")
        if shows_way:
            print("  " + " > ".join(seen))
    sys.exit(missed)
