"""One connection from behind the wall, from its first byte to its last.

It is closed after one request: what follows that can't be mistaken for another.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paddock.sandbox import http1
from paddock.sandbox.cassette import Cassette, Recorded
from paddock.sandbox.destinations import Destinations, connect
from paddock.sandbox.http1 import Answer, Refused, Request, Stream
from paddock.sandbox.tunnel import relay

if TYPE_CHECKING:
    import ssl  # at run time only for https: it takes longer to import than all of this

_BUFFERED = 4  # exchanges at once that are held whole in memory, for a cassette
_INTERIM = 8  # answers 1xx before the answer
_PARTING_S = 1.0
_PARTING_BYTES = 4 * 1024 * 1024
_RESET = struct.pack("ii", 1, 0)


@dataclass
class Terms:
    """What holds for every visit to one proxy. ``note`` gets method, host, port and verdict before the answer goes."""

    destinations: Destinations
    timeout_s: float
    max_body: int
    cassette: Cassette | None
    tls: ssl.SSLContext | None
    note: Callable[[str, str, int, str], None]
    stopped: threading.Event = field(default_factory=threading.Event)
    buffers: threading.Semaphore = field(default_factory=lambda: threading.BoundedSemaphore(_BUFFERED))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tls_context(self) -> ssl.SSLContext:
        with self.lock:
            if self.tls is None:
                import ssl

                self.tls = ssl.create_default_context()
            return self.tls


class Visit:
    """Serve one connection in the thread that calls ``run``; ``stop`` wakes it from another."""

    def __init__(self, terms: Terms, sock: socket.socket) -> None:
        self._terms = terms
        self._near = Stream(sock, time.monotonic() + terms.timeout_s)
        self._sockets = [sock]
        self._asked: tuple[str, str, int] = ("", "", 0)

    def run(self) -> None:
        try:
            with suppress(OSError):  # one that is not TCP has no such option
                self._near.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._serve()
            self._part()
        except Refused as refusal:
            self._refuse(refusal)
        except BaseException:
            self._note("fault")
            self._reset()
            raise
        finally:
            for sock in self._sockets:
                with suppress(OSError):
                    sock.close()

    def stop(self) -> None:
        # Not closed: the number could be another file's by the time that the visit's own thread uses it.
        for sock in tuple(self._sockets):
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # ssl's own would drop its state under the reader's feet

    def _opened(self, sock: socket.socket) -> None:
        self._sockets.append(sock)
        if self._terms.stopped.is_set():
            raise Refused(503, "The proxy is closed.", "closed")

    def _serve(self) -> None:
        head = self._near.head()
        if head is None:
            return
        request = http1.parse_request(head)
        self._asked = request.method, request.host, request.port
        self._near.deadline = time.monotonic() + self._terms.timeout_s
        self._terms.destinations.permit(request.host, request.port)
        if request.method == "CONNECT":
            self._tunnel(request)
        elif self._terms.cassette is None:
            self._pass(request)
        else:
            self._play(request, self._terms.cassette)

    def _tunnel(self, request: Request) -> None:
        if self._terms.cassette is not None:
            text = (
                "A tunnel can't be on a cassette. Use paddock.sandbox.fetch, or http:// and https:// in absolute form."
            )
            raise Refused(405, text, "refused")
        far = self._connect(request)
        self._note("served")
        self._near.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        verdict = relay(
            self._near.sock,
            far,
            idle_s=self._terms.timeout_s,
            limit=self._terms.max_body,
            early=self._near.early(),
        )
        if verdict == "too large":
            raise Refused(502, "More went through the tunnel than may pass.", verdict)

    def _pass(self, request: Request) -> None:
        """Hand the pieces on as they come, both ways."""
        self._continue(request)
        pieces = http1.body(self._near, request.length, self._terms.max_body)
        with self._asking(request, request.length, pieces) as (answer, far):
            self._answer(request, answer, http1.body(far, answer.length, self._terms.max_body))

    def _play(self, request: Request, cassette: Cassette) -> None:
        if not self._terms.buffers.acquire(timeout=self._terms.timeout_s):
            raise Refused(503, "Too many requests at once are waiting for the cassette.", "busy")
        try:
            self._continue(request)
            asked = b"".join(http1.body(self._near, request.length, self._terms.max_body))
            found = cassette.take(request.method, request.url, request.headers, asked)
            if found is None and cassette.mode == "replay":
                text = f"{request.method} {request.url} is not on the cassette, or not this often. Record it again."
                raise Refused(502, text, "unrecorded")
            answer = found or self._record(request, cassette, asked)
            length = None if request.method == "HEAD" or answer.status in (204, 304) else len(answer.body)
            self._answer(request, Answer(answer.status, answer.reason, answer.headers, length), [answer.body])
        finally:
            self._terms.buffers.release()

    def _record(self, request: Request, cassette: Cassette, asked: bytes) -> Recorded:
        length = None if request.length is None else len(asked)
        with self._asking(request, length, [asked]) as (answer, far):
            whole = b"".join(http1.body(far, answer.length, self._terms.max_body))
        recorded = Recorded(answer.status, answer.reason, answer.headers, whole)
        if not cassette.add(request.method, request.url, request.headers, asked, answer=recorded):
            raise Refused(502, "The answer could not be recorded: the cassette is full or closed.", "unrecorded")
        return recorded

    def _connect(self, request: Request) -> socket.socket:
        terms, deadline = self._terms, self._near.deadline
        addresses = terms.destinations.addresses(request.host, request.port, deadline, terms.stopped.is_set)
        far = connect(addresses, request.port, deadline, self._opened)
        if far is None:
            late = time.monotonic() >= deadline
            text = f"{request.authority} {'did not answer in time' if late else 'could not be reached'}."
            raise Refused(504 if late else 502, text, "timeout" if late else "unreachable")
        return self._secured(far, request) if request.scheme == "https" else far

    def _secured(self, sock: socket.socket, request: Request) -> socket.socket:
        context = self._terms.tls_context()
        try:
            sock.settimeout(max(0.001, self._near.deadline - time.monotonic()))
            secured = context.wrap_socket(sock, server_hostname=request.host, do_handshake_on_connect=False)
            self._opened(secured)
            secured.do_handshake()
        except TimeoutError:
            raise Refused(504, f"{request.authority} did not answer in time.", "timeout") from None
        except (OSError, ValueError):  # ValueError: a name that can't be in a certificate
            text = f"No trusted TLS connection to {request.authority} could be made."
            raise Refused(502, text, "unreachable") from None
        return secured

    @contextmanager
    def _asking(
        self, request: Request, length: http1.Length, pieces: Iterable[bytes]
    ) -> Iterator[tuple[Answer, Stream]]:
        """The head of the answer, and the stream that its body is read from."""
        far = Stream(self._connect(request), self._near.deadline, request.authority)
        headers = [
            ("Host", request.host_header),
            *http1.passed_on(request.headers),
            *http1.framing(length),
            ("Connection", "close"),
        ]
        far.send(http1.head_bytes(f"{request.method} {request.path} HTTP/1.1", headers))
        try:
            http1.write_body(far, pieces, length)
        except Refused as refusal:
            # A server may answer before it has read everything, and close. That answer is worth having.
            if refusal.verdict != "unreachable":
                raise
        with _as_bad_gateway(request), far.sock:
            answer = self._final(request, far)
            yield answer, far

    def _final(self, request: Request, far: Stream) -> Answer:
        for _ in range(_INTERIM):
            head = far.head()
            if head is None:
                raise far.broken()
            answer = http1.parse_answer(head, request.method)
            if answer.status >= 200:
                return answer
            if answer.status == 101:
                break
        raise Refused(502, f"{request.authority} sent no final answer.", "unreachable")

    def _answer(self, request: Request, answer: Answer, pieces: Iterable[bytes]) -> None:
        length = answer.length
        if length == "until close" and request.minor == 1:
            length = "chunked"  # so that the end is told from a break
        if length == "chunked" and request.minor == 0:
            length = "until close"
        if isinstance(length, int) and length > self._terms.max_body:
            raise Refused(502, f"The answer of {request.authority} is longer than may pass.", "too large")
        self._note("served")
        headers = (*answer.headers, *http1.framing(length), ("Connection", "close"))
        self._near.send(http1.head_bytes(f"HTTP/1.1 {answer.status} {answer.reason}", headers))
        http1.write_body(self._near, pieces, length)

    def _continue(self, request: Request) -> None:
        if request.minor == 1 and request.length and http1.values(request.headers, "expect"):
            self._near.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._near.began = False  # the answer itself is still to come

    def _refuse(self, refusal: Refused) -> None:
        self._note(refusal.verdict)
        if self._near.began:
            self._reset()  # half an answer must not look whole
            return
        text = f"paddock: {refusal.text}"
        told = text.encode("ascii", "replace") + b"\n"
        headers = (
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(told))),
            ("Paddock-Proxy", refusal.verdict),
            ("Connection", "close"),
        )
        # In the reason too: it is all that many a client shows of a tunnel that was refused.
        first = f"HTTP/1.1 {refusal.status} {text[:300]}"
        self._near.deadline = time.monotonic() + _PARTING_S
        with suppress(Refused):
            self._near.send(http1.head_bytes(first, headers) + (b"" if self._asked[0] == "HEAD" else told))
            self._part()

    def _part(self) -> None:
        """Close so that the answer arrives: what is left unread would turn the close into a reset."""
        self._near.deadline = time.monotonic() + min(_PARTING_S, self._terms.timeout_s)
        left = _PARTING_BYTES
        with suppress(OSError, Refused):
            self._near.sock.shutdown(socket.SHUT_WR)
            while left > 0:
                piece = self._near.receive()
                left -= len(piece) or left

    def _reset(self) -> None:
        with suppress(OSError):
            self._near.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _note(self, verdict: str) -> None:
        self._terms.note(*self._asked, verdict)


@contextmanager
def _as_bad_gateway(request: Request) -> Iterator[None]:
    """What is wrong with an answer is not the fault of the one who asked."""
    try:
        yield
    except Refused as refusal:
        if refusal.status in (400, 431):
            raise Refused(502, f"The answer of {request.authority} is malformed.", "unreachable") from None
        raise
