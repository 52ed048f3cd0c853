"""Served: one environment that this server offers. The server knows its plan and what it describes, never its code."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from paddock.core.spec import EnvSpec
from paddock.core.spec_json import decode_spec
from paddock.core.vector_env import AutoresetMode, OnFault
from paddock.errors import DependencyNotInstalled, NotPermitted, PaddockError, PlanError, Unreachable, UnregisteredEnv
from paddock.hosting import messages as m
from paddock.hosting.frames import wait_for
from paddock.hosting.numbering import HANDSHAKE
from paddock.hosting.openenv.tool_form import Tools
from paddock.hosting.resuming import frame_of
from paddock.hosting.wall_description import checked_description, checked_spaces
from paddock.hosting.wall_failure import walled_error
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.walled_channel import WalledChannel
from paddock.making.code_files import loaded_beside
from paddock.making.crossing import Crossing, crossing
from paddock.making.isolation import Isolation
from paddock.making.plan import plan
from paddock.making.target import locate
from paddock.making.walls import shared_launcher, walled_launcher, warm_pool
from paddock.making.warm import WarmPool
from paddock.package.manifest import read_manifest
from paddock.sandbox.policy import Policy
from paddock.server.shared_worker import SharedWorker
from paddock.spaces import Space

MAKE_FIELDS = frozenset(("autoreset", "kwargs", "num_envs", "on_fault", "render_mode"))
_WORDS = {
    "autoreset": frozenset(mode.value for mode in AutoresetMode),
    "on_fault": frozenset(get_args(OnFault)),
}
MOST_LANES = 4096
# Asked of a new worker under a number that no request has; it is answered without an environment.
_ARE_YOU_THERE = frame_of(m.Refuse(Unreachable.code, "no request"), HANDSHAKE)
_YES = frame_of(m.Failed(Unreachable.code, "no request"), HANDSHAKE)
_REPLY_BYTES = 1 << 12


@dataclass(frozen=True)
class Description:
    """What a worker said of its environment, checked."""

    observation_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    kwargs: frozenset[str]  # the arguments that its spec declares, which a peer may set
    deterministic: bool
    tools: Tools | None = None  # of an agentic environment


class Served:
    """``name`` is its path on the server. ``discreet`` workers tell a peer nothing of the environment's errors."""

    def __init__(
        self,
        text: str | EnvSpec,
        isolation: Isolation = None,
        *,
        deadline_s: float | None = None,
        share_built_in: bool = False,
    ) -> None:
        target = locate(text)
        planned = plan(target, isolation="sandbox" if isolation is None else isolation)
        if planned.wall is None:
            raise PlanError(f"isolation={isolation!r} has no wall, and a server runs no environment without one.")
        self.text, self.name = target.text, target.id or target.text
        self.policy: Policy = planned.wall
        if deadline_s is not None:
            call_cpu_s = max(self.policy.call_cpu_s, deadline_s)  # who allows more time allows to compute in it
            self.policy = replace(self.policy, call_s=deadline_s, call_cpu_s=call_cpu_s)
        self.rules = WallRules.of(self.policy)
        self._sent: Crossing = crossing(planned)
        if target.kind == "spec":  # of a program that imported its own code: the worker may need the rest of it too
            beside = loaded_beside(self._sent.modules.values())
            self._sent = replace(self._sent, modules={**beside, **self._sent.modules})
        self._launch = walled_launcher(self._sent.modules, self._sent.folder, self.policy, discreet=True)
        self.shared: SharedWorker | None = None  # with one, sessions have no process of their own
        # Workspaces are one environment's: a worker that many share has no door to ask for them.
        if share_built_in and target.kind == "built in" and not self.policy.workspaces:
            longest_s = max(self.policy.call_s, self.policy.start_s)
            self.shared = SharedWorker(shared_launcher(self.policy), self.rules.frames, request_s=longest_s)
        self._described: Description | None = None

    @property
    def digest(self) -> bytes:
        """Of what it is made from: a journal of another environment is not replayed into this one."""
        made = json.dumps([self._sent.what, self._sent.modules, self._sent.folder], sort_keys=True, default=repr)
        return sha256(made.encode()).digest()

    def start(self) -> tuple[socket.socket, Any]:
        """A worker that is ready for its first request; takes a spare one if there is one. Blocks until then.

        One that does not get ready is returned too: whoever uses it finds that it is lost, and why.
        """
        near, child = self._launch()
        near.setblocking(False)
        with suppress(OSError):
            near.send(_ARE_YOU_THERE)
            ready = wait_for(near.fileno(), select.POLLIN, self.policy.start_s)
            if not ready or near.recv(_REPLY_BYTES) not in (_YES, b""):  # nothing: it has ended by itself
                child.kill()
        return near, child

    def spares(self, count: int) -> WarmPool:
        """Keep that many workers ready."""
        return warm_pool(self._sent.modules, self._sent.folder, self.policy, count, discreet=True)

    @property
    def described(self) -> Description:
        """What it is; the server asks ``describe`` before anyone is let in."""
        assert self._described is not None
        return self._described

    def what(self, asked: dict[str, Any]) -> dict[str, Any]:
        """For the worker's Make, from a peer's: arguments that the spec declares pass, and nothing names code."""
        unknown = set(asked) - MAKE_FIELDS
        kwargs, lanes, mode = asked.get("kwargs") or {}, asked.get("num_envs"), asked.get("render_mode")
        if unknown or not isinstance(kwargs, dict):
            raise NotPermitted(f"Make takes {', '.join(sorted(MAKE_FIELDS))}, nothing else.")
        declared = self._described.kwargs if self._described is not None else frozenset()
        if set(kwargs) - declared:
            names = ", ".join(sorted(declared)) or "none"
            raise NotPermitted(
                f"This environment takes from a peer only the arguments that its spec declares: {names}."
            )
        if lanes is not None and (type(lanes) is not int or not 1 <= lanes <= MOST_LANES):
            raise NotPermitted(f"num_envs is a count from 1 to {MOST_LANES}.")
        if mode is not None and not isinstance(mode, str):
            raise NotPermitted("render_mode is a text.")
        words = {name: asked.get(name) for name in _WORDS}
        for name, word in words.items():
            if word is not None and (lanes is None or not isinstance(word, str) or word not in _WORDS[name]):
                raise NotPermitted(f"{name} goes with num_envs and is one of {', '.join(sorted(_WORDS[name]))}.")
        own = self._sent.what
        return {**own, "kwargs": {**own["kwargs"], **kwargs}, "num_envs": lanes, "render_mode": mode, **words}

    def describe(self) -> Description:
        """What it is; asked of a worker once. Blocks."""
        if self._described is None:
            # Whoever starts a server is told what went wrong; peers, whose workers are discreet, are not.
            near, child = walled_launcher(self._sent.modules, self._sent.folder, self.policy)()
            channel = WalledChannel(near, child, self.rules)
            try:
                channel.send(m.Make(0, self.what({})))
                reply = channel.recv()
            finally:
                channel.close()
            if isinstance(reply, m.Failed):
                raise self._unmade(walled_error(reply))
            self._described = self._read(reply.value)
        return self._described

    def _unmade(self, error: PaddockError) -> PaddockError:
        if isinstance(error, (UnregisteredEnv, DependencyNotInstalled)):
            return error  # says what to write instead, or to install
        kind = getattr(error, "error_type", "") or type(error).__name__
        unmade = PlanError(f"{self.text}: the environment can't be made: {kind}: {error}")
        unmade.__cause__ = error
        return unmade

    def _read(self, value: Any) -> Description:
        described = checked_description(value, self.rules)
        observations, actions = checked_spaces(described, self.rules)
        spec = None if described.spec is None else decode_spec(described.spec)
        return Description(
            observations,
            actions,
            described.metadata,
            described.render_mode,
            frozenset(spec.kwargs) if spec is not None else frozenset(),
            deterministic=spec is not None and not spec.nondeterministic,
            tools=Tools.of(described.metadata),
        )


def served_from(
    targets: Sequence[str],
    isolation: Isolation = None,
    *,
    deadline_s: float | None = None,
    share_built_in: bool = False,
    grant: bool = False,
) -> list[Served]:
    """What these targets offer: a folder all environments of its manifest, anything else itself.

    ``share_built_in``: all sessions of an environment that is paddock's own share one worker. ``grant``: folders get
    all that their manifests ask for, in the tier that ``isolation`` names.
    """
    found: list[Served] = []
    for text in targets:
        for one in _ids_of(text):
            wall = _granted(one, isolation) if grant else isolation
            found.append(Served(one, wall, deadline_s=deadline_s, share_built_in=share_built_in))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"{name!r} is named twice, and on a server every environment has its own path.")
    return found


def _granted(text: str, isolation: Isolation) -> Isolation:
    target = locate(text)
    if target.folder is None or target.asked is None or isinstance(isolation, Policy):
        return isolation
    return replace(target.asked, tier=isolation or "sandbox")  # type: ignore[arg-type]  # Policy names the tiers


def _ids_of(text: str) -> list[str]:
    if not text.startswith((".", "/", "~")) or not Path(text).expanduser().is_dir():
        return [text]
    return [f"{text}:{one.spec.id}" for one in read_manifest(Path(text).expanduser()).envs]
