"""Handover: an operator gives an agent a session of its own, by a pass for nothing else, and sees what comes of it."""

from __future__ import annotations

import logging
from urllib.parse import quote

from paddock.errors import SessionGone
from paddock.server.held_sessions import HeldSessions
from paddock.server.http import Request, Response
from paddock.server.openenv_http import SESSION_HEADER
from paddock.server.passes import Passes
from paddock.server.principals import Principal
from paddock.server.served import Served

audit = logging.getLogger("paddock.audit")


class Handover:
    """For sessions that are held: one with a connection of its own has no room for a second hand."""

    def __init__(self, sessions: HeldSessions, passes: Passes) -> None:
        self._sessions, self._passes = sessions, passes
        sessions.on_end.append(passes.end)

    def answer(self, served: Served, principal: Principal, request: Request) -> Response:
        """POST: a pass for the session that the header names, in place of any before. GET: how its episode goes."""
        named = request.headers.get(SESSION_HEADER)
        if named is None:
            return Response.of({"detail": f"{SESSION_HEADER} is to name a session."}, 400)
        client = self._sessions.find(named, served, principal)
        if client is None:
            raise SessionGone("There is no such session of yours. POST /mcp opens one, and so does POST /reset.")
        id = client.live.session.id
        if request.method != "POST":
            return Response.of({"session": id, **client.episode.told()})
        self._sessions.keep(id)
        audit.info("handed over %s by %s", id[:8], principal.name)
        return Response.of({"token": self._passes.issue(id), "mcp": f"/{quote(served.name, safe='')}/mcp"})
