"""Behind the wall: the worker that makes and holds untrusted environments. Nothing of them ran before the lock."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.hosting.discreet import discreetly_failed
from paddock.hosting.failure import failed
from paddock.hosting.host import Host
from paddock.hosting.serve import serve
from paddock.making.agents import Agent
from paddock.making.build import build_one, resolve
from paddock.making.plan import plan
from paddock.making.target import Target
from paddock.sandbox.workspaces import lead_through


_SOCKET_FD = 3


def main(door_fd: int | None = None, folder: str | None = None, discreet: bool = False) -> None:
    """Serve requests on the one socket that leads out, until the other side closes it.

    ``door_fd``: where to ask for workspaces. ``folder``: one with a manifest, whose modules are to be found.
    ``discreet``: the replies go to a peer far away, who is not told what an error of the environment says.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other side
    os.environ["PADDOCK_CACHE"] = "none"  # the scratch folder ends with this process
    if folder is not None:
        sys.path.append(folder)  # last: it shadows nothing that is installed
    lead_through(None if door_fd is None else socket.socket(fileno=door_fd))
    with socket.socket(fileno=_SOCKET_FD) as far:
        serve(far, Host(build_described, alone=True, failed=discreetly_failed if discreet else failed))


def build_described(what: dict[str, Any]) -> Env[Any, Any]:
    """The environment that ``crossing`` wrote down; on this side of the wall it is made as any other."""
    if what["kind"] == "agent":
        return Agent(what["module"], what["observation_space"], what["action_space"], what["seed"])
    spec = None if what["spec"] is None else EnvSpec.from_json(what["spec"])
    target = resolve(Target(what["text"], what["kind"], spec=spec, module=what["module"], id=what["id"]))
    decided = plan(
        target,
        isolation="none",
        validate=what["validate"],
        strict=what["strict"],
        max_episode_steps=what["max_episode_steps"],
        render_mode=what["render_mode"],
        wrappers=[WrapperSpec(*entry) for entry in what["wrappers"]],
        env_kwargs=what["kwargs"],
    )
    env = build_one(decided)
    if what.get("seed") is not None:  # an episode that nobody seeds can be repeated all the same
        env.unwrapped.np_random = np.random.Generator(np.random.PCG64(what["seed"]))
    if env.unwrapped.spec is not None:  # the other side is told everything but which code this is
        env.unwrapped.spec = replace(env.unwrapped.spec, entry_point=None, vector_entry_point=None)
    return env
