"""The way of `env.step(1)` at each distance: which functions of paddock are called, and how often.

    python benchmarks/walk.py            # a table: calls, modules, and the bar
    python benchmarks/walk.py --way      # each call, in order

Counted in this process, for CartPole after a few steps; the worker's side is served here, over a socket pair. Bars are
two thirds of what the same steps took before steps were rows. Then the CPU time that a step takes in this process, with
a worker that answers at once: all of it, with the system calls, and without those (the same bytes sent, awaited and
read by three bare calls).
"""

import argparse
import os
import re
import select
import socket
import sys
import time
from pathlib import Path

import numpy as np

import paddock
from paddock.hosting import messages as m
from paddock.hosting.client import HostedEnv
from paddock.hosting.codec import NUMBER_AT, encode
from paddock.hosting.host import Host
from paddock.hosting.judge import WallRules
from paddock.hosting.process_channel import ProcessChannel
from paddock.hosting.worker import Conversation

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.serving import serving

HOME = f"{Path(paddock.__file__).parent}/"
BARS = {"process": 20, "sandbox": 22, "remote": 31}
CPU_BAR_US = 15.0
STEPS, ROUNDS = 2_000, 9


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


def answer_at_once(far):
    """A worker that makes and resets CartPole, steps it once, and gives that result to every later step."""
    conversation = Conversation(far, Host(lambda what: paddock.make("CartPole-v1")))
    far.setblocking(True)
    for _ in range(2):
        conversation.serve_one()
    request = far.recv(1 << 16)
    reply = Host(lambda what: paddock.make("CartPole-v1"))
    for message in (m.Make(0, {}), m.Reset(0, 1)):
        reply.handle(message)
    frame = bytearray(b"".join(encode(reply.handle(m.StepRows(plain=True, rows=np.int64(1).tobytes())))))
    while request:
        frame[NUMBER_AT : NUMBER_AT + 4] = request[NUMBER_AT : NUMBER_AT + 4]
        far.send(frame)
        request = far.recv(1 << 16)


def least_cpu_us(call):
    """CPU time of this process for a call, the least of several rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(STEPS):
            call()
        times.append((time.process_time() - began) / STEPS * 1e6)
    return min(times)


def cpu_us(rules):
    """CPU time of a step in this process, and of the three system calls alone."""
    near, far = socket.socketpair()
    if (pid := os.fork()) == 0:
        near.close()
        answer_at_once(far)
        os._exit(0)
    far.close()
    env = HostedEnv(ProcessChannel(near, None, rules), {}, wall=rules)
    env.reset(seed=1)
    whole = least_cpu_us(lambda: env.step(1))
    poll, buffer, frame = select.poll(), bytearray(1 << 16), b"".join(encode(m.StepRows(plain=True, rows=bytes(8))))
    poll.register(near, select.POLLIN)
    bare = least_cpu_us(lambda: (near.send(frame), poll.poll(), near.recv_into(buffer)))
    near.close()
    os.waitpid(pid, 0)
    return whole, bare


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
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core: each side takes its turn
    for name, rules in (("process", None), ("sandbox", WallRules())):
        whole, bare = cpu_us(rules)
        missed |= whole > CPU_BAR_US
        verdict = "met" if whole <= CPU_BAR_US else "MISSED"
        print(f"{name}: {whole:.1f} us of CPU, {whole - bare:.1f} without system calls, bar {CPU_BAR_US:g}: {verdict}")
    sys.exit(missed)
