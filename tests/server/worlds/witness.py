"""Environments for tests of the server: they count what they are told to do, and misbehave when told to.

Behind the wall this file is a module of its own, so it imports nothing of the tests.
"""

import faulthandler
import os
import re
import signal
import time

import numpy as np

import paddock
from paddock import spaces

MISDEEDS = (
    "pause",
    "second",
    "loop",
    "gil",
    "sleep",
    "deaf",
    "exit",
    "segfault",
    "abort",
    "overflow",
    "illegal",
    "memory",
    "garbage",
    "partial",
    "oversized",
    "early",
    "flood",
    "large",
    "raise",
    "cry",
)
FIRST = 1 << 20
DO = {name: FIRST + at for at, name in enumerate(MISDEEDS)}  # the action that asks for it
LARGE_BYTES = 8 << 20
SECRET = "only-for-the-log"
_SOCKET_FD = 3


class Witness(paddock.Env):
    """Shows how many steps it took, the last action and its canary."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Discrete(1 << 21)

    def __init__(self, canary=0):
        self.canary, self.count = canary, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(0), {"canary": self.canary}

    def step(self, action):
        info = {"canary": self.canary, "chance": float(self.chance())}
        if action >= FIRST:
            misbehave(MISDEEDS[action - FIRST], info)
        self.count += 1
        return self.seen(action), float(self.count), False, False, info

    def seen(self, action):
        return np.array([self.count, action, self.canary], np.float64)

    def chance(self):
        return self.np_random.random()


class Dice(Witness):
    """Its chance is not its seed's."""

    def chance(self):
        return int.from_bytes(os.urandom(4), "big")


def misbehave(how, info):
    if how == "pause":
        time.sleep(0.05)
    elif how == "second":
        time.sleep(1.0)
    elif how == "loop":
        while True:
            pass
    elif how == "gil":
        re.match(r"(a+)+$", "a" * 60 + "b")
    elif how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    elif how == "sleep":
        time.sleep(3600)
    elif how == "exit":
        os._exit(7)
    elif how == "segfault":
        faulthandler._sigsegv()
    elif how == "abort":
        faulthandler._sigabrt()
    elif how == "overflow":
        faulthandler._stack_overflow()
    elif how == "illegal":
        signal.signal(signal.SIGILL, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGILL)
        time.sleep(3600)
    elif how == "cry":
        os.write(2, b"first line\nsecond line\nlast words")
        os._exit(3)
    elif how == "raise":
        raise ValueError(SECRET)
    elif how == "large":
        info["large"] = np.zeros(LARGE_BYTES, np.uint8)
    else:
        abuse(how)


def abuse(how):
    if how == "memory":
        kept = []
        while True:
            kept.append(bytearray(os.urandom(4096)) * 4096)
    elif how == "garbage":
        os.write(_SOCKET_FD, os.urandom(4096))
        time.sleep(3600)
    elif how == "partial":
        os.write(_SOCKET_FD, b"PDK1\0\0")
        os._exit(0)
    elif how == "oversized":
        os.write(_SOCKET_FD, b"PDK1" + b"\xff" * 16)
        time.sleep(3600)
    elif how == "early":
        from paddock.hosting.codec import encode
        from paddock.hosting.messages import Done

        os.write(_SOCKET_FD, b"".join(encode(Done([]), 77)))  # an answer to what nobody asked
        time.sleep(3600)
    elif how == "flood":
        line = b"x" * (1 << 20)
        for _ in range(1024):
            os.write(1, line)


if __name__ == "witness":  # as the server imports it, not as a test does
    paddock.register("Witness-v0", entry_point="witness:Witness", kwargs={"canary": 0})
    paddock.register("Dice-v0", entry_point="witness:Dice", kwargs={"canary": 0}, nondeterministic=True)
