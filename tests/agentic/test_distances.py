"""A folder with a ToolEnv, through the doors that users take: make, OpenEnv, lanes, the command, a server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import paddock
from paddock import LaneOptions, OpenEnv
from paddock.agentic import CallTool, ListTools, Observation, Say, Text
from paddock.errors import EpisodeFailed, InvalidTask
from tests.serving import serving

MANIFEST = """
[package]
name = "numbers"
version = "1.0"
[[env]]
id = "Guess-v0"
entry = "guess_env:Guess"
max_episode_steps = 20
"""
MODULE = '''
from paddock.agentic import Task, Tasks, ToolEnv, tool


class Guess(ToolEnv):
    """Find a number between 1 and 10."""

    tasks = Tasks(train=lambda i: Task(seed=i, prompt=f"Guess {i}."), test=[Task(seed=7, hidden={"tip": "no"})])

    def begin(self, task):
        self.secret = int(self.np_random.integers(1, 11))

    @tool
    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: between 1 and 10.
        """
        if number == self.secret:
            self.award(1.0)
            self.finish()
            return "Right!"
        return "Higher." if number < self.secret else "Lower."

    @tool(on_error="end")
    def crash(self) -> str:
        """Crash."""
        raise OSError("/secret")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "paddock.toml").write_text(MANIFEST)
    (folder / "guess_env.py").write_text(MODULE)
    return folder


def guessed(env):
    """One episode by halving; its rewards."""
    low, high, rewards = 1, 10, []
    env.reset(options={"split": "test"})
    while True:
        middle = (low + high) // 2
        observation, reward, terminated, truncated, _ = env.step(CallTool("guess", {"number": middle}))
        rewards.append(reward)
        if terminated or truncated:
            return rewards
        low, high = (middle + 1, high) if observation.result == "Higher." else (low, middle - 1)


def told(env):
    """What every door must show of the environment alike."""
    observation, info = env.reset(seed=3)
    with pytest.raises(InvalidTask, match="no split 'nope'"):
        env.reset(options={"split": "nope"})
    with pytest.raises(EpisodeFailed, match="crash failed: OSError"):
        env.reset(), env.step(CallTool("crash"))
    rewards = guessed(env)
    state = env.state()
    return observation, info, rewards, state.step_count, state.public, env.metadata["tools"]


@pytest.mark.process
def test_all_doors_show_the_same(folder):
    with paddock.make(str(folder), isolation="none") as env:
        here = told(env)
    assert type(here[0]) is Observation and here[0].content == [Text(f"Guess {here[1]['task']['index']}.")]
    assert here[2][-1] == 1.0 and here[3] == len(here[2]) and here[4] == {"task": {"split": "test", "index": 0}}
    with OpenEnv(str(folder)) as env:
        assert told(env) == here
    with serving(folder) as server, OpenEnv(server.with_token("/Guess-v0")) as env:
        assert told(env) == here


@pytest.mark.process
@pytest.mark.parametrize("isolation", ["none", None], ids=["loop", "walled"])
def test_lanes_begin_anew_by_themselves(folder, isolation):
    lanes = LaneOptions(autoreset="SameStep")
    with paddock.make(str(folder), num_envs=3, isolation=isolation, lanes=lanes) as env:
        env.reset(seed=1)
        seen, rewards, ended, _, infos = env.step((CallTool("guess", {"number": 0}), Say("x"), ListTools()))
        assert ended.tolist() == [False, True, False] and rewards.tolist() == [0.0, 0.0, 0.0]
        assert (
            seen[0].result == "Higher."
            and seen[1].messages
            and [one.name for one in seen[2].tools] == ["guess", "crash"]
        )
        assert infos["final_obs"][1] == Observation()


@pytest.mark.process
@pytest.mark.parametrize("words", [["run", "--episodes", "1"], ["check"], ["explain"]], ids=lambda words: words[0])
def test_the_command_takes_it(folder, words):
    command = [sys.executable, "-m", "paddock", words[0], str(folder), *words[1:], "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={"PYTHONPATH": _source(), "PATH": "/usr/bin"}
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def _source():
    return str(Path(paddock.__file__).parents[1])


FIRST_USE = """
import importlib, sys, threading
import msgspec
from paddock.agentic import messages

def first_use(barrier, written, read):
    barrier.wait()
    read.append(msgspec.msgpack.Decoder(messages.Observation).decode(written))

sys.setswitchinterval(1e-6)
for _ in range(30):
    importlib.reload(messages)  # classes that nobody has used
    written = msgspec.msgpack.encode(messages.Observation(content=[messages.Text("x")]))
    barrier, read = threading.Barrier(4), []
    threads = [threading.Thread(target=first_use, args=(barrier, written, read)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 4
"""


@pytest.mark.process
def test_observations_may_be_used_for_the_first_time_in_several_threads():
    """As a server does that learns what several environments are; msgspec alone would crash in most of such runs."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
