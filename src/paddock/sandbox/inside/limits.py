"""Resource limits of this process and its children. A limit that is stricter already stays: it is never raised."""

from __future__ import annotations

import resource

from paddock.sandbox.inside.failed import LockFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

INFINITE = resource.RLIM_INFINITY


def limit(limits: Mapping[str, float | None]) -> None:
    """Set each limit by the end of its name (``{"NOFILE": 256}``); None leaves one as it is."""
    for name, value in limits.items():
        if value is None:
            continue
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            raise LockFailed(f"there is no resource limit {name!r} here")
        try:
            _set(kind, name, value)
        except (OSError, ValueError, OverflowError) as error:
            raise LockFailed(f"the limit {name}={value!r} was refused: {error}") from error


def _set(kind: int, name: str, value: float) -> None:
    asked = -int(-value // 1)
    hard = resource.getrlimit(kind)[1]
    soft = asked if hard == INFINITE else min(asked, hard)
    # At the soft limit of CPU time comes SIGXCPU, which tells the cause; who catches it is killed a second later.
    top = soft + 1 if name == "CPU" and hard == INFINITE else soft
    resource.setrlimit(kind, (soft, top))
