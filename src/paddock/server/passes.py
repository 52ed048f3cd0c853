"""Passes: tokens for one session each, which an operator hands to an agent. A pass opens nothing and ends with it.

A session has one pass: a new one takes the place of the old, so who lost one can take it back.
"""

from __future__ import annotations

import secrets

from paddock.server.principals import Principal, named, token_digest, token_in


class Passes:
    """By their digests, as the tokens: a pass is told once, and can't be read anywhere."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Principal] = {}
        self._of_session: dict[str, bytes] = {}

    def issue(self, session: str) -> str:
        """A new pass for this session, in place of any before."""
        self.end(session)
        token = secrets.token_urlsafe(32)
        digest = token_digest(token)
        self._of_session[session] = digest
        self._by_digest[digest] = Principal(named("agent", digest), "agent", session)
        return token

    def principal(self, authorization: str | None) -> Principal | None:
        """Who sends this ``Authorization`` header, if it is a pass."""
        token = token_in(authorization) if self._by_digest else None
        return None if token is None else self._by_digest.get(token_digest(token))

    def hold(self, principal: Principal) -> bool:
        """Whether the pass of this one, who was let in before, is still valid."""
        digest = self._of_session.get(principal.session or "")
        return digest is not None and self._by_digest[digest] == principal

    def end(self, session: str) -> None:
        """Its session is over, or it was taken back."""
        digest = self._of_session.pop(session, None)
        if digest is not None:
            del self._by_digest[digest]
