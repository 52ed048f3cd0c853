"""RayVectorEnv: lanes in Ray actors, many per actor, each actor's stepped by one call. ``ray`` is imported when used.

An actor holds a Host, as a worker process does, and frames pass through Ray's object store, where they are read in
place. An actor that is lost with its node is made again elsewhere, and repeats what it was asked: if it answers as
before, its lanes go on, else they are truncated and begin again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import count
from math import inf
from typing import Any

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.lane import lane_seeds, masked_lanes, reset_mask, value_per_lane
from paddock.core.state import State
from paddock.core.vector_env import AutoresetMode, OnFault, VectorEnv, add_info
from paddock.errors import (
    AlreadyPendingCallError,
    BadFrame,
    ClosedEnvironmentError,
    DependencyNotInstalled,
    NoAsyncCallError,
    PlanError,
    WorkerLost,
)
from paddock.hosting import messages as m
from paddock.hosting.client import HostedEnv
from paddock.hosting.codec import PREFIX_BYTES, decode, decode_prefix, encode
from paddock.hosting.factories import dumps, loads
from paddock.hosting.host import Host
from paddock.hosting.judge import WallRules
from paddock.hosting.untrusted import Bounds
from paddock.hosting.worker import encode_reply
from paddock.spaces.batch import batch_space, concatenate, create_empty_array, iterate
from paddock.vector.faults import Faults
from paddock.vector.lanes import HostedLanes, LaneObservations, open_lanes, seal_lanes
from paddock.vector.remote import RemoteVectorEnv

Array = np.ndarray[Any, Any]
Result = tuple[Any, Array, Array, Array, Info]
Factory = Callable[[], "Env[Any, Any] | VectorEnv[Any, Any, Any]"]

_START_S = 300.0  # for an actor to be placed and to make its lanes; a cluster may have to grow for it
_SNAPSHOT_STEPS = 500  # between two snapshots: no more than that is repeated
_LOG_FRAMES, _LOG_BYTES = 20_000, 1 << 28  # that are kept of lanes without snapshots
_REBUILDS = 2  # of one actor without a reply in between
_STARTS = 6  # of actors in the place of a lost one
_READS = (m.Render, m.State, m.Snapshot)  # change nothing, so they are not repeated
# An actor runs what this program sent it; what may be an attack behind a wall is only large here.
_RULES = WallRules(
    reward_range=(-inf, inf), info=Bounds(1 << 28, depth=32, entries=1 << 24), lanes_bytes=1 << 34, call_s=inf
)


def begin_ray() -> Any:
    """Import ray and connect to its cluster: RAY_ADDRESS, or one on this machine. Token authentication is on."""
    try:
        import ray
    except ImportError as error:
        raise DependencyNotInstalled(f"backend='ray' needs {error.name}. To install: pip install ray") from error
    if not ray.is_initialized():
        mode = os.environ.setdefault("RAY_AUTH_MODE", "token")
        if mode == "disabled":
            raise PlanError(
                "RAY_AUTH_MODE=disabled lets anyone who reaches the cluster run code on it. Unset it, or set it to "
                "token; to use a cluster without authentication, call ray.init() yourself."
            )
        ray.init(log_to_driver=False)
    return ray


class LaneActor:
    """What runs in an actor: a Host with one environment, which may be many lanes."""

    def __init__(self) -> None:
        self._host = Host(_build, alone=True)

    def handle(self, frame: Array) -> Array:
        """Carry out a request; the frame of its reply."""
        number, request = _decode(frame.copy(), unpickler=loads)  # an environment may write into its action
        reply = self._host.handle(request)
        return np.frombuffer(b"".join(encode_reply(self._host, number, request, reply)), np.uint8)

    def repeat(self, frames: list[Array]) -> Array:
        """Carry out requests of an actor that was lost; the frame of the last reply."""
        for frame in frames:
            reply = self.handle(frame)
        return reply

    def node(self) -> str:
        """The id of the node that this actor runs on."""
        import ray

        return ray.get_runtime_context().get_node_id()  # type: ignore[no-any-return]


def _build(what: dict[str, Any]) -> Any:
    made = what["factory"]()
    return HostedLanes(made) if isinstance(made, VectorEnv) else made


def _frame(request: m.Request, number: int = 0) -> Array:
    return np.frombuffer(b"".join(encode(request, number, pickler=dumps)), np.uint8)


def _decode(frame: Array, unpickler: Any = None) -> tuple[int, Any]:
    data = memoryview(frame)  # type: ignore[arg-type]  # NumPy's types do not say that it is a buffer
    number, head_bytes, _ = decode_prefix(data)
    at = PREFIX_BYTES + head_bytes
    return number, decode(bytes(data[PREFIX_BYTES:at]), data[at:], unpickler=unpickler)  # type: ignore[arg-type]


class RayChannel:
    """Requests to the actor that ``start`` starts. A lost one is replaced, if the requests so far can be repeated."""

    def __init__(self, ray: Any, start: Callable[[], Any], *, deterministic: bool) -> None:
        self._ray, self._start, self._deterministic = ray, start, deterministic
        self.actor = start()
        self._number = 0
        self._sent: deque[tuple[m.Request, Array, Any]] = deque()  # without a reply: request, frame, reference
        self._log: list[Array] = []  # answered since ``_make``, or since the newest snapshot
        self._make: list[Array] = []
        self._log_bytes = self._rebuilds = self.rebuilt = 0
        self._last = b""  # digest of the newest reply in the log
        self._seeded = False  # nothing since the log began was left to chance
        self._snapshot: tuple[Any, int] | None = None  # that is being taken: reference, length of the log before it
        self._takes_snapshots = deterministic
        self._lost: WorkerLost | None = None
        self._closed = False

    def send(self, request: m.Request) -> None:
        if self._lost is not None:
            raise self._lost
        if self._closed:
            raise ClosedEnvironmentError("This channel is closed. Make the environment again.")
        self._number += 1
        frame = _frame(request, self._number & 0xFFFFFFFF)
        self._sent.append((request, frame, self.actor.handle.remote(frame)))

    def recv(self, timeout: float | None = None) -> m.StepReply:
        if not self._sent:
            raise NoAsyncCallError("recv() has no request to wait for. Call send(request) first.", "recv")
        while True:
            request, frame, reference = self._sent[0]
            try:
                found = self._ray.get(reference, timeout=_START_S if type(request) is m.Make else timeout)
                break
            except self._ray.exceptions.GetTimeoutError:
                raise self.kill(f"did not start within {_START_S:g} s: has the cluster room for it?") from None
            except self._ray.exceptions.RayError as error:
                self._rebuild(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
        self._sent.popleft()
        try:
            _, reply = _decode(found)
        except BadFrame as error:
            raise self.kill(f"broke the protocol: {error}") from None
        self._rebuilds = 0
        self._note(request, frame, found, reply)
        return reply  # type: ignore[no-any-return]

    def _note(self, request: m.Request, frame: Array, found: Array, reply: Any) -> None:
        """Keep what is needed to make the same lanes again."""
        if isinstance(request, _READS):
            return
        if type(request) is m.Make:
            self._make, self._log = [frame], []
            return
        if _begins_all(request):
            self._log, self._log_bytes, self._snapshot, self._seeded = [], 0, None, True
        elif isinstance(request, m.Reset) or (isinstance(request, m.Call) and request.name == "reset"):
            self._seeded &= type(reply) is m.Failed or _is_partial(request)
        self._log.append(frame)
        self._log_bytes += len(frame)
        self._last = sha256(found).digest()  # type: ignore[arg-type]
        if self._snapshot is not None:
            self._adopt_snapshot()
        elif self._takes_snapshots and len(self._log) >= _SNAPSHOT_STEPS and not self._sent:
            self._snapshot = self.actor.handle.remote(_frame(m.Snapshot(0))), len(self._log)

    def _adopt_snapshot(self) -> None:
        """Begin the log at the snapshot, once it is there."""
        assert self._snapshot is not None
        reference, length = self._snapshot
        if not self._ray.wait([reference], timeout=0)[0]:
            return
        self._snapshot = None
        try:
            reply = _decode(self._ray.get(reference))[1]
        except (self._ray.exceptions.RayError, BadFrame):
            return  # the next request finds out that the actor is lost
        if type(reply) is not m.Done:  # these lanes have none
            self._takes_snapshots = False
            return
        self._log, self._seeded = [_frame(m.Restore(0, reply.value)), *self._log[length:]], True
        self._log_bytes = sum(map(len, self._log))

    def _rebuild(self, why: str) -> None:
        """Start another actor that has taken the same requests; WorkerLost if that is not possible."""
        self._snapshot = None
        if type(self._sent[0][0]) is m.Make and not self._make and self._rebuilds < _REBUILDS:
            pass  # nothing was lost yet
        elif not self._deterministic:
            raise self.kill(f"was lost: {why}. The environment is not deterministic, so it can't be made again")
        elif self._log and not self._seeded:
            raise self.kill(f"was lost: {why}. Its lanes were reset without seeds, so they can't be made again")
        elif len(self._log) > _LOG_FRAMES or self._log_bytes > _LOG_BYTES:
            raise self.kill(f"was lost: {why}. There were too many requests to repeat")
        elif self._rebuilds >= _REBUILDS:
            raise self.kill(f"was lost {_REBUILDS + 1} times in a row: {why}")
        self._rebuilds += 1
        self.rebuilt += 1
        found = self._replace()
        if self._log and sha256(found).digest() != self._last:
            raise self.kill(f"was lost: {why}. Another one answered the same requests otherwise")
        for at, (request, frame, _) in enumerate(self._sent):
            self._sent[at] = request, frame, self.actor.handle.remote(frame)

    def _replace(self) -> Any:
        """Start another actor that repeats the log; its last reply. A lost node may still be listed for a while."""
        for _ in range(_STARTS):
            self.actor = self._start()
            if not self._make:
                return None
            try:
                return self._ray.get(self.actor.repeat.remote([*self._make, *self._log]), timeout=_START_S)
            except self._ray.exceptions.RayError as error:
                problem = error
        raise self.kill(f"was lost, and so were {_STARTS} others: {type(problem).__name__}")

    def kill(self, reason: str | None = None, *, cause: str | None = None) -> WorkerLost:
        if self._lost is None:
            text = (reason or "was ended").rstrip(".")
            self._lost = WorkerLost(f"The Ray actor {text}.", cause=cause or "ended")
            self._end()
        return self._lost

    def close(self) -> None:
        if not self._closed and self._lost is None:
            self._closed = True
            with suppress(self._ray.exceptions.RayError):  # it is gone, or its environments hang
                self._ray.get(self.actor.handle.remote(_frame(m.Close())), timeout=5.0)
            self._end()

    def _end(self) -> None:
        if self._ray.is_initialized():
            self._ray.kill(self.actor)


def _begins_all(request: m.Request) -> bool:
    """Whether a reset with seeds begins every lane, so that nothing before it counts."""
    if isinstance(request, m.Reset):
        return request.seed is not None and not _is_partial(request)
    if isinstance(request, m.Call) and request.name == "reset":
        return not _is_partial(request) and None not in (request.kwargs.get("seed") or [None])
    return False


def _is_partial(request: m.Request) -> bool:
    options = request.options if isinstance(request, m.Reset) else getattr(request, "kwargs", {}).get("options")
    return isinstance(options, dict) and "reset_mask" in options


class RayVectorEnv(VectorEnv[Any, Any, Array]):
    """n lanes in actors of ``lanes_per_actor`` each; ``factories(count)`` returns what makes so many lanes there.

    ``resources``: what Ray reserves for each actor, as ``{"CPU": 1, "GPU": 0.25, "simulator": 1}``; nothing by default.
    A lost actor's lanes are rebuilt if ``deterministic``, else ``on_fault`` says what becomes of them.
    rewards: float64[n]; terminations, truncations: bool[n].
    """

    def __init__(
        self,
        num_envs: int,
        factories: Callable[[int], Factory],
        *,
        lanes_per_actor: int | None = None,
        resources: dict[str, float] | None = None,
        deterministic: bool = True,
        on_fault: OnFault = "restart",
        copy: bool = True,
    ) -> None:
        self._ray = begin_ray()
        self.num_envs = num_envs
        cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        size = lanes_per_actor or -(-num_envs // cores)
        self._parts = [slice(first, min(first + size, num_envs)) for first in range(0, num_envs, size)]
        self._factories, self._deterministic = factories, deterministic
        self._actor_class, self._resources = self._ray.remote(LaneActor), resources or {}
        self._turns = count()
        self._faults = Faults(on_fault, num_envs)
        self._envs: list[RemoteVectorEnv | None] = [None] * len(self._parts)
        self._channels: dict[int, RayChannel] = {}
        self._pending = self._begun = False
        self._actions: list[Any] = []
        try:
            for at in range(len(self._parts)):  # all begin to start before the first one is waited for
                self._channels[at] = self._channel()
            for at in range(len(self._parts)):
                self._make(at)
        except BaseException:
            self.close_extras()
            raise
        first = self._envs[0]
        assert first is not None
        self.single_observation_space = first.single_observation_space
        self.single_action_space = first.single_action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata, self.autoreset_mode = first.metadata, first.autoreset_mode
        self.render_mode, self.lane_spec = first.render_mode, first.lane_spec
        self._observations = LaneObservations(self.single_observation_space, num_envs, copy=copy)

    def _channel(self) -> RayChannel:
        return RayChannel(self._ray, self._start, deterministic=self._deterministic)

    def _start(self) -> Any:
        """Start an actor: where its resources are, or on the nodes in turn. Only this module replaces a lost one."""
        strategy: Any = "SPREAD"
        if not self._resources:  # Ray would put those that take nothing on one node
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            nodes = sorted(one["NodeID"] for one in self._ray.nodes() if one["Alive"])
            strategy = NodeAffinitySchedulingStrategy(nodes[next(self._turns) % len(nodes)], soft=False)
        options = _options(self._resources)
        return self._actor_class.options(scheduling_strategy=strategy, max_restarts=0, **options).remote()

    def _make(self, at: int) -> RemoteVectorEnv:
        part = self._parts[at]
        size = part.stop - part.start
        what = {"factory": self._factories(size), "num_envs": size}
        made = self._envs[at] = RemoteVectorEnv(self._channels[at], what, _RULES, name="ray")
        return made

    @property
    def rebuilt(self) -> int:
        """How many lost actors were replaced by ones that answer as they did."""
        return sum(channel.rebuilt for channel in self._channels.values())

    @property
    def nodes(self) -> list[str]:
        """The id of the node on which each actor runs."""
        asked = [channel.actor.node.remote() for channel in self._channels.values()]
        return self._ray.get(asked)  # type: ignore[no-any-return]

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self._check_free()
        seeds = lane_seeds(seed, self.num_envs)
        mask, options = reset_mask(options, self.num_envs, begun=self._begun)
        for lane in np.flatnonzero(mask).tolist():
            seeds[lane] = self._faults.choose_seed(lane, seeds[lane])
        infos: Info = {}
        for at, part in enumerate(self._parts):
            if mask[part].any():
                own = options if mask[part].all() else {**(options or {}), "reset_mask": mask[part]}
                try:
                    self._place(part, self._begin(at, seeds[part], own), infos)
                except WorkerLost as error:
                    self._place_fault(at, error, infos, beginning=True)
        self._faults.raise_reported()
        self._begun = True
        return self._observations.batch(), self._faults.add_live(infos)

    def _begin(self, at: int, seeds: list[int | None], options: Info | None) -> tuple[Any, Info]:
        """Reset an actor's lanes, in a new actor if theirs was lost."""
        env = self._envs[at]
        if env is None:
            self._channels[at] = self._channel()
            env = self._make(at)
        found = env.reset(seed=seeds, options=options)
        for lane in range(self._parts[at].start, self._parts[at].stop):
            self._faults.mark_begun(lane)
        return found

    def step(self, actions: Any) -> Result:
        self.send(actions)
        return self.recv()

    def send(self, actions: Any) -> None:
        """Begin a step of all lanes: one call to each actor."""
        self._check_free()
        each = self._split(actions)
        for at, env in enumerate(self._envs):
            if env is not None:
                try:
                    env.send(each[at])
                except WorkerLost as error:
                    self._lose(at, error)
        self._pending = True

    def _split(self, actions: Any) -> list[Any]:
        """Each actor's part of the actions, batched as they came."""
        if isinstance(actions, np.ndarray):
            return [actions[part] for part in self._parts]
        each = list(iterate(self.action_space, actions))
        parts = [each[part] for part in self._parts]
        single = self.single_action_space
        return [concatenate(single, part, create_empty_array(single, n=len(part))) for part in parts]

    def recv(self) -> Result:
        if not self._pending:
            raise NoAsyncCallError("recv() has no step to wait for. Call send(actions) first.", "recv")
        self._pending = False
        n, infos = self.num_envs, dict[str, Any]()
        rewards, terminations, truncations = np.zeros(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        for at, part in enumerate(self._parts):
            env = self._envs[at]
            try:
                if env is not None:
                    result = env.recv()
                    self._place(part, (result[0], result[4]), infos)
                    rewards[part], terminations[part], truncations[part] = result[1:4]
                elif part.start not in self._faults.frozen and self.autoreset_mode is not AutoresetMode.DISABLED:
                    seeds = [self._faults.next_seed(lane) for lane in range(part.start, part.stop)]
                    self._place(part, self._begin(at, seeds, None), infos)
            except WorkerLost as error:
                self._place_fault(at, error, infos)
                truncations[part] = True
        self._faults.raise_reported()
        return self._observations.batch(), rewards, terminations, truncations, self._faults.add_live(infos)

    def _place(self, part: slice, found: tuple[Any, Info], infos: Info) -> None:
        observations, own = found
        if self._observations.fixed:
            self._observations.put_part(part, observations)
        else:
            space = batch_space(self.single_observation_space, part.stop - part.start)
            for lane, one in enumerate(iterate(space, observations), part.start):
                self._observations.put(lane, one)
        _merge(infos, own, part, self.num_envs)

    def _lose(self, at: int, error: WorkerLost) -> None:
        env, self._envs[at] = self._envs[at], None
        if env is not None:
            env.close()

    def _place_fault(self, at: int, error: WorkerLost, infos: Info, *, beginning: bool = False) -> None:
        self._lose(at, error)
        part = self._parts[at]
        own: Info = {}
        for lane in range(part.start, part.stop):
            fault = WorkerLost(f"lane {lane}: {error}", lane=lane, cause=error.cause)
            info = self._faults.report(lane, fault, beginning=beginning)
            own = add_info(own, info, lane - part.start, part.stop - part.start)
        _merge(infos, own, part, self.num_envs)

    def hold(self, lanes: Array) -> None:
        masked_lanes(lanes, self.num_envs)
        for env, part in zip(self._envs, self._parts, strict=True):
            if env is not None:
                env.hold(np.asarray(lanes)[part])

    def render(self) -> tuple[Any, ...]:
        return self._each(lambda env, part: env.render() or (None,) * env.num_envs)

    def state(self) -> tuple[State, ...]:
        return self._each(lambda env, part: env.state())

    def snapshot(self) -> bytes:
        """All lanes as bytes, for ``restore`` of lanes in as many actors."""
        return seal_lanes(self._begun, self._each(lambda env, part: [env.snapshot()]))

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; anything else is refused."""
        begun, parts = open_lanes(snapshot, len(self._parts))
        each = iter(parts)
        self._each(lambda env, part: [env.restore(next(each))])  # type: ignore[func-returns-value]
        self._begun = begun

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each lane's attribute, called with the arguments if it is callable."""
        return self._each(lambda env, part: env.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each lane's attribute."""
        return self._each(lambda env, part: env.get_attr(name))

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute in every lane: one value for all, or a list or tuple with one per lane."""
        each = value_per_lane(values, self.num_envs)
        self._each(lambda env, part: [env.set_attr(name, list(each[part]))])  # type: ignore[func-returns-value]

    def _each(self, ask: Callable[[RemoteVectorEnv, slice], Any]) -> tuple[Any, ...]:
        """What the actors answer, one after the other."""
        self._check_free()
        found: list[Any] = []
        for env, part in zip(self._envs, self._parts, strict=True):
            if env is None:
                raise WorkerLost("A Ray actor was lost; its lanes begin again with the next step or reset.")
            found += ask(env, part)
        return tuple(found)

    def _check_free(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("These lanes are closed. Make them again.")
        if self._pending:
            raise AlreadyPendingCallError("A step is under way. Receive it with recv() first, or close().", "step")

    def close_extras(self, **kwargs: Any) -> None:
        for channel in self._channels.values():
            channel.close()


def ray_env(factory: Factory) -> Env[Any, Any]:
    """Make one environment in an actor of its own. If that is lost, so is the episode."""
    ray = begin_ray()
    actor = ray.remote(LaneActor).options(num_cpus=0, scheduling_strategy="SPREAD", max_restarts=0)
    return HostedEnv(RayChannel(ray, actor.remote, deterministic=False), {"factory": factory})


def _options(resources: dict[str, float]) -> dict[str, Any]:
    """Return Ray's options for these resources."""
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {"num_cpus": 0}
    options.update({named[name]: amount for name, amount in resources.items() if name in named})
    others = {name: amount for name, amount in resources.items() if name not in named}
    return {**options, "resources": others} if others else options


def _merge(infos: Info, own: Info, part: slice, num_envs: int) -> None:
    """Put the infos of some lanes into those of all: arrays with a row for each lane, masks, and dicts of these."""
    for name, value in own.items():
        if isinstance(value, dict):
            _merge(infos.setdefault(name, {}), value, part, num_envs)
            continue
        rows = np.asarray(value)
        whole = infos.get(name)
        if whole is None:
            whole = np.full((num_envs, *rows.shape[1:]), None if rows.dtype == object else 0, rows.dtype)
        elif whole.dtype != rows.dtype:
            kinds = {whole.dtype.kind, rows.dtype.kind}
            whole = whole.astype(np.result_type(whole, rows) if kinds <= set("iufb") else object)
        infos[name] = whole
        whole[part] = rows
