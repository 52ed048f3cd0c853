"""AsyncLine: one question and its answer over a websocket, in an event loop. Pings are answered at any time.

A call that is cancelled leaves an answer owed, so it closes the connection, as one that waited in vain does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from paddock.hosting.openenv.conversation import Line, ServerError, answer, lost, overdue, question
from paddock.hosting.websocket.asynchronous import AsyncConnection
from paddock.hosting.websocket.events import ABNORMAL, Closed, Event, Text


class AsyncLine:
    """Made by ``open``. After an error other than a ServerError it is closed, and ``live`` is False."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._connection: AsyncConnection | None = None
        self._came: asyncio.Queue[Text | Closed] = asyncio.Queue()
        self._heard_s = 0.0
        self._closed_silently = False
        self.live = True

    @classmethod
    async def open(cls, line: Line) -> AsyncLine:
        """Connect: UpgradeRefused, OSError or TimeoutError if it can't within ``line.connect_s``."""
        made = cls(line)
        made._connection = await AsyncConnection.connect(
            line.endpoint,
            made._on_event,
            made._on_end,
            timeout_s=line.connect_s,
            max_bytes=line.max_bytes,
            context=line.context,
        )
        return made

    def _on_event(self, event: Event) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        if isinstance(event, Text):
            self._came.put_nowait(event)

    def _on_end(self, why: BaseException | Closed) -> None:
        self._closed_silently = self._came.empty()
        self._came.put_nowait(why if isinstance(why, Closed) else Closed(ABNORMAL, str(why)))

    def usable(self) -> bool:
        """Whether the server has not closed it meanwhile."""
        if self._closed_silently:
            self._abort()
        return self.live

    async def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        """The answer's data."""
        text = question(kind, data)
        try:
            return answer(kind, await self._exchange(kind, text))
        except ServerError as error:
            if error.ends:
                self._abort()
            raise
        except BaseException:
            self._abort()
            raise

    async def _exchange(self, kind: str, text: str) -> str:
        if not self.live or self._connection is None:
            raise lost(kind, "it was closed before")
        early = not self._came.empty()  # the server spoke first: it refuses, or it is of no use
        if not early:
            self._connection.send_text(text)
        event = await self._next(kind, self._connection)
        if isinstance(event, Closed):
            raise lost(kind, f"closed by the server with code {event.code} {event.reason}".rstrip())
        if early and '"error"' not in event.text[:20]:
            raise lost(kind, "the server sent an answer that nobody had asked for")
        return event.text

    async def _next(self, kind: str, connection: AsyncConnection) -> Text | Closed:
        """The next message, within the time for an answer; a server that does not answer a ping is gone."""
        line, loop = self._line, asyncio.get_running_loop()
        began_s = loop.time()
        ends_s, every_s = began_s + line.answer_s, line.ping_every_s
        patience_s = line.answer_s if line.ping_answer_s is None else line.ping_answer_s
        pinged_s: float | None = None
        while (now_s := loop.time()) < ends_s:
            if pinged_s is not None and self._heard_s >= pinged_s:
                pinged_s = None
            if pinged_s is not None and now_s - pinged_s >= patience_s:
                raise lost(kind, f"no answer to a ping within {patience_s:g} s")
            if every_s is not None and pinged_s is None and now_s - max(self._heard_s, began_s) >= every_s:
                connection.ping()
                pinged_s = now_s
            wait_s = ends_s - now_s if every_s is None else min(ends_s - now_s, every_s, patience_s)
            with suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(self._came.get(), wait_s)
        raise overdue(kind, line.answer_s)

    def _abort(self) -> None:
        self.live = False
        if self._connection is not None:
            self._connection.abort()

    async def close(self) -> None:
        """Take leave as OpenEnv's clients do, and close. Safe to call twice."""
        if self.live and self._connection is not None:
            self.live = False
            if self._came.empty():
                self._connection.send_text(question("close"))
            await self._connection.close()
