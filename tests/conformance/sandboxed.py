"""A worker of the suite behind the wall, for the tiers ``sandbox`` and ``remote``."""

import socket
from pathlib import Path

from paddock.sandbox.launching import launch
from paddock.sandbox.plan import Call
from paddock.sandbox.policy import Policy


def start_sandboxed(tier="sandbox"):
    """A worker behind the wall, with its socket. It sees this suite, and nothing else of the folder."""
    near, far = socket.socketpair()
    tests = Path(__file__).resolve().parents[1]
    with far:
        call = Call("tests.conformance.walled_worker:main", modules={"tests": str(tests)})
        return near, launch(call, Policy(tier=tier), socket_fd=far.fileno())
