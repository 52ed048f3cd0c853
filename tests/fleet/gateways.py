"""A real gateway process for tests, and servers that share one token file."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys

from paddock.hosting.remote_address import parse_address
from tests.server.serving import ROOT, Server, wait_until


class Gateway:
    """``paddock gateway`` in a process. ``kill`` it, ``stop`` it."""

    def __init__(self, folder, servers, *options, token=None):
        self.token = token or servers[0].token
        self.log_path = folder / "gateway.log"
        urls = [one if isinstance(one, str) else one.url for one in servers]
        argv = [sys.executable, "-m", "paddock", "gateway", "--port", "0", *options]
        argv += [word for url in urls for word in ("--server", url)]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PADDOCK_LOG": "text"},
            )
        line = self.process.stdout.readline()
        if not line.startswith("gateway on"):
            self.stop()
            raise AssertionError(self.log)
        self.url = line.split()[2]
        self.port = int(self.url.rpartition(":")[2])

    @property
    def log(self):
        return self.log_path.read_text()

    def address(self, name=""):
        return parse_address(f"{self.url}/{name}" if name else self.url, token=self.token)

    get = Server.get
    kill = Server.kill

    def wait_for_ready(self, count):
        wait_until(lambda: self.get("/health")["servers_ready"] == count, 30)

    def stop(self, within_s=30.0):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(within_s)
        finally:
            self.process.kill()
            self.process.stdout.close()


def start_server(folder, number, token, *targets, port=0, **settings):
    """Start a server with this token; ``number`` names its folder, so that one that starts again has its journal."""
    place = folder / f"server{number}"
    place.mkdir(exist_ok=True, parents=True)
    (place / "tokens").write_text(f"operator {token}\n")
    return Server(place, *targets, port=port, **settings)


@contextlib.contextmanager
def fleet(folder, count, *targets, options=(), journal=False, **settings):
    """A gateway in front of some servers: (gateway, servers)."""
    token, servers = secrets.token_hex(16), []
    try:
        for number in range(count):
            own = {**settings, "journal": folder / f"journal{number}"} if journal else settings
            servers.append(start_server(folder, number, token, *targets, **own))
        gateway = Gateway(folder, servers, *options)
        try:
            yield gateway, servers
        finally:
            gateway.stop()
    finally:
        for server in servers:
            server.kill()
