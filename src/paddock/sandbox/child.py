"""Child: what was started behind a wall, until nothing of it is left. ``kill`` ends the whole tree, not one process.

``watch_cpu`` ends one that uses more CPU time in a call than its policy allows.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

from paddock.sandbox.cgroup import Group
from paddock.sandbox.containers import Contained
from paddock.sandbox.inside import NO_WALL, NO_WALL_TEXT, WALL_UP
from paddock.sandbox.plain_text import strip_escapes
from paddock.sandbox.plan import Exec, Plan
from paddock.sandbox.removal import remove_soon
from paddock.sandbox.template import Forked

Cause = Literal["exit", "signal", "memory", "cpu", "ended"]

_LAST_WORDS_S = 1.0  # from the closing of its socket to its end
_KILLED_S = 10.0  # what the kernel can't end sooner than this is left to it
_REST_S = 0.3  # how long to check whether all of it is gone
_READ = 65536
_STACK_S = 0.3  # how long a worker may take to write its stack
STACK_PIECE_S = 0.05
STACK_SIGNAL = signal.SIGQUIT  # by custom it asks a program for its stacks
_STACK_HEAD = b"(most recent call first):\n"  # faulthandler's

_LIVE: weakref.WeakSet[Child] = weakref.WeakSet()


class Companion(Protocol):
    """Something that has no use without the child, such as its proxy."""

    def close(self) -> None: ...


class Child:
    """A process behind a wall and everything below it.

    ``fd`` is readable when it has ended. ``output_fd`` is readable when it has written something: call ``drain`` then,
    or it waits for ever once the pipe is full; None when nothing more can come. ``wait`` and ``kill`` drain too.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes] | Forked | Contained,
        output_fd: int,
        *,
        plan: Plan,
        notes: Sequence[str] = (),
        group: Group | Contained | None = None,
        folder: str | None = None,
        lifeline: socket.socket | None = None,
        control: socket.socket | None = None,
    ) -> None:
        self.process, self.tier, self.notes = process, plan.tier, list(notes)
        self.pid = process.pid  # of what this process started; those in a pid namespace have other numbers there
        self.layers = plan.layers if group is not None else plan.layers - {"cgroup"}
        self.backend, self.mounts = plan.backend, list(plan.mounts)
        self.group, self.folder, self._lifeline = group, folder, lifeline
        self._control, self._stood = control, control is None  # whether there was a wall
        self.cause: Cause | None = None  # None while it runs
        self.output_fd: int | None = output_fd
        os.set_blocking(output_fd, False)
        self._kept, self._dropped, self._keep_bytes = bytearray(), 0, plan.policy.output_kb * 1024
        self._answer: bytearray | None = None  # a copy of what it writes while `stack` waits
        self.policy, self._used_cpu_s = plan.policy, 0.0
        self.answered = False  # set with each reply, cleared by the thread that watches its CPU time
        # Until its first reply. A program's whole life is one call.
        program = isinstance(plan.program, Exec)
        self.start_cpu_s = self.policy.call_cpu_s if program else max(self.policy.call_cpu_s, self.policy.start_s)
        self._overspent = False
        self._ending = threading.Lock()
        self.companions: list[Companion] = []  # closed when it has ended
        self.prints_to: Callable[[bytes], object] | None = None  # gets its output when it has ended
        self._owner, self._over, self._killed = os.getpid(), False, False
        self._init_fd: int | None = None  # of the namespace's first process
        self.fd: int | None = None
        if isinstance(process, (Forked, Contained)):
            self.fd = process.fd
        else:
            try:
                self.fd = os.pidfd_open(process.pid)
            except OSError:  # no descriptor is left: it can't be watched, so it must not run
                process.kill()
                process.wait()
                self._clean_up()
                raise
        _LIVE.add(self)

    def watch_init(self, pid: int) -> None:
        """Watch the namespace's first process: when it ends, all others in the namespace do."""
        with suppress(ProcessLookupError):
            self._init_fd = os.pidfd_open(pid)

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds; return whether it has ended. What it writes meanwhile is read."""
        if self._over or os.getpid() != self._owner or self.fd is None:
            return True
        ends = time.monotonic() + timeout
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        if self.output_fd is not None:
            poller.register(self.output_fd, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poller.poll(max(0.0, ends - time.monotonic()) * 1000)]
            if self.fd in ready:
                return True
            if not ready:
                return False
            if not self.drain():
                poller.unregister(ready[0])

    def kill(self) -> None:
        """End it and everything that it started, now. Safe to call twice; in a forked child it does nothing."""
        if os.getpid() != self._owner:
            return
        with self._ending:
            if self._over:
                return
            self._killed = not is_readable(self.fd)
            self._end_all()
            self._over = True  # only now: after Ctrl-C before this, the next call ends it
        _LIVE.discard(self)
        if is_readable(self.fd, _KILLED_S):
            self._reap()
        # What it started ends with it, but a moment later: then its output has no writer any more.
        ends = time.monotonic() + _REST_S
        if self._init_fd is not None:
            is_readable(self._init_fd, _REST_S)
        while self.drain() and is_readable(self.output_fd, max(0.0, ends - time.monotonic())):
            pass
        self.cause = self._find_cause()
        self._clean_up()

    def _reap(self) -> None:
        """Learn how it ended and how much CPU time it and all that were waited for below it have used."""
        self.process.returncode = 0
        if isinstance(self.process, Forked):  # its template reaps it, and tells
            assert self._control is not None
            self._control.settimeout(_LAST_WORDS_S)
            report = b""
            with suppress(OSError):
                while piece := self._control.recv(64):
                    report += piece
            wall, *numbers = report.split(b" ")
            self._stood = WALL_UP in wall
            self.process.returncode = int(numbers[0]) if numbers else -signal.SIGKILL  # with its template
            self._used_cpu_s = float(numbers[1]) if numbers else 0.0
            return
        if isinstance(self.process, Contained):
            self.process.reap(killed=self._killed)
            self._used_cpu_s = self.process.used_cpu_s
            return
        with suppress(ChildProcessError):  # somebody else waited for every child of this process
            _, status, used = os.wait4(self.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self._used_cpu_s = used.ru_utime + used.ru_stime

    def end_overspent(self) -> None:
        """End it for the CPU time of its call. Whoever waits for its reply finds it ended, and why."""
        with self._ending:  # its descriptors stay open meanwhile
            if not self._over:
                self._overspent = True
                self._end_all()

    def cpu_s(self) -> float:
        """CPU seconds that it and everything below it have used until now."""
        counted = None if self.group is None else self.group.cpu_s()
        return _cpu_below_s(self.pid) if counted is None else counted

    def memory_bytes(self) -> int:
        """What it takes now: all of it where a group counts that, else its first process."""
        counted = None if self.group is None else self.group.memory_bytes()
        if counted is not None:
            return counted
        with suppress(OSError, IndexError):  # it has ended
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0

    def last_words(self) -> str:
        """How it ended, in words. Called when its socket is gone; ends what had not ended yet."""
        ended = self.wait(_LAST_WORDS_S)
        self.kill()
        if self.wall_failure is not None:
            return f"could not be put behind its wall: {self.wall_failure}"
        if not ended:
            return "closed its connection"
        if self.cause == "memory":
            return "was ended: it took more memory than allowed"
        if self._overspent:
            return f"was ended: it used more CPU time than the {self.policy.call_cpu_s:g} s of a call (call_cpu_s)"
        if self.cause == "cpu":
            return f"was ended: it used more than the {self.policy.cpu_s} s of CPU time that it is allowed"
        return how_ended(self._code)

    @property
    def wall_failure(self) -> str | None:
        """Why the wall could not be put up, if that is what ended it. Nothing of the environment has run then."""
        if self._stood or not self._over:  # what runs behind a wall may print anything and end with any code
            return None
        output, code = self.output, self.process.returncode
        if code == NO_WALL and output.startswith(NO_WALL_TEXT):
            return output[len(NO_WALL_TEXT) :].partition("\n")[0]
        if self.backend == "bwrap" and code == 1 and output.startswith("bwrap: "):
            return output.partition("\n")[0]
        return None

    def drain(self) -> bool:
        """Read what it has written, without waiting. False when nothing more can come."""
        while self.output_fd is not None:
            try:
                piece = os.read(self.output_fd, _READ)
            except BlockingIOError:
                return True
            if not piece:
                os.close(self.output_fd)
                self.output_fd = None
                break
            answer = self._answer
            if answer is not None:
                answer += piece[: self._keep_bytes - len(answer)]
            room = self._keep_bytes - len(self._kept)
            self._kept += piece[:room]
            self._dropped += max(0, len(piece) - room)
        return False

    def stack(self) -> str:
        """Where its Python code is, the innermost frame first. Asked by a signal, so a busy loop answers too.

        May be called from a second thread. Empty if it does not answer: code behind a wall doesn't have to.
        """
        if self.tier == "gvisor":  # the signal would reach its kernel
            return ""
        self._answer = answer = bytearray()  # separate: a flood of prints must leave room for the answer
        try:
            ask_for_stack(self.pid)
            size = -1
            ends = time.monotonic() + _STACK_S
            while time.monotonic() < ends and self.fd is not None:
                with suppress(OSError):
                    self.drain()
                before, head, stack = answer.partition(_STACK_HEAD)
                if head and len(stack) == size:  # it comes in pieces
                    return strip_escapes(stack.decode("utf-8", "replace"))
                size = len(stack)
                if len(before) >= self._keep_bytes:
                    answer.clear()
                time.sleep(STACK_PIECE_S)
            return ""
        finally:
            self._answer = None

    @property
    def output(self) -> str:
        """What was read of its stdout and stderr so far, without control characters."""
        text = strip_escapes(self._kept.decode("utf-8", "replace"))
        return f"{text}\n[{self._dropped} more bytes were thrown away]" if self._dropped else text

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def _code(self) -> int:
        """The exit code, negative for a signal. What watches it in a namespace says 128 + n for a signal."""
        code = self.process.returncode or 0
        watched = self.backend in ("bwrap", "container") or (
            self.backend is not None and isinstance(self.process, Forked)
        )
        return 128 - code if watched and 128 < code < 193 else code

    def _end_all(self) -> None:
        for fd in (self._init_fd, self.fd):  # the inner one first: what watches it must not get away alone
            if fd is not None:
                with suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
        if isinstance(self.process, subprocess.Popen):  # another's number may be given away: we do not reap it
            with suppress(ProcessLookupError, PermissionError):
                # Its number is ours until it is reaped, and a session's members keep it after that.
                os.killpg(self.pid, signal.SIGKILL)
        if self.group is not None:
            self.group.kill()

    def _find_cause(self) -> Cause:
        if self.group is not None and self.group.out_of_memory():
            return "memory"
        if self._overspent:
            return "cpu"
        if self._killed:
            return "ended"
        limit_s = self.policy.cpu_s
        spent = limit_s is not None and self._used_cpu_s >= limit_s * 0.95
        if self._code == -signal.SIGXCPU or (self._code == -signal.SIGKILL and spent):
            return "cpu"
        return "signal" if self._code < 0 else "exit"

    def _clean_up(self) -> None:
        for companion in self.companions:
            companion.close()
        if self.group is not None:
            self.group.remove()
        if self._lifeline is not None:
            self._lifeline.close()
        if self._control is not None:
            with suppress(OSError):
                self._stood |= WALL_UP in self._control.recv(16, socket.MSG_DONTWAIT)
            self._control.close()
        for fd in (self.fd, self._init_fd, self.output_fd):
            if fd is not None:
                os.close(fd)
        self.fd = self._init_fd = self.output_fd = None
        if self.prints_to is not None and self._kept and self.wall_failure is None:
            more = f"\n[{self._dropped} more bytes were thrown away]\n" if self._dropped else ""
            self.prints_to(bytes(self._kept) + more.encode())
        if self.folder is not None:
            remove_soon(self.folder)


def ask_for_stack(pid: int) -> None:
    """Send STACK_SIGNAL to those of the process and its children that catch it: any other would be ended by it."""
    with suppress(OSError, ValueError, StopIteration):
        place = Path("/proc", str(pid))
        caught = next(line for line in (place / "status").read_bytes().split(b"\n") if line.startswith(b"SigCgt"))
        if int(caught.partition(b":")[2], 16) >> (STACK_SIGNAL - 1) & 1:
            os.kill(pid, STACK_SIGNAL)
        for child in (place / "task" / str(pid) / "children").read_text().split():
            ask_for_stack(int(child))


def is_readable(fd: int | None, timeout_s: float = 0.0) -> bool:
    """Whether the descriptor is, or is closed here, by then. Not by select, which knows none beyond 1023."""
    if fd is None:
        return True
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))


def _cpu_below_s(pid: int) -> float:
    with suppress(OSError, IndexError):  # it has ended
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()  # its name is any bytes
        used = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # and of children that it waited for
        for task in Path(f"/proc/{pid}/task").iterdir():
            used += sum(_cpu_below_s(int(one)) for one in (task / "children").read_text().split())
        return used
    return 0.0


def how_ended(code: int) -> str:
    """What an exit code says, negative for a signal, in words."""
    try:
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    except ValueError:
        return f"was killed by signal {-code}"


_LOOK_S = 0.1
_EACH_S = 0.001  # with many workers it checks less often: checking one takes some 20 us

# With the CPU seconds that each had used when it last replied; None until its first reply, while it starts.
_watched: weakref.WeakKeyDictionary[Child, float | None] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def watch_cpu(child: Child) -> None:
    """Watch its CPU time from now on, until it has ended.

    One thread checks all children every now and then. It knows nothing of calls: each reply begins the next one.
    """
    global _thread
    with _lock:
        _watched[child] = None
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_watch_all, name="paddock-cpu", daemon=True)
            _thread.start()


def _watch_all() -> None:
    while True:
        time.sleep(max(_LOOK_S, _EACH_S * len(_watched)))
        if not _check_all():
            return


def _check_all() -> bool:
    """End those that used too much; return whether there are any left to watch."""
    global _thread
    with _lock:
        for child in [one for one in _watched if one.fd is None]:
            del _watched[child]
        if not _watched:
            _thread = None
            return False
        children = list(_watched.items())
    for child, before_s in children:
        with suppress(Exception):  # whatever is wrong with one, the others are checked; this one again next time
            used_s = child.cpu_s()
            if child.answered:
                child.answered, _watched[child] = False, used_s
            elif used_s > child.start_cpu_s if before_s is None else used_s - before_s > child.policy.call_cpu_s:
                child.end_overspent()
    return True


@atexit.register
def _end_the_rest() -> None:
    """The kernel would end them with this process, but would leave their cgroups and scratch folders."""
    for child in list(_LIVE):
        child.kill()


def _forget_after_fork() -> None:
    """The parent goes on watching. A copy of a lifeline would keep a worker alive when the parent is gone."""
    global _lock, _thread
    for child in list(_LIVE):
        for line in (child._lifeline, child._control):
            if line is not None:
                line.close()
    _lock, _thread = threading.Lock(), None
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
