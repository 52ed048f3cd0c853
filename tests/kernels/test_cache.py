"""Machine code on disk: found again when nothing has changed, never when anything has, never in a stranger's folder."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from paddock.kernels import driver
from paddock.kernels.compile import _cache_folder, _key
from paddock.kernels.vector import vector_class

SOURCE_FOLDER = Path(__file__).parents[2] / "src"
CONSTANTS = "GAIN = 2.0\n"
SOURCE = """
from enum import IntEnum
from typing import NamedTuple

import numpy as np

import CONFIG
from paddock.kernels import Kernel, power
from paddock.spaces import Box, Discrete

SCALE = 0.5
TABLE = np.arange(3000.0)
PAIR = (np.arange(3000.0), 1.0)

class Kind(IntEnum):
    SLOW = 1

class Params(NamedTuple):
    rate: float = 1.0

class State(NamedTuple):
    x: float
    n: int

def helper(x):
    return x * SCALE + 1.0

def made(offset):
    def shift(x):
        return x + offset
    return shift

shift = made(3.0)

def initial(rng, params):
    return State(1.0, 0)

def step(state, action, rng, params, extra=0.25):
    x = shift(helper(state.x)) * CONFIG.GAIN + params.rate + extra + TABLE[state.n] + PAIR[0][1500] + Kind.SLOW.value
    return State(x, state.n + 1), x, False

def observe(state, params):
    return state.x

KERNEL = Kernel(initial, step, observe, params=Params(), observation_space=Box(-9, 9, (1,)), action_space=Discrete(2))
"""
EDITS = {
    "the step": ("* CONFIG.GAIN + params.rate", "* CONFIG.GAIN - params.rate"),
    "a helper": ("x * SCALE + 1.0", "x * SCALE + 2.0"),
    "a constant of a helper": ("SCALE = 0.5", "SCALE = 0.75"),
    "a default argument": ("extra=0.25", "extra=0.5"),
    "the middle of a large array": ("TABLE = np.arange(3000.0)", "TABLE = np.arange(3000.0); TABLE[1500] = -1.0"),
    "an array in a tuple": (
        "PAIR = (np.arange(3000.0), 1.0)",
        "PAIR = (np.arange(3000.0) + (np.arange(3000) == 1500), 1.0)",
    ),
    "an enum": ("SLOW = 1", "SLOW = 2"),
    "a closure": ("shift = made(3.0)", "shift = made(4.0)"),
    "the state's fields": ("    n: int", "    n: int  # another record\n    m: int = 0"),
    "observe": ("return state.x\n", "return state.x + 0.0 * state.n\n"),
    "initial": ("State(1.0, 0)", "State(2.0, 0)"),
    "the type of a constant": ("SCALE = 0.5", "SCALE = np.float32(0.5)"),
    "a sign of zero": ("+ 1.0", "+ 1.0 + -0.0"),
}
HARMLESS = {
    "a comment": ("SCALE = 0.5", "SCALE = 0.5  # a half"),
    "another line number": ("SCALE = 0.5", "\n\nSCALE = 0.5"),
    "a name that nobody uses": ("SCALE = 0.5", "SCALE = 0.5\nUNUSED = 3"),
    "a default of params, which is data": ("rate: float = 1.0", "rate: float = 9.0"),
}


def key_of(source, constants=CONSTANTS):
    config = type(sys)("CONFIG")
    exec(constants, vars(config))
    names = {"__name__": "edited"}
    sys.modules["CONFIG"] = config
    try:
        exec(compile(source, "edited.py", "exec"), names)
    finally:
        del sys.modules["CONFIG"]
    kernel = names["KERNEL"]
    return _key(kernel, driver.compiled_source(kernel.layout(kernel.params)))


@pytest.fixture(autouse=True)
def resolvable(monkeypatch):
    # get_type_hints looks the annotations up in the class's module.
    monkeypatch.setitem(sys.modules, "edited", type(sys)("edited"))


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_the_files_name(edit):
    old, new = EDITS[edit]
    assert SOURCE.count(old) == 1
    assert key_of(SOURCE.replace(old, new)) != key_of(SOURCE)


def test_a_constant_of_another_module_changes_the_files_name():
    assert key_of(SOURCE, "GAIN = 3.0\n") != key_of(SOURCE)
    assert key_of(SOURCE, CONSTANTS + "UNUSED = 1\n") == key_of(SOURCE)


@pytest.mark.parametrize("edit", HARMLESS)
def test_what_changes_no_machine_code_keeps_the_files_name(edit):
    old, new = HARMLESS[edit]
    assert SOURCE.count(old) == 1
    assert key_of(SOURCE.replace(old, new)) == key_of(SOURCE)


def test_versions_are_a_part_of_the_files_name(monkeypatch):
    before = key_of(SOURCE)
    monkeypatch.setattr("paddock.kernels.compile._numba_version", lambda: ("99.0", "99.0"))
    assert key_of(SOURCE) != before


PROGRAM = """
import json
import numpy as np
import model
from paddock.kernels.vector import vector_class

env = vector_class(model.KERNEL)(1)
env.reset(seed=0)
compiled = float(env.step(np.zeros(1, int))[1][0])
state, reward, _ = model.step(model.initial(None, model.Params()), 0, None, model.Params())
stats = env._lanes.run.stats
print(json.dumps([compiled, reward, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""


def run(folder, cache):
    here = {"PADDOCK_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(SOURCE_FOLDER)}
    environment = {**os.environ, **here}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.process
def test_code_is_found_again_and_never_run_stale(tmp_path):
    cache = tmp_path / "cache"
    (tmp_path / "model.py").write_text(SOURCE)
    (tmp_path / "CONFIG.py").write_text(CONSTANTS)
    cold, expected, *counts = run(tmp_path, cache)
    assert (cold, counts) == (expected, [0, 1])
    assert run(tmp_path, cache)[:4] == [expected, expected, 1, 0]

    for file in (cache / "kernels").rglob("*.nbc"):
        file.write_bytes(file.read_bytes()[:100])
    damaged = run(tmp_path, cache)
    assert damaged[:2] == [expected, expected], "a damaged file is compiled anew"

    (tmp_path / "model.py").write_text(SOURCE.replace("x * SCALE + 1.0", "x * SCALE + 2.0"))
    (tmp_path / "CONFIG.py").write_text("GAIN = 3.0\n")
    edited, expected_now, *counts = run(tmp_path, cache)
    assert (edited, counts) == (expected_now, [0, 1])
    assert expected_now != expected


def test_folder_is_private(tmp_path, monkeypatch):
    monkeypatch.setenv("PADDOCK_CACHE", str(tmp_path))
    folder = _cache_folder()
    assert folder == tmp_path / "kernels"
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are POSIX: it runs on Linux and macOS")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_folder_that_others_can_write_to_is_not_used(tmp_path, monkeypatch, mode):
    monkeypatch.setenv("PADDOCK_CACHE", str(tmp_path))
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels").chmod(mode)
    folder = _cache_folder()
    assert folder != tmp_path / "kernels"
    assert folder.stat().st_mode & 0o077 == 0
    folder.rmdir()


def test_place_that_is_no_folder_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PADDOCK_CACHE", str(tmp_path / "file"))
    folder = _cache_folder()
    assert tmp_path not in folder.parents
    folder.rmdir()


def test_kernels_of_one_name_and_file_are_kept_apart_in_one_process():
    def kernel(gain):
        names = {"__name__": "same"}
        text = SOURCE.replace("import CONFIG", "").replace("CONFIG.GAIN", str(gain))
        exec(compile(text, "same.py", "exec"), names)
        return names["KERNEL"]

    sys.modules["same"] = type(sys)("same")
    try:
        rewards = []
        for gain in (1.0, 2.0, 1.0):
            env = vector_class(kernel(gain))(1)
            env.reset(seed=0)
            rewards.append(float(env.step(np.zeros(1, int))[1][0]))
    finally:
        del sys.modules["same"]
    assert rewards[0] == rewards[2]
    assert rewards[1] == rewards[0] + 4.5


SEPARATELY = """
import sys
import numpy as np
import paddock
lanes = paddock.make_vec(sys.argv[1], num_envs=8)
lanes.reset(seed=0)
lanes.step(np.zeros(8, np.int64))
"""
TOGETHER = """
import numpy as np
import paddock
from paddock import LaneOptions
for other in ("MountainCar-v0", "FrozenLake-v1"):
    lanes = paddock.make_vec(other, num_envs=8)
    lanes.reset(seed=0)
    lanes.step(np.zeros(8, np.int64))
threaded = paddock.make_vec("CartPole-v1", num_envs=64, lanes=LaneOptions(threads=2))
looped = paddock.make_vec("CartPole-v1", num_envs=64, backend="loop")
threaded.reset(seed=0), looped.reset(seed=0)
for step in range(60):
    actions = np.arange(64) * step % 2
    for got, expected in zip(threaded.step(actions)[:4], looped.step(actions)[:4]):
        np.testing.assert_array_equal(got, expected)
"""


@pytest.mark.process
def test_kernels_compiled_apart_and_loaded_together_are_not_mixed_up(tmp_path):
    """Machine code from the cache carries the names of the run that made it; equal names were once linked crosswise."""
    environment = {**os.environ, "PADDOCK_CACHE": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    for id in ("CartPole-v1", "MountainCar-v0", "FrozenLake-v1"):
        subprocess.run([sys.executable, "-c", SEPARATELY, id], env=environment, check=True)
    subprocess.run([sys.executable, "-c", TOGETHER], env=environment, check=True)


# Counted, not timed: on a busy machine any step may take long. Whoever calls the compiler during these steps fails.
NO_STEP_WAITS = """
import json
import sys
import numpy as np
import paddock
import paddock.gym
from paddock import LaneOptions
from paddock.envs import CartPoleEnv
from paddock.kernels import compile as compiling

class Cart(CartPoleEnv):
    def form(self):
        return ["numba" in sys.modules, self._lane is not None]

def play(env, steps):
    env.reset(seed=0)
    before, faults = ["numba" in sys.modules, list(compiling._loaded)], 0
    kept, compiling._compile = compiling._compile, None
    for at in range(steps):
        if env.num_envs == 1:
            result = env.step(at % 2)
            if result[2] or result[3]:
                env.reset()
        else:
            faults += "lane_error" in env.step(np.full(env.num_envs, at % 2))[4]
    compiling._compile = kept
    assert before == ["numba" in sys.modules, list(compiling._loaded)]
    return faults

Cart.num_envs = 1
steps = int(sys.argv[1])
paddock.register("me/Cart-v0", Cart, max_episode_steps=500)
impatient = LaneOptions(deadline_s=0.5, workers=2)
forms = {}
with paddock.make_vec("me/Cart-v0", 4, isolation="process", lanes=impatient) as lanes:
    forms["workers"] = [play(lanes, steps), *lanes.call("form")[0]]
with paddock.gym.vector.AsyncVectorEnv([Cart] * 4, deadline_s=0.5) as lanes:
    forms["forked"] = [play(lanes, steps), *lanes.call("form")[0]]
one = Cart()
forms["single"] = [play(one, 1_500), *one.form()]
with paddock.make_vec("me/Cart-v0", 4, backend="loop") as lanes:
    forms["loop"] = [play(lanes, 1_500), *lanes.call("form")[0]]
with paddock.gym.vector.AsyncVectorEnv([Cart] * 4, deadline_s=0.5) as lanes:
    forms["forked from one that has it"] = [play(lanes, 1_500), *lanes.call("form")[0]]
print(json.dumps(forms))
"""


@pytest.mark.process
@pytest.mark.parametrize("steps", [1_500, pytest.param(10_000, marks=pytest.mark.full)])
def test_no_step_waits_for_machine_code_from_a_cold_cache_or_a_warm_one(tmp_path, steps):
    environment = {**os.environ, "PADDOCK_CACHE": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}

    def forms():
        command = [sys.executable, "-c", NO_STEP_WAITS, str(steps)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    plain, compiled = [0, False, False], [0, True, True]  # faults, whether Numba is imported, whether it is compiled
    cold = forms()
    assert cold == dict.fromkeys(cold, plain)
    subprocess.run([sys.executable, "-c", SEPARATELY, "CartPole-v1"], env=environment, check=True)
    in_this_process = ("single", "loop", "forked from one that has it")
    assert forms() == {**cold, **dict.fromkeys(in_this_process, compiled)}
