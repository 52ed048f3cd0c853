"""What PythonCode may do behind a wall, and the workspaces of its agents. paddock grants it: the code is its own."""

from __future__ import annotations

from functools import lru_cache

from paddock.sandbox.policy import Policy
from paddock.sandbox.view import PythonWorld

CPU_S = 5.0  # of a program
RUN_S = 10.0  # from when a program can begin to its end: it may sleep, and it may have to wait for a core
START_S = 15.0  # until a workspace stands, on a machine with much to do


def policy() -> Policy:
    """Of the environment: it computes, and asks for workspaces. One may still be ending when the next begins."""
    return Policy(workspaces=2, workspace=workspace_policy(), reward_range=(0.0, 1.0))


def workspace_policy() -> Policy:
    """Of a workspace: one Python process. No second one, no network, no files but Python's own and a little scratch."""
    return Policy(
        programs=(python(),),
        processes=1,
        threads=16,
        memory_mb=512,
        scratch_mb=16,
        cpu_s=CPU_S,
        call_s=START_S + RUN_S + 2.0,
        descriptors=64,
        output_kb=4,
    )


@lru_cache(maxsize=1)
def python() -> str:
    """The interpreter, which every wall shows anyway."""
    return PythonWorld.here().executable
