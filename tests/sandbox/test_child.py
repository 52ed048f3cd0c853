"""How what was started behind a wall ends: the cause, the words, and that nothing of it is left."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.bench.hostile.host_state import (
    adopting_orphans,
    dead_children,
    descendants,
    end_all,
    kill_while_starting,
    reap,
)
from paddock.sandbox import Machine, Policy
from paddock.sandbox import child as cpu
from paddock.sandbox.cgroup import Controller, identify
from paddock.sandbox.child import _cpu_below_s
from paddock.sandbox.launching import bubblewrap_command, end_orphans
from paddock.sandbox.plan import BOOT, BOOT_END
from paddock.sandbox.promises import promises
from tests.clocks import awake_s
from tests.sandbox.workers import LANDLOCK, ROOT, needs_linux, needs_root, told, wait_until, ways, worker

pytestmark = needs_linux
MEMORY = any(one.name == "memory" for one in Machine.here().cgroups)


def _ended(tmp_path, code, way, **policy):
    with worker(tmp_path, code, **way, **policy) as (child, _):
        assert child.wait(15), child.output
        words = child.last_words()
        return words, child.cause


@pytest.mark.process
@ways
def test_an_exit_code_is_told(tmp_path, way):
    assert _ended(tmp_path, "sys.exit(7)", way) == ("exited with code 7", "exit")


@pytest.mark.process
@ways
def test_a_crash_is_told_with_its_signal(tmp_path, way):
    code = "import ctypes\nctypes.string_at(0)"
    assert _ended(tmp_path, code, way) == ("was killed by SIGSEGV", "signal")


@pytest.mark.process
@ways
def test_too_much_cpu_time_is_told(tmp_path, way):
    words, cause = _ended(tmp_path, "while True: pass", way, cpu_s=1)
    assert cause == "cpu" and "CPU time" in words


@pytest.mark.process
@ways
@pytest.mark.parametrize("counted_by", ["cgroup", "proc"])
def test_too_much_cpu_time_in_a_call_is_told(tmp_path, way, counted_by, monkeypatch):
    """Of all threads and processes together: two that use half of it each have used all of it."""
    if counted_by == "proc":
        monkeypatch.setattr("paddock.sandbox.cgroup.Group.cpu_s", lambda group: None)
    code = """
import os
if os.fork() == 0:
    while True: pass
while True: pass
"""
    words, cause = _ended(tmp_path, code, way, call_cpu_s=1.0, start_s=1.0, processes=2)
    assert (cause, words) == ("cpu", "was ended: it used more CPU time than the 1 s of a call (call_cpu_s)")


class _Watched:
    """As much of a Child as the watch over CPU time sees: it has used too much."""

    fd, answered, start_cpu_s = 0, False, 1.0

    def __init__(self):
        self.ended = threading.Event()

    def cpu_s(self):
        return 2.0

    def end_overspent(self):
        self.fd = None
        self.ended.set()


@pytest.fixture
def overspent():
    child = _Watched()
    yield child
    child.fd = None  # the watch forgets it


def test_a_worker_that_cannot_be_looked_at_does_not_free_its_neighbours(overspent):
    strange = _Watched()
    strange.cpu_s = lambda: 1 // 0
    try:
        cpu.watch_cpu(strange)
        cpu.watch_cpu(overspent)
        assert overspent.ended.wait(10)
    finally:
        strange.fd = None


def test_a_watch_that_died_is_begun_anew(overspent, monkeypatch):
    dead = threading.Thread(target=int)
    dead.start()
    dead.join()
    monkeypatch.setattr(cpu, "_thread", dead)
    cpu.watch_cpu(overspent)
    assert overspent.ended.wait(10)


def test_cpu_time_of_several_processes_is_promised_only_where_a_cgroup_counts_it():
    def held(processes, *cgroups):
        machine = replace(Machine.here(), cgroups=cgroups)
        kept = promises("sandbox", machine, Policy(processes=processes))
        return next(one.held for one in kept if one.key == "cpu-limited")

    assert held(1) and held(2, Controller("pids", 2, "")) and held(2, Controller("cpuacct", 1, ""))
    assert not held(2) and not held(2, Controller("cpu", 1, ""))


@pytest.mark.process
@pytest.mark.skipif(not MEMORY, reason="no cgroup with a memory limit may be made here: runs as root")
@ways
def test_too_much_memory_is_told(tmp_path, way):
    code = "hoard = []\nwhile True: hoard.append(bytearray(1 << 22))"
    words, cause = _ended(tmp_path, code, way, memory_mb=96)
    assert cause == "memory" and "memory" in words


@pytest.mark.process
@ways
def test_without_a_cgroup_memory_runs_out_inside(tmp_path, way):
    code = """
try:
    hoard = bytearray(1 << 30)
except MemoryError:
    tell("no more")
"""
    layers = LANDLOCK - {"cgroup"} if "tier" in way else frozenset({"namespaces", "identity", "limits", "seccomp"})
    with worker(tmp_path, code, memory_mb=256, layers=layers, **way) as (child, here):
        assert told(here, child) == "no more"
        assert "cgroup" not in child.layers


@pytest.mark.process
@ways
def test_without_a_cgroup_there_are_no_files_in_memory(tmp_path, way):
    code = """
import os
try:
    tell(str(os.memfd_create("hoard")))
except OSError as error:
    tell(type(error).__name__ + str(error.errno))
"""
    layers = LANDLOCK - {"cgroup"} if "tier" in way else frozenset({"namespaces", "identity", "limits", "seccomp"})
    with worker(tmp_path, code, layers=layers, **way) as (child, here):
        assert told(here, child) == "OSError38"


@pytest.mark.process
def test_a_scratch_folder_of_any_depth_is_removed(tmp_path):
    code = """
import os
place = os.open(os.environ["TMPDIR"], os.O_RDONLY)
for _ in range(4000):
    os.mkdir("d", dir_fd=place)
    inner = os.open("d", os.O_RDONLY, dir_fd=place)
    os.close(place)
    place = inner
tell("deep")
"""
    with worker(tmp_path, code, tier="landlock") as (child, here):
        assert told(here, child) == "deep"
        folder = child.folder
        child.wait(30)
        began = time.process_time()
        child.kill()
        assert time.process_time() - began < 0.4  # of this process's: another one goes on
    assert wait_until(lambda: not os.path.exists(folder), within_s=120)


@pytest.mark.process
def test_what_is_being_removed_goes_though_this_process_ends(tmp_path):
    deep = tmp_path / "deep"
    text = f"""
import os
from paddock.sandbox import removal
removal._AT_ONCE_S = 0.0
os.makedirs({str(deep)!r} + "/d" * 300)
removal.remove_soon({str(deep)!r})
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", text]).returncode == -9
    assert wait_until(lambda: not deep.exists(), within_s=60)


@pytest.mark.process
@ways
def test_one_that_this_side_ends_was_ended(tmp_path, way):
    with worker(tmp_path, "tell(1)\nwhile True: pass", **way) as (child, here):
        told(here, child)
        assert child.cause is None and not child.wait(0)
        began = awake_s()
        child.kill()
        assert awake_s() - began < 0.5
        child.kill()
        assert child.cause == "ended" and child.wait(0) and child.fd is None


def _numbers_of_tree(child):
    """Processes with the worker's module on their command line, or below the child, by /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    tree = {child.pid}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return tree


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


FAMILY = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.fork()
        while True: pass
tell(1)
while True: pass
"""


@pytest.mark.process
@ways
def test_the_whole_tree_ends_within_half_a_second(tmp_path, way):
    with worker(tmp_path, FAMILY, processes=8, **way) as (child, here):
        told(here, child)
        assert wait_until(lambda: len(_numbers_of_tree(child)) >= 7)
        tree = _numbers_of_tree(child)
        began = time.monotonic()
        child.kill()
        assert wait_until(lambda: not [pid for pid in tree if _alive(pid)], 0.5 - (time.monotonic() - began))


@pytest.mark.process
@ways
def test_what_outlives_the_worker_ends_with_it(tmp_path, way):
    code = """
if os.fork() == 0:
    os.close(3)
    while True: pass
tell(1)
"""
    with worker(tmp_path, code, processes=4, **way) as (child, here):
        told(here, child)
        tree = _numbers_of_tree(child)
        assert child.wait(10)
        child.kill()
        assert wait_until(lambda: not [pid for pid in tree if _alive(pid)], 0.5)
        assert child.cause == "exit"


@pytest.mark.process
@ways
def test_output_is_kept_up_to_the_limit_and_never_blocks_the_end(tmp_path, way):
    code = """
print("first", flush=True)
os.write(2, b"error \\x1b[31mred\\x1b[0m \\x1b]0;title\\x07 \\x07bell\\n")
for _ in range(400): os.write(1, b"x" * 1023 + b"\\n")
"""
    with worker(tmp_path, code, output_kb=8, **way) as (child, _):
        assert child.wait(15)
        child.kill()
        assert child.output.startswith("first\nerror red  bell\nxxx")
        assert 8000 < len(child.output) < 8300
        assert "more bytes were thrown away" in child.output and child.output_fd is None
        assert child.cause == "exit"


@pytest.mark.process
def test_a_full_pipe_holds_the_worker_until_it_is_drained(tmp_path):
    with worker(tmp_path, "sys.stdout.write('x' * 300_000)\nsys.stdout.flush()\ntell('through')\nhear()") as (
        child,
        here,
    ):
        assert wait_until(lambda: child.drain() and "[234464 more bytes" in child.output)
        assert told(here, child) == "through"


@pytest.mark.process
@ways
def test_a_wall_that_fails_is_told_and_nothing_runs(tmp_path, way, monkeypatch):
    # A path that is there when it is planned, and gone when the worker looks: it is never left out silently.
    gone = tmp_path / "gone"
    gone.mkdir()
    module = sys.modules["paddock.sandbox.launching"]
    original = module._start

    def start(*args):
        gone.rmdir()
        return original(*args)

    monkeypatch.setattr(module, "_start", start)
    try:
        with worker(tmp_path, "tell('ran')", read=(str(gone),), **way) as (child, here):
            assert here.recv(100) == b""
            words = child.last_words()
            assert child.cause == "exit" and "gone" in child.output
            assert "gone" in child.wall_failure and "could not be put behind its wall" in words
    finally:
        assert not gone.exists()


@pytest.mark.process
@ways
def test_code_behind_a_wall_cannot_say_that_there_is_none(tmp_path, way):
    forged = "import os\nos.write(2, b'paddock: the wall could not be put up: no kernel\\n')\nos._exit(125)"
    with worker(tmp_path, forged, **way) as (child, here):
        assert here.recv(100) == b""
        assert child.last_words() == "exited with code 125"
        assert child.wall_failure is None and "no kernel" in child.output


@pytest.mark.process
def test_a_forked_copy_has_no_say(tmp_path):
    with worker(tmp_path, "tell(hear().decode())") as (child, here):
        pid = os.fork()
        if pid == 0:
            child.kill()
            os._exit(0 if child.wait(0) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        here.send(b"z")
        assert told(here, child) == "z"


PARENT = """
import os, socket, sys, time
from paddock.sandbox import Call, Policy, launch
here, there = socket.socketpair()
options = {options!r}
tier = options.pop("tier", "sandbox")
policy = Policy(tier=tier, processes={processes})
call = Call("little_worker:main", (), {{"little_worker": {module!r}}})
child = launch(call, policy, socket_fd=there.fileno(), **options)
there.close()
here.recv(100)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.process
@ways
def test_when_this_process_is_killed_the_whole_tree_ends(tmp_path, way):
    with worker(tmp_path, "tell(1)\nwhile True: pass", **way):
        pass  # writes the module
    text = PARENT.format(options=way, module=str(tmp_path / "little_worker.py"), processes=1)
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(parent.stdout.readline())
        tree = _numbers_of_tree(type("Child", (), {"pid": pid}))
        assert len(tree) >= (1 if "tier" in way else 3)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
    assert wait_until(lambda: not [one for one in tree if _alive(one)], 2.0), _told_of(tree)


def _told_of(tree):
    return subprocess.run(
        ["ps", "-o", "pid,ppid,stat,args", "-p", ",".join(map(str, tree))], capture_output=True, text=True
    )


@pytest.mark.process
@pytest.mark.skipif(
    Machine.here().bwrap is None, reason="bubblewrap is missing; scripts/setup installs it where it may"
)
def test_an_orphan_of_bubblewrap_is_ended_and_nobody_else(tmp_path):
    """It reports to nobody here and ends before its child may go on, as when it is killed at that moment."""
    with adopting_orphans(), worker(tmp_path, "tell(1)\nhear()", backend="bwrap") as (child, here):
        told(here, child)
        before = descendants(os.getpid())
        reads, writes = os.pipe()
        os.close(reads)
        python = [sys.executable, "-c", BOOT]
        argv = bubblewrap_command(Machine.here().bwrap, [], python, root=ROOT, scratch_bytes=1 << 20, info_fd=writes)
        assert subprocess.run(argv, pass_fds=[writes]).returncode == -signal.SIGPIPE
        os.close(writes)
        (orphan,) = descendants(os.getpid()).keys() - before.keys()
        assert orphan in end_orphans()
        assert os.waitstatus_to_exitcode(os.waitpid(orphan, 0)[1]) == -signal.SIGKILL
        assert descendants(os.getpid()).keys() <= before.keys() and not child.wait(0)


@pytest.mark.process
def test_what_is_printed_while_the_stack_is_asked_for_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("paddock.sandbox.child._STACK_S", 10.0)  # a busy machine may let it wait
    code = """
import faulthandler, signal
faulthandler.register(signal.SIGQUIT, all_threads=False)
tell(1)
for number in range(100):
    print("counts", number, flush=True)
    time.sleep(0.005)
tell(2)
"""
    with worker(tmp_path, code) as (child, here):
        told(here, child)
        assert "little_worker" in child.stack()
        told(here, child)
        child.drain()
        assert re.findall(r"counts (\d+)", child.output) == [str(number) for number in range(100)]


NAMELESS = """
import ctypes, sys, time
assert ctypes.CDLL(None).prctl(15, bytes([255, 11]) + b") x", 0, 0, 0) == 0
ends = time.process_time() + 0.05
while time.process_time() < ends: pass
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_a_process_whose_name_is_not_text_is_looked_at_like_any_other():
    """Behind a wall a process chooses its name, and no look at /proc may stumble over it."""
    disguise = ["--unshare-pid", BOOT_END]
    with subprocess.Popen(
        [sys.executable, "-c", NAMELESS, *disguise], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        assert process.pid not in end_orphans()
        assert _cpu_below_s(process.pid) > 0 and identify(process.pid).partition("-")[2].isdigit()
        assert process.pid in descendants(os.getpid())
        process.stdin.close()


@pytest.mark.process
@ways
@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.full)])
def test_programs_that_are_killed_while_they_start_workers_leave_nothing(times, way):
    with adopting_orphans():
        before = descendants(os.getpid()).keys()
        kill_while_starting(json.dumps({"tier": way.get("tier", "sandbox")}), times, way.get("backend"))
        gone = wait_until(lambda: descendants(os.getpid()).keys() <= before, within_s=20)  # templates may end
        left = {pid: name for pid, name in descendants(os.getpid()).items() if pid not in before}
        end_all(left)
        reap(dead_children())
    assert gone, left


@pytest.mark.process
def test_children_that_nobody_ended_leave_nothing_when_python_exits(tmp_path):
    with worker(tmp_path, "tell(1)\nwhile True: pass"):
        pass
    text = PARENT.format(options={"tier": "landlock"}, module=str(tmp_path / "little_worker.py"), processes=1)
    ran = subprocess.run(
        [sys.executable, "-c", text.replace("time.sleep(60)", "print(child.folder)")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    pid, folder = ran.stdout.split()
    assert not os.path.exists(folder) and not _alive(int(pid))


@pytest.mark.process
@needs_root
def test_the_lone_processes_of_the_wall_have_no_rights(tmp_path):
    with worker(tmp_path, "tell(1)\nhear()", backend="native") as (child, here):
        told(here, child)
        inner = _numbers_of_tree(child) - {child.pid}
        assert len(inner) == 2 and ROOT
        for pid in inner:
            status = dict(
                line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
            )
            assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0 and status["NoNewPrivs"] == "1"
