"""Start little workers behind a wall, and look at what is left of them."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.sandbox import Call, Machine, Policy, launch
from paddock.sandbox.plan import TIERS

ROOT = os.geteuid() == 0
SANDBOX, LANDLOCK = TIERS["sandbox"], TIERS["landlock"]

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's: they run on Linux only")
needs_root = pytest.mark.skipif(not ROOT, reason="needs root's rights: runs where the suite runs as root")
backends = pytest.mark.parametrize(
    "backend",
    [
        pytest.param(
            "bwrap",
            marks=pytest.mark.skipif(
                Machine.here().bwrap is None,
                reason="bubblewrap is missing; scripts/setup installs it where it may, and `native` runs without it",
            ),
        ),
        "native",
    ],
)
# Every way to start something: (options of launch, tier).
ways = pytest.mark.parametrize(
    "way",
    [
        pytest.param(
            {"backend": "bwrap"},
            id="bwrap",
            marks=pytest.mark.skipif(
                Machine.here().bwrap is None,
                reason="bubblewrap is missing; scripts/setup installs it where it may, and `native` runs without it",
            ),
        ),
        pytest.param({"backend": "native"}, id="native"),
        pytest.param({"tier": "landlock"}, id="landlock"),
    ],
)

HEAD = """
import json, os, socket, sys, time
near = socket.socket(fileno=3)
def tell(value): near.sendall(json.dumps(value).encode() + b"\\n")
def hear(): return near.recv(1)
"""


@contextmanager
def worker(folder, code, *, tier="sandbox", layers=None, backend=None, extra_fds=(), args=(), **policy):
    """A worker that runs ``code``, with ``tell`` and ``hear``; yields it and the socket to it."""
    text = HEAD + "def main(*args):\n" + "\n".join("    " + line for line in code.strip().splitlines()) + "\n"
    module = Path(folder, "little_worker.py")
    module.write_text(text)
    here, there = socket.socketpair()
    here.settimeout(20)
    with here, there:
        call = Call("little_worker:main", args, {"little_worker": str(module)})
        child = launch(
            call,
            Policy(tier=tier, **policy),
            socket_fd=there.fileno(),
            layers=layers,
            backend=backend,
            extra_fds=extra_fds,
        )
        there.close()
        with child:
            yield child, here


def told(here, child=None):
    """The next line that the worker tells; what it wrote before it died is shown if it tells nothing."""
    said = b""
    while not said.endswith(b"\n"):
        piece = here.recv(65536)
        if not piece:
            words = child.last_words() if child else ""
            pytest.fail(f"the worker {words}: {child.output if child else ''}")
        said += piece
    return json.loads(said)


def report(folder, code, **options):
    """What a worker with ``code`` tells."""
    with worker(folder, code, **options) as (child, here):
        return told(here, child)


def wait_until(true, within_s=5.0):
    """Whether ``true()`` became so; for what another process does and nobody tells."""
    ends = time.monotonic() + within_s
    while not true():
        if time.monotonic() > ends:
            return False
        time.sleep(0.005)
    return True


def leftovers():
    """What this process has: descriptors, processes below it, cgroups, scratch folders. Templates end by themselves."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True).stdout
    below = [line.split() for line in listed.splitlines() if line.split()[1] == str(os.getpid())]
    processes = [pid for pid, _, name, *_ in below if name not in ("ps", "paddock-tmpl")]
    groups = [path for one in Machine.here().cgroups for path in Path(one.folder).glob(f"paddock-{os.getpid()}-*")]
    folders = Path(os.environ.get("TMPDIR", "/tmp")).glob(f"paddock-scratch-{os.getpid()}-*")
    kinds = {"descriptor": os.listdir("/proc/self/fd"), "process": processes, "cgroup": groups, "folder": folders}
    return {(kind, str(one)) for kind, found in kinds.items() for one in found}
