"""The list of system calls as a filter of the kernel. What is not on it is EPERM: code inside can report the refusal.

Only calls by another architecture's numbers, which no honest program makes, kill. The kernel tries a filter on every
number in advance and remembers which calls are always allowed: only those with tests on their arguments cost anything.
"""

from __future__ import annotations

import ctypes
import os
import struct

from paddock.sandbox.inside import LockFailed
from paddock.sandbox.inside.syscalls import ARCHITECTURES, PR_SET_NO_NEW_PRIVS, prctl, syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    # (argument, mask, values, wanted): whether (argument & mask) is one of the values must be what is wanted. Only the
    # lower 32 bits are seen, as by the kernel itself: each argument tested here is an int to it.
    Test: TypeAlias = tuple[int, int, tuple[int, ...], bool]
    Rule: TypeAlias = tuple[tuple[Test, int], ...]  # let through if all hold; the errno of the first that does not
    Instruction: TypeAlias = tuple[int, int, int, int]  # code, jump if true, jump if false, k
    Span: TypeAlias = tuple[int, int | Rule]  # first number, and what happens from there to the next span

OPTIONS = {"fork", "exec", "network", "locks", "truncate", "devices", "memory_files"}
SET_MODE_FILTER = 1
ALL_THREADS = 1  # SECCOMP_FILTER_FLAG_TSYNC
X32 = 0x40000000  # numbers from here on are the other way to call x86_64, with lists of its own


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def restrict(options: Mapping[str, Any], *, machine: str, more: Mapping[str, Any] | None = None) -> None:
    """Let through what ``rules`` says for these options, now and for all that this process becomes."""
    options = {**(more or {}), **options}
    unknown = options.keys() - OPTIONS
    if unknown:
        raise LockFailed(f"seccomp has no option {sorted(unknown)[0]!r}; it has {', '.join(sorted(OPTIONS))}")
    code = filter_of(options, machine=machine, own_pid=os.getpid())
    number = ARCHITECTURES[machine][1]
    try:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        stuck = syscall(number, SET_MODE_FILTER, ALL_THREADS, ctypes.byref(_Program(len(code) // 8, code)))
    except OSError as error:
        raise LockFailed(f"the kernel refused the seccomp filter: {error}") from error
    if stuck:
        raise LockFailed(f"thread {stuck} could not be put under the seccomp filter")


def filter_of(options: Mapping[str, Any], *, machine: str, own_pid: int) -> bytes:
    """The filter as the kernel takes it. Kept, so that forks of a process that has it need not make it again."""
    key = frozenset(options.items()), machine, own_pid
    if key not in _filters:
        _filters[key] = pack(program(options, machine=machine, own_pid=own_pid))
    return _filters[key]


_filters: dict[Any, bytes] = {}


def program(options: Mapping[str, Any], *, machine: str, own_pid: int) -> list[Instruction]:
    """The whole filter for that architecture, which need not be this machine's."""
    audit = ARCHITECTURES[machine][0]
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (IF_EQUAL, 1, 0, audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        *search(spans(options, machine=machine, own_pid=own_pid)),
    ]


def spans(options: Mapping[str, Any], *, machine: str, own_pid: int) -> list[Span]:
    """Numbers in order with what happens to each, neighbours of the same fate as one."""
    known = numbers(machine)
    fates: dict[int, Any] = {}
    for name, errno in refusals(options).items():
        if name in known:
            fates[known[name]] = ERRNO | errno
    for name, rule in rules(options, own_pid).items():
        if name in known:
            fates[known[name]] = rule or ALLOW
    result: list[Span] = []
    for number in range(max(NEWEST, *fates) + 2):
        # A call that is newer than this list: its callers have an older one to fall back on.
        fate = fates.get(number, ERRNO | (EPERM if number < NEWEST else ENOSYS))
        if not result or result[-1][1] != fate:
            result.append((number, fate))
    if machine == "x86_64":
        result.append((X32, KILL))
    return result


# Which system calls are let through, and with which arguments. What stands in no list is refused: a forgotten call
# fails closed. Names that an architecture lacks are skipped.

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
SET_IDS = 0o6000  # S_ISUID and S_ISGID: running such a file lends its owner's rights
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
    table = _plain(ALWAYS)
    table.update(_always_with_tests(options))
    new_process = (0, CLONE_REFUSED, (0,), True)
    if options.get("fork"):
        table.update({"clone": _only(new_process), **_plain(PROCESSES)})
    else:
        # Without children this process keeps the number that it has now, and may signal (abort) itself.
        table["clone"] = _only((0, CLONE_THREAD, (CLONE_THREAD,), True), new_process)
        table.update({name: _only((0, WHOLE, (own_pid,), True)) for name in SIGNALS.split()})
    table.update(_sockets(options))
    if options.get("exec"):
        table.update(_plain(EXECUTION))
    if options.get("truncate", True):
        table.update(_plain("truncate"))
    if options.get("memory_files", True):
        table.update(_plain("memfd_create"))
    if options.get("locks"):
        table.update(_plain("flock"))
    return table


def refusals(options: Mapping[str, Any]) -> dict[str, int]:
    """Calls that are refused with something else than EPERM, because callers know what to do then."""
    table = dict.fromkeys(FALL_BACK.split(), ENOSYS)
    table.update(dict.fromkeys(EXTENDED_ATTRIBUTES.split(), EOPNOTSUPP))  # as on a file system without them
    if not options.get("memory_files", True):
        table["memfd_create"] = ENOSYS
    return table


def _plain(names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), ())


def _only(*tests: Test, otherwise: int = EPERM) -> Rule:
    return tuple((test, otherwise) for test in tests)


def _always_with_tests(options: Mapping[str, Any]) -> dict[str, Rule]:
    # Nobody needs to read with O_TRUNC, and early versions of Landlock take it for reading.
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
        # 0 is this process itself. Whether another number is this process too can't be seen here.
        "prlimit64": _only((0, WHOLE, (0,), True)),
        "sched_setaffinity": _only((0, WHOLE, (0,), True)),
        "setpriority": _only((0, WHOLE, (0,), True), (1, WHOLE, (0,), True)),
    }


def _sockets(options: Mapping[str, Any]) -> dict[str, Rule]:
    # No datagrams: a datagram socket of a pair can be pointed at any UNIX socket of the host.
    table = {"socketpair": _only((0, WHOLE, (AF_UNIX,), True), (1, SOCK_KIND, (SOCK_STREAM, SOCK_SEQPACKET), True))}
    network = bool(options.get("network"))
    levels = (SOL_SOCKET,) + (IPPROTO_IP, IPPROTO_TCP, IPPROTO_IPV6) * network
    table["setsockopt"] = _only((1, WHOLE, levels, True), (2, WHOLE, ATTACH_PROGRAMS, False))
    if network:
        # The protocol is named: SCTP, SMC and MPTCP are streams too, and Landlock's ports are TCP's.
        stream = (1, SOCK_KIND, (SOCK_STREAM,), True)
        table["socket"] = _only((0, WHOLE, (AF_INET, AF_INET6), True), stream, (2, WHOLE, (0, IPPROTO_TCP), True))
        table.update(_plain("connect"))
    for name, place in SENDING.items():
        # Fast open connects while sending, past Landlock's look at connect.
        table[name] = _only((place, MSG_FASTOPEN, (0,), True)) if network else _only()
    return table


# Seccomp's little machine: instructions, and a search tree over the numbers of system calls.

LOAD, AND, RETURN = 0x20, 0x54, 0x06
JUMP, IF_EQUAL, IF_AT_LEAST = 0x05, 0x15, 0x35
LONGEST_JUMP = 255

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # places in struct seccomp_data


def search(spans: list[Span]) -> list[Instruction]:
    """Find the span that the loaded number is in and do what it says."""
    if len(spans) == 1:
        return outcome(spans[0][1])
    middle = len(spans) // 2
    lower, upper = search(spans[:middle]), search(spans[middle:])
    pivot = spans[middle][0]
    if len(lower) <= LONGEST_JUMP:
        return [(IF_AT_LEAST, len(lower), 0, pivot), *lower, *upper]
    return [(IF_AT_LEAST, 0, 1, pivot), (JUMP, 0, 0, len(lower)), *lower, *upper]


def outcome(what: int | Rule) -> list[Instruction]:
    """Return that action; for a rule, allow what passes all its tests."""
    if isinstance(what, int):
        return [(RETURN, 0, 0, what)]
    code = [instruction for test, errno in what for instruction in check(test, ERRNO | errno)]
    return [*code, (RETURN, 0, 0, ALLOW)]


def check(test: Test, refusal: int) -> list[Instruction]:
    """Go on behind this code if the test holds; return the refusal otherwise."""
    argument, mask, values, wanted = test
    code = [(LOAD, 0, 0, ARGUMENTS + 8 * argument)]  # the lower half: both architectures are little-endian
    if mask != 0xFFFFFFFF:
        code.append((AND, 0, 0, mask))
    last = len(values)
    code += [(IF_EQUAL, last - place, 0, value) for place, value in enumerate(values)]
    if not wanted:  # what is equal jumps to the refusal, the rest over it
        code.append((JUMP, 0, 0, 1))
    return [*code, (RETURN, 0, 0, refusal)]


def pack(program: list[Instruction]) -> bytes:
    """As the kernel wants it: struct sock_filter, one after the other."""
    return b"".join([struct.pack("=HBBI", *instruction) for instruction in program])


# Numbers of the system calls that the filter names, as name:x86_64:aarch64; "-" where there is no such call.
# A wrong number lets another call through, so tests compare this table with the system's own headers.

TABLE = """
read:0:63 write:1:64 open:2:- close:3:57 stat:4:- fstat:5:80 lstat:6:- poll:7:- lseek:8:62 mmap:9:222 mprotect:10:226
munmap:11:215 brk:12:214 rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 ioctl:16:29 pread64:17:67
pwrite64:18:68 readv:19:65 writev:20:66 access:21:- pipe:22:- select:23:- sched_yield:24:124 mremap:25:216 msync:26:227
mincore:27:232 madvise:28:233 dup:32:23 dup2:33:- pause:34:- nanosleep:35:101 getitimer:36:102 alarm:37:-
setitimer:38:103 getpid:39:172 sendfile:40:71 socket:41:198 connect:42:203 sendto:44:206 recvfrom:45:207 sendmsg:46:211
recvmsg:47:212 shutdown:48:210 getsockname:51:204 getpeername:52:205 socketpair:53:199 setsockopt:54:208
getsockopt:55:209 clone:56:220 fork:57:- vfork:58:- execve:59:221 exit:60:93 wait4:61:260 kill:62:129 uname:63:160
fcntl:72:25 flock:73:32 fsync:74:82 fdatasync:75:83 truncate:76:45 ftruncate:77:46 getdents:78:- getcwd:79:17
chdir:80:49 fchdir:81:50 rename:82:- mkdir:83:- rmdir:84:- creat:85:- link:86:- unlink:87:- symlink:88:- readlink:89:-
umask:95:166 gettimeofday:96:169 getrlimit:97:163 getrusage:98:165 sysinfo:99:179 times:100:153 getuid:102:174
getgid:104:176 geteuid:107:175 getegid:108:177 getppid:110:173 getpgrp:111:- getgroups:115:158 getresuid:118:148
getresgid:120:150 getpgid:121:155 getsid:124:156 capget:125:90 rt_sigpending:127:136 rt_sigtimedwait:128:137
rt_sigqueueinfo:129:138 rt_sigsuspend:130:133 sigaltstack:131:132 mknod:133:- personality:135:92 statfs:137:43
fstatfs:138:44 getpriority:140:141 setpriority:141:140 sched_getparam:143:121 sched_getscheduler:145:120
sched_get_priority_max:146:125 sched_get_priority_min:147:126 sched_rr_get_interval:148:127 mlock:149:228
munlock:150:229 mlockall:151:230 munlockall:152:231 prctl:157:167 arch_prctl:158:- setrlimit:160:164 gettid:186:178
readahead:187:213 setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7 getxattr:191:8 lgetxattr:192:9 fgetxattr:193:10
listxattr:194:11 llistxattr:195:12 flistxattr:196:13 removexattr:197:14 lremovexattr:198:15 fremovexattr:199:16
tkill:200:130 time:201:- futex:202:98 sched_setaffinity:203:122 sched_getaffinity:204:123 epoll_create:213:-
getdents64:217:61 set_tid_address:218:96 restart_syscall:219:128 fadvise64:221:223 timer_create:222:107
timer_settime:223:110 timer_gettime:224:108 timer_getoverrun:225:109 timer_delete:226:111 clock_gettime:228:113
clock_getres:229:114 clock_nanosleep:230:115 exit_group:231:94 epoll_wait:232:- epoll_ctl:233:21 tgkill:234:131
mbind:237:235 set_mempolicy:238:237 get_mempolicy:239:236 waitid:247:95 openat:257:56 mkdirat:258:34 mknodat:259:33
newfstatat:262:79 unlinkat:263:35 renameat:264:38 linkat:265:37 symlinkat:266:36 readlinkat:267:78 faccessat:269:48
pselect6:270:72 ppoll:271:73 set_robust_list:273:99 get_robust_list:274:100 sync_file_range:277:84 epoll_pwait:281:22
signalfd:282:- timerfd_create:283:85 eventfd:284:- fallocate:285:47 timerfd_settime:286:86 timerfd_gettime:287:87
signalfd4:289:74 eventfd2:290:19 epoll_create1:291:20 dup3:292:24 pipe2:293:59 preadv:295:69 pwritev:296:70
rt_tgsigqueueinfo:297:240 recvmmsg:299:243 prlimit64:302:261 sendmmsg:307:269 getcpu:309:168 sched_getattr:315:275
renameat2:316:276 getrandom:318:278 memfd_create:319:279 execveat:322:281 membarrier:324:283 mlock2:325:284
copy_file_range:326:285 preadv2:327:286 pwritev2:328:287 pkey_mprotect:329:288 pkey_alloc:330:289 pkey_free:331:290
statx:332:291 rseq:334:293 pidfd_send_signal:424:424 pidfd_open:434:434 clone3:435:435 close_range:436:436
openat2:437:437 faccessat2:439:439 epoll_pwait2:441:441 futex_waitv:449:449
"""

# From here on no list is complete: both architectures count on together, and new calls keep coming.
NEWEST = 450


def numbers(machine: str) -> dict[str, int]:
    """Name to number on that architecture."""
    column = {"x86_64": 1, "aarch64": 2}[machine]
    rows = [row.split(":") for row in TABLE.split()]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}
