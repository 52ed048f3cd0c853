"""Run a server until it is told to stop: SIGTERM and Ctrl-C drain it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from paddock.server.front import listen
from paddock.server.gate import Gate
from paddock.server.http_api import HttpApi
from paddock.server.principals import Tokens
from paddock.server.served import Served
from paddock.server.service import Service
from paddock.server.settings import Settings


def run(
    served: Sequence[Served], settings: Settings, tokens: Tokens | None, *, when_ready: Callable[[Any], None]
) -> None:
    """Serve. ``when_ready`` is called with the addresses once requests are answered."""
    settings.check()
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
    api = HttpApi(service, Gate.for_bind(None if settings.uds else settings.host, settings.origins), tokens)
    await service.start()
    try:
        server = await listen(api, settings)
        when_ready([socket.getsockname() for socket in server.sockets])
        await stop.wait()
        server.close()
    finally:
        await service.stop()
        if settings.uds is not None:
            settings.uds.unlink(missing_ok=True)
