"""What a client may be told by a server, or by its silence. The talk itself is in ``paddock.hosting.openenv``."""

from __future__ import annotations

from paddock.hosting.openenv.conversation import ConnectionLost, OutcomeUnknown, ServerError

__all__ = ["ConnectionLost", "OutcomeUnknown", "ServerError"]
