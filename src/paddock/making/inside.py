"""Behind the wall: the worker that makes and holds untrusted environments. Nothing of them ran before the lock."""

from __future__ import annotations

import faulthandler
import gc
import io
import os
import signal
import socket
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.episode_names import name_episodes
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.core.vector_env import VectorEnv
from paddock.hosting.discreet import discreetly_failed
from paddock.hosting.failure import failed
from paddock.hosting.host import Host
from paddock.hosting.serve import serve
from paddock.kernels.vector import KernelVectorEnv
from paddock.making.agents import Agent
from paddock.making.build import build, build_one, resolve
from paddock.making.lane_options import LaneOptions
from paddock.making.plan import Plan, plan
from paddock.making.target import Target
from paddock.sandbox.child import STACK_SIGNAL
from paddock.sandbox.workspaces import lead_through
from paddock.vector.hosted_lanes import HostedLanes
from paddock.vector.loop import SyncVectorEnv

COMPILED_FROM = 16  # fewer lanes are stepped as fast in a loop as the network brings actions
_SOCKET_FD = 3


def main(door_fd: int | None = None, folder: str | None = None, discreet: bool = False, awake_s: float = 0.0) -> None:
    """Serve requests on the one socket that leads out, until the other side closes it.

    ``door_fd``: where to ask for workspaces. ``folder``: one with a manifest, whose modules are to be found.
    ``discreet``: the replies go to a peer far away, who is not told what an error of the environment says.
    ``awake_s``: how long it may stay awake for the next request.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other side
    faulthandler.register(STACK_SIGNAL, all_threads=False)  # to stderr, for whoever asks where it stands
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what it printed before it hung or died is what tells why
    os.environ["PADDOCK_CACHE"] = "none"  # the scratch folder ends with this process
    if folder is not None:
        sys.path.append(folder)  # last: it shadows nothing that is installed
    lead_through(None if door_fd is None else socket.socket(fileno=door_fd))
    gc.freeze()  # collections need not look through all that was imported
    with socket.socket(fileno=_SOCKET_FD) as far:
        host = Host(build_described, alone=True, failed=discreetly_failed if discreet else failed)
        serve(far, host, awake_s=awake_s)


def build_described(what: dict[str, Any]) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """The environment that ``crossing`` wrote down; on this side of the wall it is made as any other.

    With ``num_envs`` it is that many lanes, compiled if there are many and the environment has such; ``autoreset`` and
    ``on_fault`` are those of LaneOptions.
    """
    if what["kind"] == "agent":
        return Agent(what["module"], what["observation_space"], what["action_space"], what["seed"])
    spec = None if what["spec"] is None else EnvSpec.from_json(what["spec"])
    target = resolve(Target(what["text"], what["kind"], spec=spec, module=what["module"], id=what["id"]))
    lanes = None if what.get("num_envs") is None else _lane_options(what)
    decided = plan(
        target,
        num_envs=what.get("num_envs"),
        lanes=lanes,
        backend=_backend(what),
        isolation="none",
        validate=what["validate"],
        strict=what["strict"],
        max_episode_steps=what["max_episode_steps"],
        render_mode=what["render_mode"],
        wrappers=[WrapperSpec(*entry) for entry in what["wrappers"]],
        env_kwargs=what["kwargs"],
    )
    seed = what.get("seed")  # with one, an episode that nobody seeds can be repeated all the same
    if lanes is not None:
        return _build_lanes(decided, seed)
    env = build_one(decided)
    if seed is not None:
        env.unwrapped.np_random = np.random.Generator(np.random.PCG64(seed))
        name_episodes(env, seed)
    _forget_code(env)
    return env


def _backend(what: dict[str, Any]) -> str:
    """Compiling takes seconds here, where no machine code is kept; and compiled lanes do not fail singly."""
    lanes = what.get("num_envs")
    return "loop" if lanes is not None and (lanes < COMPILED_FROM or what.get("on_fault") == "mask") else "auto"


def _lane_options(what: dict[str, Any]) -> LaneOptions:
    asked = {name: what[name] for name in ("autoreset", "on_fault") if what.get(name) is not None}
    # Each result is bytes before the next one is made, so nobody sees a buffer change.
    return LaneOptions(copy=False, **asked)


def _build_lanes(decided: Plan, seed: int | None) -> HostedLanes:
    lanes = build(decided)
    assert isinstance(lanes, VectorEnv)
    if seed is not None:
        _make_repeatable(lanes, seed)
    _forget_code(lanes)
    return HostedLanes(lanes)


def _make_repeatable(lanes: VectorEnv[Any, Any, Any], seed: int) -> None:
    spawned = np.random.SeedSequence(seed).spawn(lanes.num_envs)
    streams = [np.random.Generator(np.random.PCG64(one)) for one in spawned]
    if isinstance(lanes, SyncVectorEnv):
        for lane, (env, stream) in enumerate(zip(lanes.envs, streams, strict=True)):
            env.unwrapped.np_random = stream
            name_episodes(env, (seed, lane))
        return
    name_episodes(lanes, seed)
    if isinstance(lanes, KernelVectorEnv):
        lanes.set_attr("np_random", streams)
    else:  # the environment's own vector form
        lanes.np_random = streams[0]


def _forget_code(env: Any) -> None:
    """The other side is told everything but which code this is."""
    if env.unwrapped.spec is not None:
        env.unwrapped.spec = replace(env.unwrapped.spec, entry_point=None, vector_entry_point=None)
