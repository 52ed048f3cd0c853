"""Workers in containers of a real engine, where one can be started: what they may not, and that nothing stays."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest

import paddock
from paddock.errors import InvalidPolicy, SandboxUnavailable, WorkerLost
from paddock.sandbox import Call, Exec, Policy, launch
from paddock.sandbox import containers as module
from paddock.sandbox.containers import IMAGE, Engine, find_engine, run_words
from paddock.sandbox.plan import plan
from paddock.sandbox.policy import CONTAINERS
from paddock.sandbox.promises import promises, self_test
from tests.engines import need
from tests.sandbox.workers import needs_linux, told, worker

pytestmark = needs_linux

every_engine = pytest.mark.parametrize("tier", CONTAINERS)
CALL = Call("paddock.sandbox.inside.probe:main")


@pytest.fixture
def worker_words(monkeypatch):
    """What `run` would get for a policy, without an engine."""
    monkeypatch.setattr(module, "find_engine", lambda tier: Engine("docker", ("docker",), tier == "gvisor"))

    def words(engine="docker", **policy):
        planned = plan(CALL, Policy(tier="docker", **policy))
        return run_words(planned, Engine(engine, (engine,)), planned.mounts)

    return words


def follows(words, name):
    return [words[place + 1] for place, word in enumerate(words) if word == name]


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_gets_no_right_that_it_does_not_need(worker_words, engine):
    words = worker_words(engine, memory_mb=300, threads=5)
    assert follows(words, "--network") == ["none"] and follows(words, "--cap-drop") == ["ALL"]
    assert follows(words, "--security-opt") == ["no-new-privileges"] and "--read-only" in words
    assert follows(words, "--memory") == follows(words, "--memory-swap") == ["300m"]
    assert follows(words, "--pids-limit") == ["8"] and follows(words, "--cpus") == ["1"]
    assert follows(words, "--pull") == ["never"] and follows(words, "--log-driver") == ["none"]
    uid, _, gid = follows(words, "--user")[0].partition(":")
    assert int(uid) >= 10_000 and uid == gid
    assert not {"--publish", "-p", "-P", "--privileged", "--volume", "-v"} & set(words)
    binds = [one for one in follows(words, "--mount") if not one.endswith(",readonly")]
    assert binds == []


def test_only_what_the_policy_lets_it_write_is_writable(worker_words, tmp_path):
    for name in ("seen", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    words = worker_words(read=(str(tmp_path / "seen"),), write=(str(tmp_path / "kept"),))
    writable = [one for one in follows(words, "--mount") if not one.endswith(",readonly")]
    assert writable == [f"type=bind,source={tmp_path}/kept,target={tmp_path}/kept"]


def test_a_path_that_the_engine_would_take_apart_is_refused(worker_words, tmp_path):
    odd = tmp_path / "a,readonly=false"
    odd.mkdir()
    with pytest.raises(InvalidPolicy, match="comma"):
        worker_words(read=(str(odd),))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user: it runs there")
def test_a_file_that_only_its_owner_may_read_is_refused_before_anything_starts(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "find_engine", lambda tier: Engine("docker", ("docker",)))
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    with pytest.raises(InvalidPolicy, match=r"private to its owner: chmod o\+rX"):
        plan(CALL, Policy(tier="docker", read=(str(secret),)))


@every_engine
def test_without_an_engine_the_error_names_what_to_install(monkeypatch, tmp_path, tier):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=f"tier='{tier}' needs .*apt install"):
        plan(CALL, Policy(tier=tier))


@pytest.mark.parametrize("field", ["hosts", "devices", "workspaces"])
def test_what_gvisor_can_not_pass_through_is_refused(monkeypatch, field):
    monkeypatch.setattr(module, "find_engine", lambda tier: Engine("podman", ("podman",), gvisor=True))
    values = {"hosts": ("a.example:443",), "devices": ("/dev/null",), "workspaces": 1}
    more = {"workspace": Policy()} if field == "workspaces" else {}
    with pytest.raises(SandboxUnavailable, match=f"{field}=.* needs another tier"):
        plan(CALL, Policy(tier="gvisor", **{field: values[field]}, **more))


@pytest.mark.process
@every_engine
def test_every_attack_of_the_self_test_is_refused(tier):
    need(tier)
    findings = self_test(tier)
    assert len(findings) >= 8 and [one for one in findings if not one.refused] == []
    assert all(one.held for one in promises(tier) if one.key in ("no-network", "files-hidden", "memory-limited"))


@pytest.mark.process
@every_engine
def test_a_memory_bomb_dies_alone(tmp_path, tier):
    need(tier)
    for name in ("neighbour", "bomb"):
        (tmp_path / name).mkdir()
    bomb = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    with (
        worker(tmp_path / "neighbour", "hear(); tell('still here')", tier=tier) as (neighbour, other),
        worker(tmp_path / "bomb", bomb, tier=tier, memory_mb=128) as (child, here),
    ):
        assert here.recv(1) == b""
        words = child.last_words()
        other.send(b"x")
        assert told(other, neighbour) == "still here"
    if tier == "gvisor":  # whose guest gets the error before its kernel runs out
        assert "MemoryError" in child.output
    else:
        assert child.cause == "memory" and "more memory than allowed" in words


@pytest.mark.process
@every_engine
def test_the_worker_has_no_network_and_no_file_of_this_machine(tmp_path, tier):
    need(tier)
    look = (
        "names = [line.split(':')[0].strip() for line in open('/proc/net/dev').read().splitlines()[2:]]\n"
        "tell([names, os.listdir('/'), os.getuid(), dict(os.environ)])"
    )
    with worker(tmp_path, look, tier=tier) as (child, here):
        interfaces, top, uid, variables = told(here, child)
    assert set(interfaces) <= {"lo"} and uid >= 10_000
    assert not {"home", "boot", "var", "srv", "mnt"} & set(top)
    assert "PADDOCK_TOKEN" not in variables and set(variables) <= {"HOME", "TMPDIR", "PATH", "LC_ALL"}


@pytest.mark.process
@pytest.mark.parametrize("tier", ["docker", "podman"])
def test_the_engine_confirms_the_limits(tmp_path, tier):
    need(tier)
    engine = find_engine(tier)
    with worker(tmp_path, "tell(1); hear()", tier=tier, memory_mb=200) as (child, here):
        assert told(here, child) == 1
        about = json.loads(engine.call("inspect", child.process.name))[0]
        assert child.group.memory_limit == 200 << 20
    host = about["HostConfig"]
    assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"] and not host["Privileged"]
    assert not host["PortBindings"] and host["PidsLimit"] == 67 and host["Memory"] == 200 << 20
    assert about["Config"]["User"] not in ("", "0") and about["Config"]["Image"] == IMAGE


@pytest.mark.process
@pytest.mark.parametrize("tier", ["docker", "podman"])
def test_an_engine_that_drops_the_memory_limit_is_refused(tmp_path, monkeypatch, tier):
    need(tier)
    monkeypatch.setattr(module.Contained, "memory_limit", property(lambda self: 1 << 50))
    with (
        pytest.raises(SandboxUnavailable, match="did not apply the memory limit"),
        worker(tmp_path, "tell('it ran')", tier=tier),
    ):
        pass


@pytest.mark.process
@pytest.mark.parametrize("tier", ["docker", "podman"])
def test_a_program_runs_in_a_container_too(tier):
    need(tier)
    here, there = socket.socketpair()
    here.settimeout(20)
    with here:
        with there:
            program = Exec(("/bin/cat",), stdio=True)
            child = launch(program, Policy(tier=tier, programs=("/bin/cat",)), socket_fd=there.fileno())
        with child:
            here.send(b"through and back")
            assert here.recv(99) == b"through and back"


@pytest.mark.process
@every_engine
def test_containers_of_a_killed_program_are_removed(tier):
    need(tier)
    code = f"import paddock; env = paddock.make('CartPole-v1', isolation={tier!r}); print('made', flush=True); input()"
    program = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with program:
        assert program.stdout.readline() == b"made\n"
        names = [one for one in _containers(tier) if f"-{program.pid}-" in one]
        assert len(names) == 1
        program.send_signal(signal.SIGKILL)
    while any(f"-{program.pid}-" in one for one in _containers(tier)):  # the shell that waited removes it
        pass


def _containers(tier):
    return find_engine(tier).call("ps", "--all", "--format", "{{.Names}}").split()


@pytest.mark.process
@every_engine
def test_an_environment_that_exits_says_so(tmp_path, monkeypatch, tier):
    need(tier)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "quits.py").write_text(
        "import os, paddock\nfrom paddock.spaces import Discrete\n"
        "class Quits(paddock.Env):\n"
        "    observation_space = action_space = Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None): return 0, {}\n"
        "    def step(self, action): os._exit(7)\n"
        "paddock.register('test/Quits-v0', 'quits:Quits')\n"
    )
    with closing(paddock.make("quits:test/Quits-v0", isolation=tier)) as env:
        env.reset(seed=1)
        with pytest.raises(WorkerLost, match="exited with code 7") as lost:
            env.step(0)
    assert lost.value.cause == "exit"
