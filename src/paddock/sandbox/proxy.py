"""The only way out of a sandbox: an HTTP proxy on a listener that was made inside, run by the trusted side.

It never sees what is inside a CONNECT tunnel; it decides only where that ends. A name is looked up once: the connection
goes to the very address that was judged.
"""

from __future__ import annotations

import array
import asyncio
import errno
import ipaddress
import logging
import os
import socket
import stat
import struct
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

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
_PARTING_S = 1.0
_PARTING_BYTES = 4 * 1024 * 1024
_RESET = struct.pack("ii", 1, 0)
# Lookups can't be interrupted: those that hang keep their place, so that they can't pile up.
_LOOKUPS = 8
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
        self._listener, self.destinations = listener, Destinations(hosts)
        self.timeout_s, self.max_body, self.cassette, self._tls = timeout_s, max_body, cassette, tls
        self.buffers = asyncio.Semaphore(_BUFFERED)
        self._places = asyncio.Semaphore(max_connections)
        self._connections: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._owner, self._closed = os.getpid(), False
        self._log: deque[LogEntry] = deque(maxlen=_LOG)
        self.served = 0  # reached the host, or the cassette
        self.refused = 0  # not permitted, not understood, or not on the cassette
        self.failed = 0  # permitted, but the host did not answer, or not in time, or too much

    @property
    def log(self) -> list[LogEntry]:
        """The last calls, oldest first."""
        return list(self._log)

    def start(self) -> None:
        """Serve in a thread of its own."""
        if self._thread is None and not self._closed:
            self._loop = asyncio.SelectorEventLoop()
            self._serving = self._loop.create_task(self._serve())
            self._thread = threading.Thread(target=self._run, name="paddock-proxy", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End every connection and the listener. Fine to call twice; in a forked child it only drops the copies."""
        if os.getpid() == self._owner and not self._closed:
            self._closed = True
            if self._thread is not None:
                with suppress(RuntimeError):  # it has ended by itself
                    self._loop.call_soon_threadsafe(self._serving.cancel)
                self._thread.join(_JOIN_S)
        self._listener.close()

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._serving)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        try:
            while True:
                # A place first: those beyond the limit wait in the kernel's queue, and cost nothing here.
                await self._places.acquire()
                try:
                    sock, _ = await loop.sock_accept(self._listener)
                except OSError as error:
                    self._places.release()
                    if error.errno in _LISTENER_GONE:
                        return
                    await asyncio.sleep(_PAUSE_S)  # out of descriptors, for instance
                    continue
                task = loop.create_task(Connection(self).run(sock))
                self._connections.add(task)
                task.add_done_callback(self._end)
        finally:
            while self._connections:  # until they hear it: before Python 3.12, wait_for may lose a cancellation
                for task in self._connections:
                    task.cancel()
                await asyncio.wait(self._connections, timeout=_PAUSE_S)

    def _end(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        self._places.release()
        # Whatever comes from inside, the proxy goes on, and the other side learns nothing.
        if not connection.cancelled() and (error := connection.exception()) is not None:
            _logger.error("a connection to the proxy failed", exc_info=error)

    def tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        return self._tls

    def note(self, method: str, host: str, port: int, verdict: str) -> None:
        """Log a call, before it is answered."""
        self._log.append(LogEntry(time.time(), method, host, port, verdict))
        if verdict == "served":
            self.served += 1
        elif verdict in _NOT_ALLOWED:
            self.refused += 1
        else:
            self.failed += 1


class Connection:
    """One connection to the proxy. It is closed after one request, so what follows can't be mistaken for another."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._call: tuple[str, str, int] = ("", "", 0)  # method, host and port, for the log
        self._moved_s = 0.0  # when a tunnel carried its last bytes

    async def run(self, sock: socket.socket) -> None:
        self._near = near = await _open_stream(sock, time.monotonic() + self._proxy.timeout_s)
        try:
            await self._serve()
            await self._part()
        except Refused as refusal:
            await self._refuse(refusal)
        except Exception:
            self._note("fault")
            self._reset()
            raise
        finally:
            near.writer.transport.abort()

    async def _serve(self) -> None:
        lines = await self._near.head()
        if lines is None:
            return
        request = http1.parse_request(lines)
        self._call = request.method, request.host, request.port
        self._near.deadline = time.monotonic() + self._proxy.timeout_s
        self._proxy.destinations.permit(request.host, request.port)
        if request.method == "CONNECT":
            await self._tunnel(request)
        elif self._proxy.cassette is None:
            await self._forward(request)
        else:
            await self._play(request, self._proxy.cassette)

    async def _tunnel(self, request: Request) -> None:
        """Carry bytes both ways until both sides have ended, nothing came for long, or one sent too much."""
        if self._proxy.cassette is not None:
            text = (
                "A tunnel can't be on a cassette. Use paddock.sandbox.fetch, or http:// and https:// in absolute form."
            )
            raise Refused(405, text, "refused")
        near, idle_s = self._near, self._proxy.timeout_s
        async with self._connect(request) as far:
            self._note("served")
            await near.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            near.deadline = far.deadline = None
            self._moved_s = time.monotonic()
            ways = asyncio.gather(self._carry(near, far), self._carry(far, near))
            try:
                while not ways.done() and (left := self._moved_s + idle_s - time.monotonic()) > 0:
                    await asyncio.wait([ways], timeout=left)
                if ways.done():
                    ways.result()
            finally:
                ways.cancel()

    async def _carry(self, source: Stream, sink: Stream) -> None:
        left = self._proxy.max_body
        with suppress(Refused):  # one that broke has ended
            while left >= 0 and (piece := await source.receive()):
                self._moved_s = time.monotonic()
                left -= len(piece)
                if left >= 0:
                    await sink.send(piece)
        if left < 0:
            raise Refused(502, "The tunnel carried more bytes than allowed.", "too large")
        with suppress(OSError):
            sink.writer.write_eof()

    async def _forward(self, request: Request) -> None:
        """Pass the pieces on as they come, both ways."""
        await self._continue(request)
        pieces = self._near.body(request.length, self._proxy.max_body)
        async with self._exchange(request, request.length, pieces) as (answer, far):
            await self._answer(request, answer, far.body(answer.length, self._proxy.max_body))

    async def _play(self, request: Request, cassette: Cassette) -> None:
        try:
            await asyncio.wait_for(self._proxy.buffers.acquire(), self._proxy.timeout_s)
        except asyncio.TimeoutError:
            raise Refused(503, "Too many requests at once are waiting for the cassette.", "busy") from None
        try:
            await self._continue(request)
            body = await _join(self._near.body(request.length, self._proxy.max_body))
            recorded = cassette.take(request.method, request.url, request.headers, body)
            if recorded is None and cassette.mode == "replay":
                text = f"{request.method} {request.url} is not on the cassette, or not this often. Record it again."
                raise Refused(502, text, "unrecorded")
            answer = recorded or await self._record(request, cassette, body)
            length = None if request.method == "HEAD" or answer.status in (204, 304) else len(answer.body)
            head = Answer(answer.status, answer.reason, answer.headers, length)
            await self._answer(request, head, _whole(answer.body))
        finally:
            self._proxy.buffers.release()

    async def _record(self, request: Request, cassette: Cassette, body: bytes) -> RecordedAnswer:
        length = None if request.length is None else len(body)
        async with self._exchange(request, length, _whole(body)) as (answer, far):
            whole = await _join(far.body(answer.length, self._proxy.max_body))
        recorded = RecordedAnswer(answer.status, answer.reason, answer.headers, whole)
        if not cassette.add(request.method, request.url, request.headers, body, answer=recorded):
            raise Refused(502, "The answer could not be recorded: the cassette is full or closed.", "unrecorded")
        return recorded

    @asynccontextmanager
    async def _connect(self, request: Request) -> AsyncIterator[Stream]:
        proxy, deadline, whom = self._proxy, self._near.deadline or 0.0, request.authority
        addresses = await proxy.destinations.addresses(request.host, request.port, deadline)
        sock = await connect(addresses, request.port, deadline)
        late = Refused(504, f"{whom} did not answer in time.", "timeout")
        if sock is None:
            raise late if time.monotonic() >= deadline else Refused(502, f"{whom} could not be reached.", "unreachable")
        tls: dict[str, Any] = {}
        if request.scheme == "https":
            tls = {"ssl": proxy.tls_context(), "server_hostname": request.host}
        try:
            far = await asyncio.wait_for(_open_stream(sock, deadline, whom, **tls), deadline - time.monotonic())
        except asyncio.TimeoutError:
            raise late from None
        except OSError:
            raise Refused(502, f"No trusted TLS connection to {whom} could be made.", "unreachable") from None
        try:
            yield far
        finally:
            far.writer.transport.abort()

    @asynccontextmanager
    async def _exchange(
        self, request: Request, length: http1.Length, pieces: AsyncIterator[bytes]
    ) -> AsyncIterator[tuple[Answer, Stream]]:
        """The head of the answer, and the stream that its body is read from."""
        headers = [
            ("Host", request.host_header),
            *http1.end_to_end(request.headers),
            *http1.framing(length),
            ("Connection", "close"),
        ]
        async with self._connect(request) as far:
            try:
                await far.send(http1.head_bytes(f"{request.method} {request.path} HTTP/1.1", headers))
                await far.write_body(pieces, length)
            except Refused as refusal:
                # A server may answer before it has read everything, and close. That answer is worth having.
                if refusal.verdict != "unreachable":
                    raise
            try:
                answer = await far.answer(request.method)
                if answer.status == 101:
                    raise Refused(502, f"{request.authority} sent no final answer.", "unreachable")
                yield answer, far
            except Refused as refusal:
                # What is wrong with an answer is not the fault of whoever asked.
                if refusal.status in (400, 414, 431):
                    text = f"The answer of {request.authority} is malformed."
                    raise Refused(502, text, "unreachable") from None
                raise

    async def _answer(self, request: Request, answer: Answer, pieces: AsyncIterator[bytes]) -> None:
        length = answer.length
        if length == "until close" and request.minor == 1:
            length = "chunked"  # so that the end is told from a break
        if length == "chunked" and request.minor == 0:
            length = "until close"
        if isinstance(length, int) and length > self._proxy.max_body:
            raise Refused(502, f"The answer of {request.authority} is longer than may pass.", "too large")
        self._note("served")
        headers = (*answer.headers, *http1.framing(length), ("Connection", "close"))
        await self._near.send(http1.head_bytes(f"HTTP/1.1 {answer.status} {answer.reason}", headers))
        await self._near.write_body(pieces, length)

    async def _continue(self, request: Request) -> None:
        if request.minor == 1 and request.length and http1.values(request.headers, "expect"):
            await self._near.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._near.began = False  # the answer itself is still to come

    async def _refuse(self, refusal: Refused) -> None:
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
            await self._near.send(http1.head_bytes(first, headers) + (b"" if self._call[0] == "HEAD" else body))
            await self._part()

    async def _part(self) -> None:
        """Close so that the answer arrives: what is left unread would turn the close into a reset."""
        self._near.deadline = time.monotonic() + min(_PARTING_S, self._proxy.timeout_s)
        left = _PARTING_BYTES
        with suppress(OSError, Refused):
            self._near.writer.write_eof()
            while left > 0 and (piece := await self._near.receive()):
                left -= len(piece)

    def _reset(self) -> None:
        with suppress(OSError):
            self._near.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _note(self, verdict: str) -> None:
        self._proxy.note(*self._call, verdict)


async def _open_stream(sock: socket.socket, deadline: float, whom: str = "", **tls: Any) -> Stream:
    try:
        connect = partial(asyncio.get_running_loop().create_connection, sock=sock, **tls)
        stream = await Stream.dial(connect, whom, deadline)
    except BaseException:
        sock.close()
        raise
    # What was sent is the kernel's, and survives the end of this connection.
    stream.writer.transport.set_write_buffer_limits(0)
    return stream


async def _join(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    yield data


class Destinations:
    """The hosts of a policy: "name:port", "*:port" for any name, IPv6 addresses in brackets."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = set()
        for one in Policy(hosts=tuple(hosts)).hosts:
            name, _, port = one.rpartition(":")
            self._hosts.add((_canonical(name.strip("[]")), int(port)))
        self._lookups = asyncio.Semaphore(_LOOKUPS)

    def permit(self, host: str, port: int) -> None:
        """Refused if the policy names neither this host nor any on this port. Nothing is looked up."""
        if not {(_canonical(host), port), ("*", port)} & self._hosts:
            place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise Refused(403, f"the permission hosts does not name {place}.", "refused")

    async def addresses(self, host: str, port: int, deadline: float) -> list[Address]:
        """The addresses of ``host`` that may be connected to, in the resolver's order; Refused if there are none.

        What is not on the public internet (this machine, its networks, a cloud's metadata) is only reached where the
        policy names the address itself, or localhost: the owner of a name can let it point anywhere.
        """
        literal = parse_address(host)
        candidates = [literal] if literal else await self._look_up(host, deadline)
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

    async def _look_up(self, host: str, deadline: float) -> list[Address]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()

        def finish(addresses: list[Address]) -> None:
            self._lookups.release()
            if not answer.done():
                answer.set_result(addresses)

        def look() -> None:
            addresses = []
            # UnicodeError: a label of more than 63 characters.
            with suppress(OSError, UnicodeError):
                for *_, place in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                    address = parse_address(str(place[0]).partition("%")[0])
                    if address and address not in addresses:
                        addresses.append(address)
            with suppress(RuntimeError):  # the proxy is closed
                loop.call_soon_threadsafe(finish, addresses)

        try:
            await asyncio.wait_for(self._lookups.acquire(), deadline - time.monotonic())
            try:
                threading.Thread(target=look, name="paddock-lookup", daemon=True).start()
            except RuntimeError:  # no more threads
                finish([])
            addresses = await asyncio.wait_for(answer, deadline - time.monotonic())
        except asyncio.TimeoutError:
            raise Refused(504, f"The address of {host} was not found in time.", "timeout") from None
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


async def connect(addresses: Sequence[Address], port: int, deadline: float) -> socket.socket | None:
    """Connect to the first address that accepts by ``deadline``; None if none does."""
    loop = asyncio.get_running_loop()
    for tried, address in enumerate(addresses):
        left = (deadline - time.monotonic()) / (len(addresses) - tried)
        if left <= 0:
            return None
        sock = _socket(address, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(sock, (str(address), port)), left)
            return sock
        except BaseException as error:
            sock.close()
            if not isinstance(error, (OSError, asyncio.TimeoutError)):
                raise
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
