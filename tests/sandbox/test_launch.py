"""What a program behind the wall gets: the view, the descriptors, the identity, and nothing else."""

import fcntl
import json
import os
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing

import pytest

from paddock.bench.hostile.canaries import plant_interpreter
from paddock.errors import InvalidPolicy, NotPermitted, SandboxUnavailable
from paddock.sandbox import Call, Exec, Policy, launch
from paddock.sandbox.machine import Machine
from paddock.sandbox.plan import plan
from tests.sandbox.workers import (
    ROOT,
    SANDBOX,
    backends,
    leftovers,
    needs_linux,
    needs_root,
    report,
    told,
    ways,
    worker,
)

pytestmark = needs_linux


@pytest.mark.process
@ways
def test_args_arrive_and_the_socket_is_descriptor_3(tmp_path, way):
    with worker(tmp_path, "tell([list(args), hear().decode()])", args=(1, "two", {"three": 3.5}), **way) as (
        child,
        here,
    ):
        here.send(b"x")
        assert told(here, child) == [[1, "two", {"three": 3.5}], "x"]


@pytest.mark.process
@ways
def test_no_other_descriptor_of_this_process_is_open_inside(tmp_path, way):
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    code = """
    def is_open(fd):
        try:
            os.fstat(fd)
        except OSError:
            return False
        return True
    tell([fd for fd in range(256) if is_open(fd)])
    """
    try:
        assert report(tmp_path, textwrap.dedent(code), **way) == [0, 1, 2, 3]
    finally:
        os.close(leak)


@pytest.mark.process
@ways
def test_further_descriptors_are_4_and_5_inside(tmp_path, way):
    pipes = [os.pipe(), os.pipe()]
    try:
        for number, (_, writes) in enumerate(pipes):
            os.write(writes, b"pipe %d" % number)
        fds = [reads for reads, _ in pipes]
        said = report(tmp_path, "tell([os.read(fd, 9).decode() for fd in (4, 5)])", extra_fds=fds, **way)
        assert said == ["pipe 0", "pipe 1"]
    finally:
        for fd in sum(pipes, ()):
            os.close(fd)


@pytest.mark.process
@backends
def test_only_what_the_view_lists_exists(tmp_path, backend):
    (tmp_path / "beside.txt").write_text("a secret beside the module")
    code = f"tell([os.listdir('/target'), os.listdir('/'), os.path.exists({str(tmp_path / 'beside.txt')!r})])"
    said = report(tmp_path, code, backend=backend, layers=SANDBOX - {"landlock"})
    assert said[0] == ["little_worker"] and said[2] is False
    assert {"dev", "lib", "target", "tmp", "usr"} <= set(said[1])
    assert not {"home", "proc", "sys", "var", "bin", "run", "opt"} & set(said[1])


@pytest.fixture(scope="module")
def local_python(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("home") / ".local"
    return prefix, plant_interpreter(prefix)


@pytest.mark.process
@ways
def test_of_an_interpreter_below_a_home_folder_only_what_it_needs_is_visible(tmp_path, local_python, way):
    prefix, python = local_python
    canaries = [
        prefix / name
        for name in ("share/keyrings/login.keyring", "bin/token", "lib/notes.txt", "lib/python2.7/x.py", "../.ssh/id")
    ]
    for canary in canaries:
        canary.parent.mkdir(parents=True, exist_ok=True)
        canary.write_text("a secret")
    look = """
    import numpy
    def readable(path):
        try:
            return bool(open(path, "rb").read(1))
        except OSError:
            return False
    tell([path for path in args if readable(path)])
    """
    program = (
        "import json, sys; from tests.sandbox.workers import report; "
        "order = json.loads(sys.argv[1]); print(json.dumps(report(**order)))"
    )
    needed = [python, str(prefix / "lib" / os.path.basename(os.path.dirname(os.__file__)) / "os.py")]
    order = {"folder": str(tmp_path), "code": textwrap.dedent(look), "args": [*map(str, canaries), *needed], **way}
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, sys.path)])}
    done = subprocess.run([python, "-c", program, json.dumps(order)], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == needed


@pytest.mark.process
@backends
def test_the_root_inside_can_not_be_written(tmp_path, backend):
    code = """
def attempt(path):
    try:
        open(path, "w")
    except OSError as error:
        return type(error).__name__
    return "written"
tell([attempt(path) for path in ("/here", "/usr/lib/here", "/dev/here", "/target/here", "/tmp/here")])
"""
    layers = frozenset({"namespaces", "identity"}) if ROOT else frozenset({"namespaces"})
    said = report(tmp_path, code, backend=backend, layers=layers)
    assert said[-1] == "written" and "written" not in said[:-1]


@pytest.mark.process
@backends
def test_the_scratch_folder_has_its_size_and_is_empty_at_the_start(tmp_path, backend):
    code = """
before = os.listdir("/tmp")
written = 0
try:
    for number in range(64):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(bytes(1 << 20))
            written += 1
except OSError as error:
    tell([before, written, error.errno])
"""
    with worker(tmp_path, code, backend=backend, scratch_mb=8) as (child, here):
        before, written, errno = told(here, child)
        shown_below = {one.target.split("/")[2] for one in child.mounts if one.target.startswith("/tmp/")}
    assert set(before) == shown_below and 6 <= written <= 8 and errno == 28


def _most_files(tmp_path, backend, **policy):
    code = """
made = 0
try:
    while made < 100_000:
        os.close(os.open(f"/tmp/{made}", os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError:
    pass
tell(made)
"""
    return report(tmp_path, code, backend=backend, **policy)


@pytest.mark.process
def test_empty_files_can_not_fill_the_kernel_natively(tmp_path):
    assert _most_files(tmp_path, "native", scratch_mb=1) < 1100


@pytest.mark.process
def test_empty_files_can_not_fill_the_kernel_however_it_is_started(tmp_path):
    assert _most_files(tmp_path, None, scratch_mb=1) < 1100


@pytest.mark.process
@needs_root
def test_empty_files_can_not_fill_the_kernel_behind_bubblewrap(tmp_path):
    assert _most_files(tmp_path, "bwrap", scratch_mb=1) < 1100


@pytest.mark.process
@ways
def test_variables_are_those_of_the_policy_and_none_of_this_process(tmp_path, way, monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter2")
    said = report(tmp_path, "tell(dict(os.environ))", variables={"GIVEN": "yes"}, **way)
    assert said["GIVEN"] == "yes" and "A_SECRET" not in said
    assert set(said) <= {"GIVEN", "HOME", "TMPDIR", "PATH", "LC_ALL", "PWD"}


@pytest.mark.process
@ways
def test_a_loader_variable_of_the_policy_does_not_act_before_the_wall(tmp_path, way):
    # The loader would write what it is asked for to the worker's stderr, when a program starts.
    with worker(tmp_path, "tell(os.environ['LD_DEBUG'])", variables={"LD_DEBUG": "libs"}, **way) as (child, here):
        assert told(here, child) == "libs"
        child.wait(5)
        child.kill()
        assert "calling init" not in child.output


@pytest.mark.process
@needs_root
@backends
def test_as_root_each_worker_has_a_uid_of_its_own(tmp_path, backend):
    code = "tell([os.getresuid(), os.getresgid(), os.getgroups()])"
    first, second = (report(tmp_path, code, backend=backend) for _ in range(2))
    assert first != second
    for users, groups, more in (first, second):
        assert len(set(users)) == len(set(groups)) == 1 and users[0] >= 0x70000000 and more == []


@pytest.mark.process
@needs_root
def test_private_files_of_root_are_shown_as_the_workers(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "in").write_text("for the worker")
    (data / "in").chmod(0o600)
    code = f"""
text = open({str(data / "in")!r}).read()
open({str(data / "out")!r}, "w").write(text.upper())
tell([text, os.stat({str(data / "in")!r}).st_uid == os.getuid()])
"""
    with worker(tmp_path, code, write=(str(data),)) as (child, here):
        assert child.backend == "native"  # bubblewrap can't
        assert told(here, child) == ["for the worker", True]
    assert (data / "out").read_text() == "FOR THE WORKER" and (data / "out").stat().st_uid == 0


@pytest.mark.process
@ways
def test_a_folder_to_read_can_not_be_written_and_one_to_write_can(tmp_path, way):
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        (tmp_path / name).chmod(0o777)
    code = f"""
def attempt(path):
    try:
        open(path, "w")
    except OSError:
        return False
    return True
seen = open({str(tmp_path / "read" / "file")!r}).read()
tell([seen, attempt({str(tmp_path / "read" / "new")!r}), attempt({str(tmp_path / "write" / "new")!r})])
"""
    paths = {"read": (str(tmp_path / "read"),), "write": (str(tmp_path / "write"),)}
    assert report(tmp_path, code, **paths, **way) == ["read", False, True]
    assert (tmp_path / "write" / "new").exists()


@pytest.mark.process
@ways
def test_a_program_talks_over_the_socket_as_its_standard_streams(way):
    here, there = socket.socketpair()
    tier = way.get("tier", "sandbox")
    policy = Policy(programs=("/usr/bin/cat",), tier=tier)
    with (
        here,
        launch(
            Exec(("/usr/bin/cat",), stdio=True), policy, socket_fd=there.fileno(), backend=way.get("backend")
        ) as child,
    ):
        there.close()
        here.settimeout(20)
        here.sendall(b"hello")
        here.shutdown(socket.SHUT_WR)
        assert here.recv(100) == b"hello", child.output
        assert here.recv(100) == b""
        assert child.wait(5) and child.last_words() == "exited with code 0"


def test_a_program_that_the_policy_does_not_name_is_refused():
    with pytest.raises(NotPermitted, match="/usr/bin/env"):
        launch(Exec(("/usr/bin/env",)), Policy(programs=("/usr/bin/cat",)), socket_fd=0)


@pytest.mark.process
@backends
def test_with_hosts_a_listener_of_the_inside_comes_first(tmp_path, backend):
    with worker(tmp_path, "tell('up')", hosts=("example.com:443",), backend=backend) as (child, here):
        said, fds, _, _ = socket.recv_fds(here, 1, 1)
        assert said == b"L", child.output
        with socket.socket(fileno=fds[0]) as listener:
            assert listener.getsockname()[0] == "127.0.0.1"
        assert told(here, child) == "up"


def test_hosts_without_a_network_of_its_own_are_refused(tmp_path):
    with (
        pytest.raises(SandboxUnavailable, match="tier='sandbox'"),
        worker(tmp_path, "", hosts=("example.com:443",), tier="landlock"),
    ):
        pass


@pytest.mark.process
def test_a_path_that_does_not_exist_is_refused_before_anything_starts(tmp_path):
    before = leftovers()
    with pytest.raises(InvalidPolicy, match="nowhere"), worker(tmp_path, "", read=(str(tmp_path / "nowhere"),)):
        pass
    assert leftovers() <= before


@pytest.mark.parametrize("tier", ["sandbox", "landlock"])
def test_a_tier_that_the_machine_lacks_is_refused_and_says_what_is_missing(monkeypatch, tier):
    from dataclasses import replace

    poorer = replace(Machine.here(), landlock_abi=0)
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: poorer))
    with pytest.raises(SandboxUnavailable, match="Landlock"):
        launch(Call("a:b"), Policy(tier=tier), socket_fd=0)


@pytest.mark.process
def test_a_message_that_is_too_long_is_refused(tmp_path):
    before = leftovers()
    with pytest.raises(InvalidPolicy, match="bytes"), worker(tmp_path, "", args=("x" * (1 << 20),)):
        pass
    assert leftovers() <= before


@pytest.mark.process
@ways
def test_the_thread_that_launched_may_end(tmp_path, way):
    started = []
    entered = worker(tmp_path, "tell(hear().decode())", **way)
    thread = threading.Thread(target=lambda: started.append(entered.__enter__()))
    thread.start()
    thread.join()
    try:
        child, here = started[0]
        assert not child.wait(0.2)
        here.send(b"y")
        assert told(here, child) == "y"
    finally:
        entered.__exit__(None, None, None)


@pytest.mark.process
@ways
def test_nothing_is_left_over(tmp_path, way):
    report(tmp_path, "tell(1)", **way)  # what is made once per process is there now
    before = leftovers()
    for _ in range(3):
        report(tmp_path, "tell(1)", **way)
    assert leftovers() <= before


@pytest.mark.process
@ways
def test_memory_threads_and_files_are_limited(tmp_path, way):
    code = """
import resource, threading
def most_threads():
    stop = threading.Event()
    threads = []
    try:
        while len(threads) < 200:
            threads.append(threading.Thread(target=stop.wait))
            threads[-1].start()
    except RuntimeError:
        threads.pop()
    stop.set()
    return len(threads)
def most_files():
    fds = []
    try:
        while len(fds) < 400:
            fds.append(os.open("/dev/null", 0))
    except OSError:
        pass
    for fd in fds:
        os.close(fd)
    return len(fds)
tell([most_files(), most_threads(), resource.getrlimit(resource.RLIMIT_CORE)])
"""
    files, threads, core = report(tmp_path, code, descriptors=64, threads=20, **way)
    assert files < 64 and core == [0, 0]
    if "tier" not in way or any(one.name == "pids" for one in Machine.here().cgroups):
        assert 15 <= threads <= 24
    else:
        with worker(tmp_path, "tell(1)", **way) as (child, _):
            assert any("threads" in note for note in child.notes)


@pytest.mark.process
@ways
def test_a_worker_takes_few_of_its_users_timers_and_locks_only_where_it_may_write(tmp_path, way):
    code = """
import ctypes, fcntl
libc, made = ctypes.CDLL(None), 0
while made < 1000 and not libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())):
    made += 1
try:
    fcntl.flock(os.open(args[0], os.O_RDONLY), fcntl.LOCK_EX)
except OSError as error:
    tell([made, error.errno])
else:
    tell([made, 0])
"""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "level").write_text("")
    options = {"args": (str(folder / "level"),), **way}
    made, refused = report(tmp_path, code, read=(str(folder),), **options)
    assert made <= 256 and refused == 38
    assert report(tmp_path, code, write=(str(folder),), **options)[1] == 0


@pytest.mark.process
@ways
def test_a_lock_of_a_byte_range_holds_only_where_it_may_write(tmp_path, way):
    """Where it is alone it hears "done": its own locks never stand in its own way, and SQLite needs to hear it."""
    code = """
import fcntl, sqlite3, struct, tempfile
def errno_of(command):
    try:
        fcntl.fcntl(file, command, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
    except OSError as error:
        return error.errno
    return 0
file = os.open(args[0], os.O_RDONLY)
tell([errno_of(command) for command in (fcntl.F_SETLK, fcntl.F_SETLKW, fcntl.F_GETLK, 37, 38, 36)])
hear()
if len(args) > 1:
    for _ in range(2):
        with sqlite3.connect("file:" + tempfile.gettempdir() + "/data.db" + args[1], uri=True) as base:
            base.execute("create table if not exists t (x)")
            base.execute("insert into t values (1)")
            rows = base.execute("select count(*) from t").fetchall()
    for path in args[2:]:
        rows += sqlite3.connect("file:" + path + "?mode=ro", uri=True).execute("select x from t").fetchall()
    tell(rows)
"""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    path, base = folder / "level", folder / "host.db"
    path.write_text("")
    with closing(sqlite3.connect(base)) as here, here:
        here.execute("create table t as select 7 as x")

    def host_can_lock(*args, **policy):
        with worker(tmp_path, code, args=(str(path), *args), **policy, **way) as (child, near), path.open("w") as file:
            answers = told(near, child)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = True
            except BlockingIOError:
                free = False
            near.sendall(b"x")
            return answers, free, told(near, child) if args else None

    assert host_can_lock("", str(base), read=(str(folder),)) == ([0, 0, 38, 38, 38, 38], True, [[2], [7]])
    assert host_can_lock("?vfs=unix-dotfile", read=(str(folder),), processes=2) == ([38] * 6, True, [[2]])
    assert host_can_lock(write=(str(folder),)) == ([0] * 6, False, None)


@pytest.mark.process
def test_the_plan_has_the_mounts_that_the_child_gets(tmp_path):
    with worker(tmp_path, "tell(1)") as (child, here):
        call = Call("little_worker:main", (), {"little_worker": str(tmp_path / "little_worker.py")})
        assert list(plan(call, Policy()).mounts) == child.mounts
        told(here, child)


@pytest.mark.process
def test_layers_that_could_not_be_had_are_said(tmp_path):
    with worker(tmp_path, "tell(1)") as (child, here):
        told(here, child)
        assert child.tier == "sandbox"
        assert ("cgroup" in child.layers) == bool(Machine.here().cgroups)
        assert ("cgroup" in child.layers) or any("RLIMIT_AS" in note for note in child.notes)


def test_scratch_folders_of_killed_processes_are_removed_by_the_next_launch(tmp_path, monkeypatch):
    from paddock.sandbox import launching

    monkeypatch.setattr(launching.tempfile, "tempdir", str(tmp_path))
    gone, mine = tmp_path / "paddock-scratch-4194303-x", tmp_path / f"paddock-scratch-{os.getpid()}-x"
    gone.mkdir()
    mine.mkdir()
    (gone / "file").touch()
    launching._sweep_folders()
    assert not gone.exists()
    assert mine.exists()
