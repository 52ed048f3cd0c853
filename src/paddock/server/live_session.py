"""LiveSession: a Session with its worker, its journal and its connections. It carries out the Session's commands."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from paddock.errors import PaddockError, StorageFull, WorkerLost
from paddock.hosting.codec import PREFIX_BYTES, number_of
from paddock.hosting.messages import Resume
from paddock.server.journal import JournalFile, Replay, digest
from paddock.server.served_env import ServedEnv, is_make, rewrite_make
from paddock.server.session import (
    CloseConnection,
    Command,
    Ended,
    EndWorker,
    Journal,
    RebuildWorker,
    SendTo,
    Session,
    ToWorker,
)
from paddock.server.telemetry import Latency, traceparent
from paddock.server.workers import OnWait, WorkerLink, WorkerThreads

logger = logging.getLogger("paddock.server")

SHORT_ID = 8  # characters of a session's id in logs and lists
_RESET = b"\xa4type\xa5reset"  # after the byte that begins a map
_BATCH, _BATCH_S = 1000, 10.0  # at most so many steps, and so many seconds, in one span
_AHEAD = 8  # requests of a journal that are sent to a new worker before the first is answered


class Connection(Protocol):
    """Where a session's frames go."""

    def send(self, frame: bytes) -> None:
        """Send a frame; never waits."""

    def end(self, code: str, reason: str) -> None:
        """Close, once what was sent is out."""


class LiveSession:
    """Calls ``on_end`` once, when the session is over, and ``on_lost`` with cause and output of each lost worker."""

    def __init__(
        self,
        session: Session,
        served: ServedEnv,
        principal: str,
        *,
        threads: WorkerThreads,
        latency: Latency,
        journal: JournalFile | None = None,
        on_end: Callable[[LiveSession], None],
        on_lost: Callable[[LiveSession, str, str], None],
    ) -> None:
        self.session, self.served, self.principal = session, served, principal
        self.began_s = self.used_s = time.monotonic()
        self.evictable = False  # opened over HTTP, and no connection holds it
        self.steps = 0
        # For an environment that is reset without a seed, so that its episodes can be repeated.
        self._seed = int.from_bytes(digest(session.id.encode())[:7], "little")
        self._threads, self._journal, self._on_end, self._on_lost = threads, journal, on_end, on_lost
        self._latency = latency
        self._spent_s = 0.0  # CPU seconds of workers that have ended
        self._connections: dict[int, Connection] = {}
        self._links: dict[int, WorkerLink] = {}
        self._rebuilds: dict[int, asyncio.Task[None]] = {}  # by worker
        self._pending: set[asyncio.Future[Any]] = set()  # kept, or they might be collected

    async def start(self, wanted: Callable[[], bool], on_wait: OnWait | None = None) -> None:
        """Start its first worker, if it is still ``wanted`` when its turn comes. Raises what fails."""
        self._links[1] = await self._link(1, self._handle_reply, wanted, on_wait)

    def attach(self, number: int, connection: Connection) -> None:
        self._connections[number] = connection
        self._do(self.session.attach(number, secrets.token_hex(16)))

    def resume(self, number: int, connection: Connection, resume: Resume) -> None:
        """Take a connection that resumes the session; one that may not is refused and closed."""
        self._connections[number] = connection
        self._do(self.session.resume(number, resume, secrets.token_hex(16), time.monotonic()))

    def closed(self, number: int, *, done: bool = False) -> None:
        self._connections.pop(number, None)
        self._do(self.session.connection_closed(number, time.monotonic(), done=done))

    def request(self, connection: int, frame: bytes, *, final: bool = False) -> None:
        """Take a request; ``final``: it closes everything. Hot."""
        self.used_s = now = time.monotonic()
        number = number_of(frame)
        if not final and not is_make(frame) and self.session.take(connection, number, now):
            link = self._links.get(self.session.worker)
            if link is not None:
                link.send(frame)
            return
        self._do(self.session.request(connection, number, digest(frame), frame, now, final=final))

    def tick(self, now: float) -> None:
        due = self.session.due_s
        if due is not None and now >= due:
            commands = self.session.tick(now)
            if commands and type(commands[0]) is EndWorker:
                self._report_loss(commands[0].worker, "overdue")
            self._do(commands)

    def _report_loss(self, worker: int, cause: str) -> None:
        """The session ends its worker: report it if that is because of what the worker did."""
        link = self._links.get(worker)
        if self.session.refusal[0] == WorkerLost.code:
            self._on_lost(self, cause, "" if link is None else link.take_output())

    def drain(self, within_s: float) -> None:
        self._do(self.session.drain(time.monotonic(), within_s))

    def close(self, code: str, reason: str) -> None:
        self._do(self.session.close(code, reason))

    def abandon(self) -> None:
        """Remove the journal of a session for which no worker could be started."""
        if self._journal is not None:
            self._journal.remove()
            self._journal = None

    def sync(self) -> None:
        """Sync the journal to the disk, without waiting for it."""
        if self._journal is None or (work := self._journal.sync_task()) is None:
            return

        async def sync() -> None:
            try:
                await self._threads.run(work)
            except OSError:
                self._drop_journal()

        self._keep(asyncio.ensure_future(sync()))

    @property
    def waiting_s(self) -> float:
        """How long the worker has been working on the oldest request; 0 if it has none."""
        since_s = self.session.busy_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    @property
    def is_stuck(self) -> bool:
        """Whether a request has taken more than half of its time."""
        return self.waiting_s > self.session.limits.allowed_s(self.steps) / 2

    @property
    def pid(self) -> int | None:
        link = self._links.get(self.session.worker)
        return None if link is None else int(link.child.pid)

    def usage(self) -> tuple[int, float]:
        """Return the bytes of memory that its workers take now, and the CPU seconds that all of them have used."""
        children = [link.child for link in self._links.values()]
        return sum(one.memory_bytes() for one in children), self._spent_s + sum(one.cpu_s() for one in children)

    def _do(self, commands: list[Command]) -> None:
        for command in commands:
            kind = type(command)
            if kind is SendTo:
                connection = self._connections.get(command.connection)  # type: ignore[union-attr]
                if connection is not None:
                    connection.send(command.frame)  # type: ignore[union-attr]
            elif kind is ToWorker:
                link = self._links.get(command.worker)  # type: ignore[union-attr]
                if link is not None:
                    link.send(self._for_worker(command.frame))  # type: ignore[union-attr]
            else:
                self._do_rarely(command)

    def _for_worker(self, frame: bytes) -> bytes:
        return rewrite_make(frame, self.served, self._seed) if is_make(frame) else frame

    def _do_rarely(self, command: Command) -> None:
        if isinstance(command, Journal):
            try:
                if self._journal is not None:
                    self._journal.append(command.entry)
            except StorageFull:
                self._drop_journal()
        elif isinstance(command, CloseConnection):
            connection = self._connections.pop(command.connection, None)
            if connection is not None:
                connection.end(command.code, command.reason)
        elif isinstance(command, EndWorker):
            self._end_worker(command.worker)
        elif isinstance(command, RebuildWorker):
            task = self._rebuilds[command.worker] = asyncio.ensure_future(self._rebuild(command))
            self._keep(task)
        elif isinstance(command, Ended):
            self._end(resumable=command.resumable)

    def _drop_journal(self) -> None:
        """Go on without a journal: one with a hole would lie."""
        if self._journal is not None:
            logger.warning("a journal could not be written; its session goes on without", extra=self.labels)
            self._journal.remove()
            self._journal = None
            self.session.journal_failed()

    @property
    def labels(self) -> dict[str, Any]:
        """Which session this is, and whose, for logs and lists."""
        return {"session": self.session.id[:SHORT_ID], "environment": self.served.name, "principal": self.principal}

    def _end_worker(self, number: int) -> None:
        rebuild = self._rebuilds.pop(number, None)
        if rebuild is not None:
            rebuild.cancel()  # which ends its worker
        link = self._links.pop(number, None)
        if link is not None:
            self._spent_s += link.child.cpu_s()
            self._keep(link.end())

    def _end(self, *, resumable: bool) -> None:
        for number in [*self._links, *self._rebuilds]:
            self._end_worker(number)
        if self._journal is not None:
            self._journal.close() if resumable else self._journal.remove()
            self._journal = None
        self._on_end(self)

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _link(
        self,
        worker: int,
        on_frame: Callable[[int, bytes], None],
        wanted: Callable[[], bool],
        on_wait: OnWait | None = None,
    ) -> WorkerLink:
        take, lose = partial(on_frame, worker), partial(self._handle_loss, worker)
        start = partial(self.served.start, self.principal)
        near, child = await self._threads.start(start, wanted, on_wait, principal=self.principal)
        return WorkerLink(
            near,
            child,
            limits=self.served.rules.frames,
            threads=self._threads,
            on_frame=take,
            on_lost=lose,
            labels=self.labels,
        )

    def _handle_reply(self, worker: int, frame: bytes) -> None:
        self.steps += 1
        self.used_s = now = time.monotonic()
        since_s = self.session.busy_since_s
        if since_s is not None:
            self._latency.add(now - since_s)
        direct = self.session.finish(worker, number_of(frame), now)
        if direct is not None:
            connection = self._connections.get(direct)
            if connection is not None:
                connection.send(frame)
            return
        commands = self.session.worker_replied(worker, frame, now)
        if commands and type(commands[0]) is EndWorker:
            self._report_loss(worker, "protocol")
        self._do(commands)

    def _handle_loss(self, worker: int, cause: str) -> None:
        link = self._links.pop(worker, None)
        self._on_lost(self, cause, "" if link is None else link.take_output())
        self._do(self.session.worker_lost(worker, cause, time.monotonic()))

    async def _rebuild(self, command: RebuildWorker) -> None:
        """Repeat what was carried out in a new worker; the session takes it only if the chain is equal."""
        try:
            if self._journal is None:
                raise WorkerLost("There is no journal to rebuild from.")
            recovered = await self._threads.run(self._journal.read)
            replay = Replay(
                recovered.header.origin, recovered.frames[: command.count], window=self.session.limits.window
            )
            link = await self._replay(command.worker, replay)
        except (PaddockError, OSError) as error:
            logger.warning("a session could not be rebuilt: %s", error, extra=self.labels)
            self._rebuilds.pop(command.worker, None)
            self._do(self.session.worker_lost(command.worker, "replay", time.monotonic()))
            return
        self._rebuilds.pop(command.worker, None)
        self._links[command.worker] = link
        self._do(self.session.rebuilt(command.worker, replay, time.monotonic()))

    async def _replay(self, worker: int, replay: Replay) -> WorkerLink:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        frames = iter(replay.frames)

        def send_next() -> None:
            frame = next(frames, None)
            if frame is not None:
                link.send(self._for_worker(frame))

        def replied(_: int, frame: bytes) -> None:
            if replay.complete:
                self._handle_reply(worker, frame)
                return
            replay.add(frame)
            if replay.complete and not over.done():
                over.set_result(None)
            send_next()

        link = await self._link(worker, replied, lambda: not self.session.ended)

        def fail(cause: str) -> None:
            if not over.done():
                over.set_exception(WorkerLost("The new worker was lost.", cause=cause))

        link.on_lost = fail
        if replay.complete:
            over.set_result(None)
        for _ in range(_AHEAD):
            send_next()
        try:
            await over
            if link.cause is not None:  # after its last reply
                raise WorkerLost("The new worker was lost.", cause=link.cause)
        except BaseException:
            self._keep(link.end())
            raise
        link.on_lost = partial(self._handle_loss, worker)
        return link


class TracedSession(LiveSession):
    """A session with OpenTelemetry's spans, below that of the client: its own, and in it make, reset and steps."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract({"traceparent": traceparent.get()})
        self._tracer = trace.get_tracer("paddock")
        self._span = self._tracer.start_span(
            "session",
            parent,
            trace.SpanKind.SERVER,
            {f"paddock.{name}": value for name, value in self.labels.items()},
        )
        self._within = trace.set_span_in_context(self._span)
        self._work: Any = None  # the span of what the worker does
        self._kind, self._count, self._began_s, self._replied_ns = "", 0, 0.0, 0

    def request(self, connection: int, frame: bytes, *, final: bool = False) -> None:
        kind = "make" if is_make(frame) else "reset" if frame.startswith(_RESET, PREFIX_BYTES + 1) else "steps"
        whole = self._count >= _BATCH or time.monotonic() - self._began_s > _BATCH_S
        if final:
            self._end_work()
        elif self._work is None or kind != self._kind or kind != "steps" or whole:
            self._end_work()
            self._kind, self._count, self._began_s = kind, 0, time.monotonic()
            self._work = self._tracer.start_span(kind, self._within)
        super().request(connection, frame, final=final)

    def _handle_reply(self, worker: int, frame: bytes) -> None:
        self._count += 1
        self._replied_ns = time.time_ns()
        super()._handle_reply(worker, frame)

    def _end_work(self) -> None:
        if self._work is not None:
            self._work.set_attribute("paddock.replies", self._count)
            self._work.end(self._replied_ns if self._count else None)
            self._work = None

    def _handle_loss(self, worker: int, cause: str) -> None:
        self._span.add_event("worker lost", {"paddock.cause": cause})
        super()._handle_loss(worker, cause)

    def _end(self, *, resumable: bool) -> None:
        self._end_work()
        self._span.end()
        super()._end(resumable=resumable)
