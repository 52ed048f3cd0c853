"""A program that looks for paddock's files from behind its wall; prints what it found for each way to start it.

python program_looks.py WAY…; the variable LOOK_AT names another folder than that of the paddock that runs.
"""

import json
import os
import socket
import sys
from pathlib import Path

import paddock
from paddock.sandbox import Policy, launch
from paddock.sandbox.mounts import PythonWorld
from paddock.sandbox.plan import Exec

PACKAGE = str(Path(paddock.__file__).resolve().parent)
PYTHON = PythonWorld.here().executable
LOOK = """
import json, os, sys
package, beside = sys.argv[1:]

def found(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return False
    return True

print(json.dumps({
    "boot": found(open, package + "/sandbox/inside/boot.py"),
    "answers": found(open, package + "/agentic/envs/coding/families.py"),
    "init": found(open, package + "/__init__.py"),
    "makes": found(open, package + "/new", "w") or found(os.mkdir, package + "/sandbox/new"),
    "beside": found(open, beside),
    "library": bool(__import__("json").loads("1")),
}))
"""
WAYS = {"bwrap": {"backend": "bwrap"}, "native": {"backend": "native"}, "landlock": {}}


def look(way, read=()):
    """What the program printed."""
    beside = str(Path(PACKAGE).with_name("beside.txt"))
    policy = Policy(programs=(PYTHON,), tier="landlock" if way == "landlock" else "sandbox", read=read)
    program = Exec((PYTHON, "-I", "-S", "-c", LOOK, os.environ.get("LOOK_AT", PACKAGE), beside), stdio=True)
    here, there = socket.socketpair()
    here.settimeout(30)
    with here, launch(program, policy, socket_fd=there.fileno(), **WAYS[way]) as child:
        there.close()
        said = b"".join(iter(lambda: here.recv(4096), b""))
        if not said:
            raise RuntimeError(child.last_words() + child.output)
    return json.loads(said)


if __name__ == "__main__":
    print(json.dumps({way: look(way) for way in sys.argv[1:]}))
