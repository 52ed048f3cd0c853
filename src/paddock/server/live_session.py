"""LiveSession: a Session with its worker, its journal and its connections. It does what the state machine says."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

from paddock.errors import PaddockError, StorageFull, WorkerLost
from paddock.hosting.numbering import number_of
from paddock.server.chain import Replay, digest
from paddock.server.crew import Crew, OnWait
from paddock.server.effects import CloseConnection, Effect, Ended, EndWorker, Journal, RebuildWorker, SendTo, ToWorker
from paddock.server.journal_file import JournalFile
from paddock.server.link import WorkerLink
from paddock.server.metrics import Latency
from paddock.server.permitted import for_worker, is_make
from paddock.server.served import Served
from paddock.server.session import Session
from paddock.server.shared_worker import SharedLink

Link: TypeAlias = "WorkerLink | SharedLink"
logger = logging.getLogger("paddock.server")

SHOWN = 8  # characters of a session's id in logs and lists
_AHEAD = 8  # requests of a journal that are put to a new worker before the first is answered


class Connection(Protocol):
    """Where a session's frames go."""

    def send(self, frame: bytes) -> None:
        """Send a frame; never waits."""

    def end(self, code: str, reason: str) -> None:
        """Close, once what was sent is out."""


class LiveSession:
    """``on_end`` is told once, when the session is over; ``on_lost`` of each worker: the cause and what it printed."""

    def __init__(
        self,
        session: Session,
        served: Served,
        principal: str,
        *,
        crew: Crew,
        latency: Latency,
        journal: JournalFile | None = None,
        on_end: Callable[[LiveSession], None],
        on_lost: Callable[[LiveSession, str, str], None],
    ) -> None:
        self.session, self.served, self.principal = session, served, principal
        self.began_s = self.used_s = time.monotonic()
        self.evictable = False  # one over HTTP, to which nobody holds a connection
        self.steps = 0
        # An environment that nobody seeds gets this one, so that its episodes can be repeated.
        self._seed = int.from_bytes(digest(session.id.encode())[:7], "little")
        self._crew, self._journal, self._on_end, self._on_lost = crew, journal, on_end, on_lost
        self._latency = latency
        self._connections: dict[int, Connection] = {}
        self._links: dict[int, Link] = {}
        self._rebuilds: dict[int, asyncio.Task[None]] = {}  # by worker
        self._pending: set[asyncio.Future[Any]] = set()  # kept, or they might be collected

    async def start(self, wanted: Callable[[], bool], on_wait: OnWait | None = None) -> None:
        """Start its first worker, if it is still ``wanted`` when its turn comes; what fails is raised."""
        self._links[1] = await self._link(1, self._replied, wanted, on_wait)

    def attach(self, number: int, connection: Connection) -> None:
        """Its first connection."""
        self._connections[number] = connection
        self._do(self.session.attach(number, secrets.token_hex(16)))

    def resume(self, number: int, connection: Connection, asked: Any) -> None:
        """A connection that wants it back; one that may not have it is told so and closed."""
        self._connections[number] = connection
        self._do(self.session.resume(number, asked, secrets.token_hex(16), time.monotonic()))

    def closed(self, number: int, *, done: bool = False) -> None:
        """A connection is gone."""
        self._connections.pop(number, None)
        self._do(self.session.connection_closed(number, time.monotonic(), done=done))

    def request(self, connection: int, frame: bytes, *, final: bool = False) -> None:
        """A request came; ``final``: it closes everything. Hot."""
        self.used_s = now = time.monotonic()
        self._do(self.session.request(connection, number_of(frame), digest(frame), frame, now, final=final))

    def tick(self, now: float) -> None:
        """Time has passed."""
        due = self.session.due_s
        if due is not None and now >= due:
            effects = self.session.tick(now)
            if effects and type(effects[0]) is EndWorker:
                self._ends(effects[0].worker, "overdue")
            self._do(effects)

    def _ends(self, worker: int, cause: str) -> None:
        """The session ends its worker: tell if that is because of what the worker did."""
        link = self._links.get(worker)
        if self.session.refusal[0] == WorkerLost.code:
            self._on_lost(self, cause, "" if link is None else link.take_printed())
            if isinstance(link, SharedLink):
                link.overdue = True

    def drain(self, within_s: float) -> None:
        """The server is going to stop."""
        self._do(self.session.drain(time.monotonic(), within_s))

    def close(self, code: str, reason: str) -> None:
        """End it now."""
        self._do(self.session.close(code, reason))

    def abandon(self) -> None:
        """It never began: no worker could be started."""
        if self._journal is not None:
            self._journal.remove()
            self._journal = None

    def sync(self) -> None:
        """Bring the journal to the disk, without waiting for it."""
        work = None if self._journal is None else self._journal.unsynced()
        if work is not None:
            self._keep(asyncio.ensure_future(self._sync(work)))

    async def _sync(self, work: Callable[[], None]) -> None:
        try:
            await self._crew.do(work)
        except OSError:
            self._give_journal_up()

    @property
    def waiting_s(self) -> float:
        """How long the worker has been at the oldest request; 0 if it has none."""
        since_s = self.session.busy_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    @property
    def wedged(self) -> bool:
        """Whether a request has taken more than half of the time that it has."""
        return self.waiting_s > self.session.terms.allowed_s(self.steps) / 2

    @property
    def pid(self) -> int | None:
        """Of the worker that it has now."""
        link = self._links.get(self.session.worker)
        return None if link is None else int(link.child.pid)

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is SendTo:
                connection = self._connections.get(effect.connection)  # type: ignore[union-attr]
                if connection is not None:
                    connection.send(effect.frame)  # type: ignore[union-attr]
            elif kind is ToWorker:
                link = self._links.get(effect.worker)  # type: ignore[union-attr]
                if link is not None:
                    link.send(self._for_worker(effect.frame))  # type: ignore[union-attr]
            else:
                self._do_rarely(effect)

    def _for_worker(self, frame: bytes) -> bytes:
        return for_worker(frame, self.served, self._seed) if is_make(frame) else frame

    def _do_rarely(self, effect: Effect) -> None:
        if isinstance(effect, Journal):
            self._write(effect)
        elif isinstance(effect, CloseConnection):
            connection = self._connections.pop(effect.connection, None)
            if connection is not None:
                connection.end(effect.code, effect.reason)
        elif isinstance(effect, EndWorker):
            self._end_worker(effect.worker)
        elif isinstance(effect, RebuildWorker):
            task = self._rebuilds[effect.worker] = asyncio.ensure_future(self._rebuild(effect))
            self._keep(task)
        elif isinstance(effect, Ended):
            self._ended(resumable=effect.resumable)

    def _write(self, effect: Journal) -> None:
        if self._journal is None:
            return
        try:
            self._journal.append(effect.entry)
        except StorageFull:
            self._give_journal_up()

    def _give_journal_up(self) -> None:
        """The session goes on without: a hole in a journal would be a lie."""
        if self._journal is not None:
            logger.warning("a journal could not be written; its session goes on without", extra=self.named)
            self._journal.remove()
            self._journal = None
            self.session.journal_failed()

    @property
    def named(self) -> dict[str, Any]:
        """For logs and lists: which one, and whose."""
        return {"session": self.session.id[:SHOWN], "environment": self.served.name, "principal": self.principal}

    def _end_worker(self, number: int) -> None:
        rebuild = self._rebuilds.pop(number, None)
        if rebuild is not None:
            rebuild.cancel()  # it ends the worker that it had
        link = self._links.pop(number, None)
        if link is not None:
            self._keep(link.end())

    def _ended(self, *, resumable: bool) -> None:
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
    ) -> Link:
        took, lost = partial(on_frame, worker), partial(self._lost, worker)
        if self.served.shared is not None:
            return await self.served.shared.link(self._crew, wanted, on_frame=took, on_lost=lost)
        near, child = await self._crew.start(self.served.start, wanted, on_wait, principal=self.principal)
        return WorkerLink(
            near,
            child,
            limits=self.served.rules.frames,
            crew=self._crew,
            on_frame=took,
            on_lost=lost,
            named=self.named,
            alone=True,
        )

    def _replied(self, worker: int, frame: bytes) -> None:
        self.steps += 1
        self.used_s = now = time.monotonic()
        since_s = self.session.busy_since_s
        if since_s is not None:
            self._latency.add(now - since_s)
        effects = self.session.worker_replied(worker, frame, now)
        if effects and type(effects[0]) is EndWorker:
            self._ends(worker, "protocol")
        self._do(effects)

    def _lost(self, worker: int, cause: str) -> None:
        link = self._links.pop(worker, None)
        self._on_lost(self, cause, "" if link is None else link.take_printed())
        self._do(self.session.worker_lost(worker, cause, time.monotonic()))

    async def _rebuild(self, wanted: RebuildWorker) -> None:
        """Put what was carried out to a new worker; only if the chain is equal does the session take it."""
        try:
            if self._journal is None:
                raise WorkerLost("There is no journal to rebuild from.")
            recovered = await self._crew.do(self._journal.read)
            replay = Replay(recovered.header.origin, recovered.frames[: wanted.count], window=self.session.terms.window)
            link = await self._replayed(wanted.worker, replay)
        except (PaddockError, OSError) as error:
            logger.warning("a session could not be rebuilt: %s", error, extra=self.named)
            self._rebuilds.pop(wanted.worker, None)
            self._do(self.session.worker_lost(wanted.worker, "replay", time.monotonic()))
            return
        self._rebuilds.pop(wanted.worker, None)
        self._links[wanted.worker] = link
        self._do(self.session.rebuilt(wanted.worker, replay, time.monotonic()))

    async def _replayed(self, worker: int, replay: Replay) -> Link:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        frames = iter(replay.frames)

        def next_one() -> None:
            frame = next(frames, None)
            if frame is not None:
                link.send(self._for_worker(frame))

        def replied(_: int, frame: bytes) -> None:
            if replay.complete:
                self._replied(worker, frame)
                return
            replay.add(frame)
            if replay.complete and not over.done():
                over.set_result(None)
            next_one()

        link = await self._link(worker, replied, lambda: not self.session.ended)
        link.when_lost(partial(_fail, over))
        if replay.complete:
            over.set_result(None)
        for _ in range(_AHEAD):
            next_one()
        try:
            await over
            if link.cause is not None:  # after its last reply
                raise WorkerLost("The new worker was lost.", cause=link.cause)
        except BaseException:
            self._keep(link.end())
            raise
        link.when_lost(lambda cause: self._lost(worker, cause))
        return link


def _fail(over: asyncio.Future[None], cause: str) -> None:
    if not over.done():
        over.set_exception(WorkerLost("The new worker was lost.", cause=cause))
