"""Start workers behind a wall, keep spare ones ready, and build environments on them."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from paddock.errors import PlanError, SandboxUnavailable, WorkerLost
from paddock.hosting.client import HostedEnv
from paddock.hosting.failures import SEEN_AS
from paddock.hosting.judge import WallRules
from paddock.hosting.launch import PRINTS_TO, Launcher
from paddock.hosting.process_channel import ProcessChannel
from paddock.making.payload import WORKER, Payload, with_folders
from paddock.sandbox.launching import launch
from paddock.sandbox.mounts import inside_path
from paddock.sandbox.plan import Call
from paddock.sandbox.policy import Policy

Started = tuple[Any, Any]  # the near socket and the child

_EXTRA_FD = 4  # in the worker: the first descriptor after the socket
_AWAKE_S = 400e-6  # from a reply to the next request of a client that waits for each reply
_LOOK_S = 0.01  # between two looks at spares that import


def walled_env(payload: Payload, policy: Policy, *, ordered: bool = True) -> HostedEnv:
    """Make the environment of ``payload`` in a worker that sees its files and may do what ``policy`` says.

    ``ordered``: this side makes sure that a reset comes before steps: the worker could disable its own guard.
    """
    began_s = time.monotonic()
    near, child = walled_launcher(payload, policy)()
    left_s = max(policy.start_s - (time.monotonic() - began_s), 0.1)  # a container takes a part of it
    rules = msgspec.structs.replace(WallRules.of(policy), ordered=ordered, start_s=left_s)
    try:
        return HostedEnv(ProcessChannel(near, child, rules), payload.what, wall=rules)
    except WorkerLost:
        if (failure := getattr(child, "wall_failure", None)) is not None:
            raise SandboxUnavailable(f"The wall could not be put up: {failure} See: paddock doctor.") from None
        raise


def walled_launcher(payload: Payload, policy: Policy, *, redact_errors: bool = False, tenant: str = "") -> Launcher:
    """Return what starts a worker, or takes a spare one that was started alike.

    ``redact_errors``: the worker says little of the environment's errors. ``tenant``: for whom; see ``launch``.
    """
    order = _WorkerOrder(payload, with_folders(payload.folders, policy), redact_errors, tenant)
    return lambda: take_spare(order.key) or order.start()


def warm_pool(
    payload: Payload, policy: Policy, spares: int, *, redact_errors: bool = False, tenant: str = ""
) -> WarmPool:
    """Keep spare workers for a ``walled_launcher`` with the same arguments. They have imported the environment."""
    order = _WorkerOrder(payload, with_folders(payload.folders, policy), redact_errors, tenant)
    return WarmPool(order.start_spare, spares, order.key)


@dataclass(frozen=True)
class _WorkerOrder:
    """How to start a worker."""

    payload: Payload
    policy: Policy
    redact_errors: bool
    tenant: str

    @property
    def key(self) -> str:
        """Equal for workers that are started alike."""
        payload = self.payload
        files = payload.modules, payload.folders, payload.code
        return json.dumps([files, self.policy.to_dict(), self.redact_errors, self.tenant], sort_keys=True)

    @property
    def awake_s(self) -> float:
        """How long it may spin: on a server, where clients wait for each step, unless CPU time is limited."""
        return _AWAKE_S if self.redact_errors and self.policy.cpu_s is None else 0.0

    def start_spare(self) -> Spare:
        report, far = socket.socketpair()
        report.setblocking(False)
        with far, ExitStack() as if_it_fails:
            if_it_fails.callback(report.close)
            started = self.start(far)
            if_it_fails.pop_all()
        return Spare(*started, report)

    def start(self, report: socket.socket | None = None) -> Started:
        """Start a worker. With ``report`` it imports the environment ahead, and writes there whether it could."""
        policy, payload = self.policy, self.payload
        SEEN_AS.update((inside_path(name, path), path) for name, path in payload.modules.items())
        with ExitStack() as ends, ExitStack() as if_it_fails:
            near, far = socket.socketpair()
            if_it_fails.callback(near.close)
            ends.callback(far.close)
            outer: socket.socket | None = None
            extra: list[int] = []
            workspace_fd = report_fd = None
            if policy.workspaces:
                outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if_it_fails.callback(outer.close)
                ends.callback(inner.close)
                workspace_fd = _EXTRA_FD
                extra.append(inner.fileno())
            if report is not None:
                report_fd = _EXTRA_FD + len(extra)
                extra.append(report.fileno())
            code, own = payload.code, (payload.code or "").startswith("paddock.agentic.")
            ahead = code if report is not None else None
            arguments = workspace_fd, payload.folders, self.redact_errors, self.awake_s, ahead, report_fd
            call = Call(WORKER, arguments, payload.modules, preload=code if own else None)
            child = launch(call, policy, socket_fd=far.fileno(), extra_fds=extra, tenant=self.tenant)
            if_it_fails.callback(child.kill)
            child.prints_to = PRINTS_TO.get()
            ends.close()  # if the worker dies, no other copy of its ends may stay open
            if policy.hosts:
                from paddock.sandbox.proxy import start_proxy

                child.companions += start_proxy(near, policy)
            if outer is not None:
                from paddock.sandbox.workspace_server import WorkspaceServer

                child.companions.append(WorkspaceServer(outer, policy, self.tenant))
            if_it_fails.pop_all()
        return near, child


class Spare(NamedTuple):
    """A worker that nobody uses yet. ``report``: where it writes whether it could import the environment."""

    near: socket.socket
    child: Any
    report: socket.socket | None = None

    @property
    def imported(self) -> bool | None:
        """Whether it has imported the environment; None while it does, False if it failed or has ended."""
        if self.child.wait(0.0):  # which also reads what it prints: with a full pipe its import would stand still
            return False
        try:
            return self.report is None or self.report.recv(1, socket.MSG_PEEK) == b"\1"
        except BlockingIOError:
            return None

    def take(self) -> Started:
        if self.report is not None:
            self.report.close()
        return self.near, self.child

    def end(self) -> None:
        near, child = self.take()
        near.close()
        child.kill()


class WarmPool:
    """Spare workers, started before anyone needs them. A taken one is replaced in the background. Close the pool."""

    def __init__(self, start: Callable[[], Spare], spares: int, key: Any) -> None:
        if type(spares) is not int or spares < 1:
            raise PlanError(f"spares={spares!r}: expected how many workers to keep ready, at least 1.")
        self._start, self._spares, self._key = start, spares, key
        self._ready: deque[Spare] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._owner = os.getpid()
        self._used_s = time.monotonic()
        self._filler = threading.Thread(target=self._fill, name="paddock-warm-pool", daemon=True)
        self._filler.start()
        _OPEN[key] = self

    def take(self) -> Started | None:
        """Take a live spare, or None if there is none."""
        if os.getpid() != self._owner:  # a forked child must not take its parent's workers
            return None
        with self._changed:
            self._used_s = time.monotonic()
            while self._ready:
                spare = self._ready.popleft()
                self._changed.notify()
                if not spare.child.wait(0.0):
                    return spare.take()
                spare.end()
        return None

    @property
    def idle_s(self) -> float:
        """Seconds since somebody last wanted a spare."""
        return time.monotonic() - self._used_s

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all spares have imported the environment.

        False if that takes longer than ``timeout``, or if one of them failed to: ``make`` raises why.
        """
        ends_s = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._closed:
                imported = [spare.imported for spare in self._ready]
                if False in imported:
                    return False
                if len(imported) >= self._spares and None not in imported:
                    return True
                left_s = _LOOK_S if ends_s is None else ends_s - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, _LOOK_S))
        return False

    def _fill(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._ready) < self._spares)
                if self._closed:
                    return
            try:
                started = self._start()
            except Exception:  # make() will start its own worker, and report what is wrong
                with self._changed:
                    self._changed.wait(1.0)
                continue
            with self._changed:
                self._ready.append(started)
                self._changed.notify_all()

    def close(self) -> None:
        """End the spares, but not those that were taken. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if _OPEN.get(self._key) is self:
            del _OPEN[self._key]
        if os.getpid() == self._owner:
            self._filler.join()
            while self._ready:
                self._ready.popleft().end()

    def __enter__(self) -> WarmPool:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


_OPEN: dict[Any, WarmPool] = {}


def take_spare(key: Any) -> Started | None:
    """Take a spare worker with this key, if a pool of them is open."""
    pool = _OPEN.get(key)
    return None if pool is None else pool.take()
