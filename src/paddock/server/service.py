"""Service: what a server offers and the sessions that live in it. It knows neither ports nor HTTP."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
from paddock.making.warm import WarmPool
from paddock.server.crew import Crew, OnWait
from paddock.server.journal import Header, Recovered
from paddock.server.journal_file import JournalFile, lock_folder
from paddock.server.live_session import SHOWN, LiveSession
from paddock.server.metrics import Latency, Metrics
from paddock.server.principals import Principal, role_of
from paddock.server.rates import Rates
from paddock.server.room import has_descriptors
from paddock.server.served import Served
from paddock.server.session import Session
from paddock.server.settings import Settings
from paddock.server.terms import Terms

logger = logging.getLogger("paddock.server")

_TICK_S = 0.1
_SYNC_S = 1.0  # from one write of the journals to the disk to the next, and from one word to those in line
_AGAIN_S = 30.0  # after a start that failed the server is not ready; then it is, for the next to show
_LAG_S = 1.0  # the loop was late by so much: it is not well
_LAG_KEPT = 0.9  # of that, from tick to tick: it is remembered for some seconds
_PRINTED = 2_000  # characters of what a lost worker printed
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC)
_JOURNAL = ".journal"


def _always() -> bool:
    return True


class Service:
    """The environments by name, and who uses them."""

    def __init__(self, served: Sequence[Served], settings: Settings) -> None:
        self.served = {one.name: one for one in served}
        self.settings = settings
        self.metrics = Metrics()
        self.draining = False
        self.began_s = time.monotonic()
        self._sessions: dict[str, LiveSession] = {}
        self._opening: Counter[str] = Counter()  # by principal
        self._crew = Crew()
        self._rates = Rates(settings.rate_per_s, max(1, int(settings.rate_per_s)))
        self._connections = itertools.count(1)
        self._pools: list[WarmPool] = []
        self._ticker: asyncio.Task[None] | None = None
        self._lag_s = 0.0
        self._start_failed_s: float | None = None  # when, if the newest one did
        self.each_second: list[Callable[[], None]] = []  # called once a second; they must not fail
        self._lock: int | None = None  # on the folder of journals

    async def start(self) -> None:
        """Learn what each environment is, take up the sessions of a server before this one, keep workers ready."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, one.describe) for one in self.served.values()))
        if self.settings.journal is not None:
            self._take_up()
        if self.settings.spares:
            alone = [one for one in self.served.values() if one.shared is None]
            self._pools = [one.spares(self.settings.spares) for one in alone]
        self._ticker = asyncio.ensure_future(self._tick())
        self._ticker.add_done_callback(_must_not_fail)

    async def stop(self) -> None:
        """Answer what was asked, end every session and every process."""
        self.draining = True
        for live in list(self._sessions.values()):
            live.drain(self.settings.drain_s)
        ends_s = time.monotonic() + self.settings.drain_s + _TICK_S
        while self.active and time.monotonic() < ends_s:
            await asyncio.sleep(0.02)
        for live in list(self._sessions.values()):
            live.tick(time.monotonic())  # its time is up; one with a journal may go on elsewhere
            live.close(Draining.code, "This server stops.")
        if self._ticker is not None:
            self._ticker.cancel()
        await asyncio.gather(*(one.shared.close() for one in self.served.values() if one.shared is not None))
        loop = asyncio.get_running_loop()
        closing = [pool.close for pool in self._pools] + [self._crew.close]
        await asyncio.gather(*(loop.run_in_executor(None, close) for close in closing))
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # Sessions

    def next_connection(self) -> int:
        """A number that no connection had before."""
        return next(self._connections)

    def wait_s(self, principal: str) -> float:
        """How long this principal must wait before its next request; 0 counts it."""
        return self._rates.wait_s(principal, time.monotonic())

    def charge(self, principal: str, count: int) -> float:
        """Count what this principal has sent already; for how long it should be silent now."""
        return self._rates.charge(principal, time.monotonic(), count)

    def session(self, id: str, principal: Principal, served: Served | None = None) -> LiveSession | None:
        """The session of this id, for who owns it or was handed it; for anyone else there is none."""
        live = self._sessions.get(id)
        if live is None or (served is not None and live.served is not served):
            return None
        return live if principal.name == live.principal or principal.session == id else None

    def sessions_of_others(self, names: set[str]) -> list[LiveSession]:
        """The sessions of every principal but these."""
        return [live for live in self._sessions.values() if live.principal not in names]

    def kill(self, id: str) -> LiveSession:
        """End the one session whose id begins so, as a list shows it."""
        found = [live for name, live in self._sessions.items() if len(id) >= SHOWN and name.startswith(id)]
        if len(found) != 1:
            raise SessionGone("There is no such session.")
        found[0].close(SessionGone.code, "An operator ended it.")
        return found[0]

    async def open(
        self,
        served: Served,
        principal: Principal,
        *,
        journaled: bool = True,
        wanted: Callable[[], bool] = _always,
        on_wait: OnWait | None = None,
    ) -> LiveSession:
        """A new session with its worker; CapacityReached and others say why not.

        In a burst it may take a while until its turn comes: ``on_wait`` is told, now and then, how many are before
        it. Nothing is started for one that is not ``wanted`` then; who is cancelled leaves the line at once.
        """
        self._check_room(principal)
        self._opening[principal.name] += 1
        try:
            live = await self._started(served, principal, journaled=journaled, wanted=wanted, on_wait=on_wait)
        finally:
            self._opening[principal.name] -= 1
            self._opening += Counter()  # forgets who opens none
        self._sessions[live.session.id] = live
        self.metrics.count("paddock_sessions_opened_total")
        logger.info("session opened", extra=live.named)
        if self.draining:
            live.close(Draining.code, "This server stops.")
            raise Draining("This server is stopping. Try again later.")
        return live

    async def _started(
        self,
        served: Served,
        principal: Principal,
        *,
        journaled: bool,
        wanted: Callable[[], bool],
        on_wait: OnWait | None,
    ) -> LiveSession:
        live: LiveSession | None = None
        try:
            live = await self._live(served, principal, journaled=journaled)
            await live.start(wanted, on_wait)
        except BaseException as error:
            if live is not None:
                live.abandon()
            if isinstance(error, StorageFull):
                raise self._refused("storage", StorageFull("The server's journal takes no more now.")) from None
            if not isinstance(error, (PaddockError, OSError)) or isinstance(error, SessionGone):
                raise
            self._start_failed_s = time.monotonic()
            logger.warning("a worker of %s could not be started: %s", served.name, error)
            if isinstance(error, OSError) and error.errno in _EXHAUSTED:
                raise self._refused("exhausted", CapacityReached("This machine has no room for more now.")) from None
            raise self._refused("start", Unreachable("The environment could not be started.")) from None
        self._start_failed_s = None
        return live

    def _refused(self, why: str, error: PaddockError) -> PaddockError:
        self.metrics.count("paddock_sessions_refused_total", f'reason="{why}"')
        return error

    def _check_room(self, principal: Principal) -> None:
        if principal.session is not None:
            raise NotPermitted("This token is for one session, and opens no other.")
        if self.draining:
            raise Draining("This server is stopping. Try again later.")
        why = self._why_full(principal)
        if why is not None and why[0] != "quota":
            self._evict(principal)
            why = self._why_full(principal)
        if not has_descriptors(self._opening.total()):
            raise self._refused("exhausted", CapacityReached("This machine has no room for more now. Try again later."))
        if why is not None:
            raise self._refused(why[0], CapacityReached(why[1]))

    def _why_full(self, principal: Principal) -> tuple[str, str] | None:
        """Why there is no session for it now: a word for the metrics and a text for itself. None: there is one."""
        most, reserved, role = self.settings.max_sessions, self.settings.reserved, principal.role
        together, each = self.settings.quota(role)
        by_role: Counter[str] = Counter()
        for name, count in self._sessions_by_name().items():
            by_role[role_of(name)] += count
        if self.active >= most:
            return "capacity", f"All {most} sessions are in use. Try again later."
        if role != "operator" and by_role["agent"] + by_role["observer"] >= most - reserved:
            text = f"The remaining sessions are reserved for operators ({reserved} of {most}). Try again later."
            return "role", text
        if by_role[role] >= together:
            return "role", f"The role {role!r} already has its {together} sessions. Try again later."
        if self._has_all(principal):
            return "quota", f"You already have {each} sessions, the most that one token may have. Close one."
        return None

    def _sessions_by_name(self) -> Counter[str]:
        return Counter(live.principal for live in self._sessions.values()) + self._opening

    def _has_all(self, principal: Principal) -> bool:
        """Whether it has as many sessions as one may have."""
        return self._sessions_by_name()[principal.name] >= self.settings.quota(principal.role)[1]

    def _evict(self, principal: Principal) -> None:
        """End the session over HTTP that was quiet longest: nobody holds a connection to it.

        Anyone's for an operator that may have more; else one of its own.
        """
        anyones = principal.role == "operator" and not self._has_all(principal)
        quiet = [
            live for live in self._sessions.values() if live.evictable and (anyones or live.principal == principal.name)
        ]
        if quiet:
            min(quiet, key=lambda live: live.used_s).close(SessionGone.code, "Its place was needed.")

    async def _live(self, served: Served, principal: Principal, *, journaled: bool) -> LiveSession:
        id = secrets.token_hex(16)
        deterministic = served.described.deterministic
        header = Header(id, served.name, {"principal": principal.name}, served.digest, deterministic)
        journal = None
        if journaled and self.settings.journal is not None:
            path = self.settings.journal / f"{id}{_JOURNAL}"
            journal = await self._crew.do(JournalFile.create, path, header, self.settings.journal_sync)
        session = Session(id, self._terms(served, deterministic, journal is not None), origin=header.origin)
        return self._alive(session, served, principal.name, journal)

    def _alive(self, session: Session, served: Served, principal: str, journal: JournalFile | None) -> LiveSession:
        return LiveSession(
            session,
            served,
            principal,
            crew=self._crew,
            latency=self.metrics.latencies.setdefault(served.name, Latency()),
            journal=journal,
            on_end=self._ended,
            on_lost=self._worker_lost,
        )

    def _terms(self, served: Served, deterministic: bool, journaled: bool) -> Terms:
        return Terms(
            grace_s=self.settings.grace_s,
            deadline_s=self.settings.deadline_s,
            start_s=max(self.settings.deadline_s, served.policy.start_s),
            journaled=journaled,
            deterministic=deterministic,
        )

    def _ended(self, live: LiveSession) -> None:
        self._sessions.pop(live.session.id, None)
        logger.info("session ended after %d replies", live.steps, extra=live.named)

    def _worker_lost(self, live: LiveSession, cause: str, printed: str) -> None:
        self.metrics.count("paddock_workers_lost_total", f'cause="{cause}"')
        # What an environment printed may be anything, and much; a record of the log is one line.
        logger.warning("a worker was lost: %s; it printed %r", cause, printed[-_PRINTED:], extra=live.named)

    def _take_up(self) -> None:
        assert self.settings.journal is not None
        self.settings.journal.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = lock_folder(self.settings.journal)
        for path in sorted(self.settings.journal.glob(f"*{_JOURNAL}")):
            try:
                found = JournalFile.reopen(path, self.settings.journal_sync)
            except (InvalidJournal, OSError) as error:
                logger.warning("the journal %s can't be read and is left alone: %s", path.name, error)
                continue
            self._take_up_one(path, found)

    def _take_up_one(self, path: Path, found: tuple[JournalFile, Recovered] | None) -> None:
        if found is None:
            path.unlink(missing_ok=True)
            return
        journal, recovered = found
        served = self.served.get(recovered.header.target)
        if recovered.closed or served is None or served.digest != recovered.header.spec:
            journal.remove()
            return
        session = Session.restored(
            recovered, self._terms(served, recovered.header.deterministic, True), time.monotonic()
        )
        owner = str(recovered.header.kwargs.get("principal", ""))
        self._sessions[session.id] = self._alive(session, served, owner, journal)

    # Time

    async def _tick(self) -> None:
        synced_s = time.monotonic()
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            self._lag_s = max(now - began_s - _TICK_S, self._lag_s * _LAG_KEPT)
            syncs = now - synced_s >= _SYNC_S
            synced_s = now if syncs else synced_s
            if syncs:
                self._crew.announce_places()
            for look in self.each_second if syncs else ():
                look()
            for live in list(self._sessions.values()):
                live.tick(now)
                if syncs:
                    live.sync()
                if now - live.used_s > self.settings.idle_s and not live.waiting_s:
                    live.close(SessionGone.code, "It was silent for too long.")

    def health(self) -> dict[str, Any]:
        """What /health says: the truth, and no more than that, for anyone may ask."""
        wedged = any(live.wedged for live in self._sessions.values())
        unwell = wedged or self.draining or self._start_failed_s is not None or self._lag_s > _LAG_S
        return {"status": "degraded" if unwell else "healthy", **(self.queue if self.queue["sessions_waiting"] else {})}

    def gauges(self) -> dict[str, float]:
        """What /metrics measures at the moment."""
        own = {
            "paddock_sessions": self.active,
            "paddock_workers": self.workers,
            "paddock_uptime_seconds": time.monotonic() - self.began_s,
            "paddock_workers_started_total": self._crew.started,
        }
        return {**own, **{f"paddock_{name}": count for name, count in self.queue.items()}}

    @property
    def queue(self) -> dict[str, int]:
        """How many workers are being started, and how many sessions wait until that is begun for them."""
        return {"workers_starting": self._crew.starting, "sessions_waiting": self._crew.waiting}

    @property
    def ready(self) -> bool:
        """Whether a new session could be started; a full server is ready, its sessions must still reach it."""
        failed_s = self._start_failed_s
        failing = failed_s is not None and time.monotonic() - failed_s < _AGAIN_S
        return not self.draining and not failing and has_descriptors(self._opening.total())

    def listing(self) -> list[dict[str, Any]]:
        """The sessions, for ``paddock ps``."""
        now = time.monotonic()
        return [
            {
                **live.named,
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
        """How many processes the sessions have."""
        return len({live.pid for live in self._sessions.values()} - {None})

    @property
    def active(self) -> int:
        """How many sessions there are, those that are being opened too."""
        return len(self._sessions) + self._opening.total()


def _must_not_fail(ticker: asyncio.Task[None]) -> None:
    """Without its ticks a server has no deadlines: better that it ends, and is started again."""
    if not ticker.cancelled() and ticker.exception() is not None:
        logger.critical("the server can't keep time any more and ends", exc_info=ticker.exception())
        signal.raise_signal(signal.SIGTERM)
