"""AsyncLine: one question and its answer over a websocket, in an event loop. Pings are answered at any time.

A call that is cancelled leaves an answer owed, so it closes the connection, as one that waited in vain does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from paddock.hosting.websocket.connection import ClientConnection
from paddock.hosting.websocket.dialing import default_context
from paddock.hosting.websocket.events import ABNORMAL, Closed, Event, Text, WebSocketError
from paddock.openenv.conversation import Line, ServerError, answer, lost, overdue, question

_CLOSE_S = 1.0


class AsyncLine:
    """Made by ``open``. After any error but ServerError it is closed, and ``live`` is False."""

    def __init__(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._line, self._reader, self._writer = line, reader, writer
        self._connection = ClientConnection(line.endpoint, max_bytes=line.max_bytes)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._pump: asyncio.Task[None] | None = None
        self._heard_s = 0.0
        self.live = True

    @classmethod
    async def open(cls, line: Line) -> AsyncLine:
        """Connect: UpgradeRefused, OSError or TimeoutError if it can't within ``line.connect_s``."""
        try:
            return await asyncio.wait_for(cls._open(line), line.connect_s)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no connection within {line.connect_s:g} s") from None

    @classmethod
    async def _open(cls, line: Line) -> AsyncLine:
        endpoint = line.endpoint
        context = default_context() if endpoint.secure else None
        made = cls(line, *await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context))
        try:
            made._writer.write(made._connection.request)
            while not made._connection.is_open:
                await made._read()
        except BaseException:
            made._abort()
            raise
        made._heard_s = asyncio.get_running_loop().time()
        made._pump = asyncio.create_task(made._keep_reading())
        return made

    async def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        """The answer's data."""
        text = question(kind, data)
        try:
            return answer(kind, await self._exchange(kind, text))
        except ServerError:
            raise  # an answer like any other
        except BaseException:
            self._abort()
            raise

    async def _exchange(self, kind: str, text: str) -> str:
        if not self.live:
            raise lost(kind, "it was closed before")
        if self._events.empty():
            with suppress(OSError):  # why will be told by what comes
                self._writer.write(self._connection.text(text))
                await asyncio.wait_for(self._writer.drain(), self._line.answer_s)
            early = False
        else:
            early = True
        event = await self._next(kind)
        if isinstance(event, Closed):
            raise lost(kind, f"closed by the server with code {event.code} {event.reason}".rstrip())
        assert isinstance(event, Text)
        if early and '"error"' not in event.text[:20]:
            raise lost(kind, "the server sent an answer that nobody had asked for")
        return event.text

    async def _next(self, kind: str) -> Event:
        line, loop = self._line, asyncio.get_running_loop()
        ends_s = loop.time() + line.answer_s
        every_s, patience_s = line.ping_every_s, line.ping_answer_s or line.answer_s
        pinged_s: float | None = None
        while True:
            now_s = loop.time()
            if now_s >= ends_s:
                raise overdue(kind, line.answer_s)
            if pinged_s is not None and self._heard_s >= pinged_s:
                pinged_s = None
            if pinged_s is not None and now_s - pinged_s >= patience_s:
                raise lost(kind, f"no answer to a ping within {patience_s:g} s")
            if (
                every_s is not None
                and pinged_s is None
                and now_s - max(self._heard_s, ends_s - line.answer_s) >= every_s
            ):
                self._writer.write(self._connection.ping())
                pinged_s = now_s
            wait_s = ends_s - now_s if every_s is None else min(ends_s - now_s, every_s, patience_s)
            with suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(self._events.get(), wait_s)

    async def _keep_reading(self) -> None:
        try:
            while self._connection.closed is None:
                await self._read()
        except (OSError, WebSocketError) as error:
            self._events.put_nowait(Closed(ABNORMAL, str(error)))
        finally:
            self._writer.close()

    async def _read(self) -> None:
        connection = self._connection
        data = await self._reader.read(1 << 16)
        self._heard_s = asyncio.get_running_loop().time()
        if not data:
            self._events.put_nowait(connection.eof())
            return
        rest = memoryview(data)
        while rest:
            buffer = connection.buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            connection.received(count)
            rest = rest[count:]
            while connection.is_open and (event := connection.next()) is not None:
                if isinstance(event, (Text, Closed)):
                    self._events.put_nowait(event)
        if connection.is_open and (outgoing := connection.outgoing()):
            self._writer.write(outgoing)

    def _abort(self) -> None:
        self.live = False
        if self._pump is not None:
            self._pump.cancel()
        self._writer.transport.abort()

    async def close(self) -> None:
        """Take leave as OpenEnv's clients do, and close. Safe to call twice."""
        if not self.live:
            return
        self.live = False
        with suppress(OSError, asyncio.TimeoutError):
            self._writer.write(self._connection.text(question("close")))
            self._connection.close()
            self._writer.write(self._connection.outgoing())
            if self._pump is not None:
                await asyncio.wait_for(asyncio.shield(self._pump), _CLOSE_S)
        self._abort()
