"""Whether the wall holds on this machine: a worker behind it attacks, and each attack must fail. Nothing is assumed."""

from __future__ import annotations

import functools
import os
import select
import socket
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from paddock.errors import SandboxUnavailable
from paddock.sandbox.child import Child
from paddock.sandbox.launching import launch
from paddock.sandbox.machine import Machine
from paddock.sandbox.plan import TIERS, Backend, Call
from paddock.sandbox.policy import Policy

_PROBE_S = 20.0
_WALL = "put up the wall"


@dataclass(frozen=True)
class Finding:
    """One attack, and what became of it."""

    attack: str
    refused: bool
    how: str  # why it failed, or what it got


def self_test(tier: str, *, layers: frozenset[str] | None = None, backend: Backend | None = None) -> list[Finding]:
    """Attack the wall of ``tier`` from behind; asked once per process. One that does not go up is a finding too."""
    with _turn(os.getpid()):
        return list(_findings(os.getpid(), tier, layers, backend))


@functools.lru_cache(maxsize=1)
def _turn(_pid: int) -> threading.Lock:
    """Threads that ask at once share one test. A forked process does not inherit a lock that is held."""
    return threading.Lock()


def holds(tier: str) -> bool:
    """Whether every attack on the wall of ``tier`` was refused."""
    return not Machine.here().missing(tier) and not failures(tier)


def failures(tier: str) -> list[str]:
    """The attacks on the wall of ``tier`` that were not refused, in words. For a tier that this machine can have."""
    return [f"{one.attack}: {one.how}" for one in self_test(tier) if not one.refused]


def strongest() -> str:
    """The strongest tier that passed the self-test; SandboxUnavailable if there is none."""
    reasons = []
    for tier in TIERS:
        if holds(tier):
            return tier
        lacks = Machine.here().missing(tier)
        why = f"needs {'; '.join(lacks)}" if lacks else f"did not hold: {'; '.join(failures(tier))}"
        reasons.append(f"{tier}: {why}")
    raise SandboxUnavailable(f"No wall holds on this machine. {'. '.join(reasons)}. See: paddock doctor.")


@functools.lru_cache(maxsize=32)
def _findings(_pid: int, tier: str, layers: frozenset[str] | None, backend: Backend | None) -> tuple[Finding, ...]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="paddock-canary-"))
        Path(folder, "canary").write_text("a secret of this machine")
        Path(folder).chmod(0o777)  # by its own permissions anyone may
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        near, far = socket.socketpair()
        stack.enter_context(near)
        call = Call("paddock.sandbox.inside.probe:main", (folder, listener.getsockname()[1], os.getpid()))
        policy = Policy(tier="landlock" if tier == "landlock" else "sandbox")
        try:
            with far:
                child = launch(call, policy, socket_fd=far.fileno(), layers=layers, backend=backend)
        except SandboxUnavailable as error:
            return (Finding(_WALL, False, str(error)),)
        with child:
            said = _told(near)
            if not said:
                return (Finding(_WALL, False, _why(child)),)
        return tuple(_seen(said, folder, listener))


def _told(near: socket.socket) -> str:
    near.settimeout(_PROBE_S)
    said = b""
    try:
        while piece := near.recv(65536):
            said += piece
    except OSError:  # it hangs: what it has said so far does not count
        return ""
    return said.decode()


def _why(child: Child) -> str:
    words = child.last_words()
    return child.wall_failure or f"the probe {words}: {child.output.strip()[-500:]}"


def _is_asked(listener: socket.socket) -> bool:
    poll = select.poll()  # select itself knows no descriptor beyond 1023, and a program may have many
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


def _seen(said: str, folder: str, listener: socket.socket) -> list[Finding]:
    """What the probe tells counts against the wall; for it, only what this side sees counts as well."""
    findings = []
    reached = {
        "write a file": Path(folder, "written").exists(),
        "connect to this machine": _is_asked(listener),
    }
    for line in said.splitlines():
        attack, _, refusal = line.partition("\t")
        refused = bool(refusal) and not reached.get(attack, False)
        findings.append(Finding(attack, refused, refusal or "succeeded"))
    return findings
