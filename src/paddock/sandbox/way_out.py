"""The proxy to a policy's hosts, for one worker: it belongs to the trusted side, whoever talks to the worker later."""

from __future__ import annotations

import socket
from pathlib import Path

from paddock.sandbox.cassette import Cassette
from paddock.sandbox.child import Companion
from paddock.sandbox.listener import receive_listener
from paddock.sandbox.policy import Policy
from paddock.sandbox.proxy import Proxy


def way_out(near: socket.socket, policy: Policy) -> list[Companion]:
    """Serve the listener that comes through ``near`` from inside, before anything of the worker's program runs.

    Returns what must be closed with the worker.
    """
    with receive_listener(near, timeout_s=policy.start_s) as listener:
        cassette: Cassette | None = None
        if policy.cassette is not None:
            cassette = Cassette(policy.cassette, "replay" if Path(policy.cassette).exists() else "record")
        proxy = Proxy(listener.dup(), policy.hosts, timeout_s=policy.call_s, cassette=cassette)
    proxy.start()
    # Proxies may share a cassette, so none closes it; left open it would stay locked.
    return [proxy] if cassette is None else [proxy, cassette]
