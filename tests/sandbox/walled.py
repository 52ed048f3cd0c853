"""Run code behind single layers of the wall, in a fresh interpreter each time: a lock can never be taken off again."""

import json
import os
import subprocess
import sys
from pathlib import Path

from paddock.sandbox.plan import BOOT

SOURCE = Path(__file__).parents[2] / "src"
LIBRARIES = [path for path in ("/usr/lib", "/lib", "/lib64", "/usr/lib64", "/etc/ld.so.cache") if os.path.exists(path)]

# What an attack prints: whether it went through, or the error that stopped it.
ATTEMPT = """
import sys
sys.path.insert(0, {source!r})
from paddock.sandbox.inside.lock import lock
import ctypes, os, resource, select, signal, socket, subprocess, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
lock({config!r})
try:
{attack}
except (OSError, MemoryError) as error:
    print("refused", type(error).__name__, getattr(error, "errno", None))
else:
    print("done")
"""


def attempt(attack, config, **options):
    """The last line of what the attack said, "done" or "refused …", or the signal that ended it as "killed by N"."""
    indented = "\n".join("    " + line for line in attack.strip().splitlines())
    text = ATTEMPT.format(source=str(SOURCE), config=config, attack=indented)
    ran = subprocess.run(
        [sys.executable, "-I", "-c", text],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        **options,
    )
    if ran.returncode < 0:
        return f"killed by {-ran.returncode}"
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip().splitlines()[-1]


def readable():
    """What Python itself must be able to read: its library, the packages, paddock."""
    prefixes = {sys.prefix, sys.base_prefix, *(path for path in sys.path if "site-packages" in path)}
    return [*LIBRARIES, *sorted(prefixes), str(SOURCE / "paddock")]


def boot(order, *, pass_fds=(), line=BOOT):
    """Start the boot line with that order, as the launcher does, and wait for its end."""
    inside, outside = os.pipe()
    try:
        os.write(outside, json.dumps(order).encode())
        os.close(outside)
        argv = [sys.executable, "-I", "-S", "-c", line, str(inside)]
        return subprocess.run(argv, pass_fds=[inside, *pass_fds], capture_output=True, text=True, timeout=60, env={})
    finally:
        os.close(inside)
