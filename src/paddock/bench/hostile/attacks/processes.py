"""Attacks on and by processes. Numbers are small, and whoever is killed was started to be."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from paddock.bench.hostile.attacks.attempt import Hostile, first_that_works, name_of
from paddock.bench.hostile.attacks.files import stack_of
from paddock.bench.hostile.attacks.system_call import NULL, WALL, call, reached

_NEWUSER = 0x10000000
_SEIZE, _DETACH = 0x4206, 17


def in_child(attempt: Callable[[], str]) -> str:
    """The attempt in a forked child, which has no other threads; where forking is denied, here."""
    try:
        read, write = os.pipe()
        pid = os.fork()
    except OSError:
        return attempt()
    if pid == 0:
        try:
            try:
                answer = attempt()
            except OSError as error:
                answer = f"!{error.errno}"
            os.write(write, answer.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        answer = answers.read()
    os.waitpid(pid, 0)
    if answer.startswith("!"):
        raise OSError(int(answer[1:]), "in the child")
    return answer


class ForkBomb(Hostile):
    """Forks ``count`` children that stay."""

    def attempt(self) -> str:
        for _ in range(self.told["count"]):
            if os.fork() == 0:
                time.sleep(self.told["seconds"])
                os._exit(0)
        return f"forked {self.told['count']}"


class Daemon(Hostile):
    """Forks twice, leaves session and group, and stays when the environment is closed."""

    started = False

    def attempt(self) -> str:
        if self.started:
            return "is there"
        child = os.fork()
        if child == 0:
            with suppress(OSError):
                os.setsid()
            if os.fork() == 0:
                for fd in range(64):  # nothing that could tell it that its parent has gone
                    with suppress(OSError):
                        os.close(fd)
                time.sleep(self.told["seconds"])
            os._exit(0)
        os.waitpid(child, 0)
        self.started = True
        return "is there"


class LeaveGroup(Hostile):
    """Leaves its process group and session, by which a plain parent would end it."""

    def attempt(self) -> str:
        def leave() -> str:
            os.setsid()
            return "reached: a session of its own"

        return in_child(leave)


class Kill(Hostile):
    """Kills a process that is not its own."""

    def attempt(self) -> str:
        os.kill(self.told["bystander"], signal.SIGKILL)
        return "killed"


class KillAll(Hostile):
    """Signals every process that it may. With a signal that does nothing: killing would end this machine's work."""

    def attempt(self) -> str:
        os.kill(self.told["parent"], 0)
        os.kill(-1, signal.SIGCONT)
        return "reached: everyone"


class SignalParent(Hostile):
    """Sends its parent a signal that the judge counts."""

    def attempt(self) -> str:
        os.kill(self.told["parent"], signal.SIGURG)
        return "sent"


class SignalByFile(Hostile):
    """Has the kernel signal the parent: it names the parent as the owner of a pipe, and writes into the pipe."""

    def attempt(self) -> str:
        import fcntl

        read, write = os.pipe()
        fcntl.fcntl(read, fcntl.F_SETOWN, self.told["parent"])
        fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(write, b"x")
        return "asked the kernel"


class Trace(Hostile):
    """Becomes the debugger of another process."""

    def attempt(self) -> str:
        pid = self.told["bystander"]
        call("ptrace", _SEIZE, pid, NULL, NULL)
        with suppress(OSError):
            call("ptrace", _DETACH, pid, NULL, NULL)
        return f"reached: traced {pid}"


class ReadMemory(Hostile):
    """Copies another process's stack by process_vm_readv, which needs no file."""

    def attempt(self) -> str:
        pid, size = self.told["bystander"], 16384
        try:
            end = stack_of(pid)[1]
        except OSError:
            end = 0x7FFF_FFFF_F000  # it tries all the same: the call itself must be denied
        buffer = ctypes.create_string_buffer(size)
        ours = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), size)
        theirs = (ctypes.c_uint64 * 2)(end - size, size)
        call("process_vm_readv", pid, ours, 1, theirs, 1, 0)
        return buffer.raw.decode("latin-1")


class NestedNamespaces(Hostile):
    """Makes a user namespace, in which it would be root and reach more of the kernel."""

    def attempt(self) -> str:
        def unshare() -> str:
            call("unshare", _NEWUSER)
            return "reached: root of a namespace"

        return in_child(unshare)


class NestedByClone(Hostile):
    """The same by clone3, whose flags lie where no filter sees them."""

    def attempt(self) -> str:
        arguments = (ctypes.c_uint64 * 11)(_NEWUSER, 0, 0, 0, signal.SIGCHLD)
        pid = call("clone3", arguments, 88)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return "reached: a child in a namespace"


class Mount(Hostile):
    """Mounts a file system over one of its folders; the type does not exist, so nothing is ever mounted."""

    def attempt(self) -> str:
        return reached("mount", b"none", b"/", b"no-such-type", 0, NULL)


class Chroot(Hostile):
    """Changes its root folder, to the one that it has."""

    def attempt(self) -> str:
        return reached("chroot", b"/")


class PivotRoot(Hostile):
    """Swaps its root folder with itself, which the kernel refuses if it gets as far."""

    def attempt(self) -> str:
        return reached("pivot_root", b"/", b"/")


class SetuidProgram(Hostile):
    """Runs a program that the system lends root's rights; it is only asked for its version."""

    def attempt(self) -> str:
        def run(program: str) -> str:
            if not Path(program).stat().st_mode & 0o4000:
                raise FileNotFoundError(errno.ENOENT, "not a setuid program")
            done = subprocess.run([program, "--version"], capture_output=True, timeout=5, check=False)  # noqa: S603
            return f"reached: {program}: {done.stdout[:40]!r}"

        return first_that_works(lambda: run("/usr/bin/su"), lambda: run("/usr/bin/mount"), lambda: run("/bin/su"))


class Shell(Hostile):
    """Runs a shell that leaves a file."""

    def attempt(self) -> str:
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", 'echo hostile > "$1"', "sh", self.told["marker"]], timeout=5, check=False
        )
        if done.returncode:
            raise PermissionError(errno.EACCES, "the shell could not write")
        return "the shell ran"


class Memfd(Hostile):
    """Runs a program that was never a file: it lies in memory only."""

    def attempt(self) -> str:
        def run() -> str:
            fd = os.memfd_create("program", 0)
            os.write(fd, Path("/bin/sh").read_bytes())
            os.execve(fd, ["sh", "-c", f"echo hostile > {self.told['marker']}"], {})  # noqa: S606

        def in_a_fork() -> str:
            pid = os.fork()
            if pid == 0:
                try:
                    run()
                except OSError as error:
                    os._exit(min(error.errno or 1, 255))
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code:
                raise OSError(code, "in the child")
            return "the program ran"

        return in_a_fork()


class BecomeRoot(Hostile):
    """Takes root's number, by every way that there is."""

    def attempt(self) -> str:
        denial: OSError | None = None
        for way in (os.setuid, os.seteuid, lambda uid: os.setresuid(uid, uid, uid)):
            try:
                way(0)
            except OSError as error:
                denial = error
        if os.geteuid() == 0:  # the name alone is worth nothing: what follows needs a right of root's
            os.setgroups(os.getgroups())
            return "reached: root"
        raise denial or PermissionError(errno.EPERM, "not root")


class RealTime(Hostile):
    """Takes precedence over every ordinary process."""

    def attempt(self) -> str:
        denials = []
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            return "reached: real time"
        except OSError as error:
            denials.append(error)
        try:
            os.setpriority(os.PRIO_PROCESS, 0, -10)
            return "reached: a higher priority"
        except OSError:
            raise denials[0] from None


class OutliveParent(Hostile):
    """Frees itself from whatever would end it with its parent, and has a thread that never ends."""

    def attempt(self) -> str:
        import fcntl

        with suppress(OSError):
            call("prctl", 1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG, none
        for fd in range(3, 64):
            with suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
        threading.Thread(target=time.sleep, args=(self.told["seconds"],)).start()
        return "has freed itself"


class CoreHandler(Hostile):
    """Opens the file that names the program which the kernel runs as root after a crash, and writes nothing."""

    def attempt(self) -> str:
        try:
            os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
        except OSError as error:
            if error.errno in (*WALL, errno.ENOENT, errno.EROFS):
                raise
            return f"reached: {name_of(error)}"
        return "reached: core_pattern"
