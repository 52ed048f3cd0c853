"""The worker's first code: what it reads, what it leaves alone before the wall is up, how it ends."""

import json
import os
import select
import socket
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader

import pytest

from paddock.sandbox.inside.finder import spec_of
from paddock.sandbox.plan import BOOT
from tests.peers import run_with_peer
from tests.sandbox.walled import boot, readable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's: they run on Linux only")

LOCK = {
    "identity": None,
    "limits": {"CORE": 0, "NOFILE": 128},
    "landlock": {"read": [], "write": [], "execute": [], "devices": [], "connect_ports": []},
    "seccomp": {"fork": False, "exec": False, "network": False},
}


@pytest.fixture
def target(tmp_path):
    """A folder with a module `target` and a neighbour that is none of its business."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "neighbour.py").write_text("")
    (folder / "target.py").write_text(
        "import sys\ndef main(*args):\n    print('called', *args)\ndef run(code):\n    exec(code, {})\n"
    )
    return folder / "target.py"


def order(target, call="target:main", args=(), *, path=None, modules=None, lock=None, **more):
    landlock = {**LOCK["landlock"], "read": [*readable(), str(target)]}
    library = [one for one in sys.path if one and os.path.exists(one) and not one.startswith(str(target.parent))]
    then = {
        "call": call,
        "args": list(args),
        "path": library if path is None else path,
        "modules": {"target": str(target)} if modules is None else modules,
    }
    return {
        "lock": lock or {**LOCK, "landlock": landlock},
        "die_with": None,
        "listen": None,
        "native": None,
        "then": then,
        **more,
    }


def said(ran):
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.process
def test_it_calls_what_was_named_with_its_arguments(target):
    assert said(boot(order(target, args=["a", 2, None]))) == "called a 2 None"


@pytest.mark.process
def test_the_environment_variables_are_those_of_the_order(target):
    wanted = order(target, "target:run", ["import os; print(dict(os.environ))"])
    wanted["then"]["env"] = {"word": "aha"}
    assert said(boot(wanted)) == "{'word': 'aha'}"


@pytest.mark.process
def test_an_order_arrives_from_a_memory_file_too(target):
    file = os.memfd_create("order")
    os.write(file, json.dumps(order(target)).encode())
    os.lseek(file, 0, os.SEEK_SET)
    argv = [sys.executable, "-I", "-S", "-c", BOOT, str(file)]
    ran = subprocess.run(argv, pass_fds=[file], capture_output=True, text=True, timeout=60)
    os.close(file)
    assert said(ran) == "called"


@pytest.mark.process
def test_nothing_but_the_wall_is_imported_before_it_stands(target):
    instead = "import paddock.sandbox.inside.boot as b; b.lock = lambda _: sys.exit(print(*sys.modules)); main()"
    seen = set(said(boot(order(target), line=BOOT.replace("main()", instead))).split()) - {"__main__"}
    ours = {name for name in seen if name.startswith("paddock")}
    assert {name for name in ours if not name.startswith("paddock.sandbox.inside")} == {"paddock", "paddock.sandbox"}
    assert {name.split(".")[0] for name in seen - ours} <= set(sys.stdlib_module_names)
    # No .pth file was read; and these take longer than the wall itself.
    assert not seen & {"site", "sitecustomize", "re", "typing", "json", "dataclasses", "socket", "importlib.util"}


@pytest.mark.process
def test_the_wall_stands_when_the_target_is_imported(target, tmp_path):
    canary = tmp_path / "canary"
    canary.write_text("secret")
    target.write_text(f"open({str(canary)!r})")
    ran = boot(order(target))
    assert ran.returncode == 1 and "PermissionError" in ran.stderr


@pytest.mark.process
def test_paddock_is_whole_again_behind_the_wall_and_numpy_computes(target):
    code = (
        "import numpy as np, paddock, threading, sys, tempfile\n"
        "assert np.linalg.svd(np.random.default_rng(0).normal(size=(200, 200)))[1][0] > 1\n"
        "env = paddock.make('CartPole-v1'); env.reset(seed=1); env.step(0)\n"
        "assert paddock.__version__\n"
        "print('fine')"
    )
    assert said(boot(order(target, "target:run", [code]))) == "fine"


@pytest.mark.process
def test_numba_compiles_behind_the_wall(target, tmp_path):
    code = (
        "import warnings; warnings.simplefilter('ignore')\nimport numba, numpy as np\n"
        "print(numba.njit(lambda x: x.sum(), parallel=True)(np.ones(1000)))"
    )
    assert said(boot(order(target, "target:run", [code]))) == "1000.0"


TORCH = """
import json, socket
from paddock.sandbox import Call, Policy, launch

near, far = socket.socketpair()
call = Call("torch_target:main", modules={{"torch_target": {path!r}}})
with launch(call, Policy(memory_mb=4096), socket_fd=far.fileno()) as child:
    child.wait(120)
print(json.dumps(child.output))
"""


@pytest.mark.peers
@pytest.mark.full
def test_torch_computes_behind_the_wall(tmp_path):
    target = tmp_path / "torch_target.py"
    target.write_text("def main():\n    import torch\n    print(torch.nn.Linear(64, 64)(torch.ones(256, 64)).shape[0])")
    assert "256" in run_with_peer("arrays", TORCH.format(path=str(target))).split()


@pytest.mark.process
def test_the_library_that_environments_use_works_behind_the_wall(target, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    wanted = order(target, "target:run", [LIBRARY.format(scratch=str(scratch))])
    wanted["lock"]["landlock"]["write"] = [str(scratch)]
    assert said(boot(wanted)) == "fine"


LIBRARY = """
import array, asyncio, ctypes, errno, fcntl, mmap, os, queue, random, select, selectors, signal, socket, sqlite3, sys
import tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor
os.chdir({scratch!r})
with ThreadPoolExecutor(4) as pool:
    assert sum(pool.map(len, ["ab"] * 50)) == 100
async def talk():
    await asyncio.sleep(0.001)
    return await asyncio.get_running_loop().run_in_executor(None, lambda: 3)
assert asyncio.run(talk()) == 3
caught = []
signal.signal(signal.SIGALRM, lambda *a: caught.append(a))
signal.setitimer(signal.ITIMER_REAL, 0.001)
signal.sigtimedwait([signal.SIGUSR2], 0.05)
assert caught
signal.signal(signal.SIGUSR1, lambda *a: caught.append(a))
signal.raise_signal(signal.SIGUSR1)
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
assert len(caught) == 3
left, right = socket.socketpair()
socket.send_fds(left, [b"x"], [0])
data, passed, _, _ = socket.recv_fds(right, 1, 1)
os.close(passed[0])
left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
poll = select.epoll()
poll.register(right, select.EPOLLIN)
left.sendall(b"y")
assert poll.poll(1)
shared = os.memfd_create("shared", os.MFD_ALLOW_SEALING)
os.ftruncate(shared, 4096)
fcntl.fcntl(shared, 1033, 2)
mmap.mmap(shared, 4096)[:3] = b"abc"
with tempfile.TemporaryDirectory(dir=".") as folder, open(folder + "/a", "w+b") as file:
    file.write(bytes(100))
    file.flush()
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.posix_fallocate(file.fileno(), 0, 4096)
    os.truncate(folder + "/a", 10)
    os.rename(folder + "/a", folder + "/b")
    assert os.listdir(folder) == ["b"]
    os.scandir(folder).close()
with sqlite3.connect("data.db") as base:
    base.execute("create table t (x)")
assert os.urandom(4) and len(os.sched_getaffinity(0)) and os.getloadavg
os.nice(1)
assert not os.isatty(1)
time.sleep(0.001)
print("fine")
"""


@pytest.mark.process
def test_only_the_named_module_is_found(target):
    ran = boot(order(target, "neighbour:main"))
    assert ran.returncode == 1 and "No module named 'neighbour'" in ran.stderr


@pytest.mark.process
@pytest.mark.parametrize("name", ["json", "paddock", "os", "_ctypes", "not.a.name"])
def test_a_module_cannot_take_a_name_that_is_taken(target, name):
    ran = boot(order(target, modules={name: str(target)}))
    assert ran.returncode == 125
    assert ran.stderr == f"paddock: a module cannot be called {name!r}: paddock or Python's own library has that name\n"


@pytest.mark.process
def test_packages_are_found_by_name_with_their_parts(target):
    package = target.parent / "pack"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from pack.inner import deep\nfrom . import side\n")
    (package / "side.py").write_text("import target\n")
    (package / "inner" / "deep.py").write_text("def main():\n    print(__name__)\n")
    wanted = order(target, "pack.inner.deep:main", modules={"target": str(target), "pack": str(package)})
    wanted["lock"]["landlock"]["read"] += [str(package)]
    assert said(boot(wanted)) == "pack.inner.deep"


def test_extension_modules_and_folders_without_init_are_found(tmp_path):
    compiled = str(tmp_path / f"fast{EXTENSION_SUFFIXES[0]}")
    spec = spec_of("fast", compiled)
    assert isinstance(spec.loader, ExtensionFileLoader) and spec.origin == compiled
    assert list(spec_of("names", str(tmp_path)).submodule_search_locations) == [str(tmp_path)]
    assert spec_of("odd", str(tmp_path / "odd.txt")) is None


@pytest.mark.process
def test_a_wall_that_cannot_be_put_up_ends_the_worker(target):
    ran = boot(order(target, lock={"landlock": {"read": ["/no/such/path"]}}))
    assert ran.returncode == 125 and ran.stdout == ""
    assert ran.stderr.startswith("paddock: the wall could not be put up: '/no/such/path' should be allowed, but")


@pytest.mark.process
@pytest.mark.parametrize("bad", [{}, {"then": {}}, {"then": {}, "lock": {"wings": 1}}, [], "text"])
def test_a_bad_order_ends_the_worker_too(bad):
    ran = boot(bad)
    assert ran.returncode == 125 and ran.stderr.startswith("paddock: the wall could not be put up: ")


def execute(target, argv, env, execs=("/bin/sh", "/bin/echo", "/usr/bin/tr", "/bin/cat"), **options):
    wanted = order(target)
    wanted["then"] = {"exec": argv, "env": env}
    wanted["lock"]["landlock"] |= {"execute": [one for one in execs if os.path.exists(one)], "devices": ["/dev/null"]}
    wanted["lock"]["seccomp"] = {"fork": True, "exec": True, "network": False, **options}
    return boot(wanted)


@pytest.mark.process
def test_a_program_takes_the_workers_place_with_the_variables_given(target):
    ran = execute(target, ["/bin/sh", "-c", "echo $word | /usr/bin/tr a b; /bin/cat /etc/passwd"], {"word": "aha"})
    assert ran.stdout == "bhb\n"
    assert "Permission denied" in ran.stderr and ran.returncode == 1


@pytest.mark.process
def test_a_program_that_cannot_be_run_is_named(target):
    ran = execute(target, ["/bin/ls"], {})
    assert (ran.returncode, ran.stderr.split(":")[:2]) == (126, ["paddock", " '/bin/ls' could not be run"])
    assert execute(target, ["/no/such/program"], {}).returncode == 127


@pytest.mark.process
def test_a_listener_is_handed_out_before_the_wall(target):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        place = f"import os; os.dup2({theirs.fileno()}, 3); "
        ran = boot(order(target, listen=port), line=place + BOOT, pass_fds=[theirs.fileno()])
        assert said(ran) == "called"
        mark, fds, _, _ = socket.recv_fds(ours, 10, 1)
        with socket.socket(fileno=fds[0]) as listener, socket.create_connection(("127.0.0.1", port)):
            assert mark == b"L" and listener.accept()[1][0] == "127.0.0.1"


@pytest.mark.process
def test_it_ends_at_once_when_its_guardian_is_gone_already(target):
    inside, outside = os.pipe()
    os.close(outside)
    ran = boot(order(target, die_with=inside), pass_fds=[inside])
    os.close(inside)
    assert ran.returncode == 125 and "is gone" in ran.stderr


@pytest.mark.process
def test_it_dies_with_the_process_that_started_it_though_the_identity_changed(target):
    """The death signal is lost when the user changes: the boot sets it again."""
    alive, end = os.pipe()
    guard, held = os.pipe()
    inside, outside = os.pipe()
    stranger = {"uid": 0x70000055, "gid": 0x70000055} if os.geteuid() == 0 else None
    lock = {"identity": stranger, "seccomp": {**LOCK["seccomp"], "exec": True}}
    wanted = order(target, lock=lock, die_with=guard)
    # A program, because the stranger may be unable to read this Python's library.
    wanted["then"] = {"exec": ["/bin/sh", "-c", "echo; exec sleep 60"], "env": {"PATH": os.defpath}}
    os.write(outside, json.dumps(wanted).encode())
    os.close(outside)
    fds = [inside, guard]
    argv = [sys.executable, "-I", "-S", "-c", BOOT, str(inside)]
    start = f"subprocess.Popen({argv!r}, pass_fds={fds}, stdout={end})"
    starter = f"import os, subprocess, sys\n{start}\nos.close({end})\nsys.stdin.read(1)"
    parent = subprocess.Popen([sys.executable, "-I", "-c", starter], pass_fds=[*fds, end, held], stdin=subprocess.PIPE)
    for one in (*fds, end, held):
        os.close(one)
    assert os.read(alive, 1) == b"\n"
    parent.kill()
    parent.wait()
    parent.stdin.close()
    assert select.select([alive], [], [], 10)[0]
    assert os.read(alive, 1) == b""  # every copy of the other end is closed: the worker's too
    os.close(alive)
