"""Service: the environments that a server offers and the sessions in it. It knows neither ports nor HTTP."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from paddock.errors import (
    CapacityReached,
    Draining,
    InvalidJournal,
    NotPermitted,
    PaddockError,
    SessionGone,
    StorageFull,
    Unreachable,
)
from paddock.server.auth import Full, Principal, Quotas
from paddock.server.journal import Header, JournalFile, lock_folder
from paddock.server.live_session import SHORT_ID, LiveSession, TracedSession
from paddock.server.processes import Processes
from paddock.server.served_env import IDLE_S, ServedEnv
from paddock.server.session import Session, SessionLimits
from paddock.server.settings import Settings
from paddock.server.telemetry import OPENING, REPLY, Metrics, begin_spans, flush_spans, label
from paddock.server.workers import OnWait, WorkerThreads, has_descriptors

logger = logging.getLogger("paddock.server")
audit = logging.getLogger("paddock.audit")

_TICK_S = 0.1
_SYNC_S = 1.0  # between syncs of the journals, and between announcements to sessions in the queue
_AGAIN_S = 30.0  # for this long after a failed start the server is not ready
_LAG_S = 1.0  # with the event loop this late, the server is degraded
_LAG_DECAY = 0.9  # per tick: a lag is remembered for some seconds
_PRINTED = 2_000  # characters of a lost worker's output in the log
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC)
_JOURNAL = ".journal"


class Service:
    """The environments by name, and the sessions by id. ``start`` it before and ``stop`` it after."""

    def __init__(self, served: Sequence[ServedEnv], settings: Settings, processes: Processes | None = None) -> None:
        self.served = {one.name: one for one in served}
        self.settings = settings
        self.processes = processes or Processes()
        self.metrics = Metrics()
        self.draining = False
        self._sessions: dict[str, LiveSession] = {}
        self._opening: Counter[str] = Counter()  # by principal
        cores = os.cpu_count() or 1
        starting = max(cores, 2 * cores // self.processes.count)  # the first process has most of a small burst
        self._threads = WorkerThreads(starting, alone=self.processes.others_are_idle)
        self.quotas = Quotas(settings, self.processes)
        self._session_class = TracedSession if begin_spans() else LiveSession
        self.next_connection: Callable[[], int] = itertools.count(1).__next__
        self._ticker: asyncio.Task[None] | None = None
        self._lag_s = 0.0
        self._start_failed_s: float | None = None  # when the newest start failed, if it did
        self.each_tick: list[Callable[[], None]] = []  # called often; they must not fail
        self.each_second: list[Callable[[], None]] = []  # called once per second; they must not fail
        self._lock: int | None = None  # on the journal folder

    async def start(self) -> None:
        """Describe each environment and restore the sessions of an earlier server."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, one.describe) for one in self.served.values()))
        if self.settings.journal is not None:
            self._restore_sessions(self.settings.journal)
        for one in self.served.values():
            one.spares = self.processes.share(self.settings.spares)
        self.each_second += [self._end_idle_spares, self._keep_quotas]
        self._ticker = asyncio.ensure_future(self._tick())
        self._ticker.add_done_callback(_stop_without_ticks)

    async def stop(self) -> None:
        """Answer pending requests, then end every session and every process."""
        self.draining = True
        for live in list(self._sessions.values()):
            live.drain(self.settings.drain_s)
        ends_s = time.monotonic() + self.settings.drain_s + _TICK_S
        while self.sessions_here and time.monotonic() < ends_s:
            await asyncio.sleep(0.02)
        for live in list(self._sessions.values()):
            live.tick(time.monotonic())  # its time is up; a journaled one may resume on another server
            live.close(Draining.code, "This server is stopping.")
        if self._ticker is not None:
            self._ticker.cancel()
        loop = asyncio.get_running_loop()
        closing = [self._threads.close, *(one.end_spares for one in self.served.values())]
        if self._session_class is not LiveSession:
            closing.append(flush_spans)
        await asyncio.gather(*(loop.run_in_executor(None, close) for close in closing))
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _end_idle_spares(self) -> None:
        for one in self.served.values():
            if one.has_idle_spares():
                self._threads.run(one.end_spares, IDLE_S)

    def _keep_quotas(self) -> None:
        for live, reason, text in list(self.quotas.measure(self._sessions.values())):
            self.metrics.count("paddock_sessions_ended_total", f'reason="{reason}"')
            audit.warning("ended session: %s", text, extra=live.labels)
            live.close(SessionGone.code, text)

    # Sessions

    def session(self, id: str, principal: Principal, served: ServedEnv | None = None) -> LiveSession | None:
        """Return the session with this id to its owner or whoever has a pass for it, and None to anyone else."""
        live = self._sessions.get(id)
        if live is None or (served is not None and live.served is not served):
            return None
        return live if principal.name == live.principal or principal.session == id else None

    def find(self, id: str) -> LiveSession | None:
        """Return the session with this id, for the server's own owner."""
        return self._sessions.get(id)

    def sessions_of_others(self, names: set[str]) -> list[LiveSession]:
        return [live for live in self._sessions.values() if live.principal not in names]

    def kill(self, id: str) -> LiveSession:
        """End the one session whose id begins with ``id``, as listings show it."""
        found = [live for name, live in self._sessions.items() if len(id) >= SHORT_ID and name.startswith(id)]
        if len(found) != 1:
            raise SessionGone("There is no such session.")
        found[0].close(SessionGone.code, "An operator ended it.")
        return found[0]

    async def open(
        self,
        served: ServedEnv,
        principal: Principal,
        *,
        journaled: bool = True,
        wanted: Callable[[], bool] = lambda: True,
        on_wait: OnWait | None = None,
    ) -> LiveSession:
        """Open a session with its worker. CapacityReached and other errors say why not.

        In a burst it may have to wait for its turn: ``on_wait`` is called now and then with how many are ahead.
        Nothing is started if it isn't ``wanted`` by then; cancelling leaves the queue at once.
        A session that is not ``journaled`` has its client in this server, and can't be resumed.
        """
        while (why := self._reserve(principal)) is not None:  # another may have taken the room that was made
            if why.reason not in ("capacity", "role") or not await self._make_room(principal):
                raise self._refuse(why.reason, CapacityReached(why.text, retry_after_s=why.wait_s))
        live, began_s = None, time.monotonic()
        try:
            live = await self._start_session(served, principal, journaled=journaled, wanted=wanted, on_wait=on_wait)
        finally:
            self._opening[principal.name] -= 1
            self._opening += Counter()  # drops names with a count of 0
            if live is not None:
                self._sessions[live.session.id] = live
            self._publish()
        self.metrics.count("paddock_sessions_opened_total")
        self.metrics.latency(OPENING, served.name).add(time.monotonic() - began_s)
        logger.info("session opened", extra=live.labels)
        if self.draining:
            live.close(Draining.code, "This server is stopping.")
            raise Draining("This server is stopping. Try again later.")
        return live

    async def _start_session(
        self,
        served: ServedEnv,
        principal: Principal,
        *,
        journaled: bool,
        wanted: Callable[[], bool],
        on_wait: OnWait | None,
    ) -> LiveSession:
        live: LiveSession | None = None
        try:
            id, deterministic = self.processes.new_id(), served.described.deterministic
            header = Header(id, served.name, {"principal": principal.name}, served.digest, deterministic)
            journal = None
            if journaled and self.settings.journal is not None:
                path = self.settings.journal / f"{id}{_JOURNAL}"
                journal = await self._threads.run(JournalFile.create, path, header, self.settings.journal_sync)
            limits = self._limits(served, deterministic, journal is not None, resumable=journaled)
            session = Session(id, limits, origin=header.origin)
            live = self._live(session, served, principal.name, journal)
            await live.start(wanted, on_wait)
        except BaseException as error:
            if live is not None:
                live.abandon()
            if isinstance(error, StorageFull):
                raise self._refuse("storage", StorageFull("The server's journal can't take more now.")) from None
            if not isinstance(error, (PaddockError, OSError)) or isinstance(error, SessionGone):
                raise
            self._start_failed_s = time.monotonic()
            logger.warning("a worker of %s could not be started: %s", served.name, error)
            if isinstance(error, OSError) and error.errno in _EXHAUSTED:
                raise self._refuse("exhausted", CapacityReached("This machine has no room for more now.")) from None
            raise self._refuse("start", Unreachable("The environment could not be started.")) from None
        self._start_failed_s = None
        return live

    def _refuse(self, why: str, error: PaddockError) -> PaddockError:
        self.metrics.count("paddock_sessions_refused_total", f'reason="{why}"')
        return error

    def _reserve(self, principal: Principal) -> Full | None:
        """Count a session that is about to be opened, or say why there is no room for it."""
        if principal.session is not None:
            raise NotPermitted("This token is for one session and opens no other.")
        if self.draining:
            raise Draining("This server is stopping. Try again later.")
        with self.processes.exclusively():
            why = self.quotas.why_full(principal, self._sessions_by_name())
            if why is None and not has_descriptors(self._opening.total()):
                text = "This machine has no room for more now. Try again later."
                raise self._refuse("exhausted", CapacityReached(text))
            if why is None:
                self._opening[principal.name] += 1
                self._publish()
        return why

    async def _make_room(self, principal: Principal) -> bool:
        """End the HTTP session that was idle longest in all processes: anyone's, or the principal's own."""
        # An operator below its own limit may end anyone's.
        has_all = self.quotas.has_all(principal, self._sessions_by_name())
        owner = "" if principal.role == "operator" and not has_all else principal.name
        query, ask, others = urlencode({"owner": owner}), self.processes.ask_for, self.processes.others
        answers = await asyncio.gather(*(ask("idle_since", index, query) for index in others))
        since = [(self.idle_since(owner), None), *zip(answers, others, strict=True)]
        for _, index in sorted((one for one in since if one[0]), key=lambda one: one[0]):
            ended = self.end_idle(owner) if index is None else await ask("end_idle", index, query)
            if ended:  # else another one was faster
                return True
        return False

    def idle_since(self, owner: str) -> float | None:
        """Return when the session that ``end_idle`` would end was last used."""
        live = self._longest_idle(owner)
        return None if live is None else live.used_s

    def end_idle(self, owner: str) -> bool:
        """End the HTTP session of the owner, or anyone's if "", that was idle longest; return whether there was one."""
        live = self._longest_idle(owner)
        if live is not None:
            live.close(SessionGone.code, "Another session needed its place.")
        return live is not None

    def _longest_idle(self, owner: str) -> LiveSession | None:
        idle = [live for live in self._sessions.values() if live.evictable and owner in ("", live.principal)]
        return min(idle, key=lambda live: live.used_s, default=None)

    def _publish(self) -> None:
        self.processes.publish("sessions", self._own_sessions)

    @property
    def _own_sessions(self) -> Counter[str]:
        return Counter(live.principal for live in self._sessions.values()) + self._opening

    def _sessions_by_name(self) -> Counter[str]:
        return self._own_sessions + self.processes.of_others("sessions")

    def _live(self, session: Session, served: ServedEnv, principal: str, journal: JournalFile | None) -> LiveSession:
        return self._session_class(
            session,
            served,
            principal,
            threads=self._threads,
            latency=self.metrics.latency(REPLY, served.name),
            journal=journal,
            on_end=self._on_end,
            on_lost=self._on_lost,
        )

    def _limits(
        self, served: ServedEnv, deterministic: bool, journaled: bool, *, resumable: bool = True
    ) -> SessionLimits:
        return SessionLimits(
            grace_s=self.settings.grace_s,
            deadline_s=self.settings.deadline_s,
            start_s=max(self.settings.deadline_s, served.policy.start_s),
            journaled=journaled,
            deterministic=deterministic,
            resumable=resumable,
        )

    def _on_end(self, live: LiveSession) -> None:
        self._sessions.pop(live.session.id, None)
        self._publish()
        self.quotas.end(live)
        logger.info("session ended after %d replies", live.steps, extra=live.labels)

    def _on_lost(self, live: LiveSession, cause: str, printed: str) -> None:
        self.metrics.count("paddock_workers_lost_total", f'cause="{cause}"')
        # What an environment printed may be anything, and long; a log record is one line.
        logger.warning("a worker was lost: %s; it printed %r", cause, printed[-_PRINTED:], extra=live.labels)

    def _restore_sessions(self, folder: Path) -> None:
        if self.processes.count == 1:  # otherwise the parent has locked it
            self._lock = lock_folder(folder)
        for path in sorted(folder.glob(f"*{_JOURNAL}")):
            if self.processes.elsewhere(path.name) is not None:
                continue
            try:
                found = JournalFile.reopen(path, self.settings.journal_sync)
            except (InvalidJournal, OSError) as error:
                logger.warning("the journal %s can't be read and is left alone: %s", path.name, error)
                continue
            if found is None:
                path.unlink(missing_ok=True)
                continue
            journal, recovered = found
            header, served = recovered.header, self.served.get(recovered.header.target)
            if recovered.closed or served is None or served.digest != header.spec:
                journal.remove()
                continue
            limits = self._limits(served, header.deterministic, True)
            session = Session.from_journal(recovered, limits, time.monotonic())
            owner = str(header.kwargs.get("principal", ""))
            self._sessions[session.id] = self._live(session, served, owner, journal)
        self._publish()

    # Time

    async def _tick(self) -> None:
        synced_s = time.monotonic()
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            self._lag_s = max(now - began_s - _TICK_S, self._lag_s * _LAG_DECAY)
            syncs = now - synced_s >= _SYNC_S
            synced_s = now if syncs else synced_s
            for look in self.each_tick:
                look()
            if syncs:
                self._threads.announce_places()
            for look in self.each_second if syncs else ():
                look()
            for live in list(self._sessions.values()):
                live.tick(now)
                if syncs:
                    live.sync()
                if now - live.used_s > self.settings.idle_s and not live.waiting_s:
                    live.close(SessionGone.code, "It was silent for too long.")

    def status(self) -> dict[str, Any]:
        """Return this process's health and how busy it is."""
        wedged = any(live.is_stuck for live in self._sessions.values())
        unwell = wedged or self.draining or self._start_failed_s is not None or self._lag_s > _LAG_S
        return {"healthy": not unwell, "ready": self.ready, "workers": self.workers, **self.queue}

    def gauges(self) -> dict[str, float]:
        """Return what /metrics measures at the moment."""
        own: dict[str, float] = {
            "paddock_sessions": self.sessions_here,
            "paddock_workers": self.workers,
            "paddock_workers_started_total": self._threads.started,
        }
        for live in self._sessions.values():
            for name, value in zip(("memory_bytes", "cpu_seconds"), live.usage(), strict=True):
                key = f"paddock_workers_{name}{{{label('environment', live.served.name)}}}"
                own[key] = own.get(key, 0) + value
        own |= self.quotas.gauges(self._own_sessions)
        return {**own, **{f"paddock_{name}": count for name, count in self.queue.items()}}

    @property
    def queue(self) -> dict[str, int]:
        """How many workers are being started, and how many sessions wait for their turn."""
        return {"workers_starting": self._threads.starting, "sessions_waiting": self._threads.waiting}

    @property
    def ready(self) -> bool:
        """Whether a new session could be started. A full server is ready: its sessions must still reach it."""
        failed_s = self._start_failed_s
        failing = failed_s is not None and time.monotonic() - failed_s < _AGAIN_S
        return not self.draining and not failing and has_descriptors(self._opening.total())

    def listing(self) -> list[dict[str, Any]]:
        """List the sessions, for ``paddock ps``."""
        now = time.monotonic()
        return [
            {
                **live.labels,
                "pid": live.pid,
                "age_s": round(now - live.began_s, 1),
                "idle_s": round(now - live.used_s, 1),
                "replies": live.steps,
                "waits_s": round(live.waiting_s, 1),
                "connected": live.session.connection is not None,
            }
            for live in self._sessions.values()
        ]

    @property
    def workers(self) -> int:
        return len({live.pid for live in self._sessions.values()} - {None})

    @property
    def active(self) -> int:
        """How many sessions there are in all processes, including those being opened."""
        return self._sessions_by_name().total()

    @property
    def capacity(self) -> tuple[int, int]:
        """How many sessions there are in all processes, and how many there may be."""
        return self.active, self.settings.max_sessions

    @property
    def sessions_here(self) -> int:
        """How many of them are in this process."""
        return len(self._sessions) + self._opening.total()


def _stop_without_ticks(ticker: asyncio.Task[None]) -> None:
    """End the process if the ticker fails: without ticks a server has no deadlines, so better restart it."""
    if not ticker.cancelled() and ticker.exception() is not None:
        logger.critical("the server can't keep time any more and ends", exc_info=ticker.exception())
        signal.raise_signal(signal.SIGTERM)
