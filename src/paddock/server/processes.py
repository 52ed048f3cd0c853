"""Several processes that serve on one port: the parent that starts them, and what each knows of the others.

The parent serves no peer. It accepts connections and hands each to a process, with the descriptor: to the first one
while that has few, since it is awake anyway and waking another costs more, and then to the least loaded. An id tells
which process has its session: what arrives elsewhere is relayed there over a socket that only the processes can make,
since the parent delivers it. So a name, a port or a file that others could reach is not needed.
Processes are forked, because the environments to serve are objects of the caller's. That is safe because the parent
never has a second thread.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import mmap
import os
import secrets
import select
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import msgspec

from paddock.errors import PaddockError, PlanError, Unreachable
from paddock.hosting.failures import to_error
from paddock.hosting.messages import Failed
from paddock.sandbox.http1 import Refused, Stream, head_bytes, values
from paddock.server.auth import Buckets
from paddock.server.http import Request, Response
from paddock.server.settings import MOST_PROCESSES

logger = logging.getLogger("paddock.server")

SIBLING = "sibling"  # the peer of a request that another process makes for itself; an address never looks like that
_SLOT_BYTES = 4 << 20  # for the names of all tokens that a file of them may hold; pages that are not used take no room
_LOADS = 2  # numbers per process
_FEW = 64  # connections and sessions: each process takes its part of so many before the next one gets any
_STARTS = 8  # connections that are handed over per turn of the parent
_FULL_S = 0.005  # until another try, if no process takes connections
_AGAIN_S = 1.0  # a process that ends sooner than this is replaced after as long
_KILL_S = 10.0  # beyond the drain, for a process that does not end
_ANSWER_S = 1.0  # for what a process tells of itself
_ANSWER_BYTES = 1 << 30
_MESSAGE_BYTES = 1 << 12
_READY, _FAILED, _RELAY, _ACCEPTED = b"+", b"!", b">", b"a"
MARK_CHARACTERS = 8  # the end of a session's id, from which a gateway knows the server
_HOP_BY_HOP = frozenset(("connection", "content-length", "transfer-encoding", "expect", "upgrade", "date"))


class Processes:
    """The ``count`` processes of a server, as the one with this ``index`` knows them. By default it is alone.

    ``mark``: what all ids of this server end with, so that a gateway finds it; random unless it keeps journals.
    """

    def __init__(self, count: int = 1) -> None:
        self.count, self.index = count, 0
        self.mark = secrets.token_hex(MARK_CHARACTERS // 2)
        self.began_s = time.monotonic()
        self.control: socket.socket | None = None  # to the parent
        self._key = secrets.token_bytes(32)
        self._counts: dict[str, dict[str, int]] = {}
        self._exclusive = False
        self._memory = mmap.mmap(-1, count * _SLOT_BYTES + Buckets.BYTES)
        if count > 1:
            self._loads = memoryview(mmap.mmap(-1, mmap.PAGESIZE * (1 + 8 * _LOADS * count // mmap.PAGESIZE))).cast("d")
            self._lock = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as this

    # Ids

    def new_id(self) -> str:
        """Make an id that names this process: its first byte, modulo ``count``. Ids of another count are spread.

        Its end is the server's mark; between them are 88 random bits.
        """
        first = self.index + self.count * secrets.randbelow(-(-(MOST_PROCESSES - self.index) // self.count))
        return f"{first:02x}{secrets.token_hex(15 - MARK_CHARACTERS // 2)}{self.mark}"

    def elsewhere(self, id: str) -> int | None:
        """Return which other process has the session with this id; None if this one would have it."""
        try:
            holder = int(id[:2], 16) % self.count
        except ValueError:
            holder = 0
        return None if holder == self.index else holder

    def new_pass(self) -> str:
        """Make a token that every process recognizes, so that strangers' requests are relayed nowhere."""
        id = self.new_id()
        return id + self._sign(id)

    def holder_of_pass(self, token: str) -> int | None:
        """Return which other process issued this pass; None for anything else."""
        id = token[:32]
        signed = self.count > 1 and hmac.compare_digest(token[32:].encode(), self._sign(id).encode())
        return self.elsewhere(id) if signed else None

    def _sign(self, id: str) -> str:
        return hmac.digest(self._key, id.encode(), "sha256")[:16].hex()

    def share(self, total: int) -> int:
        """Return this process's part of a total; the parts add up to it, and the first are the largest."""
        return (total + self.count - 1 - self.index) // self.count

    # Counts, in memory that all processes have

    def buckets(self, kind: str) -> Buckets:
        """Return the place for rates that hold over all processes."""
        return Buckets(memoryview(self._memory)[-Buckets.BYTES :], kind)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Keep the other processes from counting. Never await in here. The kernel lets go if the process dies."""
        if self.count == 1 or self._exclusive:
            yield
            return
        import fcntl  # here: this module is imported on every system

        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        self._exclusive = True
        try:
            yield
        finally:
            self._exclusive = False
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def publish(self, kind: str, counts: Mapping[str, int]) -> None:
        """Tell the others how many each principal has here of a kind: sessions, or websockets."""
        if self.count > 1:
            self._counts[kind] = dict(counts)
            data = msgspec.msgpack.encode(self._counts)
            at = self.index * _SLOT_BYTES
            with self.exclusively():
                self._memory[at : at + 4] = len(data).to_bytes(4, "little")
                self._memory[at + 4 : at + 4 + len(data)] = data

    def of_others(self, kind: str) -> Counter[str]:
        """Return how many each principal has in the other processes."""
        return sum(map(Counter, self.each_of_others(kind)), Counter())

    def each_of_others(self, kind: str) -> Iterator[dict[str, int]]:
        """Yield what each of the other processes has published of a kind."""
        for index in self.others:
            at = index * _SLOT_BYTES
            with self.exclusively():
                size = int.from_bytes(self._memory[at : at + 4], "little")
                data = self._memory[at + 4 : at + 4 + size]
            with suppress(msgspec.DecodeError):  # nothing yet, or a process that died while it wrote
                yield msgspec.msgpack.decode(data, type=dict[str, dict[str, int]]).get(kind, {})

    def forget(self, index: int) -> None:
        with self.exclusively():
            self._memory[index * _SLOT_BYTES : index * _SLOT_BYTES + 4] = bytes(4)
        self._loads[_LOADS * index] = self._loads[_LOADS * index + 1] = 0

    def report_load(self, load: int) -> None:
        """Tell the parent how busy this process is: its connections and sessions."""
        if self.count > 1:
            self._loads[_LOADS * self.index + 1] = load

    def load(self, index: int, handed: int) -> float:
        """Return how busy a process is, with the connections that it was handed and has not taken yet."""
        taken, load = self._loads[_LOADS * index : _LOADS * (index + 1)]
        return handed - taken + load

    def others_are_idle(self) -> bool:
        """Whether no other process has a connection or a session."""
        return not any(self._loads[_LOADS * index + 1] for index in self.others)

    # The parent

    def report(self, error: Exception | None = None) -> None:
        """Tell the parent that this process serves, or why it does not."""
        assert self.control is not None
        code = error.code if isinstance(error, PaddockError) else ""
        words = getattr(error, "strerror", None) or str(error)
        self.control.send(_READY if error is None else _FAILED + msgspec.json.encode([code, words[:2000]]))

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection, like a socket that listens. Relayed by another process, it has that one's peer."""
        assert self.control is not None
        data, fds, _, _ = socket.recv_fds(self.control, _MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:  # the parent was killed before this process could ask to end with it
            os._exit(1)
        if data[:1] == _ACCEPTED:
            self._loads[_LOADS * self.index] += 1
            self._loads[_LOADS * self.index + 1] += 1
        if not fds:
            raise OSError("no descriptor is left for it")
        sock = socket.socket(fileno=fds[0])
        if data[:1] == _RELAY:
            return sock, data[1:].decode()
        try:
            name = sock.getpeername()
        except OSError:
            sock.close()
            raise ConnectionAbortedError from None
        return sock, name if isinstance(name, tuple) else ""  # a unix socket's is the peer's own choice

    def dispose(self) -> None:
        """Give back what the processes shared, once they have ended."""
        self._lock.close()

    def fileno(self) -> int:
        return -1 if self.control is None else self.control.fileno()

    def close(self) -> None:
        if self.control is not None:
            self.control.close()

    # The others

    def connect(self, index: int, peer: str) -> socket.socket:
        assert self.control is not None
        near, far = socket.socketpair()
        with far:
            try:
                socket.send_fds(self.control, [_RELAY + bytes([index]) + peer.encode()], [far.fileno()])
            except OSError:
                near.close()
                raise
        near.setblocking(False)
        return near

    async def ask(self, index: int, request: Request) -> Response:
        """Let another process answer a request. It checks the token itself. Unreachable if it is gone."""
        lost = Unreachable("The process with this session was lost. Try again.")
        headers = {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
        headers |= {"connection": "close", "content-length": str(len(request.body))}
        target = f"{request.path}?{request.query}" if request.query else request.path
        method = "GET" if request.method == "HEAD" else request.method
        head = head_bytes(f"{method} {target} HTTP/1.1", headers.items())
        try:
            sock, loop = self.connect(index, request.peer), asyncio.get_running_loop()
            stream = await Stream.dial(partial(loop.create_unix_connection, sock=sock))
        except OSError:
            raise lost from None
        try:
            answer, body = await stream.exchange(head, request.body, method, _ANSWER_BYTES)
        except Refused:
            raise lost from None
        finally:
            stream.writer.close()
        answered = {name: value for name, value in answer.headers if name not in ("content-type", "date")}
        return Response(answer.status, body, values(answer.headers, "content-type")[0], answered)

    @property
    def others(self) -> list[int]:
        return [index for index in range(self.count) if index != self.index]

    async def ask_for(self, what: str, index: int, query: str = "") -> Any:
        """Return what another process says of itself; None if it does not answer."""
        request = Request("GET", f"/{what}", query, {"host": "localhost"}, peer=SIBLING)
        try:
            return msgspec.json.decode((await asyncio.wait_for(self.ask(index, request), _ANSWER_S)).body)
        except (PaddockError, msgspec.DecodeError, asyncio.TimeoutError):
            return None


@dataclass(eq=False)
class _Child:
    index: int
    pid: int
    control: socket.socket
    began_s: float
    ready: bool = False
    handed: int = 0


class Parent:
    """Starts the processes, each of which runs ``serve``, hands them connections and replaces those that end."""

    def __init__(
        self,
        processes: Processes,
        listening: list[socket.socket],
        serve: Callable[[], None],
        *,
        when_ready: Callable[[], None],
        when_stopping: Callable[[], None],
        drain_s: float,
    ) -> None:
        self._processes, self._listening, self._serve, self._drain_s = processes, listening, serve, drain_s
        self._when_ready: Callable[[], None] | None = when_ready
        self._when_stopping = when_stopping
        self._children: dict[int, _Child] = {}  # by index
        self._due: dict[int, float] = dict.fromkeys(range(processes.count), 0.0)  # when to start which
        self._kill_s: float | None = None  # once it stops: when to kill what is left
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C, and until every process has ended."""
        for sock in (self._woken, self._wake):
            sock.setblocking(False)
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)}
        wakeup_fd = signal.set_wakeup_fd(self._wake.fileno())
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it wakes the loop
        self._selector.register(self._woken, selectors.EVENT_READ, lambda: self._woken.recv(_MESSAGE_BYTES))
        try:
            while self._kill_s is None or self._children:
                self._turn_once()
        finally:
            for child in list(self._children.values()):
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                child.control.close()
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup_fd)
            for sock in (self._woken, self._wake, *self._listening):
                sock.close()
            self._selector.close()

    def _turn_once(self) -> None:
        now = time.monotonic()
        for index, due_s in list(self._due.items()):
            if now >= due_s and self._kill_s is None:
                try:
                    self._start(index)
                except OSError:  # no process or descriptor is left: the others serve on
                    if self._when_ready is not None:
                        raise
                    self._due[index] = now + _AGAIN_S
        if self._kill_s is not None and now >= self._kill_s:
            for child in self._children.values():
                os.kill(child.pid, signal.SIGKILL)
        for key, _ in self._selector.select(_AGAIN_S):
            key.data()
        self._reap()
        serving = sum(one.ready for one in self._children.values())
        if self._when_ready is not None and serving == self._processes.count and self._kill_s is None:
            for sock in self._listening:
                self._watch(sock)
            self._when_ready()
            self._when_ready = None

    def _stop(self, *_: object) -> None:
        if self._kill_s is None:
            self._kill_s = time.monotonic() + self._drain_s + _KILL_S
            self._when_stopping()
            for sock in self._listening:
                with suppress(KeyError):  # it may not be watched
                    self._selector.unregister(sock)
                sock.close()
            for child in self._children.values():
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)

    # Processes

    def _start(self, index: int) -> None:
        del self._due[index]
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for sock in (near, far):
            sock.setblocking(False)
        stops = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # or the new process might take one for its parent's
        try:
            if self._kill_s is not None:  # a signal came just before they were blocked
                near.close()
                return
            pid = os.fork()
            if not pid:
                near.close()
                self._become(index, far, stops)
            child = self._children[index] = _Child(index, pid, near, time.monotonic())
            self._selector.register(near, selectors.EVENT_READ, lambda: self._take(child))
        except BaseException:
            near.close()
            raise
        finally:
            far.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)  # now that it can be found, and be told to stop

    def _become(self, index: int, control: socket.socket, stops: set[signal.Signals]) -> NoReturn:
        """Serve, in the new process. Nothing of the parent's goes on here."""
        from paddock.sandbox.inside.syscalls import PR_SET_PDEATHSIG, prctl  # only Linux has them

        code = 1
        try:
            # If the parent is killed, its server is gone, and another may need port and journal at once.
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            self._selector.close()  # without unregistering anything, which would reach the parent's
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
            for sock in (self._woken, self._wake, *self._listening, *(one.control for one in self._children.values())):
                sock.close()
            self._processes.index, self._processes.control = index, control
            self._serve()
            code = 0
        except (PaddockError, OSError) as error:
            with suppress(OSError):
                self._processes.report(error)
        except BaseException:
            logger.exception("a process of the server failed")
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        for child in list(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            while self._take(child):  # its last words
                pass
            self._let_go(child)
            del self._children[child.index]
            self._processes.forget(child.index)
            if self._kill_s is not None:
                continue
            how = f"it ended with {os.waitstatus_to_exitcode(status)}"
            if self._when_ready is not None:
                raise PlanError(f"A process of the server could not be started: {how}.")
            logger.error("process %d of the server was lost: %s; it is replaced", child.index, how)
            lived_s = time.monotonic() - child.began_s
            self._due[child.index] = 0.0 if lived_s > _AGAIN_S else time.monotonic() + _AGAIN_S

    def _let_go(self, child: _Child) -> None:
        if child.control.fileno() >= 0:
            self._selector.unregister(child.control)
            child.control.close()

    # Connections

    def _watch(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._selector.register(listening, selectors.EVENT_READ, lambda: self._accept(listening))

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_STARTS):
            child = self._next_process()
            if child is None or listening.fileno() < 0:
                time.sleep(_FULL_S)  # connections wait in the kernel meanwhile
                return
            try:
                sock, _name = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # out of descriptors
                time.sleep(_FULL_S)
                return
            with sock, suppress(OSError):
                socket.send_fds(child.control, [_ACCEPTED], [sock.fileno()])
                child.handed += 1

    def _next_process(self) -> _Child | None:
        """Return the process that gets the next connection; None if none takes any now."""
        ready = [one for one in self._children.values() if one.ready and _is_writable(one.control)]
        few, load = _FEW // self._processes.count, self._processes.load
        return min(ready, key=lambda one: (max(few, load(one.index, one.handed)), one.index), default=None)

    def _take(self, child: _Child) -> bool:
        """Take a message of a process; False if there is none."""
        if child.control.fileno() < 0:
            return False
        try:
            data, fds, _, _ = socket.recv_fds(child.control, _MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        except OSError:
            data, fds = b"", []
        if not data:  # it drains, or has died
            self._let_go(child)
            return False
        try:
            if data == _READY:
                child.ready = True
            elif data[:1] == _FAILED:
                self._handle_failure(*msgspec.json.decode(data[1:], type=tuple[str, str]))
            elif data[:1] == _RELAY and fds and (other := self._children.get(data[1])) is not None:
                with suppress(OSError):  # if it can't be delivered, its sender finds it closed
                    socket.send_fds(other.control, [_RELAY + data[2:]], fds)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _handle_failure(self, code: str, words: str) -> None:
        if self._when_ready is None or self._kill_s is not None:
            logger.error("a process of the server could not be started: %s", words)
        elif code:
            raise to_error(Failed(code, words))
        else:
            raise OSError(words)


def _is_writable(sock: socket.socket) -> bool:
    if sock.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return any(events == select.POLLOUT for _, events in poll.poll(0))
