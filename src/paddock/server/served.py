"""Served: one environment that this server offers. The server knows its plan and what it describes, never its code."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from paddock.core.spec_json import decode_spec
from paddock.errors import NotPermitted, PlanError
from paddock.hosting import messages as m
from paddock.hosting.wall_description import checked_description, checked_spaces
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.walled_channel import WalledChannel
from paddock.making.crossing import Crossing, crossing
from paddock.making.isolation import Isolation
from paddock.making.plan import plan
from paddock.making.target import locate
from paddock.making.walls import walled_launcher, warm_pool
from paddock.making.warm import WarmPool
from paddock.package.manifest import read_manifest
from paddock.sandbox.policy import Policy
from paddock.spaces import Space

MAKE_FIELDS = frozenset(("kwargs", "num_envs", "render_mode"))
MOST_LANES = 4096


@dataclass(frozen=True)
class Description:
    """What a worker said of its environment, checked."""

    observation_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    kwargs: frozenset[str]  # the arguments that its spec declares, which a peer may set
    deterministic: bool


class Served:
    """``name`` is its path on the server. ``discreet`` workers tell a peer nothing of the environment's errors."""

    def __init__(self, text: str, isolation: Isolation = None, *, deadline_s: float | None = None) -> None:
        target = locate(text)
        planned = plan(target, isolation="sandbox" if isolation is None else isolation)
        if planned.wall is None:
            raise PlanError(f"isolation={isolation!r} has no wall, and a server runs no environment without one.")
        self.text, self.name = text, target.id or text
        self.policy: Policy = planned.wall if deadline_s is None else replace(planned.wall, call_s=deadline_s)
        self.rules = WallRules.of(self.policy)
        self._sent: Crossing = crossing(planned)
        self._launch = walled_launcher(self._sent.modules, self._sent.folder, self.policy, discreet=True)
        self._described: Description | None = None

    @property
    def digest(self) -> bytes:
        """Of what it is made from: a journal of another environment is not replayed into this one."""
        made = json.dumps([self._sent.what, self._sent.modules, self._sent.folder], sort_keys=True, default=repr)
        return sha256(made.encode()).digest()

    def start(self) -> tuple[socket.socket, Any]:
        """A worker; takes a spare one if there is one. Blocks for some milliseconds."""
        return self._launch()

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
        own = self._sent.what
        return {**own, "kwargs": {**own["kwargs"], **kwargs}, "num_envs": lanes, "render_mode": mode}

    def describe(self) -> Description:
        """What it is; asked of a worker once. Blocks."""
        if self._described is None:
            near, child = self.start()
            channel = WalledChannel(near, child, self.rules)
            try:
                channel.send(m.Make(0, self.what({})))
                reply = channel.recv()
            finally:
                channel.close()
            if isinstance(reply, m.Failed):
                raise PlanError(f"{self.text}: the environment can't be made: {reply.message}\n{child.output}")
            self._described = self._read(reply.value)
        return self._described

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
        )


def served_from(
    targets: Sequence[str], isolation: Isolation = None, *, deadline_s: float | None = None
) -> list[Served]:
    """What these targets offer: a folder all environments of its manifest, anything else itself."""
    found: list[Served] = []
    for text in targets:
        for one in _ids_of(text):
            found.append(Served(one, isolation, deadline_s=deadline_s))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"{name!r} is named twice, and on a server every environment has its own path.")
    return found


def _ids_of(text: str) -> list[str]:
    if not text.startswith((".", "/", "~")) or not Path(text).expanduser().is_dir():
        return [text]
    return [f"{text}:{one.spec.id}" for one in read_manifest(Path(text).expanduser()).envs]
