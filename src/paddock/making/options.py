"""Options of make(): LaneOptions say how n lanes behave, RemoteOptions how to reach a server.

Which lane options apply depends on where the lanes step; the others are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from paddock.core.vector_env import AutoresetMode, OnFault
from paddock.errors import PlanError

if TYPE_CHECKING:
    import ssl


Wire: TypeAlias = Literal["auto", "paddock.v2", "paddock.v1", "openenv"]

# Options that only some kinds of lanes have.
_ONLY_FOR: dict[str, tuple[str, ...]] = {
    "lanes_per_actor": ("ray",),
    "resources": ("ray",),
    "threads": ("compiled", "threads", "ale"),
    "statistics": ("compiled",),
    "workers": ("processes",),
    "deadline_s": ("processes",),
    "max_concurrency": ("processes",),
    "batch_size": ("processes",),
}
_WAY_OUT = {
    ("compiled", "threads", "ale"): "are for compiled lanes, lanes in threads and the ALE's own; pass "
    "backend='threads', or drop them",
    ("compiled",): "are for compiled lanes; drop them",
    ("ray",): "are for lanes in Ray actors; pass backend='ray', or drop them",
    ("processes",): "are for lanes in worker processes; pass isolation='process', or drop them",
}
_STEPPED = {
    "loop": "stepped in a loop",
    "threads": "stepped by threads",
    "ale": "stepped by the ALE itself",
    "compiled": "compiled",
    "processes": "in worker processes",
    "ray": "in Ray actors",
    "remote": "on a server",
}


@dataclass(frozen=True)
class LaneOptions:
    """How n lanes behave: when they reset themselves, and whether results are copies or reused buffers.

    ``on_fault``: what to do with a lane that raises, dies or hangs: "restart" it, "mask" (freeze) it, or "raise".
    Compiled lanes have no faults of their own: an error in a kernel is raised.
    In worker processes: ``workers`` (default: as many as cores), ``deadline_s`` for a lane's step,
    ``max_concurrency`` of workers, and ``batch_size`` < n to receive the lanes that are ready first.
    Compiled: ``threads`` (default: one), and ``statistics`` (return and length of ended episodes in the info).
    In threads, and the ALE's own: ``threads`` (default: as many as cores).
    In Ray actors: ``lanes_per_actor`` (default: all lanes shared among the cluster's cores), and ``resources`` that Ray
    reserves for each, as ``{"CPU": 1, "simulator": 1}``; with an isolation the options of worker processes, too.
    On a server: ``autoreset`` and ``on_fault``.
    """

    autoreset: AutoresetMode = AutoresetMode.NEXT_STEP
    copy: bool = True
    on_fault: OnFault = "restart"
    workers: int | None = None
    deadline_s: float | None = None
    max_concurrency: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    statistics: bool = False
    lanes_per_actor: int | None = None
    resources: dict[str, float] | None = None

    def in_actors(self) -> LaneOptions:
        """Return the options that hold inside of an actor."""
        return replace(self, lanes_per_actor=None, resources=None)

    def check(self, backend: str) -> None:
        """Raise PlanError for a wrong value, or an option that lanes of this backend do not have."""
        if backend == "one":
            raise PlanError("lanes= is for n lanes. Pass num_envs=n, or drop lanes.")
        if self.on_fault not in get_args(OnFault):
            raise PlanError(f"LaneOptions(on_fault={self.on_fault!r}): expected 'raise', 'restart' or 'mask'.")
        for name in ("workers", "max_concurrency", "batch_size", "threads", "lanes_per_actor"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 1):
                raise PlanError(f"LaneOptions({name}={count!r}): expected a whole number, at least 1.")
        if self.deadline_s is not None and not (isinstance(self.deadline_s, (int, float)) and self.deadline_s > 0):
            raise PlanError(f"LaneOptions(deadline_s={self.deadline_s!r}): expected a positive number of seconds.")
        amounts = {} if self.resources is None else self.resources
        if not isinstance(amounts, dict) or not all(
            isinstance(name, str) and isinstance(amount, (int, float)) and amount >= 0
            for name, amount in amounts.items()
        ):
            raise PlanError(f"LaneOptions(resources={self.resources!r}): expected amounts by name, as {{'CPU': 1}}.")
        for option in fields(self):
            places = _ONLY_FOR.get(option.name, (backend,))
            if backend == "ray":  # the others are for the lanes inside of an actor, and are checked for those
                continue
            if backend not in places and getattr(self, option.name) != option.default:
                same = ", ".join(f"{name}=…" for name, where in _ONLY_FOR.items() if where == places)
                raise PlanError(f"LaneOptions({same}) {_WAY_OUT[places]}. These lanes are {_STEPPED[backend]}.")
        if backend in ("compiled", "ale") and self.on_fault == "mask":
            raise PlanError(
                "LaneOptions(on_fault='mask') freezes lanes that fail, but these lanes run in one call and do not fail "
                "singly. Drop it, or pass backend='loop' or isolation='process'."
            )

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "autoreset", AutoresetMode(self.autoreset))
        except ValueError:
            names = ", ".join(f"{mode.value!r}" for mode in AutoresetMode)
            raise PlanError(f"LaneOptions(autoreset={self.autoreset!r}): expected one of {names}.") from None


@dataclass(frozen=True)
class RemoteOptions:
    """For ``make(url, remote=RemoteOptions(...))``. Times in seconds.

    ``token``: the server's token; otherwise the URL's user part or the variable PADDOCK_TOKEN is used.
    ``insecure``: allow plain http to another machine, where anyone on the way can read the token.
    ``deadline_s``: for one reply, then DeadlineExceeded; None waits forever.
    ``ca``: a PEM file with the certificates to trust instead of the system's; ``context``: all of TLS, as an
    ssl.SSLContext.
    ``heartbeat_s``: silence after which the server is pinged; None for networks that swallow pings.
    ``connect_s``: how long to wait for a session at first, including a place in the server's queue; ``on_wait`` is
    called with how many are ahead in it, an int whose ``wait_s`` is about how long that takes or None, when that is
    first known and as it changes; what it raises ends the wait.
    ``resume_s``: how long to try to resume a session whose connection broke.
    ``wire``: "paddock.v2", "paddock.v1" or "openenv" to speak nothing else; "auto": the first that the server speaks.
    ``max_message_size_mb``: the largest answer to take from an OpenEnv server, in MiB; as data it may take twenty times
    as much memory.
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
    max_message_size_mb: float = 100.0

    def check(self) -> None:
        """Raise PlanError for a value that makes no sense."""
        for name in ("deadline_s", "heartbeat_s", "connect_s", "resume_s"):
            value = getattr(self, name)
            optional = value is None and name in ("deadline_s", "heartbeat_s")
            if not optional and not (isinstance(value, (int, float)) and 0 < value < float("inf")):
                raise PlanError(f"RemoteOptions({name}={value!r}): expected a positive number of seconds.")
        size = self.max_message_size_mb
        if not (isinstance(size, (int, float)) and 0 < size <= 1024):
            raise PlanError(f"RemoteOptions(max_message_size_mb={size!r}): expected more than 0, at most 1024.")
        if self.wire not in get_args(Wire):
            wires = ", ".join(map(repr, get_args(Wire)))
            raise PlanError(f"RemoteOptions(wire={self.wire!r}): expected one of {wires}.")
        if self.on_wait is not None and not callable(self.on_wait):
            raise PlanError(f"RemoteOptions(on_wait={self.on_wait!r}): expected a function of how many are ahead.")
        if self.ca is not None and self.context is not None:
            raise PlanError("RemoteOptions: ca= and context= both say whom to trust. Drop one of them.")

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for the system's default."""
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
