"""``paddock serve`` in a process of its own, for tests that are its clients."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@dataclass
class Serving:
    """A server that answers. ``url``: without the token."""

    process: subprocess.Popen
    url: str
    token: str | None
    environments: list

    def with_token(self, path="", token=None):
        """The URL of an environment, with the token in its user part."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{token or self.token}@{rest}{path}"

    def stop(self):
        """End it as systemd would; its exit code."""
        self.process.terminate()
        return self.process.wait(60)


@contextmanager
def serving(*words, cwd=None, env=None):
    """Serve on a free port of this machine, unless the words say where; ended afterwards."""
    place = () if "--uds" in words or "--port" in words else ("--port", "0")
    process = start(*words, *place, "--json", cwd=cwd, env=env)
    try:
        document = _document(process)
        yield Serving(process, document["urls"][0], document["token"], document["environments"])
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def shared(serve):
    """The fixture of a test file: what ``serve(folder)`` starts, once for all its tests."""

    @pytest.fixture(scope="module")
    def server(tmp_path_factory):
        with serve(tmp_path_factory.mktemp("server")) as running:
            yield running

    return server


def start(*words, cwd=None, env=None):
    """The command, with its output in a pipe."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **(env or {})}
    command = [sys.executable, "-m", "paddock", "serve", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, cwd=cwd, env=environment)


def _document(process):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.rstrip() == "}":
            return json.loads("".join(lines))
    raise AssertionError(f"the server ended: {''.join(lines)}")
