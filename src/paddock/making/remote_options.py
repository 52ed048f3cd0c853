"""RemoteOptions: how to reach a server, as data. Nothing is looked up or opened until an environment is made."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from paddock.errors import PlanError

if TYPE_CHECKING:
    import ssl

Wire: TypeAlias = Literal["auto", "paddock.v1", "openenv"]


@dataclass(frozen=True)
class RemoteOptions:
    """For ``make(url, remote=RemoteOptions(...))``. Times in seconds.

    ``token``: proves who asks; without it the URL's user part or the variable PADDOCK_TOKEN does.
    ``insecure``: allow plain http to another machine, where anyone on the way reads the token.
    ``deadline_s``: for one reply, then DeadlineExceeded; None waits for ever.
    ``ca``: a PEM file with the certificates to believe in place of the system's; ``context``: all of TLS, as ssl has
    it.
    ``heartbeat_s``: silence after which the server is asked whether it is there; None for networks that swallow pings.
    ``connect_s``: how long to wait for a session at first, a place in the server's queue included; ``on_wait`` is
    called with how many are ahead in it, when that is first known and as it changes; what it raises ends the wait.
    ``resume_s``: how long to try to get a session back whose connection broke.
    ``wire``: "paddock.v1" or "openenv" to speak nothing else; "auto" speaks the first unless the server can't.
    """

    token: str | None = field(default=None, repr=False)
    insecure: bool = False
    deadline_s: float | None = 60.0
    ca: str | os.PathLike[str] | None = None
    context: ssl.SSLContext | None = field(default=None, repr=False)
    heartbeat_s: float | None = 15.0
    connect_s: float = 15.0
    resume_s: float = 60.0
    wire: Wire = "auto"
    on_wait: Callable[[int], object] | None = field(default=None, repr=False)

    def check(self) -> None:
        """PlanError for a value that makes no sense."""
        for name in ("deadline_s", "heartbeat_s", "connect_s", "resume_s"):
            value = getattr(self, name)
            optional = value is None and name in ("deadline_s", "heartbeat_s")
            if not optional and not (isinstance(value, (int, float)) and 0 < value < float("inf")):
                raise PlanError(f"RemoteOptions({name}={value!r}): expected a positive number of seconds.")
        if self.wire not in get_args(Wire):
            raise PlanError(f"RemoteOptions(wire={self.wire!r}): expected 'auto', 'paddock.v1' or 'openenv'.")
        if self.on_wait is not None and not callable(self.on_wait):
            raise PlanError(f"RemoteOptions(on_wait={self.on_wait!r}): expected a function of how many are ahead.")
        if self.ca is not None and self.context is not None:
            raise PlanError("RemoteOptions: ca= and context= both say whom to believe. Drop one of them.")

    def tls(self) -> ssl.SSLContext | None:
        """What TLS is to be; None for the system's way."""
        if self.ca is None:
            return self.context
        import ssl  # when first used: it takes as long to import as the rest of the client

        try:
            return ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            why = error.strerror or str(error)
            raise PlanError(
                f"RemoteOptions(ca={str(self.ca)!r}): no certificates can be read from it: {why}."
            ) from None
