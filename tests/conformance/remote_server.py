"""A server for the suite's environments, in a process of its own: its workers are the suite's, behind the same wall.

``python -m tests.conformance.remote_server`` prints its URL with the token.
"""

import os
import subprocess
import sys
from pathlib import Path

from paddock.making.walls import Spare, WarmPool, take_spare
from paddock.server.auth import Tokens
from paddock.server.listener import run
from paddock.server.served_env import Description, ServedEnv
from paddock.server.settings import Settings
from paddock.spaces import Discrete
from tests.conformance.sandboxed import start_sandboxed

_SPARES = "the suite's workers"


class Suite(ServedEnv):
    """Every environment of the suite under one name; which one, a client says as for the tier ``sandbox``."""

    def __init__(self):
        super().__init__("CartPole-v1")
        self.name = "suite"
        self._described = Description(Discrete(1), Discrete(1), {}, None, frozenset(), deterministic=False)

    def _launch(self, tenant):
        return take_spare(_SPARES) or start_sandboxed()

    def _make_spares(self, tenant):
        return WarmPool(lambda: Spare(*start_sandboxed()), self.spares, _SPARES)

    def what(self, asked):
        return asked


def main():
    tokens, token = Tokens.fresh()

    def ready(addresses):
        print(f"http://{token}@127.0.0.1:{addresses[0][1]}/suite", flush=True)

    run([Suite()], Settings(port=0, spares=2), tokens, when_ready=ready)


class SuiteServer:
    """Started when first asked for its URL."""

    def __init__(self):
        self._process, self._url = None, None

    @property
    def url(self):
        if self._process is None:
            root = Path(__file__).resolve().parents[2]
            environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
            command = [sys.executable, "-m", "tests.conformance.remote_server"]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            self._url = self._process.stdout.readline().strip()
            assert self._url, "the suite's server did not start"
        return self._url

    def end(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process.stdout.close()
            self._process = None


if __name__ == "__main__":
    main()
