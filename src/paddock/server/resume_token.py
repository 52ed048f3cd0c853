"""Who may have a session back: whoever holds its newest token, once. Only digests of tokens are kept.

A reader would get wrong: a token that was used up is taken again from the client that used it, if it comes with a
higher attempt. The Welcome with the next token may have been lost on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from hmac import compare_digest

from paddock.hosting.messages import Resume
from paddock.server.chain import digest


@dataclass(frozen=True)
class ResumeToken:
    """The token that is valid now, and the one that it was given for, with who brought that."""

    newest: bytes = b""
    spent: bytes = b""
    holder: str = ""
    attempt: int = 0

    def admits(self, asked: Resume) -> bool:
        """Whether this client may have the session."""
        presented = digest(asked.token.encode())
        if compare_digest(presented, self.newest):
            return True
        # A connection that was given up, and whose Hello arrives late, has a lower attempt than the one that followed.
        again = asked.holder != "" and asked.holder == self.holder and asked.attempt > self.attempt
        return compare_digest(presented, self.spent) and again

    def used(self, asked: Resume) -> ResumeToken:
        """After this client was admitted; ``followed_by`` gives it the next token."""
        return ResumeToken(b"", digest(asked.token.encode()), asked.holder, asked.attempt)

    def followed_by(self, token: str) -> ResumeToken:
        """With a new token as the valid one."""
        return ResumeToken(digest(token.encode()), self.spent, self.holder, self.attempt)
