"""A server of the real package in a process of its own, on a free port of this machine."""

import os
import subprocess
import sys
from contextlib import contextmanager

from tests.peers import ROOT

_PROGRAM = """
import socket, sys
import uvicorn
from tests.openenv import worlds
sock = socket.create_server(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(worlds.app, log_level="error")).run(sockets=[sock])
"""


@contextmanager
def real_server(peer):
    """Its URL; it has ended afterwards."""
    made = subprocess.run([ROOT / "scripts" / "peer", peer], capture_output=True, text=True, timeout=1800)
    assert made.returncode == 0, made.stderr[-2000:]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    server = subprocess.Popen(
        [made.stdout.strip(), "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=sys.stderr, text=True, env=environment
    )
    try:
        port = server.stdout.readline().strip()
        assert port, "the server did not start"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()
