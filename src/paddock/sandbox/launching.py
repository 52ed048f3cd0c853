"""launch(): start a program behind a wall. A wall that can't be put up as asked is refused, never put up weaker."""

from __future__ import annotations

import functools
import os
import py_compile
import socket
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib.util import cache_from_source
from pathlib import Path

from paddock.errors import SandboxUnavailable
from paddock.sandbox.boot_line import BOOT, HOME
from paddock.sandbox.bubblewrap import command, end_orphans
from paddock.sandbox.cgroup import Group, sweep
from paddock.sandbox.child import Child
from paddock.sandbox.cpu import watch
from paddock.sandbox.machine import Machine
from paddock.sandbox.message import first_variables, message, most_tasks
from paddock.sandbox.plan import Backend, Call, Exec, Plan, plan
from paddock.sandbox.plumbing import Plumbing
from paddock.sandbox.policy import Policy
from paddock.sandbox.removal import remove_soon
from paddock.sandbox.starter import spawn

_SCRATCH = "paddock-scratch-"  # and the number of the process that made it


def launch(
    program: Call | Exec,
    policy: Policy,
    *,
    socket_fd: int,
    extra_fds: Sequence[int] = (),
    layers: frozenset[str] | None = None,
    backend: Backend | None = None,
) -> Child:
    """Start ``program`` behind the wall of ``policy``. ``socket_fd`` is 3 inside, ``extra_fds`` are 4, 5, …

    The descriptors stay open here: close yours. Returns before the wall is up; a worker that can't put it up ends,
    ``Child.wall_failure`` says why, and nothing of ``program`` has run. ``layers`` and ``backend`` are for tests.
    """
    chosen = plan(program, policy, layers=layers, backend=backend)
    _compile_once()
    with ExitStack() as if_it_fails:
        notes: list[str] = []
        group = _group(chosen, notes)
        if group is not None:
            if_it_fails.callback(group.remove)
        folder = _folder(chosen, notes)
        if folder is not None:
            if_it_fails.callback(remove_soon, folder)
        with Plumbing(socket_fd, tuple(extra_fds)) as pipes:
            child = _start(chosen, pipes, group, folder, notes)
            if_it_fails.callback(child.kill)
            _hand_over(chosen, child, pipes, _order(chosen, child, pipes))
        if_it_fails.pop_all()
    watch(child)
    return child


def _group(chosen: Plan, notes: list[str]) -> Group | None:
    if "cgroup" not in chosen.layers:
        return None
    _sweep_once(os.getpid())
    among, policy = chosen.machine.cgroups, chosen.policy
    try:
        group = Group(among, memory_bytes=policy.memory_mb << 20, pids=most_tasks(policy), cpu=True)
    except OSError as error:
        notes.append(f"memory: limited as address space, by RLIMIT_AS: a cgroup could not be made ({error})")
        return None
    if "memory" not in group.limits:
        notes.append("memory: limited as address space, by RLIMIT_AS: no cgroup with a memory limit may be made here")
    return group if group.limits else None


@functools.lru_cache(maxsize=1)
def _compile_once() -> None:
    """A worker sees paddock read-only: what is not compiled yet it would compile at each start: 14 ms here."""
    for source in Path(HOME, "sandbox", "inside").glob("*.py"):
        compiled = Path(cache_from_source(source, optimization=""))
        with suppress(OSError, py_compile.PyCompileError):  # installed where this user may not write, say
            if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
                py_compile.compile(str(source), doraise=True, optimize=0)


@functools.lru_cache(maxsize=1)
def _sweep_folders_once(_pid: int) -> None:
    """Remove what processes that were killed have left behind. Of others' folders it can remove nothing."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        owner = folder.name[len(_SCRATCH) :].partition("-")[0]
        with suppress(OSError):
            ours = folder.lstat().st_uid == os.geteuid()
            if ours and owner.isdigit() and not Path(f"/proc/{owner}").exists():
                remove_soon(str(folder))


@functools.lru_cache(maxsize=1)
def _end_orphans_once(_pid: int) -> None:
    end_orphans()


@functools.lru_cache(maxsize=1)
def _sweep_once(_pid: int) -> None:
    sweep(Machine.here().cgroups)


def _folder(chosen: Plan, notes: list[str]) -> str | None:
    """Without namespaces the scratch folder is a real one."""
    if chosen.backend is not None:
        return None
    notes.append("scratch: without namespaces it has no quota, only a limit for each file")
    if "limits" in chosen.layers and not any(one.name == "pids" for one in chosen.machine.cgroups):
        notes.append("threads: their number is not limited: without namespaces all of this user's would count")
    _sweep_folders_once(os.getpid())
    return tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-")


def _start(chosen: Plan, pipes: Plumbing, group: Group | None, folder: str | None, notes: list[str]) -> Child:
    python, bwrap = chosen.world.executable, chosen.backend == "bwrap"
    stdio = isinstance(chosen.program, Exec) and chosen.program.stdio
    # bubblewrap does not tell the worker's pid, only that of its parent.
    first = pipes.prologue(stdio=stdio, info=bwrap, hello=bwrap and group is not None)
    argv = [python, "-I", "-S", "-c", first + BOOT, str(pipes.config_fd)]
    if bwrap:
        assert chosen.machine.bwrap is not None
        _end_orphans_once(os.getpid())
        argv = command(
            chosen.machine.bwrap,
            chosen.mounts,
            argv,
            root=chosen.machine.root,
            scratch_bytes=chosen.policy.scratch_mb << 20,
            info_fd=pipes.info_fd,
        )
    alone = chosen.backend is None
    fds = pipes.passed(info=bwrap, lifeline=alone)
    process = spawn(argv, fds=fds, output=pipes.output_fd, env=first_variables(folder))
    return Child(
        process,
        pipes.take_output(),
        plan=chosen,
        notes=notes,
        group=group,
        folder=folder,
        lifeline=pipes.take_lifeline() if alone else None,
        control=pipes.take_control(),
    )


def _order(chosen: Plan, child: Child, pipes: Plumbing) -> bytes:
    memory = child.group is not None and "memory" in child.group.limits
    return message(chosen, memory_in_cgroup=memory, folder=child.folder, lifeline_fd=pipes.lifeline_fd)


def _hand_over(chosen: Plan, child: Child, pipes: Plumbing, order: bytes) -> None:
    """Send the message that the worker waits for; before that it must be in its cgroup."""
    pipes.close_far_ends()
    if chosen.backend == "bwrap":
        pid = pipes.read_info()
        if pid is None:
            words = child.last_words()
            raise SandboxUnavailable(f"bubblewrap failed: {child.output.strip() or words}. See: paddock doctor.")
        child.watch_init(pid)
    control = pipes.take_control()
    if child.group is None:
        _send(control, order)
        return
    usher = functools.partial(_usher, control, order, child.group, child.pid, below=chosen.backend == "bwrap")
    threading.Thread(target=usher, name="paddock-usher", daemon=True).start()


def _usher(control: socket.socket, order: bytes, group: Group, pid: int, *, below: bool) -> None:
    """Put the process, or the worker ``below`` it, into the group; then the worker may go on.

    In a thread: the first move into a cgroup takes 9 ms here, in which the kernel waits for all cores, and those that
    follow take none. The interpreter starts meanwhile, and so does whatever else the caller starts.
    """
    with control, suppress(OSError):  # without its message the worker ends: nothing runs outside its group
        try:
            group.add(pid)
            if below:
                group.add(_sender(control))
        except BaseException:
            control.shutdown(socket.SHUT_WR)
            raise
        _send(control, order)


def _sender(control: socket.socket) -> int:
    """The number, here, of the process at the other end: the kernel sends it along with the byte that it wrote."""
    said, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(12))
    for level, kind, data in ancillary:
        if said and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int.from_bytes(data[:4], "little")
    raise ProcessLookupError("the worker ended before it said anything")


def _send(control: socket.socket, order: bytes) -> None:
    with control, suppress(BrokenPipeError, ConnectionResetError):
        control.sendall(order)
        control.shutdown(socket.SHUT_WR)  # the end of it even if a forked process has a copy of this socket
