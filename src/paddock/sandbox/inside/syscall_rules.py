"""Which system calls are let through, and with which arguments.

What stands in no list here is refused: a forgotten call fails closed. Names that an architecture lacks are skipped.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    # (argument, mask, values, wanted): whether (argument & mask) is one of the values must be what is wanted. Only the
    # lower 32 bits are seen, as by the kernel itself: each argument tested here is an int to it.
    Test: TypeAlias = tuple[int, int, tuple[int, ...], bool]
    Rule: TypeAlias = tuple[tuple[Test, int], ...]  # let through if all hold; the errno of the first that does not

EPERM, ENOTTY, ENOSYS, EOPNOTSUPP = 1, 25, 38, 95
WHOLE = 0xFFFFFFFF

# What CPython, NumPy, Numba and torch need to compute, and what works on descriptors that the process has.
ALWAYS = """
read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2 dup3
pipe pipe2 stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat
getdents getdents64 getcwd chdir fchdir umask rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat
mkdir mkdirat rmdir ftruncate fallocate fadvise64 readahead sync_file_range fsync fdatasync
copy_file_range sendfile poll ppoll select pselect6
epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
mmap munmap mprotect mremap madvise mincore msync brk mlock mlock2 munlock mlockall munlockall
pkey_alloc pkey_free pkey_mprotect membarrier mbind get_mempolicy set_mempolicy
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigpending rt_sigtimedwait sigaltstack restart_syscall pause
futex futex_waitv set_robust_list get_robust_list set_tid_address rseq arch_prctl
sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr sched_get_priority_max
sched_get_priority_min sched_rr_get_interval getpriority getcpu
clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times alarm setitimer getitimer
timer_create timer_settime timer_gettime timer_getoverrun timer_delete
getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid getsid capget
getrlimit setrlimit getrusage sysinfo uname getrandom wait4 waitid exit exit_group
recvfrom recvmsg recvmmsg shutdown getsockname getpeername getsockopt
"""

EXECUTION = "execve execveat"
# Other processes are its own children only where it has a pid namespace or Landlock of version 6 (signals stay inside).
PROCESSES = "fork vfork kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal"
SIGNALS = "kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo"  # the first argument is a process
SENDING = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}  # with the place of the flags
# In no list: chmod and its like, UNIX sockets that have a path, inotify. Landlock sees none of them, and what may be
# read can be the host's.
EXTENDED_ATTRIBUTES = """
getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
"""
# Callers fall back on something that is let through when these do not seem to exist; EPERM they take for an answer.
FALL_BACK = "clone3 openat2 flock"

CLONE_THREAD, CLONE_PARENT = 0x00010000, 0x00008000
# New namespaces (mounts, cgroup, UTS, IPC, users, processes, network); and children that would be our parent's.
CLONE_REFUSED = 0x00020000 | 0x7E000000 | CLONE_PARENT
O_TRUNC, O_ACCMODE = 0o1000, 0o3
S_IFMT, S_IFIFO = 0o170000, 0o010000
SET_IDS = 0o6000  # S_ISUID and S_ISGID: who runs such a file becomes its owner
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
SOCK_STREAM, SOCK_SEQPACKET, SOCK_KIND = 1, 5, 0xF
IPPROTO_IP, SOL_SOCKET, IPPROTO_TCP, IPPROTO_IPV6 = 0, 1, 6, 41
ATTACH_PROGRAMS = (26, 50, 51)  # SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF (52 needs a BPF program's descriptor)
MSG_FASTOPEN = 0x20000000
# Signals by the back door: F_SETOWN, F_SETSIG, F_SETOWN_EX, and the same as ioctls.
OWNER_FCNTLS = (8, 10, 15)
# F_SETLEASE, F_NOTIFY: on a file that may only be read, a lease keeps the host from opening it for writing.
WATCHING_FCNTLS = (1024, 1026)
# A lock on a file is the host's too, and many of them make each close of the file slow, as of /dev/null.
# F_SETLK, F_SETLKW: a process's own never stand in its own way, so where it is alone the answer is 0, "done", and
# nothing is done: SQLite asks for them. F_GETLK, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW: only the truth would do.
SET_LOCK_FCNTLS, OTHER_LOCK_FCNTLS = (6, 7), (5, 36, 37, 38)
SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ: all pipes of one user share one budget of pages, the host's own among them
# TCGETS TCGETS2 TIOCGPGRP TIOCOUTQ TIOCGWINSZ FIONREAD FIONBIO TIOCGSID FIONCLEX FIOCLEX
PLAIN_IOCTLS = (0x5401, 0x802C542A, 0x540F, 0x5411, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451)
# TIOCSTI TIOCLINUX TIOCCONS TIOCSETD TIOCSCTTY FIOSETOWN SIOCSPGRP: typing into a terminal, signals to others
HARMFUL_IOCTLS = (0x5412, 0x541C, 0x541D, 0x5423, 0x540E, 0x8901, 0x8902)
# Names of threads and mappings, and questions. Not: dumpable, death signal, securebits, seccomp, subreaper, ptracer.
# GET_PDEATHSIG GET_DUMPABLE GET_KEEPCAPS SET_NAME GET_NAME GET_SECCOMP CAPBSET_READ GET_SECUREBITS SET_TIMERSLACK
# GET_TIMERSLACK SET_NO_NEW_PRIVS GET_NO_NEW_PRIVS GET_TID_ADDRESS SET_THP_DISABLE GET_THP_DISABLE SET_VMA
PLAIN_PRCTLS = (2, 3, 7, 15, 16, 21, 23, 27, 29, 30, 38, 39, 40, 41, 42, 0x53564D41)


def rules(options: Mapping[str, Any], own_pid: int) -> dict[str, Rule]:
    """Every call that is let through, with the tests on its arguments; all others are EPERM.

    Options: ``fork``, ``exec``, ``network`` as the policy grants them; ``locks``: it may write to files of the host,
    and so may lock them; ``truncate``: only what may be written can be truncated; ``devices``: some are driven by
    ioctl; ``memory_files``: what they hold is counted, which a limit of the address space does not.
    """
    found = _plain(ALWAYS)
    found.update(_always_with_tests(options))
    found.update(_other_processes(options, own_pid))
    found.update(_sockets(options))
    if options.get("exec"):
        found.update(_plain(EXECUTION))
    if options.get("truncate", True):
        found.update(_plain("truncate"))
    if options.get("memory_files", True):
        found.update(_plain("memfd_create"))
    if options.get("locks"):
        found.update(_plain("flock"))
    return found


def refusals(options: Mapping[str, Any]) -> dict[str, int]:
    """Calls that are refused with something else than EPERM, because callers know what to do then."""
    found = dict.fromkeys(FALL_BACK.split(), ENOSYS)
    found.update(dict.fromkeys(EXTENDED_ATTRIBUTES.split(), EOPNOTSUPP))  # as on a file system without them
    if not options.get("memory_files", True):
        found["memfd_create"] = ENOSYS
    return found


def _plain(names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), ())


def _only(*tests: Test, otherwise: int = EPERM) -> Rule:
    return tuple((test, otherwise) for test in tests)


def _always_with_tests(options: Mapping[str, Any]) -> dict[str, Rule]:
    # Reading with O_TRUNC is nobody's wish, and early versions of Landlock take it for reading.
    truncating = O_ACCMODE | O_TRUNC
    if options.get("devices"):
        ioctl = _only((1, WHOLE, HARMFUL_IOCTLS, False))
    else:
        ioctl = _only((1, WHOLE, PLAIN_IOCTLS, True), otherwise=ENOTTY)
    fcntl = _only((1, WHOLE, (*OWNER_FCNTLS, *WATCHING_FCNTLS, SET_PIPE_SIZE), False))
    if not options.get("locks"):
        fcntl += _only((1, WHOLE, SET_LOCK_FCNTLS, False), otherwise=ENOSYS if options.get("fork") else 0)
        fcntl += _only((1, WHOLE, OTHER_LOCK_FCNTLS, False), otherwise=ENOSYS)
    return {
        # Where no file is made, libc passes 0 as the mode.
        "open": _only((1, truncating, (O_TRUNC,), False), (2, SET_IDS, (0,), True)),
        "openat": _only((2, truncating, (O_TRUNC,), False), (3, SET_IDS, (0,), True)),
        "creat": _only((1, SET_IDS, (0,), True)),
        "mknod": _only((1, S_IFMT, (S_IFIFO,), True), (1, SET_IDS, (0,), True)),
        "mknodat": _only((2, S_IFMT, (S_IFIFO,), True), (2, SET_IDS, (0,), True)),
        "fcntl": fcntl,
        "ioctl": ioctl,
        "prctl": _only((0, WHOLE, PLAIN_PRCTLS, True)),
        "personality": _only((0, WHOLE, (WHOLE,), True)),  # asks, changes nothing
        # Of oneself: 0. Whom another number means, this process or one of the same user's, cannot be told here.
        "prlimit64": _only((0, WHOLE, (0,), True)),
        "sched_setaffinity": _only((0, WHOLE, (0,), True)),
        "setpriority": _only((0, WHOLE, (0,), True), (1, WHOLE, (0,), True)),
    }


def _other_processes(options: Mapping[str, Any], own_pid: int) -> dict[str, Rule]:
    whole = (0, CLONE_REFUSED, (0,), True)
    if options.get("fork"):
        return {"clone": _only(whole), **_plain(PROCESSES)}
    # Without children this process keeps the number that it has now, and may signal (abort) itself.
    signals = {name: _only((0, WHOLE, (own_pid,), True)) for name in SIGNALS.split()}
    return {"clone": _only((0, CLONE_THREAD, (CLONE_THREAD,), True), whole), **signals}


def _sockets(options: Mapping[str, Any]) -> dict[str, Rule]:
    # No datagrams: a datagram socket of a pair can be pointed at any UNIX socket of the host.
    found = {"socketpair": _only((0, WHOLE, (AF_UNIX,), True), (1, SOCK_KIND, (SOCK_STREAM, SOCK_SEQPACKET), True))}
    network = bool(options.get("network"))
    levels = (SOL_SOCKET,) + (IPPROTO_IP, IPPROTO_TCP, IPPROTO_IPV6) * network
    found["setsockopt"] = _only((1, WHOLE, levels, True), (2, WHOLE, ATTACH_PROGRAMS, False))
    if network:
        # The protocol is named: SCTP, SMC and MPTCP are streams too, and Landlock's ports are TCP's.
        stream = (1, SOCK_KIND, (SOCK_STREAM,), True)
        found["socket"] = _only((0, WHOLE, (AF_INET, AF_INET6), True), stream, (2, WHOLE, (0, IPPROTO_TCP), True))
        found.update(_plain("connect"))
    for name, place in SENDING.items():
        # Fast open connects while sending, past Landlock's look at connect.
        found[name] = _only((place, MSG_FASTOPEN, (0,), True)) if network else _only()
    return found
