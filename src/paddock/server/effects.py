"""What a Session asks its owner to do. The order matters: the first is done, and kept, before the next begins."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from paddock.server.journal import Entry


class SendTo(msgspec.Struct, frozen=True):
    """Send a frame to a connection; one that is gone by now is left out."""

    connection: int
    frame: bytes


class ToWorker(msgspec.Struct, frozen=True):
    """Pass a request on to the worker. ``frame`` is what the client sent."""

    worker: int
    number: int
    frame: bytes


class Journal(msgspec.Struct, frozen=True):
    """Write an entry. If that fails, remove the journal, tell ``Session.journal_failed``, go on with what follows."""

    entry: Entry


class CloseConnection(msgspec.Struct, frozen=True):
    """Close a connection once what was sent to it is out. The session has forgotten it: nothing more is to be told."""

    connection: int
    code: str
    reason: str


class EndWorker(msgspec.Struct, frozen=True):
    """End the worker's process, whatever it does. The session takes no more news of it."""

    worker: int


class RebuildWorker(msgspec.Struct, frozen=True):
    """Start worker ``worker`` and repeat the journal's first ``count`` requests in it (``chain.Replay``).

    Then tell ``Session.rebuilt``, or ``Session.worker_lost`` if it came to nothing: the journal may be gone by now.
    """

    worker: int
    count: int
    chain: bytes


class Ended(msgspec.Struct, frozen=True):
    """The session is over in this server. ``resumable``: keep the journal, the next server may go on from it."""

    resumable: bool


Effect: TypeAlias = "SendTo | ToWorker | Journal | CloseConnection | EndWorker | RebuildWorker | Ended"
