"""Put the wall up around this process, layer by layer, each of which needs the rights that the next one takes away.

There is no way back, and no half: a layer that was asked for and is refused raises, and the caller must end.
"""

from __future__ import annotations

import os

from paddock.sandbox.inside.failed import LockFailed as LockFailed
from paddock.sandbox.inside.identity import become
from paddock.sandbox.inside.landlock import confine, version
from paddock.sandbox.inside.limits import limit
from paddock.sandbox.inside.seccomp import restrict
from paddock.sandbox.inside.syscalls import ARCHITECTURES, PR_SET_PDEATHSIG, prctl, several_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LAYERS = ("identity", "limits", "landlock", "seccomp")
# Files that everyone has and that answer to no ioctl; a device besides them is driven by ioctls that we cannot list.
PLAIN_DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")}
SIGKILL = 9


def lock(config: Mapping[str, Any]) -> None:
    """Apply ``{"identity": …, "limits": …, "landlock": …, "seccomp": …}`` in this order; see each module for its part.

    A layer whose value is None is left out, except that privileges always go; without the key "identity" even those
    stay (the tests of single layers need that). ``"death_signal": true`` has this process killed when the thread that
    started it ends: asked for here because a change of identity would undo what was set before.
    """
    unknown = config.keys() - {*LAYERS, "death_signal"}
    if unknown:
        raise LockFailed(f"there is no layer {sorted(unknown)[0]!r}; there are {', '.join(LAYERS)}")
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise LockFailed(f"the wall knows {' and '.join(ARCHITECTURES)}; this machine is {machine}")
    if several_threads():
        raise LockFailed("this process has several threads already, and Landlock would hold only one of them")
    if "identity" in config:
        become(config["identity"])
    if config.get("death_signal"):
        prctl(PR_SET_PDEATHSIG, SIGKILL)
    if config.get("limits") is not None:
        limit(config["limits"])
    landlock = config.get("landlock")
    if landlock is not None:
        confine(landlock)
    if config.get("seccomp") is not None:
        restrict(config["seccomp"], machine=machine, more=_consequences(landlock))


def _consequences(landlock: Mapping[str, Any] | None) -> dict[str, bool]:
    """What the layer before means for the list of system calls."""
    if landlock is None:
        return {"truncate": True, "devices": False}
    return {
        "truncate": version() >= 3,  # earlier ones let anyone truncate what he may not write
        "devices": any(path not in PLAIN_DEVICES for path in landlock.get("devices", ())),
    }
