"""make(isolation="sandbox"): the environment's code runs behind a wall, and this process never imports it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import paddock
from paddock.errors import (
    ClosedEnvironmentError,
    EnvFailed,
    EnvironmentViolation,
    InvalidSpec,
    NotPermitted,
    PlanError,
    WorkerLost,
)
from paddock.making import locate, plan
from paddock.making.agents import make_agent
from paddock.sandbox import Policy
from paddock.spaces import Discrete
from tests.sandbox.web import web

MODULE = '''
import os, sys
import numpy as np
import paddock
from paddock.spaces import Box, Discrete

try:
    open({canary!r}, "w").write("imported")
except OSError:
    pass

class Planted(paddock.Env):
    """Looks around, and says what it sees."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(2)

    def __init__(self, size=1):
        self.size = size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {{"pid": os.getpid(), "size": self.size, "variables": sorted(os.environ)}}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {{}}

    def listed(self, folder):
        return sorted(os.listdir(folder))

    def reads(self, path):
        return open(path).read()

    def where(self):
        return __file__

    def asks(self, argv):
        from paddock.sandbox import workspace
        with workspace(argv) as run:
            said = run.communicate(b"of the environment")
        return said.decode(), run.ended

    def fetches(self, url):
        from paddock.sandbox import fetch
        return fetch(url).text()

class Doubling(paddock.RewardWrapper):
    def reward(self, reward):
        return reward * 2

paddock.register("Planted-v0", Planted, max_episode_steps=5)
'''


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module on sys.path whose import leaves a canary; with a neighbour that it has no business to see."""
    folder = tmp_path / "code"
    folder.mkdir()
    canary = tmp_path / "canary"
    (folder / "planted_env.py").write_text(MODULE.format(canary=str(canary)))
    (folder / "neighbour.py").write_text("secret = 1")
    monkeypatch.syspath_prepend(folder)
    yield canary
    assert "planted_env" not in sys.modules, "this process imported the environment's module"
    assert not canary.exists(), "the environment's import reached this machine's files"


@pytest.fixture
def env(planted):
    env = paddock.make("planted_env:Planted-v0", isolation="sandbox", size=3)
    yield env
    env.close()


@pytest.mark.process
def test_it_is_an_environment_like_any_other(env):
    observation, info = env.reset(seed=1)
    assert observation.tolist() == [0.0, 0.0]
    assert info["size"] == 3
    lengths = [env.step(1)[3] for _ in range(5)]
    assert lengths == [False] * 4 + [True]  # the time limit that the module registered
    assert env.state().step_count == 5


@pytest.mark.process
def test_it_sees_its_module_and_nothing_beside_it(env):
    for hidden in (Path(env.call("where")).parent, Path(__file__).parent, Path.home(), "/etc/passwd", "/proc", "/home"):
        with pytest.raises(EnvFailed, match="No such file|Permission denied"):
            env.call("listed", str(hidden))


@pytest.mark.process
def test_no_variable_of_this_process_goes_in(planted, monkeypatch):
    monkeypatch.setenv("PADDOCK_TEST_SECRET", "hunter2")
    with_one = Policy(variables={"LEVEL": "3"})
    with paddock.make("planted_env:Planted-v0", isolation=with_one) as env:
        seen = env.reset()[1]["variables"]
    assert "PADDOCK_TEST_SECRET" not in seen
    assert "LEVEL" in seen


@pytest.mark.process
def test_a_file_is_readable_when_the_policy_says_so(planted, tmp_path):
    (tmp_path / "levels.txt").write_text("level one")
    with paddock.make("planted_env:Planted-v0", isolation=Policy(read=(str(tmp_path / "levels.txt"),))) as env:
        assert env.call("reads", str(tmp_path / "levels.txt")) == "level one"


@pytest.mark.process
def test_wrappers_of_the_spec_run_inside_and_those_around_the_result_here(planted):
    doubling = paddock.WrapperSpec("Doubling", "planted_env:Doubling", {})
    with paddock.make("planted_env:Planted-v0", isolation="sandbox", wrappers=[doubling]) as env:
        env.reset()
        assert env.step(0)[1] == 2.0


@pytest.mark.process
def test_its_spec_names_no_code_to_load_here(env):
    assert env.spec.id == "Planted-v0"
    assert env.spec.entry_point is None
    with pytest.raises(InvalidSpec, match="entry_point"):
        paddock.make(env.spec)


LIES = """
import dataclasses
from paddock.making import sandbox_worker

def name_code(env):
    spec = env.unwrapped.spec
    env.unwrapped.spec = dataclasses.replace(spec, entry_point=ENTRY, vector_entry_point=ENTRY)

ENTRY = "planted_env:Planted"
sandbox_worker._forget_code = name_code
"""


@pytest.mark.process
def test_a_worker_that_names_code_in_its_spec_has_none_of_it_loaded_here(planted):
    file = planted.parent / "code" / "planted_env.py"
    file.write_text(file.read_text() + LIES)
    with paddock.make("planted_env:Planted-v0", isolation="sandbox") as env:
        assert (env.spec.entry_point, env.spec.vector_entry_point) == (None, None)
        with pytest.raises(InvalidSpec, match="entry_point"):
            paddock.make_vec(env.spec, 2)


@pytest.mark.process
@pytest.mark.parametrize("name", ["planted_env:Planted-v0", "Other-v0"])
def test_its_id_and_arguments_are_those_that_this_side_asked_for(planted, name):
    file = planted.parent / "code" / "planted_env.py"
    told = f"kwargs={{'action_cls': ENTRY}}, id={name!r}"
    file.write_text(file.read_text() + LIES.replace("(spec, ", f"(spec, {told}, "))
    with paddock.make("planted_env:Planted-v0", isolation="sandbox", size=2) as env:
        if env.spec is not None:
            assert (env.spec.id, env.spec.kwargs) == ("Planted-v0", {"size": 2})
    with paddock.make_vec("planted_env:Planted-v0", num_envs=2, isolation="sandbox", size=2) as envs:
        if envs.spec is not None:
            assert (envs.spec.id, envs.spec.kwargs["size"]) == ("Planted-v0", 2)
            assert "action_cls" not in envs.spec.kwargs
    assert (env.spec is None, envs.spec is None) == (":" in name, ":" in name)


@pytest.mark.process
def test_lanes_behind_the_wall_are_lanes(planted):
    envs = paddock.make_vec("planted_env:Planted-v0", num_envs=5, isolation="sandbox")
    try:
        observations, infos = envs.reset(seed=1)
        assert observations.shape == (5, 2)
        assert len(set(infos["pid"].tolist())) <= (os.cpu_count() or 1)
        _, rewards, *_ = envs.step(np.zeros(5, np.int64))
        assert rewards.tolist() == [1.0] * 5
    finally:
        envs.close()


def test_explain_lists_what_it_would_see(planted):
    lines = plan(locate("planted_env:Planted-v0"), isolation="sandbox").lines()
    seen = [how for what, how in lines if what == "sees"]
    assert any("planted_env.py" in one for one in seen)
    assert not any("neighbour" in one for one in seen)


def test_a_tier_that_does_not_exist_is_refused():
    with pytest.raises(PlanError, match="isolation='vault'"):
        paddock.make("CartPole-v1", isolation="vault")


@pytest.mark.process
def test_an_exit_of_the_environment_is_not_ours(tmp_path, monkeypatch):
    (tmp_path / "leaving_env.py").write_text("import os; os._exit(7)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(WorkerLost, match="exited with code 7") as lost:
        paddock.make("leaving_env:Leaving-v0", isolation="sandbox")
    assert lost.value.cause == "exit"


@pytest.mark.process
def test_fetch_reaches_the_policys_hosts_and_no_others(planted):
    with web(lambda *_: {"body": b"hello"}) as server, web() as other:
        policy = Policy(hosts=(f"127.0.0.1:{server.port}",))
        with paddock.make("planted_env:Planted-v0", isolation=policy) as env:
            assert env.call("fetches", f"http://127.0.0.1:{server.port}/") == "hello"
            with pytest.raises(NotPermitted, match="hosts"):
                env.call("fetches", f"http://127.0.0.1:{other.port}/")
        assert other.seen == []


@pytest.mark.process
def test_a_cassette_answers_once_the_hosts_are_gone(planted, tmp_path):
    with web(lambda *_: {"body": b"hello"}) as server:
        url = f"http://127.0.0.1:{server.port}/"
        policy = Policy(hosts=(f"127.0.0.1:{server.port}",), cassette=str(tmp_path / "calls.jsonl"))
        with paddock.make("planted_env:Planted-v0", isolation=policy) as env:
            assert env.call("fetches", url) == "hello"
    for _ in range(2):
        with paddock.make("planted_env:Planted-v0", isolation=policy) as env:
            assert env.call("fetches", url) == "hello"


def workspace_policy(**more):
    inner = Policy(programs=("/bin/cat", "/bin/sh"), processes=4, **more)
    return Policy(workspaces=1, workspace=inner)


@pytest.mark.process
def test_a_workspace_is_a_sibling_behind_its_own_wall(planted):
    with paddock.make("planted_env:Planted-v0", isolation=workspace_policy()) as env:
        assert env.call("asks", ["/bin/cat"]) == ("of the environment", "exit")
        said, _ = env.call("asks", ["/bin/sh", "-c", "ls /target /root /home 2>&1; cat"])
        assert "planted_env" not in said
        assert said.endswith("of the environment")


@pytest.mark.process
def test_a_workspace_past_its_time_is_ended(planted):
    with paddock.make("planted_env:Planted-v0", isolation=workspace_policy(call_s=0.3)) as env:
        said, ended = env.call("asks", ["/bin/sh", "-c", "while :; do :; done"])
        assert (said, ended) == ("", "timeout")


@pytest.mark.process
@pytest.mark.parametrize(
    ("policy", "argv", "says"),
    [
        (Policy(), ["/bin/cat"], "grants no workspaces"),
        (workspace_policy(), ["/usr/bin/env"], "not among Policy"),
    ],
)
def test_a_workspace_that_nobody_granted_is_refused(planted, policy, argv, says):
    with (
        paddock.make("planted_env:Planted-v0", isolation=policy) as env,
        pytest.raises((NotPermitted, EnvFailed), match=says),
    ):
        env.call("asks", argv)


@pytest.mark.process
def test_an_environment_without_a_wall_starts_its_workspace_itself():
    from paddock.sandbox import workspace

    with workspace(["/bin/cat"]) as run:
        assert run.communicate(b"round trip") == b"round trip"


AGENT = """
import os

def make_policy(observation_space, action_space, seed):
    action_space.seed(seed)
    def act(observation):
        assert not os.path.exists({secret!r})
        return action_space.sample()
    return act
"""


@pytest.mark.process
def test_an_agent_runs_behind_a_wall_of_its_own(tmp_path):
    secret = tmp_path / "reward.py"
    secret.write_text("the answer")
    (tmp_path / "agent.py").write_text(AGENT.format(secret=str(secret)))
    env = paddock.make("CartPole-v1")
    agent = make_agent(str(tmp_path / "agent.py"), env.observation_space, env.action_space, seed=3)
    try:
        observation, _ = env.reset(seed=3)
        assert all(env.action_space.contains(agent(observation)) for _ in range(5))
    finally:
        agent.close()


@pytest.mark.process
@pytest.mark.parametrize("chosen", ["99", "float('nan')", "'x\\x1b[2J'", "{'a': [1]}", "None"])
def test_an_agent_that_chooses_no_action_is_stopped(tmp_path, chosen):
    (tmp_path / "agent.py").write_text(f"def policy(observation):\n    return {chosen}\n")
    agent = make_agent(str(tmp_path / "agent.py"), Discrete(4), Discrete(2))
    try:
        with pytest.raises(EnvironmentViolation, match="action") as caught:
            agent(0)
        assert "\x1b" not in str(caught.value)
        with pytest.raises(ClosedEnvironmentError):
            agent(0)
    finally:
        agent.close()


@pytest.mark.process
def test_a_forked_copy_that_closes_leaves_the_environment_alone(env):
    env.reset(seed=1)
    pid = os.fork()
    if pid == 0:
        env.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert env.step(0)[1] == 1.0


@pytest.mark.process
def test_run_takes_an_agent_from_a_file(tmp_path):
    (tmp_path / "agent.py").write_text("def policy(observation):\n    return int(observation[2] > 0)\n")
    command = [sys.executable, "-m", "paddock", "run", "CartPole-v1", "--policy", "agent.py"]
    done = subprocess.run(
        [*command, "--policy-isolation", "sandbox", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(paddock.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"mean_return"' in done.stdout


@pytest.mark.process
def test_a_warm_pool_has_workers_ready(planted):
    with paddock.warm("planted_env:Planted-v0", spares=1) as pool:
        assert pool.wait(20.0)
        spare = pool._ready[0][1].pid
        with paddock.make("planted_env:Planted-v0", isolation="sandbox", size=2) as env:
            assert env.reset()[1]["size"] == 2
            assert env._channel.child.pid == spare
        with paddock.make("planted_env:Planted-v0", isolation=Policy(memory_mb=512)) as env:
            assert env._channel.child.pid != spare
    assert not pool._ready


@pytest.mark.process
def test_a_warm_pool_is_ready_once_its_spares_have_imported_the_environment(planted, tmp_path):
    gate = tmp_path / "gate"
    gate.mkdir()
    module = tmp_path / "code" / "planted_env.py"
    wait = f"import os, time\nwhile not os.listdir({str(gate)!r}):\n    time.sleep(0.01)\nprint('x' * 200_000)\n"
    module.write_text(wait + module.read_text())
    with paddock.warm("planted_env:Planted-v0", spares=2, isolation=Policy(read=(str(gate),))) as pool:
        with pool._changed:
            assert pool._changed.wait_for(lambda: len(pool._ready) == 2, 20.0)
        assert not pool.wait(0.0)
        (gate / "open").touch()
        assert pool.wait(20.0)


@pytest.mark.process
@pytest.mark.parametrize("line", ["raise RuntimeError('no maze')", "import os; os._exit(3)"])
def test_a_warm_pool_of_what_can_not_be_imported_is_never_ready(planted, tmp_path, line):
    module = tmp_path / "code" / "planted_env.py"
    module.write_text(f"{line}\n{module.read_text()}")
    with paddock.warm("planted_env:Planted-v0", spares=1) as pool:
        assert not pool.wait()


@pytest.mark.process
def test_a_warm_pool_of_environments_with_workspaces_is_ready(planted):
    policy = Policy(workspaces=1, workspace=Policy())
    with paddock.warm("planted_env:Planted-v0", spares=1, isolation=policy) as pool:
        assert pool.wait(20.0)
        with paddock.make("planted_env:Planted-v0", isolation=policy) as env:
            env.reset()


MANIFEST = """
[package]
name = "maze"
version = "1.0.0"

[[env]]
id = "FolderMaze-v0"
entry = "maze_env:Planted"
kwargs = { size = 4 }
max_episode_steps = 2

[permissions]
memory_mb = 512
"""


@pytest.fixture
def maze(tmp_path):
    """A folder with a manifest; importing its code would leave a canary."""
    folder = tmp_path / "maze"
    folder.mkdir()
    (folder / "paddock.toml").write_text(MANIFEST)
    (folder / "maze_env.py").write_text(MODULE.format(canary=str(tmp_path / "canary")))
    (folder / "level.txt").write_text("level one")
    yield folder
    sys.modules.pop("maze_env", None)


@pytest.mark.process
def test_a_folder_is_sandboxed_without_being_told(maze, tmp_path):
    with paddock.make(maze) as env:
        assert env.reset()[1]["size"] == 4
        assert env.call("reads", str(maze / "level.txt")) == "level one"
        assert [env.step(0)[3], env.step(0)[3]] == [False, True]
    assert "maze_env" not in sys.modules
    assert not (tmp_path / "canary").exists()


def test_a_folder_runs_here_only_when_told(maze, tmp_path):
    with paddock.make(f"{maze}:FolderMaze-v0", isolation="none") as env:
        assert env.reset()[1]["pid"] == os.getpid()
    assert (tmp_path / "canary").exists()


@pytest.mark.process
def test_what_a_folder_asks_for_beyond_the_default_is_the_callers_to_grant(maze):
    (maze / "paddock.toml").write_text(MANIFEST + 'variables = { LEVEL = "3" }\n')
    with pytest.raises(PlanError, match="LEVEL"):
        paddock.make(maze)
    with paddock.make(maze, isolation=paddock.permissions(maze)) as env:
        assert "LEVEL" in env.reset()[1]["variables"]


@pytest.mark.process
def test_lanes_of_a_folder(maze):
    envs = paddock.make_vec(maze, num_envs=2)
    try:
        assert envs.reset(seed=1)[0].shape == (2, 2)
    finally:
        envs.close()


def test_only_a_servers_workers_wait_awake_and_not_where_cpu_time_is_limited():
    from paddock.making.payload import Payload
    from paddock.making.walls import _WorkerOrder

    payload = Payload({}, {})
    assert _WorkerOrder(payload, Policy(), True, "").awake_s > 0
    assert _WorkerOrder(payload, Policy(), False, "").awake_s == 0.0
    assert _WorkerOrder(payload, Policy(cpu_s=9.0), True, "").awake_s == 0.0


SPIN = paddock.EnvSpec("Hostile/Spin-v0", "paddock.bench.hostile.attacks.resources:spin")


@pytest.mark.process
@pytest.mark.parametrize("tier", ["sandbox", "landlock"])
@pytest.mark.parametrize("lanes", [None, 2])
def test_call_that_uses_too_much_cpu_time_ends_the_worker(tier, lanes):
    policy = Policy(tier=tier, call_cpu_s=0.5)
    raising = {} if lanes is None else {"lanes": paddock.LaneOptions(on_fault="raise")}
    env = paddock.make(SPIN, num_envs=lanes, isolation=policy, env_kwargs={"seconds": 25}, **raising)
    try:
        env.reset(seed=0)
        with pytest.raises(WorkerLost, match=r"more CPU time than the 0.5 s of a call \(call_cpu_s\)") as lost:
            env.step(0 if lanes is None else np.zeros(lanes, int))
        assert lost.value.cause == "cpu"
    finally:
        env.close()


@pytest.mark.process
def test_cpu_time_of_a_call_is_counted_anew_with_each_reply():
    with paddock.make(SPIN, isolation=Policy(call_cpu_s=1.0), env_kwargs={"seconds": 0.4}) as env:
        env.reset(seed=0)
        for _ in range(6):
            env.step(0)
