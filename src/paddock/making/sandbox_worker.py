"""The worker behind a wall, which makes and holds untrusted environments. None of their code ran before the lock."""

from __future__ import annotations

import faulthandler
import gc
import io
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.core.state import name_episodes
from paddock.core.vector_env import VectorEnv
from paddock.hosting.codec import encode
from paddock.hosting.failures import to_failed, to_redacted_failed
from paddock.hosting.frames import write_frame
from paddock.hosting.host import Host
from paddock.hosting.messages import Close, Make, Message, Reset
from paddock.hosting.worker import serve
from paddock.kernels.vector import KernelVectorEnv
from paddock.making.agents import Agent
from paddock.making.build import build, build_one, resolve
from paddock.making.options import LaneOptions
from paddock.making.plan import plan
from paddock.making.target import Target, locate
from paddock.sandbox.child import STACK_SIGNAL
from paddock.sandbox.workspaces import use_workspace_socket
from paddock.vector.lanes import HostedLanes
from paddock.vector.loop import SyncVectorEnv

COMPILED_FROM = 16  # a loop steps fewer lanes as fast as the network brings actions
_SOCKET_FD = 3


def main(
    workspace_fd: int | None = None,
    folders: Sequence[str] = (),
    redact_errors: bool = False,
    awake_s: float = 0.0,
    code: str | None = None,
    report_fd: int | None = None,
) -> None:
    """Serve requests on the one socket that leads out, until the other side closes it.

    ``workspace_fd``: where to ask for workspaces. ``folders``: one with a manifest, its dependencies, to import from.
    ``redact_errors``: replies go to a remote peer, who must not see what the environment's errors say.
    ``awake_s``: how long to spin for the next request. ``code``: a module that the first request will need.
    ``report_fd``: gets a byte once that is imported, 1 if it could be and else 0.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other side
    faulthandler.register(STACK_SIGNAL, all_threads=False)  # to stderr, to find out where it hangs
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what it prints before it hangs or dies says why
    os.environ["PADDOCK_CACHE"] = "none"  # the scratch folder ends with this process
    sys.path += folders  # last: they shadow nothing that is installed
    use_workspace_socket(None if workspace_fd is None else socket.socket(fileno=workspace_fd))
    imported = code is None or _can_import(code, folders)
    if report_fd is not None:
        with suppress(OSError):  # nobody waits for it any more
            os.write(report_fd, bytes([imported]))
            os.close(report_fd)
    gc.freeze()  # garbage collections need not look through all that was imported
    with socket.socket(fileno=_SOCKET_FD) as far:
        host = Host(build_from_payload, alone=True, failed=to_redacted_failed if redact_errors else to_failed)
        serve(far, host, awake_s=awake_s)


def _can_import(code: str, folders: Sequence[str]) -> bool:
    try:
        module = import_module(code)
        if hasattr(module, "import_folder"):  # which does it for all folders of one shape
            module.import_folder(folders[0])
    except Exception:  # the request that needs it will say what is wrong
        return False
    return True


def prepare() -> None:
    """In a template: serve an environment of paddock's own, as a worker will, for what that imports and prepares."""
    from paddock.making.payload import pack

    os.environ["PADDOCK_CACHE"] = "none"  # so that nothing is compiled, and no compiler imported
    requests: list[Message] = [Make(0, pack(plan(locate("CartPole-v1"))).what), Reset(0, 0), Close()]
    near, far = socket.socketpair()
    with near, far:
        for number, message in enumerate(requests):
            write_frame(near, encode(message, number))
        serve(far, Host(build_from_payload))


def build_from_payload(what: dict[str, Any]) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """Build the environment that ``payload.pack`` wrote down; on this side of the wall it is made like any other.

    With ``num_envs`` it is that many lanes, compiled if there are many and the environment has compiled ones;
    ``autoreset`` and ``on_fault`` are those of LaneOptions.
    """
    if what["kind"] == "agent":
        return Agent(what["module"], what["observation_space"], what["action_space"], what["seed"])
    spec = None if what["spec"] is None else EnvSpec.from_json(what["spec"])
    target = Target(what["text"], what["kind"], spec, what["module"], what["id"], folder=what.get("folder"))
    target = resolve(target, "none")
    num_envs, lanes, backend = what.get("num_envs"), None, "auto"
    if num_envs is not None:
        options = {name: what[name] for name in ("autoreset", "on_fault") if what.get(name) is not None}
        # Each result becomes bytes before the next one is made, so nobody sees a buffer change.
        lanes = LaneOptions(copy=False, **options)
        # Compiling takes seconds here, where no machine code is cached; and compiled lanes do not fail singly.
        backend = "loop" if num_envs < COMPILED_FROM or lanes.on_fault == "mask" else "auto"
    planned = plan(
        target,
        num_envs=num_envs,
        lanes=lanes,
        backend=backend,
        isolation="none",
        validate=what["validate"],
        strict=what["strict"],
        max_episode_steps=what["max_episode_steps"],
        render_mode=what["render_mode"],
        wrappers=[WrapperSpec(*entry) for entry in what["wrappers"]],
        env_kwargs=what["kwargs"],
    )
    seed = what.get("seed")  # with one, even an episode that is reset without a seed can be repeated
    if lanes is not None:
        built = build(planned)
        assert isinstance(built, VectorEnv)
        if seed is not None:
            _make_repeatable(built, seed)
        _forget_code(built)
        return HostedLanes(built)
    env = build_one(planned)
    if seed is not None:
        env.unwrapped.np_random = np.random.Generator(np.random.PCG64(seed))
        name_episodes(env, seed)
    _forget_code(env)
    return env


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
    """Remove from the spec which code this is: the other side learns everything else."""
    if env.unwrapped.spec is not None:
        env.unwrapped.spec = replace(env.unwrapped.spec, entry_point=None, vector_entry_point=None)
