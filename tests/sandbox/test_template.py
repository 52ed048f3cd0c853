"""Workers that a template forks: each as far from the others, and as well watched, as one with its own interpreter."""

import errno
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from paddock.bench.hostile.host_state import adopting_orphans, dead_children, descendants, end_all, reap
from paddock.core.spec import EnvSpec
from paddock.errors import WorkerLost
from paddock.making import make
from paddock.making.payload import WORKER
from paddock.sandbox import Call, Exec, Machine, Policy, launch, template
from paddock.sandbox.launching import Plumbing
from paddock.sandbox.template import Forked
from tests.sandbox.workers import leftovers, needs_linux, needs_root, wait_until

pytestmark = [needs_linux, pytest.mark.process]
tiers = pytest.mark.parametrize("tier", ["sandbox", "landlock"])
MEMORY = any(one.name == "memory" for one in Machine.here().cgroups)
PATIENT = {"start_s": 60.0, "call_s": 60.0}  # a busy machine may let a worker wait

# Its resets run the code that they are given, and tell what it assigns to `said`.
TELLER = """
import json, sys
MODULES = sorted(sys.modules)
import numpy as np
from paddock.core.env import Env
from paddock.spaces import Box, Discrete

class Teller(Env):
    metadata = {"render_modes": []}

    def __init__(self):
        self.observation_space, self.action_space = Box(0.0, 1.0, (2,), np.float32), Discrete(2)
        self.names = {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.names["said"] = None
        exec((options or {}).get("code", ""), self.names)
        return np.zeros(2, np.float32), {"said": json.dumps(self.names["said"])}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}
"""


@pytest.fixture
def teller(tmp_path, monkeypatch):
    """Makes environments that run code behind a wall."""
    (tmp_path / "teller_env.py").write_text(TELLER)
    monkeypatch.syspath_prepend(str(tmp_path))

    def open_one(**policy):
        return make(EnvSpec("Teller-v0", "teller_env:Teller"), isolation=Policy(**{**PATIENT, **policy}))

    return open_one


@pytest.fixture
def no_templates(monkeypatch):
    """As in a process that has started nothing yet; what is started meanwhile ends with the test."""
    ours, retired = {}, []
    monkeypatch.setattr(template, "_templates", ours)
    monkeypatch.setattr(template, "_retired", retired)
    yield ours
    for one in (*ours.values(), *retired):
        one.close()
        one.process.wait(20)


def ask(env, code):
    return json.loads(env.reset(options={"code": code})[1]["said"])


def child_of(env):
    return env.unwrapped._channel.child


def parent_of(child):
    """The process that forked it: its template."""
    return int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def started(program=None, *, tenant="", **policy):
    """A worker without an environment: it waits for requests."""
    near, far = socket.socketpair()
    with near, far:
        call = program or Call(WORKER)
        with launch(call, Policy(**{**PATIENT, **policy}), socket_fd=far.fileno(), tenant=tenant) as child:
            far.close()
            yield child


# ── What a worker finds ──


@tiers
def test_siblings_draw_different_numbers(teller, tier):
    code = "import random, numpy\nsaid = [random.random(), numpy.random.random(), numpy.random.default_rng().random()]"
    with teller(tier=tier) as one, teller(tier=tier) as other:
        assert parent_of(child_of(one)) == parent_of(child_of(other))
        assert not set(ask(one, code)) & set(ask(other, code))


@tiers
def test_siblings_spawn_different_streams(teller, tier):
    code = "import numpy\nsaid = str(numpy.random.get_bit_generator().seed_seq.entropy)"
    with teller(tier=tier) as one, teller(tier=tier) as other:
        assert ask(one, code) != ask(other, code)


FRAMES = """
import sys
frame, said = sys._getframe(), []
while frame is not None:
    one = frame.f_locals
    said += [name for name in ("order", "pieces") if name in one]
    said += [str(pid) for pid in getattr(one.get("self"), "_workers", {}).values()]
    frame = frame.f_back
"""


@tiers
def test_an_environment_finds_no_order_and_no_sibling_in_the_frames_below_it(teller, tier):
    with teller(tier=tier), teller(tier=tier) as env:
        assert ask(env, FRAMES) == []


@pytest.mark.parametrize(("fact", "value"), [("getegid", 54321), ("getgroups", [54321])])
def test_a_process_that_gave_up_rights_gets_no_workers_that_have_them(fact, value, monkeypatch, no_templates):
    with started() as before:
        monkeypatch.setattr(os, fact, lambda: value)
        with started() as after:
            assert parent_of(before) != parent_of(after)


SURROUNDINGS = """
import os, resource, signal, sys
def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
umask = os.umask(0)
os.umask(umask)
scratch = os.environ["TMPDIR"]
said = {
    "descriptors": [fd for fd in range(4096) if is_open(fd)],
    "variables": {name: value.replace(scratch, "SCRATCH") for name, value in os.environ.items()},
    "folder": os.getcwd(),
    "umask": umask,
    "handlers": [str(signal.getsignal(one)) for one in sorted(signal.valid_signals())],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "limits": [resource.getrlimit(one) for one in range(16)],
    "path": sys.path,
    "arguments": sys.argv,
    "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "scheduler": os.sched_getscheduler(0),
    "groups": os.getgroups(),
}
"""


@tiers
def test_a_worker_finds_what_an_interpreter_of_its_own_would(teller, tier):
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        with teller(tier=tier, variables={"MINE": "1"}) as forked:
            found = ask(forked, SURROUNDINGS)
            assert isinstance(child_of(forked).process, Forked)
        with teller(tier=tier, variables={"MINE": "1"}, fresh=True) as fresh:
            expected = ask(fresh, SURROUNDINGS)
            assert not isinstance(child_of(fresh).process, Forked)
    finally:
        os.close(leak)
    assert found == expected
    assert found["descriptors"] == [0, 1, 2, 3] and found["folder"] == "/"
    assert found["variables"].keys() == {"HOME", "TMPDIR", "PATH", "LC_ALL", "MINE", "PADDOCK_CACHE"}


@tiers
def test_further_descriptors_are_4_and_5_and_there_are_no_more(tier):
    pipes = [os.pipe(), os.pipe()]
    with ExitStack() as ends:
        for fd in sum(pipes, ()):
            ends.callback(os.close, fd)
        near, far = map(ends.enter_context, socket.socketpair())
        near.settimeout(20)
        program = Exec(("/bin/sh", "-c", "echo a >&4; echo b >&5; echo x 2>&- >&6 || echo c >&4; echo d >&3"))
        policy = Policy(tier=tier, programs=("/bin/sh",), **PATIENT)
        extra = [writes for _, writes in pipes]
        with launch(program, policy, socket_fd=far.fileno(), extra_fds=extra) as child:
            far.close()
            assert isinstance(child.process, Forked) and near.recv(9) == b"d\n", child.output
        assert [os.read(reads, 9) for reads, _ in pipes] == [b"a\nc\n", b"b\n"]


@tiers
def test_a_template_has_imported_nothing_but_paddock_and_what_it_needs(teller, tier):
    with teller(tier=tier) as first:
        ask(first, "import paddock.bench.hostile.attacks.attempt, wave")
    with teller(tier=tier) as env:
        loaded = ask(env, "import teller_env\nsaid = teller_env.MODULES")
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    needed = {"__main__", "paddock", "numpy", "msgspec", "typing_extensions", "teller_env"}
    assert {name for name in foreign if "cython" not in name} <= needed
    assert "wave" not in loaded and not [name for name in loaded if name.startswith("paddock.bench")]


POISON = """
import builtins, random, sys, types, json, os
import numpy as np
import paddock.core.env, paddock.hosting.host
np.zeros = np.random.seed = random.seed = builtins.len = lambda *args, **more: 13
random.random = np.random.random = lambda *args: 0.5
np.pi = 3
builtins.poison = sys.modules["poison"] = types.ModuleType("poison")
sys.modules["wave"] = sys.modules["poison"]
paddock.core.env.Env.poison = True
os.environ["POISON"] = "1"
sys.path.insert(0, "/tmp")
"""
LOOK = """
import builtins, os, random, sys
import numpy as np
import paddock.core.env
said = [
    np.zeros(2).tolist(), len([1]), random.random() == 0.5, np.random.random() == 0.5, round(np.pi, 3),
    hasattr(builtins, "poison"), "poison" in sys.modules, hasattr(sys.modules.get("wave"), "Wave_read"),
    hasattr(paddock.core.env.Env, "poison"), "POISON" in os.environ, sys.path[0] == "/tmp",
]
import wave
said[7] = hasattr(wave, "Wave_read")
"""
CLEAN = [[0.0, 0.0], 1, False, False, 3.142, False, False, True, False, False, False]


@tiers
def test_what_an_environment_poisons_is_its_own(teller, tier):
    with teller(tier=tier) as before, teller(tier=tier) as hostile:
        with pytest.raises(Exception):  # noqa: B017 - it can't even reply any more
            ask(hostile, POISON + "\nraise ValueError")
        assert ask(before, LOOK) == CLEAN
        with teller(tier=tier) as after:
            assert parent_of(child_of(after)) == parent_of(child_of(before))
            assert ask(after, LOOK) == CLEAN


def memory_has(pid, needle):
    """Whether the process has these bytes where it may write."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            where, rights, *_ = line.split()
            begin, end = (int(one, 16) for one in where.split("-"))
            if rights.startswith("rw") and needle in os.pread(memory.fileno(), end - begin, begin):
                return True
    return False


@needs_root
@tiers
def test_a_template_never_knows_what_a_worker_is_told(tier):
    variable, argument = (secrets.token_hex(16).encode() for _ in range(2))
    # The argument is a folder to import from, which may be missing.
    program = Call(WORKER, (None, f"/{argument.decode()}"))

    def knows(pid):
        return [memory_has(pid, variable), memory_has(pid, argument)]

    with started(program, tier=tier, variables={"KEY": variable.decode()}) as child, started(tier=tier) as sibling:
        forker = parent_of(child)
        assert parent_of(sibling) == forker
        assert wait_until(lambda: knows([child.pid, *descendants(child.pid)][-1]) == [True, True], 60)
        assert memory_has(forker, b"paddock.sandbox.inside.template")
        for pid in (forker, sibling.pid, *descendants(sibling.pid)):
            assert knows(pid) == [False, False]


# ── How templates end, and what ends with them ──


@tiers
def test_when_a_template_is_killed_its_workers_are_lost_and_the_next_one_works(teller, tier, no_templates):
    with teller(tier=tier) as env, teller(tier=tier) as other:
        assert ask(env, "said = 1") == 1
        forker = parent_of(child_of(env))
        os.kill(forker, signal.SIGKILL)
        for one in (env, other):
            with pytest.raises(WorkerLost, match="was killed by SIGKILL") as lost:
                ask(one, "import time\ntime.sleep(60)")
            assert lost.value.cause == "signal"
        with teller(tier=tier) as after:
            assert ask(after, "said = 2") == 2 and parent_of(child_of(after)) != forker


@tiers
def test_where_no_template_can_start_an_interpreter_does(teller, tier, no_templates, monkeypatch):
    monkeypatch.setattr(template, "_BOOT", "raise SystemExit({path!r} and 3)")
    with teller(tier=tier) as env:
        assert ask(env, "said = 1") == 1 and not isinstance(child_of(env).process, Forked)
    assert wait_until(lambda: all(one.process.poll() is not None for one in no_templates.values()))


def test_where_a_template_refuses_an_interpreter_does(no_templates):
    with started(Call(WORKER, preload="paddock.there_is_no_such_module")) as child:
        assert not isinstance(child.process, Forked) and not child.wait(0)


@tiers
def test_a_template_is_replaced_after_some_forks_and_ends_after_its_last_worker(
    teller, tier, no_templates, monkeypatch
):
    monkeypatch.setattr(template, "_FORKS", 2)
    with teller(tier=tier) as third_is_elsewhere:
        with teller(tier=tier) as second:
            (old,) = no_templates.values()
            with teller(tier=tier) as third:
                forkers = [parent_of(child_of(one)) for one in (third_is_elsewhere, second, third)]
                assert forkers[0] == forkers[1] != forkers[2] and old in template._retired
                assert ask(second, "said = 1") == ask(third_is_elsewhere, "said = 1") == ask(third, "said = 1") == 1
        assert old.process.poll() is None and ask(third_is_elsewhere, "said = 2") == 2
    assert old.process.wait(20) == 0


@tiers
def test_tenants_do_not_share_a_template(tier):
    with ExitStack() as stack:
        a, again, b, none = (stack.enter_context(started(tier=tier, tenant=name)) for name in ("a", "a", "b", ""))
        assert parent_of(a) == parent_of(again)
        assert len({parent_of(child) for child in (a, b, none)}) == 3


def test_a_fresh_worker_shares_no_hash_seed(teller):
    code = "said = hash('paddock')"
    with teller() as one, teller() as two, teller(fresh=True) as fresh:
        assert ask(one, code) == ask(two, code) != ask(fresh, code)


@tiers
def test_a_template_without_workers_ends_and_nothing_is_left(teller, tier, no_templates, monkeypatch):
    with teller(tier=tier, fresh=True) as env:
        ask(env, "said = 1")
    before = leftovers()
    monkeypatch.setattr(template, "_IDLE_S", 0.05)
    with teller(tier=tier) as env:
        assert ask(env, "said = 1") == 1
        (one,) = no_templates.values()
        with pytest.raises(subprocess.TimeoutExpired):
            one.process.wait(0.3)  # not while it has a worker
    assert one.process.wait(20) == 0
    one.close()
    assert leftovers() <= before


# ── The process that asks ──

REQUESTER = """
import sys, threading
from paddock.making import make
from paddock.sandbox import Policy
envs = []

def go_on():
    while True:
        envs.append(make("CartPole-v1", isolation=Policy(tier=sys.argv[1], start_s=60.0, call_s=60.0)))
        envs[-1].reset()
        print(len(envs), flush=True)
        if len(envs) > 5:
            envs.pop(0).close()

threads = [threading.Thread(target=go_on) for _ in range(3)]
for one in threads:
    one.start()
"""


@tiers
def test_when_the_process_that_asked_is_killed_nothing_is_left(tier):
    """Once while it opens its first, and then later, in the middle of starts."""
    with adopting_orphans():
        before = descendants(os.getpid()).keys()
        for lines in (0, 1, 7):
            with subprocess.Popen([sys.executable, "-c", REQUESTER, tier], stdout=subprocess.PIPE) as program:
                try:
                    for _ in range(lines):
                        assert program.stdout.readline()
                    if not lines:  # its template, or a part of it
                        assert wait_until(lambda: descendants(program.pid), 60)
                finally:
                    program.kill()
            gone = wait_until(lambda: not descendants(os.getpid()).keys() - before, 20)
            left = {pid: name for pid, name in descendants(os.getpid()).items() if pid not in before}
            end_all(left)
            reap(dead_children())
            assert gone, left
            groups = [
                path for one in Machine.here().cgroups for path in Path(one.folder).glob(f"paddock-{program.pid}-*")
            ]
            for path in groups:
                path.rmdir()  # what a sweep does: they are empty, or this fails


def test_sixteen_threads_get_a_worker_each(teller, no_templates):
    together = threading.Barrier(16)

    def open_one(_):
        together.wait()
        return teller()

    with ThreadPoolExecutor(16) as pool, ExitStack() as stack:
        envs = [stack.enter_context(env) for env in pool.map(open_one, range(16))]
        assert [ask(env, f"mine = {number}\nsaid = mine") for number, env in enumerate(envs)] == list(range(16))
        assert [ask(env, "said = mine") for env in envs] == list(range(16))
        assert len({child_of(env).pid for env in envs}) == 16 and len(no_templates) == 1


@tiers
def test_a_template_that_is_killed_while_threads_ask_it_fails_nobody_else(teller, tier, no_templates):
    """Each thread gets a worker, of this template or of the next."""
    together = threading.Barrier(9)

    def open_one(_):
        together.wait()
        with started(tier=tier) as child:
            return child.pid

    with ThreadPoolExecutor(9) as pool:
        for _ in range(4):
            with started(tier=tier) as first:
                forker = parent_of(first)
                asked = [pool.submit(open_one, None) for _ in range(8)]
                together.wait()
                os.kill(forker, signal.SIGKILL)
                for one in asked:
                    assert one.result(60) != 0


@tiers
def test_a_template_without_a_descriptor_left_refuses_and_its_workers_live_on(teller, tier, no_templates):
    with teller(tier=tier) as env:
        forker = parent_of(child_of(env))
        taken = len(os.listdir(f"/proc/{forker}/fd")) if os.geteuid() == 0 else 8
        for room in range(6):  # for none of those that come with a request, for some, for all but that of the worker
            before = resource.prlimit(forker, resource.RLIMIT_NOFILE)
            resource.prlimit(forker, resource.RLIMIT_NOFILE, (taken + room, before[1]))
            with ExitStack() as stack, suppress(OSError):
                stack.enter_context(started(tier=tier))
            resource.prlimit(forker, resource.RLIMIT_NOFILE, before)
            assert ask(env, "said = 1") == 1
        with teller(tier=tier) as other:
            assert ask(other, "said = 2") == 2 and parent_of(child_of(other)) == forker


@pytest.mark.parametrize("name", ["take_output", "take_control"])
def test_nothing_stays_open_here_when_descriptors_run_out(name, monkeypatch, no_templates):
    def run_out(pipes):
        raise OSError(errno.EMFILE, "no descriptor is left")

    with started():  # which starts what stays
        pass
    before = open_here()
    monkeypatch.setattr(Plumbing, name, run_out)
    with pytest.raises(OSError, match="no descriptor is left"), started():
        pass
    assert open_here() == before


def open_here():
    """The descriptors of this process, once the threads that send orders have closed theirs."""
    wait_until(lambda: all(one.name != "paddock-usher" for one in threading.enumerate()))
    return sorted(os.listdir("/proc/self/fd"))


def test_a_forked_copy_of_this_process_has_templates_of_its_own(teller, no_templates):
    with teller() as env:
        ask(env, "mine = 'parent'")
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                with teller() as own:
                    answer = [ask(own, "said = 'child'"), parent_of(child_of(own))]
                os.write(writes, json.dumps(answer).encode())
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as answers:
            said, forker = json.loads(answers.read())
        os.waitpid(pid, 0)
        assert said == "child" and forker != parent_of(child_of(env))
        assert ask(env, "said = mine") == "parent"
        with teller() as later:
            assert parent_of(child_of(later)) == parent_of(child_of(env))


# ── How a worker ended ──

ENDS = {
    "exit 7": ("import os\nos._exit(7)", {}, "exit", "exited with code 7"),
    "exit 0": ("import os\nos._exit(0)", {}, "exit", "exited with code 0"),
    "crash": ("import ctypes\nctypes.string_at(0)", {}, "signal", "was killed by SIGSEGV"),
    "own SIGKILL": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", {}, "signal", "was killed by SIGKILL"),
    "CPU time": ("while True: pass", {"cpu_s": 3}, "cpu", "it used more than the 3 s of CPU time that it is allowed"),
    "memory": (
        "hoard = []\nwhile True: hoard.append(bytearray(1 << 22))",
        {"memory_mb": 160},
        "memory",
        "it took more memory than allowed",
    ),
}


@pytest.mark.parametrize("fresh", [False, True], ids=["forked", "fresh"])
@pytest.mark.parametrize("end", ENDS)
@tiers
def test_how_a_worker_ended_is_told(teller, tier, end, fresh):
    code, policy, cause, words = ENDS[end]
    if end == "memory" and not MEMORY:
        pytest.skip("no cgroup with a memory limit may be made here: runs as root")
    with teller(tier=tier, fresh=fresh, **policy) as env, pytest.raises(WorkerLost, match=words) as lost:
        ask(env, code)
    assert lost.value.cause == cause


def test_without_a_namespace_no_exit_code_is_taken_for_a_signal(teller):
    with teller(tier="landlock") as env, pytest.raises(WorkerLost, match="exited with code 139"):
        ask(env, "import os\nos._exit(139)")


def test_without_a_descriptor_for_the_worker_the_error_says_so_and_its_template_stays(monkeypatch, no_templates):
    def start():
        near, far = socket.socketpair()
        with near, far:
            launch(Exec(("/bin/true",)), Policy(programs=("/bin/true",)), socket_fd=far.fileno()).kill()

    receive = template.Template._receive

    def run_out(*arguments):
        lowest_free = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest_free)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            return receive(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    start()
    monkeypatch.setattr(template.Template, "_receive", run_out)
    with pytest.raises(OSError) as refused:
        start()
    assert refused.value.errno == errno.EMFILE
    (one,) = no_templates.values()
    assert not one.is_worn


@needs_root
def test_a_worker_finds_its_filter_ready(teller, no_templates):
    with teller() as env:
        assert ask(env, "import paddock.sandbox.inside.seccomp as s\nsaid = len(s._filters)") == 1
