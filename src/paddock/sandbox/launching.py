"""launch(): start a program behind a wall. A wall that can't be put up as asked is refused, never put up weaker."""

from __future__ import annotations

import functools
import json
import os
import py_compile
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib.util import cache_from_source
from pathlib import Path, PurePosixPath
from typing import Any

from paddock.errors import SandboxUnavailable
from paddock.sandbox.cgroup import Group, sweep
from paddock.sandbox.child import Child, is_readable, watch_cpu
from paddock.sandbox.containers import Contained, start_contained
from paddock.sandbox.mounts import Mount
from paddock.sandbox.plan import (
    BOOT,
    BOOT_END,
    HOME,
    HOSTNAME,
    Backend,
    Call,
    Exec,
    Plan,
    first_variables,
    most_tasks,
    plan,
    write_order,
)
from paddock.sandbox.policy import Policy
from paddock.sandbox.removal import remove_soon
from paddock.sandbox.template import Forked, NoTemplate, fork_worker

_SCRATCH = "paddock-scratch-"  # and the number of the process that made it


def launch(
    program: Call | Exec,
    policy: Policy,
    *,
    socket_fd: int,
    extra_fds: Sequence[int] = (),
    tenant: str = "",
    layers: frozenset[str] | None = None,
    backend: Backend | None = None,
) -> Child:
    r"""Start ``program`` behind the wall of ``policy``. ``socket_fd`` is 3 inside, ``extra_fds`` are 4, 5, …

    The descriptors stay open here: close yours. Returns before the wall is up; a worker that can't put it up ends,
    ``Child.wall_failure`` says why, and nothing of ``program`` has run. Workers of different ``tenant``\ s are never
    forked from the same template. ``layers`` and ``backend`` are for tests.
    """
    chosen = plan(program, policy, layers=layers, backend=backend)
    try:
        return _launch(chosen, socket_fd, tuple(extra_fds), tenant)
    except NoTemplate as error:
        chosen = plan(program, replace(policy, fresh=True))
        child = _launch(chosen, socket_fd, tuple(extra_fds), tenant)
        child.notes.append(f"start: an interpreter of its own, since no template could fork it: {error}")
        return child


def _launch(chosen: Plan, socket_fd: int, extra_fds: tuple[int, ...], tenant: str) -> Child:
    _do_once(os.getpid(), _compile_inside)
    with ExitStack() as if_it_fails:
        notes: list[str] = []
        group = _make_group(chosen, notes)
        if group is not None:
            if_it_fails.callback(group.remove)
        folder: str | None = None
        if chosen.backend is None:  # without namespaces the scratch folder is a real one
            notes.append("scratch: without namespaces it has no quota, only a limit for each file")
            if "limits" in chosen.layers and not any(one.name == "pids" for one in chosen.machine.cgroups):
                notes.append("threads: their number is not limited: without namespaces all of this user's would count")
            _do_once(os.getpid(), _sweep_folders)
            folder = tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-")
            if_it_fails.callback(remove_soon, folder)
        with Plumbing(socket_fd, extra_fds) as pipes:
            child = _start_child(chosen, pipes, group, folder, notes, tenant)
            if_it_fails.callback(child.kill)
            # gVisor's kernel is in the group as well: what ended it there could be anything but the worker.
            memory = child.group is not None and "memory" in child.group.limits and chosen.tier != "gvisor"
            order = write_order(chosen, memory_in_cgroup=memory, folder=folder, lifeline_fd=pipes.lifeline_fd)
            _hand_over(chosen, child, pipes, order)
        if_it_fails.pop_all()
    watch_cpu(child)
    return child


def _make_group(chosen: Plan, notes: list[str]) -> Group | None:
    if "cgroup" not in chosen.layers:
        return None
    among, policy = chosen.machine.cgroups, chosen.policy
    _do_once(os.getpid(), sweep, among)
    try:
        group = Group(among, memory_bytes=policy.memory_mb << 20, pids=most_tasks(policy), cpu=True)
    except OSError as error:
        notes.append(f"memory: limited as address space, by RLIMIT_AS: a cgroup could not be made ({error})")
        return None
    if "memory" not in group.limits:
        notes.append("memory: limited as address space, by RLIMIT_AS: no cgroup with a memory limit may be made here")
    return group if group.limits else None


@functools.lru_cache(maxsize=8)
def _do_once(_pid: int, task: Callable[..., object], *arguments: object) -> None:
    """Do it once per process: a forked one does it again."""
    task(*arguments)


def _compile_inside() -> None:
    """A worker sees paddock read-only, so it would compile again at each start what is not compiled yet: 14 ms here."""
    for source in Path(HOME, "sandbox", "inside").glob("*.py"):
        compiled = Path(cache_from_source(source, optimization=""))
        with suppress(OSError, py_compile.PyCompileError):  # installed where this user may not write, for instance
            if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
                py_compile.compile(str(source), doraise=True, optimize=0)


def _sweep_folders() -> None:
    """Remove the scratch folders of killed processes. Other users' folders it can't remove."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        owner = folder.name[len(_SCRATCH) :].partition("-")[0]
        with suppress(OSError):
            ours = folder.lstat().st_uid == os.geteuid()
            if ours and owner.isdigit() and not Path(f"/proc/{owner}").exists():
                remove_soon(str(folder))


def _start_child(
    chosen: Plan, pipes: Plumbing, group: Group | Contained | None, folder: str | None, notes: list[str], tenant: str
) -> Child:
    with ExitStack() as if_it_fails:
        # Taken before anything runs: if descriptors run out, there is nothing to end.
        output = pipes.take_output()
        if_it_fails.callback(os.close, output)
        control = if_it_fails.enter_context(pipes.take_control())
        lifeline: socket.socket | None = None
        process: subprocess.Popen[bytes] | Forked | Contained
        if chosen.forked:
            process = fork_worker(
                chosen, (pipes.config_fd, pipes.output_fd, *pipes.worker_fds), control, tenant=tenant, spawn=spawn
            )
        elif chosen.backend == "container":
            process = group = start_contained(chosen, BOOT, (pipes.output_fd, pipes.config_fd, *pipes.worker_fds))
        else:
            if chosen.backend is None:
                lifeline = if_it_fails.enter_context(pipes.lifeline.dup())
            process = _start(chosen, pipes, group, folder)
        if_it_fails.pop_all()
    return Child(
        process, output, plan=chosen, notes=notes, group=group, folder=folder, lifeline=lifeline, control=control
    )


def _start(
    chosen: Plan, pipes: Plumbing, group: Group | Contained | None, folder: str | None
) -> subprocess.Popen[bytes]:
    python, bwrap = chosen.world.executable, chosen.backend == "bwrap"
    stdio = isinstance(chosen.program, Exec) and chosen.program.stdio
    # bubblewrap does not report the worker's pid, only that of its parent.
    first = pipes.prologue(stdio=stdio, info=bwrap, hello=bwrap and group is not None)
    argv = [python, "-I", "-S", "-c", first + BOOT, str(pipes.config_fd)]
    if bwrap:
        assert chosen.machine.bwrap is not None
        _do_once(os.getpid(), end_orphans)
        size, root = chosen.policy.scratch_mb << 20, chosen.machine.root
        argv = bubblewrap_command(
            chosen.machine.bwrap, chosen.mounts, argv, root=root, scratch_bytes=size, info_fd=pipes.info_fd
        )
    fds = [*pipes.worker_fds, pipes.config_fd]
    fds += [pipes.info_fd, pipes.held_fd] if bwrap else [] if chosen.backend else [pipes.lifeline_fd]
    return spawn(argv, fds=tuple(fds), output=pipes.output_fd, env=first_variables(folder))


def _hand_over(chosen: Plan, child: Child, pipes: Plumbing, order: bytes) -> None:
    """Send the order that the worker waits for. Before that it must be in its cgroup."""
    pipes.far.close()  # only so does either side notice that the other is gone
    if chosen.backend == "bwrap":
        pid = pipes.read_info()
        if pid is None:
            words = child.last_words()
            raise SandboxUnavailable(f"bubblewrap failed: {child.output.strip() or words}. See: paddock doctor.")
        child.watch_init(pid)
    control = pipes.take_control()
    if not isinstance(child.group, Group):
        _send(control, order)
        return
    usher = functools.partial(_usher, control, order, child.group, child.pid, below=chosen.backend == "bwrap")
    threading.Thread(target=usher, name="paddock-usher", daemon=True).start()


def _usher(control: socket.socket, order: bytes, group: Group, pid: int, *, below: bool) -> None:
    """Put the process, or the worker ``below`` it, into the group; then the worker may go on.

    In a thread: the first move into a cgroup takes 9 ms here, in which the kernel waits for all cores; those that
    follow take none. The interpreter starts meanwhile, and so does whatever else the caller starts.
    """
    # KeyError: the worker ended before it wrote anything. Without its order it ends: nothing runs outside its group.
    with control, suppress(OSError, KeyError):
        try:
            group.add(pid)
            if below:
                # The kernel sends along with the worker's byte which process wrote it, by its number here.
                byte, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(12))
                kinds = {(level, kind): data for level, kind, data in ancillary} if byte else {}
                group.add(int.from_bytes(kinds[socket.SOL_SOCKET, socket.SCM_CREDENTIALS][:4], "little"))
        except BaseException:
            control.shutdown(socket.SHUT_WR)
            raise
        _send(control, order)


def _send(control: socket.socket, order: bytes) -> None:
    with control, suppress(BrokenPipeError, ConnectionResetError):
        control.sendall(order)
        control.shutdown(socket.SHUT_WR)  # the end of it even if a forked process has a copy of this socket


# ── bubblewrap. As root without a user namespace: in one, uid 0 stays uid 0 ──


def bubblewrap_command(
    bwrap: str, mounts: Sequence[Mount], argv: Sequence[str], *, root: bool, scratch_bytes: int, info_fd: int
) -> list[str]:
    """The arguments to run ``argv`` with a view of ``mounts``."""
    options = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not root:
        options += ["--unshare-user", "--disable-userns"]
    # The new session: without it, input can be pushed into this terminal.
    options += ["--die-with-parent", "--new-session", "--hostname", HOSTNAME, "--info-fd", str(info_fd)]
    for one, folders in with_parents(mounts):
        for folder in folders:
            options += ["--perms", "0755", "--dir", folder]  # those that it makes by itself are 0700
        options += _mount(one, scratch_bytes)
    for one in mounts:
        if one.how == "empty":
            options += ["--remount-ro", one.target]  # now that what lies in it is mounted
    # The root is a tmpfs without a limit; as an ordinary user it would be the worker's own.
    options += ["--remount-ro", "/", "--chdir", "/"]
    return [bwrap, *options, "--", *argv]


def end_orphans() -> list[int]:
    """End what bubblewrap left behind when its parent was killed while it started; return the processes' numbers.

    bubblewrap's child waits for a message from its parent: for ever, if the parent was killed before it could send it.
    """
    orphans = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names are all that is wanted
        if _is_orphan(pid):
            with suppress(OSError):
                process = os.pidfd_open(int(pid))
                try:
                    if _is_orphan(pid):  # still: the number could have been given to another process
                        signal.pidfd_send_signal(process, signal.SIGKILL)
                        orphans.append(int(pid))
                finally:
                    os.close(process)
    return orphans


def _is_orphan(pid: str) -> bool:
    """Whether it is the first process of a worker of this user, without the bubblewrap that watches over it."""
    try:
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
        if BOOT_END.encode() not in command_line or b"--unshare-pid" not in command_line:
            return False
        # Bytes: what runs behind a wall chooses its own name, which need not be text.
        facts = dict(line.split(b":", 1) for line in Path(f"/proc/{pid}/status").read_bytes().split(b"\n") if line)
        numbers = facts[b"NSpid"].split()  # here, and in each namespace below
        if len(numbers) < 2 or int(numbers[-1]) != 1 or int(facts[b"Uid"].split()[1]) != os.geteuid():
            return False
        # As long as its parent lives, both have the same command line.
        return Path(f"/proc/{int(facts[b'PPid'])}/cmdline").read_bytes() != command_line
    except (OSError, KeyError, ValueError, IndexError):  # whatever a stranger's process calls itself
        return False


def with_parents(mounts: Sequence[Mount]) -> Iterable[tuple[Mount, list[str]]]:
    """Each mount with the folders above it that are not there yet, outermost first."""
    there: set[str] = set()
    for one in mounts:
        above = [str(folder) for folder in reversed(PurePosixPath(one.target).parents)][1:]
        while above and above[0] in there:
            above.pop(0)
        there.update(above, (one.target,))
        yield one, above


def _mount(one: Mount, scratch_bytes: int) -> list[str]:
    if one.how == "scratch":
        return ["--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", one.target]
    if one.how == "empty":
        return ["--perms", "0755", "--tmpfs", one.target]
    if one.how == "proc":
        return ["--proc", one.target]
    option = {"ro": "--ro-bind", "rw": "--bind", "dev": "--dev-bind", "link": "--symlink"}[one.how]
    return [option, one.source, one.target]


# ── Descriptors and processes ──

_HIGH = 64  # above those that the worker will use under fixed numbers
# Held while descriptors are made and while this process forks: a copy in a forked process would keep an end open.
_FORKING = threading.RLock()
_OPEN: weakref.WeakSet[Plumbing] = weakref.WeakSet()
_INFO_S = 10.0  # how long bubblewrap may take until it has forked


class Plumbing:
    """The descriptors between this process and one that it starts. Those that were not taken are closed at the end.

    They are the control socket, the output, bubblewrap's report and the lifeline.
    """

    def __init__(self, socket_fd: int, extra_fds: tuple[int, ...]) -> None:
        self.far, self._near = ExitStack(), ExitStack()
        with _FORKING, ExitStack() as if_it_fails:
            if_it_fails.callback(self.__exit__)
            self.worker_fds = [self._lift(fd) for fd in (socket_fd, *extra_fds)]
            self._control, control = socket.socketpair()
            self._near.callback(self._control.close)
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self.config_fd = self._lift(control.detach(), owned=True)
            self.lifeline, watched = socket.socketpair()
            self._near.callback(self.lifeline.close)
            self.lifeline_fd = self._lift(watched.detach(), owned=True)
            self._output, self.output_fd = self._pipe()
            self._info, self.info_fd = self._pipe()
            # For bubblewrap itself: without a reader for its report it would end, and its child would wait for ever.
            self.held_fd = self._lift(self._info)
            _OPEN.add(self)
            if_it_fails.pop_all()

    def _lift(self, fd: int, *, owned: bool = False) -> int:
        import fcntl  # here: this module is imported on systems that don't have it

        try:
            high: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        finally:
            if owned:
                os.close(fd)
        self.far.callback(os.close, high)
        return high

    def _pipe(self) -> tuple[int, int]:
        reads, writes = os.pipe()
        self._near.callback(os.close, reads)
        return reads, self._lift(writes, owned=True)

    def prologue(self, *, stdio: bool, info: bool, hello: bool) -> str:
        """Python for the worker's first line: descriptors to their fixed numbers, and a byte that bears its pid."""
        lines = ["import os"]
        for number, fd in enumerate(self.worker_fds, 3):
            lines += [f"os.dup2({fd},{number})", f"os.close({fd})"]
        if info:
            lines += [f"os.close({self.held_fd})"]
        if stdio:
            lines += ["os.dup2(3,0)", "os.dup2(3,1)"]
        if hello:
            lines += [f"os.write({self.config_fd},b'!')"]
        return ";".join(lines) + "\n"

    def read_info(self) -> int | None:
        """The pid of bubblewrap's first process inside; None if it ended before there was one."""
        report = b""
        while is_readable(self._info, _INFO_S) and (piece := os.read(self._info, 4096)):
            report += piece
            with suppress(ValueError):
                return int(json.loads(report)["child-pid"])
        return None

    def take_output(self) -> int:
        """The end to read from, which the caller closes."""
        return os.dup(self._output)

    def take_control(self) -> socket.socket:
        """The socket to the boot, which the caller closes."""
        return self._control.dup()

    def __enter__(self) -> Plumbing:
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.discard(self)
        self.far.close()
        self._near.close()


_orders: queue.SimpleQueue[tuple[Future[subprocess.Popen[bytes]], list[str], dict[str, Any]]] | None = None
_making = threading.Lock()


def spawn(argv: list[str], *, fds: tuple[int, ...], output: int, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the program as the leader of a new session, with nothing open but ``fds`` and its standard streams."""
    global _orders
    with _making:
        if _orders is None:
            _orders = queue.SimpleQueue()
            threading.Thread(target=_start_programs, args=(_orders,), name="paddock-starter", daemon=True).start()
        orders = _orders
    options = {"pass_fds": fds, "stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, "cwd": "/", "env": env}
    future: Future[subprocess.Popen[bytes]] = Future()
    orders.put((future, argv, options))
    return future.result()


def _start_programs(orders: queue.SimpleQueue[Any]) -> None:
    """Start what comes, in one thread that lives as long as this process.

    A worker dies with the *thread* that started it: that is how PR_SET_PDEATHSIG works, and what ends a worker when
    this process is killed. Started from a thread of the caller's, it would also end when that thread does.
    """
    while True:
        future, argv, options = orders.get()
        try:
            future.set_result(subprocess.Popen(argv, start_new_session=True, **options))  # noqa: S603 - our own
        except BaseException as error:
            future.set_exception(error)
        del future  # not kept until the next one comes


def _forget_after_fork() -> None:
    """A forked process has none of its parent's threads, and must not keep its parent's ends open."""
    global _orders, _making
    for pipes in list(_OPEN):
        pipes.__exit__()
    _FORKING.release()
    _orders, _making = None, threading.Lock()


if hasattr(os, "register_at_fork"):  # else there are no walls either
    os.register_at_fork(before=_FORKING.acquire, after_in_parent=_FORKING.release, after_in_child=_forget_after_fork)
