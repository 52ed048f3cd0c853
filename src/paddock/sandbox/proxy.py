"""The only way out of a sandbox: an HTTP proxy on a listener that was made inside, run by the trusted side.

It never sees what is inside a CONNECT tunnel; it decides only where that ends. A name is looked up once: the connection
goes to the very address that was judged.
"""

from __future__ import annotations

import array
import errno
import ipaddress
import logging
import os
import select
import socket
import stat
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from paddock.errors import SandboxUnavailable
from paddock.sandbox import http1
from paddock.sandbox.cassette import Cassette, RecordedAnswer
from paddock.sandbox.child import Companion, is_readable
from paddock.sandbox.http1 import Answer, Refused, Request, Stream
from paddock.sandbox.policy import Policy

if TYPE_CHECKING:
    import ssl  # at run time only for https: it takes longer to import than all of this

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

LISTENER_MARK = b"L"  # inside/boot.py sends it with the listener, before the lock
_LOG = 1000
_PAUSE_S = 0.05
_JOIN_S = 5.0
_LISTENER_GONE = {errno.EINVAL, errno.EBADF, errno.ENOTSOCK, errno.EOPNOTSUPP}
_NOT_ALLOWED = {"refused", "malformed", "unrecorded"}
_BUFFERED = 4  # exchanges at once that are held whole in memory, for a cassette
_INTERIM = 8  # answers 1xx before the answer
_PARTING_S = 1.0
_PARTING_BYTES = 4 * 1024 * 1024
_RESET = struct.pack("ii", 1, 0)
_PIECE = 64 * 1024
# Lookups can't be interrupted: those that hang keep their place, so that they can't pile up.
_LOOKUPS = 8
_GLANCE_S = 0.1
# IPv6 addresses that stand for IPv4 ones, by translators or tunnels on the way: what they reach can't be judged.
_DISGUISES = [
    ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
]

_logger = logging.getLogger("paddock.sandbox")


def start_proxy(near: socket.socket, policy: Policy) -> list[Companion]:
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


class LogEntry(NamedTuple):
    """One call and its verdict: "served", or why not. ``host`` is "" for what is not a request."""

    time: float
    method: str
    host: str
    port: int
    verdict: str


class Proxy:
    """Serve ``listener``, which it owns from now on: CONNECT, and http:// and https:// URLs in absolute form.

    Only ``hosts`` are reached. A call takes ``timeout_s`` at most, a tunnel may be silent that long; ``max_body`` bytes
    pass each way. Requests in absolute form are sent by the proxy itself, over TLS for https (``tls``, or the system's
    authorities), and are recorded on ``cassette`` if there is one. Use it in ``with``, or call ``start`` and ``close``.
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
        self.destinations, self.timeout_s, self.max_body, self.cassette = (
            Destinations(hosts),
            timeout_s,
            max_body,
            cassette,
        )
        self.stopped = threading.Event()
        self.buffers = threading.BoundedSemaphore(_BUFFERED)
        self._tls = tls
        self._places = threading.BoundedSemaphore(max_connections)
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()
        self._log: deque[LogEntry] = deque(maxlen=_LOG)
        self.served = 0  # reached the host, or the cassette
        self.refused = 0  # not permitted, not understood, or not on the cassette
        self.failed = 0  # permitted, but the host did not answer, or not in time, or too much

    @property
    def log(self) -> list[LogEntry]:
        """The last calls, oldest first."""
        with self._lock:
            return list(self._log)

    def start(self) -> None:
        if self._thread is None and not self.stopped.is_set():
            self._thread = threading.Thread(target=self._accept, name="paddock-proxy", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End every connection and the listener. Fine to call twice; in a forked child it only drops the copies."""
        ours = os.getpid() == self._owner
        if ours and not self.stopped.is_set():
            self.stopped.set()
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
            until = time.monotonic() + _JOIN_S
            # The accepting thread first: after it no connection begins.
            if self._thread is not None:
                self._stop_connections()
                self._thread.join(_JOIN_S)
            for thread in self._stop_connections():
                thread.join(max(0.0, until - time.monotonic()))
        self._listener.close()

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop_connections(self) -> list[threading.Thread]:
        with self._lock:
            connections = dict(self._connections)
        for one in connections:
            one.stop()
        return [thread for thread in connections.values() if thread.ident is not None]

    def _accept(self) -> None:
        stopped = self.stopped
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
                stopped.wait(_PAUSE_S)  # out of descriptors, for instance
                continue
            self._begin(Connection(self, sock), sock)

    def _begin(self, connection: Connection, sock: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(connection,), name="paddock-proxy-connection", daemon=True)
        with self._lock:
            self._connections[connection] = thread
        try:
            thread.start()
        except RuntimeError:  # no more threads
            sock.close()
            self._end(connection)

    def _serve(self, connection: Connection) -> None:
        try:
            connection.run()
        except Exception:  # whatever comes from inside, the proxy goes on, and the other side learns nothing
            _logger.exception("a connection to the proxy failed")
        finally:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        with self._lock:
            del self._connections[connection]
        self._places.release()

    def tls_context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                import ssl

                self._tls = ssl.create_default_context()
            return self._tls

    def note(self, method: str, host: str, port: int, verdict: str) -> None:
        """Log a call, before it is answered."""
        with self._lock:
            self._log.append(LogEntry(time.time(), method, host, port, verdict))
            if verdict == "served":
                self.served += 1
            elif verdict in _NOT_ALLOWED:
                self.refused += 1
            else:
                self.failed += 1


class Connection:
    """Serve one connection in the thread that calls ``run``; ``stop`` wakes it from another.

    It is closed after one request, so what follows that can't be mistaken for another.
    """

    def __init__(self, proxy: Proxy, sock: socket.socket) -> None:
        self._proxy = proxy
        self._near = Stream(sock, time.monotonic() + proxy.timeout_s)
        self._sockets = [sock]
        self._call: tuple[str, str, int] = ("", "", 0)  # method, host and port, for the log

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
        # Not closed: the number could be another file's by the time that the connection's own thread uses it.
        for sock in tuple(self._sockets):
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # ssl's own would drop its state under the reader's feet

    def _track(self, sock: socket.socket) -> None:
        self._sockets.append(sock)
        if self._proxy.stopped.is_set():
            raise Refused(503, "The proxy is closed.", "closed")

    def _serve(self) -> None:
        head = self._near.head()
        if head is None:
            return
        request = http1.parse_request(head)
        self._call = request.method, request.host, request.port
        self._near.deadline = time.monotonic() + self._proxy.timeout_s
        self._proxy.destinations.permit(request.host, request.port)
        if request.method == "CONNECT":
            self._tunnel(request)
        elif self._proxy.cassette is None:
            self._forward(request)
        else:
            self._play(request, self._proxy.cassette)

    def _tunnel(self, request: Request) -> None:
        if self._proxy.cassette is not None:
            text = (
                "A tunnel can't be on a cassette. Use paddock.sandbox.fetch, or http:// and https:// in absolute form."
            )
            raise Refused(405, text, "refused")
        far = self._connect(request)
        self._note("served")
        self._near.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        near, proxy = self._near, self._proxy
        verdict = relay(near.sock, far, idle_s=proxy.timeout_s, limit=proxy.max_body, early=near.early())
        if verdict == "too large":
            raise Refused(502, "The tunnel carried more bytes than allowed.", verdict)

    def _forward(self, request: Request) -> None:
        """Pass the pieces on as they come, both ways."""
        self._continue(request)
        pieces = http1.body(self._near, request.length, self._proxy.max_body)
        with self._exchange(request, request.length, pieces) as (answer, far):
            self._answer(request, answer, http1.body(far, answer.length, self._proxy.max_body))

    def _play(self, request: Request, cassette: Cassette) -> None:
        if not self._proxy.buffers.acquire(timeout=self._proxy.timeout_s):
            raise Refused(503, "Too many requests at once are waiting for the cassette.", "busy")
        try:
            self._continue(request)
            body = b"".join(http1.body(self._near, request.length, self._proxy.max_body))
            recorded = cassette.take(request.method, request.url, request.headers, body)
            if recorded is None and cassette.mode == "replay":
                text = f"{request.method} {request.url} is not on the cassette, or not this often. Record it again."
                raise Refused(502, text, "unrecorded")
            answer = recorded or self._record(request, cassette, body)
            length = None if request.method == "HEAD" or answer.status in (204, 304) else len(answer.body)
            self._answer(request, Answer(answer.status, answer.reason, answer.headers, length), [answer.body])
        finally:
            self._proxy.buffers.release()

    def _record(self, request: Request, cassette: Cassette, body: bytes) -> RecordedAnswer:
        length = None if request.length is None else len(body)
        with self._exchange(request, length, [body]) as (answer, far):
            whole = b"".join(http1.body(far, answer.length, self._proxy.max_body))
        recorded = RecordedAnswer(answer.status, answer.reason, answer.headers, whole)
        if not cassette.add(request.method, request.url, request.headers, body, answer=recorded):
            raise Refused(502, "The answer could not be recorded: the cassette is full or closed.", "unrecorded")
        return recorded

    def _connect(self, request: Request) -> socket.socket:
        proxy, deadline = self._proxy, self._near.deadline
        addresses = proxy.destinations.addresses(request.host, request.port, deadline, proxy.stopped.is_set)
        far = connect(addresses, request.port, deadline, self._track)
        if far is None:
            late = time.monotonic() >= deadline
            text = f"{request.authority} {'did not answer in time' if late else 'could not be reached'}."
            raise Refused(504 if late else 502, text, "timeout" if late else "unreachable")
        return self._start_tls(far, request) if request.scheme == "https" else far

    def _start_tls(self, sock: socket.socket, request: Request) -> socket.socket:
        context = self._proxy.tls_context()
        try:
            sock.settimeout(max(0.001, self._near.deadline - time.monotonic()))
            secured = context.wrap_socket(sock, server_hostname=request.host, do_handshake_on_connect=False)
            self._track(secured)
            secured.do_handshake()
        except TimeoutError:
            raise Refused(504, f"{request.authority} did not answer in time.", "timeout") from None
        except (OSError, ValueError):  # ValueError: a name that can't be in a certificate
            text = f"No trusted TLS connection to {request.authority} could be made."
            raise Refused(502, text, "unreachable") from None
        return secured

    @contextmanager
    def _exchange(
        self, request: Request, length: http1.Length, pieces: Iterable[bytes]
    ) -> Iterator[tuple[Answer, Stream]]:
        """The head of the answer, and the stream that its body is read from."""
        far = Stream(self._connect(request), self._near.deadline, request.authority)
        headers = [
            ("Host", request.host_header),
            *http1.end_to_end(request.headers),
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
        try:
            with far.sock:
                yield self._read_final(request, far), far
        except Refused as refusal:
            # What is wrong with an answer is not the fault of whoever asked.
            if refusal.status in (400, 431):
                raise Refused(502, f"The answer of {request.authority} is malformed.", "unreachable") from None
            raise

    def _read_final(self, request: Request, far: Stream) -> Answer:
        for _ in range(_INTERIM):
            head = far.head()
            if head is None:
                raise far.broken_error()
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
        if isinstance(length, int) and length > self._proxy.max_body:
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
        body = text.encode("ascii", "replace") + b"\n"
        headers = (
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Paddock-Proxy", refusal.verdict),
            ("Connection", "close"),
        )
        # In the reason too: it is all that many a client shows of a tunnel that was refused.
        first = f"HTTP/1.1 {refusal.status} {text[:300]}"
        self._near.deadline = time.monotonic() + _PARTING_S
        with suppress(Refused):
            self._near.send(http1.head_bytes(first, headers) + (b"" if self._call[0] == "HEAD" else body))
            self._part()

    def _part(self) -> None:
        """Close so that the answer arrives: what is left unread would turn the close into a reset."""
        self._near.deadline = time.monotonic() + min(_PARTING_S, self._proxy.timeout_s)
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
        self._proxy.note(*self._call, verdict)


class _Direction:
    """One direction of a tunnel: what was read and not yet written, and whether it has ended."""

    def __init__(self, source: socket.socket, sink: socket.socket, left: int, early: bytes) -> None:
        self.source, self.sink, self.left = source, sink, left - len(early)
        self.waiting = bytearray(early)
        self.reads, self.over = True, False

    @property
    def waits_for(self) -> tuple[socket.socket, int] | None:
        """The socket that it goes on with, and for what. One piece at a time: the reader's pace is the writer's."""
        if self.waiting or (not self.reads and not self.over):
            return self.sink, select.POLLOUT
        return (self.source, select.POLLIN) if self.reads else None

    def read(self) -> None:
        try:
            piece = self.source.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        self.reads = bool(piece)
        self.left -= len(piece)
        self.waiting += piece

    def write(self) -> None:
        try:
            sent = self.sink.send(self.waiting) if self.waiting else 0
            del self.waiting[:sent]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.waiting.clear()
            self.reads = False
        if not self.waiting and not self.reads and not self.over:
            self.over = True
            with suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)


def relay(near: socket.socket, far: socket.socket, *, idle_s: float, limit: int, early: bytes = b"") -> str:
    """Carry bytes both ways, and return why it ended: "served", "timeout" or "too large".

    It ends when both sides have, when nothing came for ``idle_s``, or when one way is past ``limit`` bytes. ``early``
    is what ``near`` has sent already. Neither side is understood here: who may be connected was decided before.
    """
    ways = (_Direction(near, far, limit, early), _Direction(far, near, limit, b""))
    near.setblocking(False)
    far.setblocking(False)
    while not all(way.over for way in ways):
        if any(way.left < 0 for way in ways):
            return "too large"
        if not _turn(ways, idle_s):
            return "timeout"
    return "served"


def _turn(ways: tuple[_Direction, _Direction], idle_s: float) -> bool:
    """Move what can be moved; False if nothing could within ``idle_s``."""
    waits = [(way, *way.waits_for) for way in ways if way.waits_for is not None]
    wanted: dict[int, int] = {}
    for _, sock, event in waits:
        wanted[sock.fileno()] = wanted.get(sock.fileno(), 0) | event
    poll = select.poll()
    for fd, events in wanted.items():
        poll.register(fd, events)
    ready = dict(poll.poll(idle_s * 1000))
    for way, sock, event in waits:
        if ready.get(sock.fileno(), 0):
            way.write() if event == select.POLLOUT else way.read()
    return bool(ready)


class Destinations:
    """The hosts of a policy: "name:port", "*:port" for any name, IPv6 addresses in brackets."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = set()
        for one in Policy(hosts=tuple(hosts)).hosts:
            name, _, port = one.rpartition(":")
            self._hosts.add((_canonical(name.strip("[]")), int(port)))
        self._lookups = threading.BoundedSemaphore(_LOOKUPS)

    def permit(self, host: str, port: int) -> None:
        """Refused if the policy names neither this host nor any on this port. Nothing is looked up."""
        if not {(_canonical(host), port), ("*", port)} & self._hosts:
            place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise Refused(403, f"the permission hosts does not name {place}.", "refused")

    def addresses(self, host: str, port: int, deadline: float, stopped: Callable[[], bool]) -> list[Address]:
        """The addresses of ``host`` that may be connected to, in the resolver's order; Refused if there are none.

        What is not on the public internet (this machine, its networks, a cloud's metadata) is only reached where the
        policy names the address itself, or localhost: the owner of a name can let it point anywhere.
        """
        literal = parse_address(host)
        candidates = [literal] if literal else self._look_up(host, deadline, stopped)
        named = (_canonical(host), port) in self._hosts
        if named and literal:
            return candidates
        if named and host == "localhost":
            usable = [address for address in candidates if address.is_loopback]
        else:
            usable = [address for address in candidates if is_public(address) and not _is_ours(address)]
        if not usable:
            text = f"{host} is not on the public internet. Such addresses are reached only if hosts names them."
            raise Refused(403, text, "refused")
        return usable

    def _look_up(self, host: str, deadline: float, stopped: Callable[[], bool]) -> list[Address]:
        late = Refused(504, f"The address of {host} was not found in time.", "timeout")
        if not self._lookups.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise late
        addresses: list[Address] = []
        done = threading.Event()

        def look() -> None:
            try:
                # UnicodeError: a label of more than 63 characters.
                with suppress(OSError, UnicodeError):
                    for *_, place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                        address = parse_address(str(place[0]).partition("%")[0])
                        if address and address not in addresses:
                            addresses.append(address)
            finally:
                self._lookups.release()
                done.set()

        try:
            threading.Thread(target=look, name="paddock-lookup", daemon=True).start()
        except RuntimeError:  # no more threads
            self._lookups.release()
            raise late from None
        while not done.wait(_GLANCE_S):
            if time.monotonic() > deadline or stopped():
                raise late
        if not addresses:
            raise Refused(502, f"{host} has no address.", "unreachable")
        return addresses


def parse_address(text: str) -> Address | None:
    """The address in ``text``, or None. An IPv4 address written as IPv6 becomes IPv4."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def is_public(address: Address) -> bool:
    """Whether anybody on the internet could connect to it as well."""
    if isinstance(address, ipaddress.IPv6Address) and any(address in network for network in _DISGUISES):
        return False
    odd = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    return address.is_global and not (odd or address.is_private or address.is_loopback)


def connect(
    addresses: Sequence[Address], port: int, deadline: float, opened: Callable[[socket.socket], None]
) -> socket.socket | None:
    """Connect to the first address that accepts by ``deadline``; None if none does.

    ``opened`` gets each socket before it is used, so that another thread can end the wait by its shutdown.
    """
    for tried, address in enumerate(addresses):
        left = (deadline - time.monotonic()) / (len(addresses) - tried)
        if left <= 0:
            return None
        sock = _socket(address, socket.SOCK_STREAM)
        opened(sock)
        try:
            sock.settimeout(left)
            sock.connect((str(address), port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError:
            sock.close()
    return None


def _is_ours(address: Address) -> bool:
    """Whether it is an address of this machine, whose services may listen for neighbours only."""
    # A datagram socket picks its route and sends nothing: to an address of its own a machine speaks from that address.
    with suppress(OSError), _socket(address, socket.SOCK_DGRAM) as probe:
        probe.connect((str(address), 9))
        return parse_address(probe.getsockname()[0]) == address
    return False


def _socket(address: Address, kind: socket.SocketKind) -> socket.socket:
    return socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, kind)


def _canonical(host: str) -> str:
    address = parse_address(host)
    return str(address) if address else host


def receive_listener(control: socket.socket, timeout_s: float = 10.0) -> socket.socket:
    """Receive the TCP listener that the inside made and sent; not a byte of what it sends later is read.

    A socket belongs to the network namespace that it was made in, whoever accepts on it: no other way out is needed.
    """
    problem = f"did not arrive within {timeout_s:g} s"
    if is_readable(control.fileno(), timeout_s):
        mark, fds = _receive(control)
        if mark == LISTENER_MARK and len(fds) == 1 and _listens(fds[0]):
            return socket.socket(fileno=fds[0])
        for fd in fds:
            os.close(fd)
        problem = "is not a TCP listener" if mark else "was not sent: the worker ended before"
    raise SandboxUnavailable(f"The listener of the sandbox's proxy {problem}. Nothing was started. See: paddock doctor")


def _receive(control: socket.socket) -> tuple[bytes, array.array[int]]:
    """Receive one byte and the descriptors with it, close-on-exec: ``socket.recv_fds`` would not pass that flag on."""
    fds = array.array("i")
    try:
        mark, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(fds.itemsize), socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return b"", fds
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return mark, fds


def _listens(fd: int) -> bool:
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as sock:
        internet = sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM
        return internet and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    return False
