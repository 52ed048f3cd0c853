"""A server of the real package in a process of its own, on a free port of this machine."""

import os
import subprocess
import sys
from contextlib import contextmanager

from tests.peers import ROOT

_PROGRAM = """
import importlib, socket, sys
import uvicorn
app = importlib.import_module(sys.argv[1])
app = getattr(app, sys.argv[2]) if len(sys.argv) > 2 else app.application()
sock = socket.create_server(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[sock])
"""


@contextmanager
def real_server(peer, *application):
    """Its URL; it has ended afterwards. ``application``: a module, and a name in it if it is not ``application()``."""
    made = subprocess.run([ROOT / "scripts" / "peer", peer], capture_output=True, text=True, timeout=1800)
    assert made.returncode == 0, made.stderr[-2000:]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    server = subprocess.Popen(
        [made.stdout.strip(), "-c", _PROGRAM, *(application or ("tests.openenv.worlds", "app"))],
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        text=True,
        env=environment,
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
