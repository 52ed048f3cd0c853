"""Service: what a server offers and the sessions that live in it. It knows neither ports nor HTTP."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Sequence
from typing import Any

from paddock.errors import (
    CapacityReached,
    Draining,
    InvalidJournal,
    PaddockError,
    SessionGone,
    StorageFull,
    Unreachable,
)
from paddock.making.warm import WarmPool
from paddock.server.journal import Header
from paddock.server.journal_file import JournalFile
from paddock.server.live_session import LiveSession
from paddock.server.metrics import Metrics
from paddock.server.principals import Principal
from paddock.server.rates import Rates
from paddock.server.served import Served
from paddock.server.session import Session
from paddock.server.settings import Settings
from paddock.server.terms import Terms

logger = logging.getLogger("paddock.server")

_TICK_S = 0.1
_JOURNAL = ".journal"


class Service:
    """The environments by name, and who uses them."""

    def __init__(self, served: Sequence[Served], settings: Settings) -> None:
        self.served = {one.name: one for one in served}
        self.settings = settings
        self.metrics = Metrics()
        self.draining = False
        self.began_s = time.monotonic()
        self._sessions: dict[str, LiveSession] = {}
        self._opening = 0
        self._rates = Rates(settings.rate_per_s, max(1, int(settings.rate_per_s)))
        self._connections = itertools.count(1)
        self._pools: list[WarmPool] = []
        self._ticker: asyncio.Task[None] | None = None
        self._lag_s = 0.0

    async def start(self) -> None:
        """Learn what each environment is, take up the sessions of a server before this one, keep workers ready."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, one.describe) for one in self.served.values()))
        if self.settings.journal is not None:
            self._take_up()
        if self.settings.spares:
            self._pools = [one.spares(self.settings.spares) for one in self.served.values()]
        self._ticker = asyncio.ensure_future(self._tick())

    async def stop(self) -> None:
        """Answer what was asked, end every session and every process."""
        self.draining = True
        lives = list(self._sessions.values())
        for live in lives:
            live.drain(self.settings.drain_s)
        ends_s = time.monotonic() + self.settings.drain_s + 1.0
        while self._sessions and time.monotonic() < ends_s:
            await asyncio.sleep(0.02)
        for live in list(self._sessions.values()):
            live.close(Draining.code, "This server stops.")
        await asyncio.gather(*(live.gone() for live in lives))
        if self._ticker is not None:
            self._ticker.cancel()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, pool.close) for pool in self._pools))

    # Sessions

    def next_connection(self) -> int:
        """A number that no connection had before."""
        return next(self._connections)

    def wait_s(self, principal: str) -> float:
        """How long this principal must wait before its next request; 0 counts it."""
        return self._rates.wait_s(principal, time.monotonic())

    def session(self, id: str, principal: Principal, served: Served | None = None) -> LiveSession | None:
        """The session of this id, for who owns it; for anyone else there is none."""
        live = self._sessions.get(id)
        if live is None or live.principal != principal.name or (served is not None and live.served is not served):
            return None
        return live

    async def open(self, served: Served, principal: Principal, *, journaled: bool = True) -> LiveSession:
        """A new session with its worker; CapacityReached and others say why not."""
        self._check_room(principal)
        self._opening += 1
        try:
            live = self._live(served, principal, journaled=journaled)
            await live.start()
        except StorageFull:
            raise StorageFull("The server's journal can't take more sessions now.") from None
        except (PaddockError, OSError) as error:
            logger.warning("a worker of %s could not be started: %s", served.name, error)
            raise Unreachable("The environment could not be started.") from None
        finally:
            self._opening -= 1
        self._sessions[live.session.id] = live
        self.metrics.count("paddock_sessions_opened_total")
        return live

    def _check_room(self, principal: Principal) -> None:
        if self.draining:
            raise Draining("This server is stopping. Try again later.")
        own = sum(1 for live in self._sessions.values() if live.principal == principal.name)
        if len(self._sessions) + self._opening >= self.settings.max_sessions:
            self._evict()
        if (
            len(self._sessions) + self._opening >= self.settings.max_sessions
            or own + self._opening >= self.settings.sessions_each
        ):
            self.metrics.count("paddock_sessions_refused_total", 'reason="capacity"')
            raise CapacityReached(
                f"{self.settings.max_sessions} sessions are open, and no more may be. Try again later."
            )

    def _evict(self) -> None:
        """End the session over HTTP that was quiet longest: nobody holds a connection to it."""
        quiet = [live for live in self._sessions.values() if live.evictable]
        if quiet:
            min(quiet, key=lambda live: live.used_s).close(SessionGone.code, "Its place was needed.")

    def _live(self, served: Served, principal: Principal, *, journaled: bool) -> LiveSession:
        id = secrets.token_hex(16)
        deterministic = served.described.deterministic
        header = Header(id, served.name, {"principal": principal.name}, served.digest, deterministic)
        journal = None
        if journaled and self.settings.journal is not None and deterministic:
            journal = JournalFile.create(self.settings.journal / f"{id}{_JOURNAL}", header)
        session = Session(id, self._terms(deterministic, journal is not None), origin=header.origin)
        return LiveSession(session, served, principal.name, journal=journal, on_end=self._ended)

    def _terms(self, deterministic: bool, journaled: bool) -> Terms:
        return Terms(
            grace_s=self.settings.grace_s,
            deadline_s=self.settings.deadline_s,
            journaled=journaled,
            deterministic=deterministic,
        )

    def _ended(self, live: LiveSession) -> None:
        self._sessions.pop(live.session.id, None)
        self.metrics.count("paddock_replies_total", by=live.steps)

    def _take_up(self) -> None:
        assert self.settings.journal is not None
        self.settings.journal.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in sorted(self.settings.journal.glob(f"*{_JOURNAL}")):
            try:
                found = JournalFile.reopen(path)
            except (InvalidJournal, OSError) as error:
                logger.warning("the journal %s can't be read and is left alone: %s", path.name, error)
                continue
            self._take_up_one(path, found)

    def _take_up_one(self, path: Any, found: Any) -> None:
        if found is None:
            path.unlink(missing_ok=True)
            return
        journal, recovered = found
        served = self.served.get(recovered.header.target)
        if recovered.closed or served is None or served.digest != recovered.header.spec:
            journal.remove()
            return
        session = Session.restored(recovered, self._terms(recovered.header.deterministic, True), time.monotonic())
        owner = str(recovered.header.kwargs.get("principal", ""))
        live = LiveSession(session, served, owner, journal=journal, on_end=self._ended)
        self._sessions[session.id] = live

    # Time

    async def _tick(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            self._lag_s = max(0.0, now - began_s - _TICK_S)
            for live in list(self._sessions.values()):
                live.tick(now)
                if now - live.used_s > self.settings.idle_s:
                    live.close(SessionGone.code, "It was silent for too long.")

    def health(self) -> dict[str, Any]:
        """What /health says: the truth."""
        wedged = sum(live.wedged for live in self._sessions.values())
        status = "degraded" if wedged or self.draining or self._lag_s > 1.0 else "healthy"
        return {"status": status}

    def listing(self) -> list[dict[str, Any]]:
        """The sessions, for ``paddock ps``."""
        now = time.monotonic()
        return [
            {
                "session": live.session.id[:8],
                "environment": live.served.name,
                "principal": live.principal,
                "pid": live.pid,
                "age_s": round(now - live.began_s, 1),
                "idle_s": round(now - live.used_s, 1),
                "replies": live.steps,
                "connected": live.session.connection is not None,
            }
            for live in self._sessions.values()
        ]

    @property
    def active(self) -> int:
        """How many sessions there are."""
        return len(self._sessions) + self._opening
