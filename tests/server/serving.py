"""A real server process for tests, its sessions and the processes below it, and clients that keep a history."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from paddock.errors import ClosedEnvironmentError
from paddock.hosting.client import HostedEnv
from paddock.hosting.remote_address import parse_address
from paddock.hosting.remote_channel import RemoteChannel
from paddock.hosting.remote_session import Patience
from paddock.sandbox.inside.template import TEMPLATE_NAME

ROOT = Path(__file__).parents[2]
WORLDS = Path(__file__).parent / "worlds"
QUICK = Patience(first_s=0.01, longest_s=0.2, begin_s=60.0, resume_s=30.0, handshake_s=30.0)


class Server:
    """One that runs. ``kill`` it, ``stop`` it; ``log`` is what it wrote."""

    def __init__(self, folder, *targets, policy=None, limit=None, environ=None, jumps=None, **settings):
        folder.mkdir(exist_ok=True, parents=True)
        self.folder, self.targets = folder, targets or ("witness:Witness-v0",)
        self.token_file = folder / "tokens"
        if not self.token_file.exists():
            self.token_file.write_text(f"operator {secrets.token_hex(16)}\n")
        self.token = self.token_file.read_text().split()[1]
        self.log_path = folder / "log"
        asked = {
            "targets": list(self.targets),
            "token_file": str(self.token_file),
            "policy": policy or {},
            "jumps": jumps,  # the seed of a clock that jumps, see serve_with
            "settings": {"processes": int(os.environ.get("PADDOCK_TEST_PROCESSES", "1"))}
            | {name: str(one) if isinstance(one, Path) else one for name, one in settings.items()},
        }
        argv = [sys.executable, "-m", "tests.server.serve_with", json.dumps(asked)]
        if limit is not None:
            argv = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *argv]
        path = os.pathsep.join(map(str, (ROOT / "src", ROOT, WORLDS)))
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": path, "PADDOCK_LOG": "json", **(environ or {})},
            )
        line = self.process.stdout.readline()
        if not line.startswith("serving"):
            self.kill()
            raise AssertionError(self.log)
        self.url = line.split()[2].replace("http:", "https:" if settings.get("tls_cert") else "http:")
        self.port = int(self.url.rpartition(":")[2])

    @property
    def log(self):
        return self.log_path.read_text()

    def address(self, name="", port=None):
        place = f"http://127.0.0.1:{port or self.port}"
        return parse_address(f"{place}/{name}" if name else place, token=self.token)

    def get(self, path, timeout=10.0):
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=timeout) as response:
            body = response.read()
        return json.loads(body) if body[:1] in (b"{", b"[") else body.decode()

    def sessions(self):
        return self.get("/sessions")["sessions"]

    def health(self):
        return self.get("/health")["status"]

    def worker(self, client):
        """The innermost process of a client's session: the one that runs the environment."""
        (outer,) = (one["pid"] for one in self.sessions() if one["session"] == client.session[:8])
        return ([outer, *below(outer)])[-1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self, within_s=30.0):
        """Drain; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(within_s)
        finally:
            self.process.kill()
            self.process.stdout.close()


@contextlib.contextmanager
def serving(folder, *targets, **settings):
    server = Server(folder, *targets, **settings)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGCONT)
            server.stop()


def make_certificate(place):
    """Write a certificate for 127.0.0.1 into this folder: ``cert.pem``, ``key.pem``; the folder."""
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=paddock test", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", place / "key.pem", "-out", place / "cert.pem"]
    subprocess.run(["openssl", "req", *kind, *names, *files], check=True, capture_output=True)
    return place


class Broken(AssertionError):
    """The history of a client is not that of one environment that was stepped once for each call."""


def vanish(channel):
    """End the client of a session as a crash would: the server hears nothing of it."""
    channel._session.end(ClosedEnvironmentError("vanished"))
    channel._drop()


class Client:
    """An environment at a server; whatever is lost, comes twice, out of order or from elsewhere is a Broken."""

    def __init__(self, address, canary=0, *, patience=QUICK, deadline_s=60.0, saved=None):
        self.canary, self.count, self.history = canary, 0, []
        self.channel = RemoteChannel(address, patience=patience, deadline_s=deadline_s, saved=saved)
        self.env = HostedEnv(self.channel, {"kwargs": {"canary": canary}})
        self.session = self.channel.saved.session

    def reset(self, seed=1):
        observation, info = self.env.reset(seed=seed)
        self.check(observation, info, self.count, 0)
        return self

    def step(self, action):
        observation, reward, _, _, info = self.env.step(action)
        self.count += 1
        self.check(observation, info, self.count, action)
        self.history.append((action, info["chance"]))
        return info

    def check(self, observation, info, count, action):
        if observation.tolist() != [count, action, self.canary] or info["canary"] != self.canary:
            expected = [count, action, self.canary]
            raise Broken(f"{observation.tolist()} came, expected {expected} (steps, action, canary)")

    def close(self):
        self.env.close()

    def abandon(self):
        """Leave without a word."""
        vanish(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.close()


def below(pid):
    """Every process below ``pid``, the innermost last."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *below(child)]
    return found


def workers_below(pid):
    """The same without templates, which stay for the next worker."""
    return [one for one in below(pid) if name_of(one) != TEMPLATE_NAME.decode()]


def name_of(pid):
    """What ``ps`` calls it; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def alive(pids):
    """Those that live, zombies left out."""
    living = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                living.append(pid)
    return living


def rss_kb(pid):
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def wait_until(fact, within_s=10.0):
    """The seconds that it took."""
    began, pause = time.monotonic(), threading.Event()
    while not fact():
        assert time.monotonic() < began + within_s, "it did not come to that"
        pause.wait(0.005)
    return time.monotonic() - began


def together(work, items):
    """``work(item)`` for each, in threads of their own; what each returned. The first error is raised."""
    results, errors = [None] * len(items), []

    def one(at):
        try:
            results[at] = work(items[at])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(at,)) for at in range(len(items))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
