"""Run a server until it is told to stop: SIGTERM and Ctrl-C drain it. Under systemd it says when it is ready."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from paddock.server import logs
from paddock.server.front import listen
from paddock.server.gate import Gate
from paddock.server.http_api import HttpApi
from paddock.server.principals import Tokens
from paddock.server.served import Served
from paddock.server.service import Service
from paddock.server.settings import Settings


def run(
    served: Sequence[Served],
    settings: Settings,
    tokens: Tokens | None,
    *,
    when_ready: Callable[[Any], None],
    log: logs.Form | None = None,
) -> None:
    """Serve. ``when_ready`` is called with the addresses once requests are answered; ``log`` as ``logs.begin``."""
    settings.check()
    logs.begin(log)
    _allow_descriptors()
    with suppress(ImportError):
        import uvloop

        uvloop.run(_serve(served, settings, tokens, when_ready))
        return
    asyncio.run(_serve(served, settings, tokens, when_ready))


async def _serve(
    served: Sequence[Served], settings: Settings, tokens: Tokens | None, when_ready: Callable[[Any], None]
) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = Service(served, settings)
    gate = Gate.for_bind(None if settings.uds else settings.host, settings.origins, settings.hosts)
    api = HttpApi(service, gate, tokens)
    try:
        await service.start()
        server = await listen(api, settings)
        try:
            gc.freeze()  # what is here stays: a collection that looks through it would hold up every session
            when_ready([socket.getsockname() for socket in server.sockets])
            notify("READY=1")
            await stop.wait()
            notify("STOPPING=1")
        finally:
            server.close()
    finally:
        await service.stop()
        if settings.uds is not None:
            settings.uds.unlink(missing_ok=True)


def notify(state: str) -> None:
    """Tell systemd, if it started this (``Type=notify``)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address.startswith(("/", "@")):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
            to.connect("\0" + address[1:] if address[0] == "@" else address)
            to.sendall(state.encode())


def _allow_descriptors() -> None:
    """A session takes about five; the usual soft limit of 1,024 is there for programs that use select()."""
    import resource

    with suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
