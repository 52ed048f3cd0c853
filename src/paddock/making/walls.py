"""Start workers behind a wall and build environments on them: where sandbox and hosting meet."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec

from paddock.errors import SandboxUnavailable, WorkerLost
from paddock.hosting.client import HostedEnv
from paddock.hosting.launch import PRINTS_TO, Launcher
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.walled_channel import WalledChannel
from paddock.making.crossing import seeing
from paddock.making.warm import WarmPool, spare_for
from paddock.sandbox.launching import launch
from paddock.sandbox.plan import Call
from paddock.sandbox.policy import Policy

_MAIN = "paddock.making.inside:main"
_SHARED_MAIN = "paddock.making.inside_shared:main"
_DOOR_FD = 4  # inside: the first descriptor beyond the socket
_AWAKE_S = 400e-6  # from a reply to the next request of a client that waits for each


def walled_env(
    what: dict[str, Any], modules: Mapping[str, str], folder: str | None, policy: Policy, *, ordered: bool = True
) -> HostedEnv:
    """The environment that ``what`` describes, in a worker that may do what ``policy`` says and sees these files.

    ``ordered``: resets come before steps, and this side sees to it: the guard in the worker is in the worker's hands.
    """
    rules = msgspec.structs.replace(WallRules.of(policy), ordered=ordered)
    near, child = walled_launcher(modules, folder, policy)()
    try:
        return HostedEnv(WalledChannel(near, child, rules), what, wall=rules)
    except WorkerLost:
        if (failure := getattr(child, "wall_failure", None)) is not None:
            raise SandboxUnavailable(f"The wall could not be put up: {failure} See: paddock doctor.") from None
        raise


def walled_launcher(
    modules: Mapping[str, str], folder: str | None, policy: Policy, *, discreet: bool = False
) -> Launcher:
    """Starts a worker, or takes a spare one that was started just so. ``discreet``: it says little of its errors."""
    order = _Order(dict(modules), folder, seeing(folder, policy), discreet)
    return lambda: spare_for(order.key) or order.start()


def warm_pool(
    modules: Mapping[str, str], folder: str | None, policy: Policy, spares: int, *, discreet: bool = False
) -> WarmPool:
    """Spare workers for ``walled_launcher`` with the same arguments."""
    order = _Order(dict(modules), folder, seeing(folder, policy), discreet)
    return WarmPool(order.start, spares, order.key)


def shared_launcher(policy: Policy) -> Launcher:
    """Starts a worker that many sessions share: it sees nothing but paddock, and its socket is for all of them."""

    def start() -> tuple[socket.socket, Any]:
        near, far = socket.socketpair()
        try:
            return near, launch(Call(_SHARED_MAIN, (), {}), policy, socket_fd=far.fileno())
        except BaseException:
            near.close()
            raise
        finally:
            far.close()

    return start


@dataclass(frozen=True)
class _Order:
    """A worker, before it is started."""

    modules: dict[str, str]
    folder: str | None
    policy: Policy
    discreet: bool

    @property
    def key(self) -> str:
        """Equal for workers that are started alike."""
        return json.dumps([self.modules, self.folder, self.policy.to_dict(), self.discreet], sort_keys=True)

    @property
    def awake_s(self) -> float:
        """How long it may wait awake: at a server, where clients wait for each step, unless CPU time is limited."""
        return _AWAKE_S if self.discreet and self.policy.cpu_s is None else 0.0

    def start(self) -> tuple[socket.socket, Any]:
        policy = self.policy
        with ExitStack() as ends, ExitStack() as if_it_fails:
            near, far = socket.socketpair()
            if_it_fails.callback(near.close)
            ends.callback(far.close)
            door: socket.socket | None = None
            extra: tuple[int, ...] = ()
            if policy.workspaces:
                door, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if_it_fails.callback(door.close)
                ends.callback(inner.close)
                extra = (inner.fileno(),)
            call = Call(_MAIN, (_DOOR_FD if extra else None, self.folder, self.discreet, self.awake_s), self.modules)
            child = launch(call, policy, socket_fd=far.fileno(), extra_fds=extra)
            if_it_fails.callback(child.kill)
            child.prints_to = PRINTS_TO.get()
            ends.close()  # if the worker dies, its ends must be the last ones
            if policy.hosts:
                from paddock.sandbox.way_out import way_out

                child.companions += way_out(near, policy)
            if door is not None:
                from paddock.sandbox.siblings import Door

                child.companions.append(Door(door, policy))
            if_it_fails.pop_all()
        return near, child
