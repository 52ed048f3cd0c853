"""``paddock serve`` in a process of its own, on a free port, as a user runs it."""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass

from tests.peers import ROOT
from tests.server.raw_peers import TEXT, Peer


@dataclass(frozen=True)
class Serving:
    """``errors``: a file with what the server wrote to stderr."""

    port: int
    token: str
    errors: str

    def url(self, name=""):
        """With the token in it, as stock clients of OpenEnv are given it."""
        return f"http://anything:{self.token}@127.0.0.1:{self.port}" + (f"/{name}" if name else "")

    def ask(self, method, path, body=b"", **headers):
        """The answer to one HTTP request."""
        with Peer(("127.0.0.1", self.port), token=self.token, timeout=30.0) as peer:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return peer.ask(method, path, named, body.encode() if isinstance(body, str) else body)

    @contextmanager
    def socket(self, path="/ws"):
        """A websocket, past its handshake."""
        with Peer(("127.0.0.1", self.port), token=self.token, timeout=30.0) as peer:
            answer = peer.upgrade(path)
            assert answer.status == 101, answer
            yield peer


def exchange(peer, text):
    """The text that answers a text."""
    peer.frame(TEXT, text.encode())
    opcode, payload = peer.message()
    assert opcode == TEXT, (opcode, payload)
    return payload.decode()


@contextmanager
def paddock_serve(folder, *arguments):
    """Serve; ``folder``: a place for the log."""
    errors = folder / "serve.err"
    command = [sys.executable, "-m", "paddock", "serve", *map(str, arguments), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with errors.open("w") as file:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True, env=environment)
    try:
        first, second = server.stdout.readline(), server.stdout.readline()
        assert second.startswith("token "), first + second + errors.read_text()
        yield Serving(int(first.rsplit(":", 1)[1]), second.split()[1], str(errors))
    finally:
        server.terminate()
        try:
            assert server.wait(30) == 0, errors.read_text()[-2000:]
        finally:
            server.kill()
            server.stdout.close()
