"""ServedEnv: one environment that this server offers, and the requests that may reach it.

The server knows the environment's plan and description, never its code: only workers behind a wall import that.
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, get_args
from urllib.parse import quote

from paddock.core.spec import EnvSpec
from paddock.core.spec_json import decode_spec
from paddock.core.vector_env import AutoresetMode, OnFault
from paddock.errors import BadFrame, DependencyNotInstalled, NotPermitted, PlanError, Unreachable, UnregisteredEnv
from paddock.hosting import messages as m
from paddock.hosting.codec import HANDSHAKE, PREFIX_BYTES, decode_frame, encode
from paddock.hosting.failures import walled_error
from paddock.hosting.frames import wait_for
from paddock.hosting.judge import WallRules, read_description, read_spaces
from paddock.hosting.messages import PEER_LIMITS
from paddock.hosting.openenv.tool_form import Tools
from paddock.hosting.process_channel import ProcessChannel
from paddock.hosting.remote_session import frame_of
from paddock.making.payload import Payload, find_loaded_beside, pack
from paddock.making.plan import Isolation, plan
from paddock.making.target import locate, spread
from paddock.making.walls import WarmPool, walled_launcher, warm_pool
from paddock.record.digest import former_path
from paddock.sandbox.policy import Policy
from paddock.server.auth import Role
from paddock.spaces import Space

MAKE_FIELDS = frozenset(("autoreset", "kwargs", "num_envs", "on_fault", "render_mode"))
_WORDS = {"autoreset": frozenset(mode.value for mode in AutoresetMode), "on_fault": frozenset(get_args(OnFault))}
MOST_LANES = 4096
_OPERATOR = (m.Make, m.Reset, m.Step, m.StepRows, m.State, m.Render, m.Snapshot, m.Restore, m.Call, m.Close)
MESSAGES_BY_ROLE: dict[Role, tuple[type, ...]] = {
    "operator": _OPERATOR,
    "agent": (m.Make, m.Step, m.StepRows, m.Render, m.Close),  # no reset, and no state: it could hold answers
    "observer": (m.Make, m.State, m.Render, m.Close),
}
# In production mode peers do not control episodes.
CLOSED_IN_PRODUCTION = (m.Reset, m.Step, m.StepRows, m.State, m.Snapshot, m.Restore, m.Call)
# Methods of Gymnasium's environments that take the name of an attribute.
_FIND_OTHERS = ("get_wrapper_attr", "has_wrapper_attr", "set_wrapper_attr", "call", "get_attr", "set_attr")
_MAKE = b"\xa4type\xa4make"  # after the byte that begins a map
# Sent to a new worker under a number that no request has; it needs no environment to answer.
_ARE_YOU_THERE = frame_of(m.Refuse(Unreachable.code, "no request"), HANDSHAKE)
_YES = frame_of(m.Failed(Unreachable.code, "no request"), HANDSHAKE)
_REPLY_BYTES = 1 << 12
_TENANTS = 4  # for whom spares are kept ready
IDLE_S = 60.0  # spares of which none was taken for so long are ended


@dataclass(frozen=True)
class Description:
    """How a worker described its environment, checked."""

    observation_space: Space[Any]
    action_space: Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    kwargs: frozenset[str]  # the arguments that its spec declares: a peer may set these
    deterministic: bool
    tools: Tools | None = None  # of an agentic environment


class ServedEnv:
    """``name`` is its path on the server, by default its id. Its workers redact errors: peers learn nothing of them."""

    def __init__(
        self,
        text: str | EnvSpec,
        isolation: Isolation = None,
        *,
        deadline_s: float | None = None,
        name: str | None = None,
    ) -> None:
        target = locate(text)
        planned = plan(target, isolation="sandbox" if isolation is None else isolation)
        if planned.wall is None:
            raise PlanError(f"isolation={isolation!r} has no wall, and a server never runs an environment without one.")
        if target.package is not None and target.package.how == "first use":
            raise PlanError(
                f"{target.text!r} is trusted since its first use, and a server takes only keys that you added: paddock "
                f"trust add {target.package.signers[0]} --namespace {target.package.name.partition('/')[0]}"
            )
        self.text, self.name = target.text, name or target.id or target.text
        self.policy: Policy = planned.wall
        if deadline_s is not None:
            call_cpu_s = max(self.policy.call_cpu_s, deadline_s)  # a longer deadline is also time to compute
            self.policy = replace(self.policy, call_s=deadline_s, call_cpu_s=call_cpu_s)
        self.rules = WallRules.of(self.policy)
        self._payload: Payload = pack(planned)
        if target.kind == "spec":  # of a program that imported its own code: the worker may need more of it
            beside = find_loaded_beside(self._payload.modules.values())
            self._payload = replace(self._payload, modules={**beside, **self._payload.modules})
        self.spares = 0  # how many workers to keep ready for each tenant
        self._pools: dict[str, WarmPool] = {}  # by tenant, the one that was used last at the end
        self._pools_lock = threading.Lock()
        self._described: Description | None = None

    @property
    def digest(self) -> bytes:
        """Digest of what it is made from: a journal of another environment is not replayed into this one."""
        payload = self._payload
        what = {name: value for name, value in payload.what.items() if name != "folder"}  # journals of old lack it here
        text = json.dumps(
            [what, payload.modules, next(iter(payload.folders), None)],
            sort_keys=True,
            default=repr,
        )
        # By the names of old: a journal outlives the files that paddock keeps its own code in.
        text = re.sub(r"\bpaddock\.[\w.]+:\w+", lambda path: former_path(path[0]), text)
        return sha256(text.encode()).digest()

    def start(self, tenant: str) -> tuple[socket.socket, Any]:
        """Start a worker, or take a spare one, and block until it is ready for its first request.

        A worker that does not get ready is returned too: its user finds that it is lost, and why. Spares for the same
        tenant, the principal that opens the session, are kept ready from now on.
        """
        near, child = self._launch(tenant)
        near.setblocking(False)
        with suppress(OSError):
            near.send(_ARE_YOU_THERE)
            ready = wait_for(near.fileno(), select.POLLIN, self.policy.start_s)
            if not ready or near.recv(_REPLY_BYTES) not in (_YES, b""):  # b"": it has exited by itself
                child.kill()
        with suppress(RuntimeError, OSError):  # no thread is left for them
            self._keep_spares(tenant)
        return near, child

    def _launch(self, tenant: str) -> tuple[socket.socket, Any]:
        return walled_launcher(self._payload, self.policy, redact_errors=True, tenant=tenant)()

    def _make_spares(self, tenant: str) -> WarmPool:
        return warm_pool(self._payload, self.policy, self.spares, redact_errors=True, tenant=tenant)

    def _keep_spares(self, tenant: str) -> None:
        oldest = None
        with self._pools_lock:
            if self.spares:
                pool = self._pools.pop(tenant, None)
                self._pools[tenant] = self._make_spares(tenant) if pool is None else pool
            if len(self._pools) > _TENANTS:
                oldest = self._pools.pop(next(iter(self._pools)))
        if oldest is not None:
            oldest.close()

    def has_idle_spares(self) -> bool:
        """Whether some spares have been ready for long, and nobody took one."""
        return any(pool.idle_s > IDLE_S for pool in self._pools.copy().values())

    def end_spares(self, idle_s: float = 0.0) -> None:
        """End those of which none was taken for so long, and keep no more of them ready. Blocks."""
        with self._pools_lock:
            self.spares = self.spares if idle_s else 0
            idle = [tenant for tenant, pool in self._pools.items() if pool.idle_s >= idle_s]
            closing = [self._pools.pop(tenant) for tenant in idle]
        for pool in closing:
            pool.close()

    @property
    def described(self) -> Description:
        """The environment's description; the server calls ``describe`` before it accepts requests."""
        assert self._described is not None
        return self._described

    def what(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Turn a peer's Make into the worker's: arguments that the spec declares pass, and nothing names code."""
        unknown = set(fields) - MAKE_FIELDS
        kwargs, lanes, mode = fields.get("kwargs") or {}, fields.get("num_envs"), fields.get("render_mode")
        if unknown or not isinstance(kwargs, dict):
            raise NotPermitted(f"Make takes {', '.join(sorted(MAKE_FIELDS))} and nothing else.")
        declared = self._described.kwargs if self._described is not None else frozenset()
        if set(kwargs) - declared:
            names = ", ".join(sorted(declared)) or "none"
            raise NotPermitted(f"A peer may set only the arguments that the environment's spec declares: {names}.")
        if lanes is not None and (type(lanes) is not int or not 1 <= lanes <= MOST_LANES):
            raise NotPermitted(f"num_envs must be a number from 1 to {MOST_LANES}.")
        if mode is not None and not isinstance(mode, str):
            raise NotPermitted("render_mode must be a string.")
        words = {name: fields.get(name) for name in _WORDS}
        for name, word in words.items():
            if word is not None and (lanes is None or not isinstance(word, str) or word not in _WORDS[name]):
                raise NotPermitted(f"{name} needs num_envs and must be one of {', '.join(sorted(_WORDS[name]))}.")
        own = self._payload.what
        return {**own, "kwargs": {**own["kwargs"], **kwargs}, "num_envs": lanes, "render_mode": mode, **words}

    def describe(self) -> Description:
        """Ask a worker, once, what the environment is. Blocks."""
        if self._described is None:
            # Whoever starts the server sees what went wrong; peers do not, because workers redact errors.
            near, child = walled_launcher(self._payload, self.policy)()
            channel = ProcessChannel(near, child, self.rules)
            try:
                channel.send(m.Make(0, self.what({})))
                reply = channel.recv()
            finally:
                channel.close()
            if isinstance(reply, m.Failed):
                error = walled_error(reply)
                if isinstance(error, (UnregisteredEnv, DependencyNotInstalled)):
                    raise error  # it says what to write or install
                kind = getattr(error, "error_type", "") or type(error).__name__
                raise PlanError(f"{self.text}: the environment can't be made: {kind}: {error}") from error
            described = read_description(reply.value if isinstance(reply, m.Done) else None, self.rules)
            spec = None if described.spec is None else decode_spec(described.spec)
            self._described = Description(
                *read_spaces(described, self.rules),
                described.metadata,
                described.render_mode,
                frozenset() if spec is None else frozenset(spec.kwargs),
                deterministic=spec is not None and not spec.nondeterministic,
                tools=Tools.of(described.metadata),
            )
        return self._described


def prepare_envs(
    targets: Sequence[str], isolation: Isolation = None, *, deadline_s: float | None = None, grant: bool = False
) -> list[ServedEnv]:
    """Prepare the environments of these targets: for a folder or a package, all that its manifest declares.

    ``grant``: folders get all permissions that their manifests ask for, in the tier that ``isolation`` names.
    """
    ids = [one for text in targets for one in spread(text)]
    found: list[ServedEnv] = []
    for id in ids:
        wall = _grant(id, isolation) if grant else isolation
        found.append(ServedEnv(id, wall, deadline_s=deadline_s))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"{name!r} is named twice, but every environment on a server needs its own path.")
    return found


def _grant(text: str, isolation: Isolation) -> Isolation:
    target = locate(text)
    if target.folder is None or target.asked is None or isinstance(isolation, Policy):
        return isolation
    return replace(target.asked, tier=isolation or "sandbox")  # type: ignore[arg-type]  # Policy names the tiers


def read_request(frame: bytes, served: ServedEnv, role: Role, *, production: bool) -> m.Request:
    """Read the request in a peer's frame. NotPermitted or BadFrame if it must not reach the worker."""
    _, message = decode_frame(frame, limits=PEER_LIMITS)
    if not isinstance(message, MESSAGES_BY_ROLE[role]):
        advice = f" {no_episode_advice(served)}" if role == "agent" and isinstance(message, m.Reset) else ""
        raise NotPermitted(f"The role {role!r} may not send {type(message).__name__.lower()}.{advice}")
    if production and isinstance(message, CLOSED_IN_PRODUCTION):
        raise NotPermitted(f"{type(message).__name__} is closed in production mode.")
    if is_make(frame) != isinstance(message, m.Make):
        raise BadFrame("A Make must begin with its type, and a message has one type.")
    if type(message) is m.Step:
        return message
    if isinstance(message, m.Call) and (_is_private(message) or not message.name.isidentifier()):
        raise NotPermitted("A call names one attribute, and not one that begins with an underscore.")
    if isinstance(message, m.Make) and (message.autoreset is not None or message.env):
        raise BadFrame("A Make must be for environment 0, without autoreset.")
    if isinstance(message, m.Make):
        served.what(message.what)  # raises for what must not pass
    return message  # type: ignore[return-value]


def no_episode_advice(served: ServedEnv) -> str:
    """Tell an agent whose session has no episode what to do."""
    path = f"/{quote(served.name, safe='')}/handover"
    return (
        f"An agent can't begin an episode here. Ask an operator to hand you a session where one has begun: POST {path}."
    )


def _is_private(call: m.Call) -> bool:
    """Whether it names an attribute that begins with an underscore; some methods take the name of another."""
    name: Any = call.name
    arguments = iter((*call.args, call.kwargs.get("name")))
    while isinstance(name, str) and name in _FIND_OTHERS:
        name = next(arguments, None)
    return isinstance(name, str) and name.startswith("_")


def is_make(frame: bytes) -> bool:
    """Whether the frame begins as a Make; ``read_request`` makes sure that this is what it is."""
    return frame.startswith(_MAKE, PREFIX_BYTES + 1)


def rewrite_make(frame: bytes, served: ServedEnv, seed: int) -> bytes:
    """Rewrite a peer's Make for the worker: this server's environment, with the arguments that may pass."""
    number, message = decode_frame(frame, limits=PEER_LIMITS)
    assert isinstance(message, m.Make)
    what = {**served.what(message.what), "seed": seed}
    return b"".join(encode(m.Make(0, what), number))
