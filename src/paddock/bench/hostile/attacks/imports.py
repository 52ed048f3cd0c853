"""Attacks at import: sources of modules that the runner writes to a folder, so that no part of paddock is hostile.

They are texts on purpose: importing them is the attack, and importing this file must not be one.
"""

from __future__ import annotations

from typing import Any

from paddock.bench.hostile.attack import CONTAINED, IN_ITS_PROCESS, LATE, enter

_ENVIRONMENT = """
import numpy as np
from paddock.core.env import Env
from paddock.core.registry import register
from paddock.spaces import Box, Discrete


class Imported(Env):
    metadata = {"render_modes": []}

    def __init__(self, **arguments):
        self.observation_space, self.action_space = Box(0.0, 1.0, (2,), np.float32), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {"attack": HOW, "loot": LOOT}


register("Hostile/Imported-v0", entry_point=f"{__name__}:Imported")
"""

_TRIED = """
HOW, LOOT = "succeeded", ""
try:
{attempt}
except OSError as error:
    import errno
    HOW = "denied: " + errno.errorcode.get(error.errno or 0, type(error).__name__)
except Exception as error:
    HOW = f"failed: {{type(error).__name__}}: {{error}}"
"""

# What a module does when it is imported. {…} are the canaries' places, baked in: a module gets no arguments.
NOTHING = "pass\n"
TOUCH = "import os\nos.close(os.open({marker!r}, os.O_CREAT | os.O_WRONLY))\n"

# Other files in the module's folder. Python, pytest and pip each run some of them unasked.
CUSTOMIZE = ("sitecustomize.py", "usercustomize.py")
SHADOWS = ("json.py", "numpy.py", "msgspec.py", "conftest.py", "setup.py")


def module_source(attempt: str, places: dict[str, object]) -> str:
    """The module that runs ``attempt`` when it is imported, and registers Hostile/Imported-v0."""
    body = attempt.format(**places)
    return _TRIED.format(attempt="".join(f"    {line}\n" for line in body.splitlines())) + _ENVIRONMENT


def beside_source(name: str, places: dict[str, object]) -> str:
    """A file that leaves the marker if anybody imports or runs it. It stands in for the module whose name it took."""
    touch = TOUCH.format(**places)
    return touch + ("raise ImportError('a shadow')\n" if name in SHADOWS else "")


def _module(code: str, title: str, canary: str, attempt: str, **more: Any) -> None:
    enter(code, title, canary, kind="module", target=attempt, **more)


_READ_BESIDE = """
import os
LOOT = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), {beside!r})).read()
"""
_CONNECT = """
import socket
with socket.create_connection(({host!r}, {port}), 2) as there:
    there.sendall(b'hello')
"""
_START = "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'echo hostile > {marker}'], check=True)\n"
_DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    [os.close(fd) for fd in range(64) if os.path.exists('/proc/self/fd/' + str(fd))]
    time.sleep({seconds})
    os._exit(0)
"""
_POISON = """
import sys, types
sys.modules['paddock_hostile_was_here'] = types.ModuleType('poison')
import json
json.hostile = True
"""
_module("I01", "leaves a file when imported", "file", TOUCH)
_module("I02", "reads a secret when imported", "secret", "LOOT = open({secret!r}).read()\n", needs="files-hidden")
_module("I03", "reads the file beside it", "secret", _READ_BESIDE, needs="files-hidden")
_module("I04", "connects when imported", "listener", _CONNECT, needs="no-network")
_module("I05", "starts a shell when imported", "file", _START, needs="no-programs")
_module("I06", "leaves a daemon when imported", "left", _DAEMON, needs="no-processes")
_module("I07", "poisons the modules of its importer", "program", _POISON, expected=CONTAINED, **IN_ITS_PROCESS)
_module("I08", "plants a .pth file", "file", "open({plant!r}, 'w').write('import os')\n")
_module("I09", "brings sitecustomize.py along", "file", NOTHING, beside=CUSTOMIZE, expected=CONTAINED)
_module("I10", "brings json.py and conftest.py along", "file", NOTHING, beside=SHADOWS, expected=CONTAINED)
_late: dict[str, Any] = {"expected": LATE, "policy": {"start_s": 2.0}, "calls": (), "needs": "deadlines-kept"}
_module("I11", "sleeps when imported", "caller", "import time\ntime.sleep({seconds})\n", **_late)
_module("I12", "exits when imported", "caller", "import os\nos._exit(7)\n", expected={"exit"}, **IN_ITS_PROCESS)
_module("I13", "is imported by the trusted side", "program", NOTHING, expected=CONTAINED, needs="not-imported")
