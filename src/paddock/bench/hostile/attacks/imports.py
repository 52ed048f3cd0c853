"""Attacks at import: sources of modules that the runner writes to a folder, so that no part of paddock is hostile.

They are texts on purpose. Importing them is the attack, and importing this file is none.
"""

from __future__ import annotations

_ENVIRONMENT = """
import numpy as np
from paddock.core.env import Env
from paddock.core.registry import register
from paddock.spaces import Box, Discrete


class Imported(Env):
    metadata = {"render_modes": []}

    def __init__(self, **told):
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

_TOUCH = "import os\nos.close(os.open({marker!r}, os.O_CREAT | os.O_WRONLY))\n"

# What a module does when it is imported. {…} are the canaries' places, baked in: a module gets no arguments.
ATTEMPTS = {
    "touch": _TOUCH,
    "read": "LOOT = open({secret!r}).read()\n",
    "read_beside": (
        "import os\nLOOT = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), {beside!r})).read()\n"
    ),
    "connect": (
        "import socket\nwith socket.create_connection(({host!r}, {port}), 2) as there:\n    there.sendall(b'hello')\n"
    ),
    "start": "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'echo hostile > {marker}'], check=True)\n",
    "daemon": (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    [os.close(fd) for fd in range(64) if os.path.exists('/proc/self/fd/' + str(fd))]\n"
        "    time.sleep({seconds})\n"
        "    os._exit(0)\n"
    ),
    "poison": (
        "import sys, types\n"
        "sys.modules['paddock_hostile_was_here'] = types.ModuleType('poison')\n"
        "import json\n"
        "json.hostile = True\n"
    ),
    "register": (
        "from paddock.core.registry import registry\n"
        "from paddock.core.spec import EnvSpec\n"
        "dict.__setitem__(registry, 'CartPole-v1', EnvSpec('CartPole-v1', entry_point='os:system'))\n"
    ),
    "plant": "open({plant!r}, 'w').write('import os')\n",
    "rewrite": "open(__file__, 'a').write('# changed')\n",
    "sleep": "import time\ntime.sleep({seconds})\n",
    "exit": "import os\nos._exit(7)\n",
    "nothing": "pass\n",
}

# Other files in the module's folder. Python, pytest and pip each run some of them unasked.
BESIDE = {
    "customize": ("sitecustomize.py", "usercustomize.py"),
    "shadow": ("json.py", "msgspec.py", "numpy.py", "conftest.py", "setup.py"),
}


def module_source(attempt: str, places: dict[str, object]) -> str:
    """The module that makes this attempt when it is imported, and registers Hostile/Imported-v0."""
    body = ATTEMPTS[attempt].format(**places)
    return _TRIED.format(attempt="".join(f"    {line}\n" for line in body.splitlines())) + _ENVIRONMENT


def beside_source(name: str, places: dict[str, object]) -> str:
    """A file that leaves the marker if anybody imports or runs it. It stands in for the module whose name it took."""
    touch = _TOUCH.format(**places)
    return touch + ("raise ImportError('a shadow')\n" if name in BESIDE["shadow"] else "")
