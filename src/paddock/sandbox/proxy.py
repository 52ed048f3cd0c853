"""The only way out of a sandbox: an HTTP proxy on a listener that was made inside, run by the trusted side.

What is inside a CONNECT tunnel it never sees; it decides only where that ends.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from paddock.sandbox.cassette import Cassette
from paddock.sandbox.destinations import Destinations
from paddock.sandbox.visit import Terms, Visit

if TYPE_CHECKING:
    import ssl

_LOG = 1000
_PAUSE_S = 0.05
_JOIN_S = 5.0
_LISTENER_GONE = {errno.EINVAL, errno.EBADF, errno.ENOTSOCK, errno.EOPNOTSUPP}
_NOT_ALLOWED = {"refused", "malformed", "unrecorded"}

_logger = logging.getLogger("paddock.sandbox")


class Logged(NamedTuple):
    """One call, as it was decided: ``verdict`` is "served", or says why not. ``host`` is "" for what is no request."""

    time: float
    method: str
    host: str
    port: int
    verdict: str


class Proxy:
    """Serve ``listener``, its own from now on: http:// and https:// in absolute form, and CONNECT, to ``hosts`` only.

    A call takes ``timeout_s`` at most, a tunnel may be silent that long; ``max_body`` bytes pass each way. Requests in
    absolute form are sent by the proxy itself, over TLS for https (``tls``, or the system's authorities), and go on
    ``cassette`` if there is one. Use as a context manager, or call ``start`` and ``close``.
    """

    def __init__(
        self,
        listener: socket.socket,
        hosts: Sequence[str],
        *,
        timeout_s: float = 10.0,
        cassette: Cassette | None = None,
        max_body: int = 16 * 1024 * 1024,
        max_connections: int = 32,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listener = listener
        self._terms = Terms(Destinations(hosts), timeout_s, max_body, cassette, tls, self._note)
        self._places = threading.BoundedSemaphore(max_connections)
        self._lock = threading.Lock()
        self._visits: dict[Visit, threading.Thread] = {}
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()
        self._log: deque[Logged] = deque(maxlen=_LOG)
        self.served = 0  # reached the host, or the cassette
        self.refused = 0  # not permitted, not understood, or not on the cassette
        self.failed = 0  # permitted, but the host did not answer, or not in time, or too much

    @property
    def log(self) -> list[Logged]:
        """The last calls, oldest first."""
        with self._lock:
            return list(self._log)

    def start(self) -> None:
        if self._thread is None and not self._terms.stopped.is_set():
            self._thread = threading.Thread(target=self._accept, name="paddock-proxy", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End every connection and the listener. Fine to call twice; in a forked child it only drops the copies."""
        ours = os.getpid() == self._owner
        if ours and not self._terms.stopped.is_set():
            self._terms.stopped.set()
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
            until = time.monotonic() + _JOIN_S
            # The accepting thread first: after it no visit begins.
            if self._thread is not None:
                self._stop_visits()
                self._thread.join(_JOIN_S)
            for thread in self._stop_visits():
                thread.join(max(0.0, until - time.monotonic()))
        self._listener.close()

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stop_visits(self) -> list[threading.Thread]:
        with self._lock:
            visits = dict(self._visits)
        for visit in visits:
            visit.stop()
        return [thread for thread in visits.values() if thread.ident is not None]

    def _accept(self) -> None:
        stopped = self._terms.stopped
        self._listener.setblocking(True)
        while not stopped.is_set():
            # A place first: those beyond the limit wait in the kernel's queue, and cost nothing here.
            if not self._places.acquire(timeout=_PAUSE_S):
                continue
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                self._places.release()
                if error.errno in _LISTENER_GONE:
                    return
                stopped.wait(_PAUSE_S)  # out of descriptors, say
                continue
            self._begin(Visit(self._terms, sock), sock)

    def _begin(self, visit: Visit, sock: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(visit,), name="paddock-proxy-visit", daemon=True)
        with self._lock:
            self._visits[visit] = thread
        try:
            thread.start()
        except RuntimeError:  # no more threads
            sock.close()
            self._end(visit)

    def _serve(self, visit: Visit) -> None:
        try:
            visit.run()
        except Exception:  # whatever comes from inside, the proxy goes on; the other side is told nothing
            _logger.exception("a connection to the proxy failed")
        finally:
            self._end(visit)

    def _end(self, visit: Visit) -> None:
        with self._lock:
            del self._visits[visit]
        self._places.release()

    def _note(self, method: str, host: str, port: int, verdict: str) -> None:
        with self._lock:
            self._log.append(Logged(time.time(), method, host, port, verdict))
            if verdict == "served":
                self.served += 1
            elif verdict in _NOT_ALLOWED:
                self.refused += 1
            else:
                self.failed += 1
