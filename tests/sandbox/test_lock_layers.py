"""Each layer alone stops the attack that it is there for; with no layer the same attack goes through."""

import os
import socket
import subprocess
import sys

import pytest

from paddock.sandbox.inside.landlock import version
from tests.sandbox.walled import attempt, readable

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root has an identity to lose: runs where the suite runs as root")
ABI = version()
STRANGER = {"uid": 0x70000123, "gid": 0x70000123}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's: they run on Linux only")


def landlock(**more):
    return {"landlock": {"read": readable(), "write": [], "execute": [], "devices": [], "connect_ports": [], **more}}


def seccomp(**more):
    return {"seccomp": {"fork": False, "exec": False, "network": False, **more}}


FORK = "if not os.fork(): os._exit(0)"
SYSTEM_CALLS = {
    "start a process": FORK,
    "execute a program": "os.execv('/bin/true', ['true']) if not os.environ.get('tried') else None",
    "open an internet socket": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "open a datagram socket": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "open a UNIX socket": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
    "open netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "point half a pair at a socket of the host": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "signal the parent": "os.kill(os.getppid(), 0)",
    "signal the parent's thread": "checked(libc.syscall(234 if os.uname().machine == 'x86_64' else 131, "
    "os.getppid(), os.getppid(), 0))",
    "own a signal": "import fcntl; a, b = os.pipe(); fcntl.fcntl(a, fcntl.F_SETOWN, os.getppid())",
    "limit the parent": "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)",
    "move the parent": "os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))",
    "unshare nothing": "checked(libc.unshare(0))",
    "be traced": "checked(libc.ptrace(0, 0, 0, 0))",
    "be dumped": "checked(libc.prctl(4, 1, 0, 0, 0))",
    "outlive the parent": "checked(libc.prctl(1, 0, 0, 0, 0))",
    "secret memory of the kernel": "checked(libc.syscall(447, 0))",
    "change the mode of a file": "os.chmod(CANARY, 0o777)",
    "change the times of a file": "os.utime(CANARY, (0, 0))",
    "watch a folder": "checked(libc.inotify_init1(0))",
    "leave a program of its owner's rights": "os.open(CANARY + '2', os.O_CREAT | os.O_WRONLY, 0o4755)",
    "keep the host from writing a file": "import fcntl; fcntl.fcntl(os.open(CANARY, os.O_RDONLY), 1024, fcntl.F_RDLCK)",
    "keep the host from locking a file": "import fcntl; fcntl.flock(os.open(CANARY, os.O_RDONLY), fcntl.LOCK_EX)",
    "take the user's share of pipes": "import fcntl; fcntl.fcntl(os.pipe()[0], 1031, 1 << 17)",
    "truncate while reading": "os.open(CANARY, os.O_RDONLY | os.O_TRUNC)",
    "shared memory of System V": "checked(libc.shmget(0, 4096, 0o1600))",
    "a message queue": "checked(libc.msgget(0, 0o1600))",
}


@pytest.mark.process
@pytest.mark.parametrize("attack", SYSTEM_CALLS.values(), ids=SYSTEM_CALLS)
def test_seccomp_alone_refuses_calls_that_only_an_attack_makes(attack, tmp_path):
    (tmp_path / "canary").write_text("x")
    attack = attack.replace("CANARY", repr(str(tmp_path / "canary")))
    without, behind = attempt_or_replaced(attack, {}), attempt(attack, seccomp())
    assert without == "done"
    assert behind.startswith("refused")


def attempt_or_replaced(attack, config):
    """An attack that replaces the process by another program succeeds by saying nothing."""
    try:
        return attempt(attack, config)
    except IndexError:
        return "done"


@pytest.mark.process
def test_a_new_session_is_refused():
    # A leader of a session already may make no other; its child may.
    attack = "os.setsid()"
    assert attempt(attack, {}) == "done"
    assert attempt(attack, seccomp()) == "refused PermissionError 1"
    assert attempt("os.setpgid(0, 0)", {}) == "done"
    assert attempt("os.setpgid(0, 0)", seccomp(fork=True)) == "refused PermissionError 1"


@pytest.mark.process
def test_threads_start_where_processes_may_not():
    attack = "seen = []\nt = threading.Thread(target=seen.append, args=(1,))\nt.start()\nt.join()\nassert seen == [1]"
    assert attempt(attack, seccomp()) == "done"


@pytest.mark.process
def test_a_granted_process_starts_and_is_waited_for_but_gets_no_namespaces():
    config = seccomp(fork=True, exec=True)
    assert attempt("assert subprocess.run(['/bin/true']).returncode == 0", config) == "done"
    number = 56 if os.uname().machine == "x86_64" else 220
    clone = f"if not checked(libc.syscall({number}, 17 | 0x10000000, 0, 0, 0, 0)): os._exit(0)"
    assert attempt(clone, {}) == "done"
    assert attempt(clone, config) == "refused PermissionError 1"


@pytest.mark.process
def test_the_granted_network_is_tcp_only():
    config = seccomp(network=True)
    assert attempt("socket.socket(socket.AF_INET6, socket.SOCK_STREAM)", config) == "done"
    for kind in ("AF_INET, socket.SOCK_DGRAM", "AF_UNIX, socket.SOCK_STREAM", "AF_INET, socket.SOCK_STREAM, 262"):
        assert attempt(f"socket.socket(socket.{kind})", config) == "refused PermissionError 1"


@pytest.mark.process
def test_aborting_oneself_is_allowed():
    assert attempt("os.abort()", seccomp()) == "killed by 6"
    assert attempt("os.kill(os.getpid(), 0)", seccomp()) == "done"


@pytest.mark.process
def test_landlock_alone_hides_files_that_are_not_named(tmp_path):
    shown, canary = tmp_path / "shown", tmp_path / "canary"
    shown.write_text("s")
    canary.write_text("c")
    read = f"open({str(canary)!r}).read()"
    write = f"open({str(shown)!r}, 'a').write('x')"
    config = landlock(read=[*readable(), str(shown)])
    assert attempt(read, {}) == attempt(write, {}) == "done"
    assert attempt(f"open({str(shown)!r}).read()", config) == "done"
    assert attempt(read, config) == attempt(write, config) == "refused PermissionError 13"
    assert attempt(f"os.listdir({str(tmp_path)!r})", config) == "refused PermissionError 13"


@pytest.mark.process
def test_landlock_lets_files_come_and_go_in_a_folder_to_write(tmp_path):
    work = (
        f"os.chdir({str(tmp_path)!r})\nos.mkdir('d')\nopen('d/a', 'w').write('abc')\nos.truncate('d/a', 1)\n"
        "os.rename('d/a', 'b')\nos.symlink('b', 'c')\nassert open('c').read() == 'a'\nos.remove('c')\nos.remove('b')\n"
        "os.rmdir('d')\nos.mkfifo('f')\nos.remove('f')"
    )
    if ABI < 2:
        work = work.replace("os.rename('d/a', 'b')", "os.remove('d/a'); open('b', 'w').write('a')")
    both = {**landlock(write=[str(tmp_path)]), **seccomp()}
    assert attempt(work, both) == "done"
    assert attempt("os.mknod('n', 0o020600, 0x103)", both, cwd=tmp_path).startswith("refused")


@pytest.mark.process
def test_a_program_runs_only_where_it_may_be_executed():
    run = (
        "pid = os.posix_spawn('/bin/true', ['true'], {})\nassert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0"
    )
    assert attempt(run, {}) == "done"
    assert attempt(run, landlock(read=[*readable(), "/bin"])) == "refused PermissionError 13"
    # Its loader comes with it, though nobody named that.
    assert attempt(run, landlock(execute=["/bin/true"])) == "done"


@pytest.mark.process
@pytest.mark.skipif(ABI < 4, reason="Landlock knows TCP from ABI 4 on: runs on Linux 6.7 and later")
def test_landlock_alone_closes_tcp_ports_that_are_not_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        attack = f"socket.create_connection(('127.0.0.1', {port}))"
        assert attempt(attack, {}) == "done"
        assert attempt(attack, landlock()) == "refused PermissionError 13"
        assert attempt(attack, landlock(connect_ports=[port])) == "done"
        assert attempt(attack, landlock(connect_ports=None)) == "done"
    assert (
        attempt("socket.create_server(('127.0.0.1', 0))", landlock(connect_ports=[port]))
        == "refused PermissionError 13"
    )


@pytest.mark.process
@pytest.mark.skipif(ABI < 6, reason="Landlock knows scopes from ABI 6 on: runs on Linux 6.12 and later")
def test_landlock_alone_keeps_signals_and_abstract_sockets_inside():
    assert attempt("os.kill(os.getppid(), 0)", {}) == "done"
    assert attempt("os.kill(os.getppid(), 0)", landlock()) == "refused PermissionError 1"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0paddock-{os.getpid()}")
        server.listen()
        attack = f"socket.socket(socket.AF_UNIX).connect('\\0paddock-{os.getpid()}')"
        assert attempt(attack, {}) == "done"
        assert attempt(attack, landlock()) == "refused PermissionError 1"


LIMITED = {
    "open files": ("NOFILE", 64, "files = [os.dup(0) for _ in range(100)]", "refused OSError 24"),
    "large files": ("FSIZE", 1 << 16, "open('big', 'wb').write(bytes(1 << 20))", "refused OSError 27"),
    "memory": ("AS", 256 << 20, "bytearray(1 << 29)", "refused MemoryError None"),
    "processor time": ("CPU", 1, "while time.process_time() < 3: pass", "killed by 24"),
}


@pytest.mark.process
@pytest.mark.parametrize(("name", "value", "attack", "answer"), LIMITED.values(), ids=LIMITED)
def test_limits_alone_stop_what_takes_too_much(name, value, attack, answer, tmp_path):
    assert attempt(attack, {}, cwd=tmp_path) == "done"
    assert attempt(attack, {"limits": {name: value}}, cwd=tmp_path) == answer


@pytest.mark.process
@as_root
def test_processes_are_counted_for_the_new_identity():
    # RLIMIT_NPROC means nothing to root: it takes a user of its own.
    attack = "for _ in range(8):\n    if not os.fork():\n        signal.pause()"
    attack = (
        f"os.setpgid(0, 0)\ntry:\n{indent(attack)}\nfinally:\n    signal.signal(15, signal.SIG_IGN); os.killpg(0, 15)"
    )
    assert attempt(attack, {"identity": STRANGER}) == "done"
    assert attempt(attack, {"identity": STRANGER, "limits": {"NPROC": 4}}) == "refused BlockingIOError 11"


def indent(text):
    return "\n".join("    " + line for line in text.splitlines())


@pytest.mark.process
def test_a_stricter_limit_stays_and_an_unknown_one_is_named():
    more = "lock({'limits': {'NOFILE': 200}})\nassert resource.getrlimit(resource.RLIMIT_NOFILE) == (50, 50)"
    assert attempt(more, {"limits": {"NOFILE": 50}}) == "done"
    assert refusal({"limits": {"NOPE": 1}}) == "there is no resource limit 'NOPE' here"


@pytest.mark.process
@as_root
def test_identity_alone_takes_away_what_root_may(tmp_path):
    os.chmod(tmp_path, 0o755)
    canary = tmp_path / "canary"
    canary.write_text("secret")
    canary.chmod(0o600)
    config = {"identity": STRANGER}
    for attack in (
        f"open({str(canary)!r}).read()",
        f"os.chown({str(canary)!r}, 0, 0)",
        "os.setuid(0)",
        "os.setgroups([0])",
    ):
        assert attempt(attack, {}) == "done"
        # The folders above belong to root alone here and there: refused by either of them, it is the identity's work.
        assert attempt(attack, config).startswith("refused")
    assert attempt("assert os.getresuid() == (0x70000123,) * 3 and os.getgroups() == []", config) == "done"


@pytest.mark.process
@as_root
def test_without_a_new_identity_the_capabilities_still_go(tmp_path):
    attack = f"os.chown({str(tmp_path)!r}, 1234, 1234)"
    assert attempt(attack, {}) == "done"
    assert attempt(attack, {"identity": None}) == "refused PermissionError 1"


@pytest.mark.process
def test_no_program_gains_what_the_identity_gave_up():
    program = "import pathlib; print([line.split()[1] for line in pathlib.Path('/proc/self/status').read_text()" \
              ".splitlines() if line.startswith(('CapInh', 'CapPrm', 'CapEff', 'CapAmb', 'NoNewPrivs'))])"  # fmt: skip
    run = f"subprocess.run([{sys.executable!r}, '-c', {program!r}], capture_output=True, text=True)"
    attack = f"print({run}.stdout)\nsys.exit()"
    none = "0" * 16
    assert attempt(attack, {"identity": None}) == str([none, none, none, none, "1"])


@pytest.mark.process
def test_nobody_of_the_same_user_can_read_its_memory():
    owner = "sys.exit(print(os.stat('/proc/self/mem').st_uid))"
    user = {"identity": {"uid": 0x70000123, "gid": 0x70000123} if ROOT else None}
    assert attempt(owner, {}) == str(os.getuid())
    assert attempt(owner, user) == "0"


def refusal(config):
    """What LockFailed says for that config."""
    text = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from paddock.sandbox.inside import LockFailed\n"
        "from paddock.sandbox.inside.lock import lock\n"
        f"try:\n    lock({config!r})\nexcept LockFailed as error:\n    print(error)"
    )
    source = next(path for path in readable() if path.endswith("/paddock")).removesuffix("/paddock")
    ran = subprocess.run([sys.executable, "-I", "-c", text, source], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.mark.process
def test_what_cannot_be_applied_is_said_and_nothing_is_left_out():
    assert "'/no/such/path' should be allowed, but can't be opened" in refusal(landlock(read=["/no/such/path"]))
    assert refusal({"wings": {}}).startswith("there is no layer 'wings'")
    assert refusal(seccomp(fly=True)).startswith("seccomp has no option 'fly'")


@pytest.mark.skipif(ROOT, reason="root can become anyone; runs as uid 4000 in test_lock_as_user.py")
def test_an_ordinary_user_cannot_become_another():
    assert "could not be taken on" in refusal({"identity": STRANGER})


@pytest.mark.process
def test_a_process_of_several_threads_is_not_locked_by_half():
    attack = """
threading.Thread(target=threading.Event().wait, daemon=True).start()
from paddock.sandbox.inside import LockFailed
try:
    lock({})
except LockFailed as failure:
    raise OSError from failure
"""
    assert attempt(attack, {}) == "refused OSError None"
