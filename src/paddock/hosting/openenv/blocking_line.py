"""BlockingLine: one question and its answer over a websocket, for code that waits.

Between two questions a thread of its own answers the server's pings: OpenEnv's servers close a connection that does
not within 40 seconds, and an agent may think longer than that.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from paddock.errors import PaddockError
from paddock.hosting.openenv.conversation import Line, ServerError, answer, lost, overdue, question
from paddock.hosting.websocket.blocking import BlockingConnection
from paddock.hosting.websocket.events import Closed, Event, Text, WebSocketError

_LOOK_S = 5.0  # how often the server's pings are looked for while nobody asks anything


class BlockingLine:
    """Connects when made. After an error other than a ServerError it is closed, and ``live`` is False."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._connection = BlockingConnection(
            line.endpoint, timeout_s=line.connect_s, max_bytes=line.max_bytes, context=line.context
        )
        self._lock = threading.Lock()
        self._early: list[Event] = []  # came while nobody had asked
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="paddock-openenv-pings", daemon=True)
        self._keeper.start()

    @property
    def live(self) -> bool:
        """Whether another question may be asked."""
        return not self._over.is_set()

    def usable(self) -> bool:
        """Whether the server has not closed it meanwhile."""
        with self._lock:
            if self.live:
                self._look()
            if self._early and isinstance(self._early[0], Closed):  # and it did not say why
                self._abort()
            return self.live

    def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        """The answer's data. One question at a time: a second thread waits for the first."""
        text = question(kind, data)
        with self._lock:
            try:
                return answer(kind, self._exchange(kind, text))
            except ServerError as error:
                if error.ends:
                    self._abort()
                raise
            except BaseException:
                self._abort()
                raise

    def _exchange(self, kind: str, text: str) -> str:
        if not self.live:
            raise lost(kind, "it was closed before")
        self._look()
        if not self._early:  # else the server spoke first: it refuses, or it is of no use
            try:
                self._connection.send_text(text, self._line.answer_s)
            except TimeoutError:
                raise overdue(kind, self._line.answer_s) from None
            except OSError as error:
                # The server may have said why before it closed.
                self._look()
                if not self._early:
                    raise lost(kind, type(error).__name__) from None
        elif isinstance(self._early[0], Text) and '"error"' not in self._early[0].text[:20]:
            raise lost(kind, "the server sent an answer that nobody had asked for")
        return self._reply(kind)

    def _reply(self, kind: str) -> str:
        line, began_s = self._line, time.monotonic()
        heard_s, pinged = began_s, False
        while True:
            event = self._early.pop(0) if self._early else self._next(kind, began_s + line.answer_s)
            now_s = time.monotonic()
            if isinstance(event, Text):
                return event.text
            if isinstance(event, Closed):
                raise lost(kind, f"closed by the server with code {event.code} {event.reason}".rstrip())
            if event is not None:
                heard_s, pinged = now_s, False
            elif now_s - began_s >= line.answer_s:
                raise overdue(kind, line.answer_s)
            elif line.ping_every_s is not None and now_s - heard_s >= line.ping_every_s:
                if pinged and now_s - heard_s >= line.ping_every_s + (line.ping_answer_s or line.answer_s):
                    raise lost(kind, f"no answer to a ping within {line.ping_answer_s:g} s")
                if not pinged:
                    self._connection.ping()
                    pinged = True

    def _next(self, kind: str, ends_s: float) -> Event | None:
        try:
            return self._connection.recv(max(0.0, ends_s - time.monotonic()))
        except (OSError, WebSocketError) as error:
            raise lost(kind, str(error) or type(error).__name__) from None

    def _look(self) -> None:
        """Take in what is here already; pings are answered by that."""
        try:
            while (event := self._connection.recv(0.0)) is not None:
                if isinstance(event, (Text, Closed)):
                    self._early.append(event)
                if isinstance(event, Closed):
                    return
        except (OSError, WebSocketError) as error:
            self._early.append(Closed(1006, str(error)))

    def _keep(self) -> None:
        while not self._over.wait(_LOOK_S):
            if self._lock.acquire(blocking=False):
                try:
                    if self.live and not self._early:
                        self._look()
                finally:
                    self._lock.release()

    def _abort(self) -> None:
        self._over.set()
        self._connection.abort()

    def close(self) -> None:
        """Take leave as OpenEnv's clients do, and close. Safe to call twice."""
        with self._lock:
            if not self.live:
                return
            self._over.set()
            try:
                self._connection.send_text(question("close"), 1.0)
            except (OSError, PaddockError):
                pass
            finally:
                self._connection.close()
        self._keeper.join()
