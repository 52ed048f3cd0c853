"""The example of docs/kernels.md, as its author would use it: one source, a single environment and n lanes."""

import json
import subprocess
import sys

import numpy as np
import pytest

import paddock
from tests.kernels.conftest import EXAMPLE
from tests.spaces.twins import same

ID = "me/Reservoir-v0"
N = 5


def actions(steps, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, (steps, N, 1)).astype(np.float32)


def lanes(**options):
    return paddock.make(ID, num_envs=N, max_episode_steps=40, lanes=paddock.LaneOptions(**options))


def played(env, steps=120, seed=3):
    """Everything that the lanes return in some steps."""
    env.reset(seed=seed)
    return [env.step(action) for action in actions(steps)]


def test_example_has_about_thirty_lines_of_code():
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert 25 <= len(lines) <= 40


def test_one_lane_python_lanes_and_compiled_lanes_agree_bit_for_bit(reservoir, in_python):
    compiled = played(lanes())
    one_by_one = played(paddock.make(ID, num_envs=N, max_episode_steps=40, backend="loop"))
    in_python()
    python = lanes()
    assert not python._lanes.compiled
    for a, b, c in zip(compiled, played(python), one_by_one, strict=True):
        assert same(a, b)
        assert same(a[:4], c[:4])


def test_single_environment_goes_on_with_the_same_numbers_when_it_is_compiled(reservoir, in_python):
    def run():
        env = paddock.make(ID)
        seen = [env.reset(seed=1)]
        for at, action in enumerate(actions(600)[:, 0]):
            if at == 300:
                env.unwrapped.compile()
            seen.append(env.step(action))
            if seen[-1][2] or seen[-1][3]:
                seen.append(env.reset())
        return seen, env.unwrapped._lane

    compiled, lane = run()
    assert lane is not None
    in_python()
    python, lane = run()
    assert lane is None
    assert same(compiled, python)


def test_statistics_are_those_of_the_rewards(reservoir, either_way):
    env = lanes(statistics=True)
    env.reset(seed=3)
    totals, lengths, episodes = np.zeros(N), np.zeros(N, int), 0
    resetting = np.zeros(N, bool)
    for action in actions(120):
        _, reward, terminated, truncated, info = env.step(action)
        totals, lengths = np.where(resetting, 0.0, totals + reward), np.where(resetting, 0, lengths + 1)
        resetting = terminated | truncated
        if resetting.any():
            assert info["_episode"].tolist() == resetting.tolist()
            assert info["episode"]["r"][resetting].tolist() == totals[resetting].tolist()
            assert info["episode"]["l"][resetting].tolist() == lengths[resetting].tolist()
            episodes += int(resetting.sum())
    assert episodes >= 2 * N


def test_snapshot_continues_the_same_episode(reservoir, either_way):
    env, other = lanes(), lanes()
    env.reset(seed=8)
    for action in actions(30):
        env.step(action)
    kept = env.snapshot()
    expected = [env.step(action) for action in actions(60, seed=1)]
    other.restore(kept)
    assert same([other.step(action) for action in actions(60, seed=1)], expected)
    with pytest.raises(paddock.InvalidSnapshot):
        paddock.make(ID, num_envs=N, gate=7.0).restore(kept)


def test_single_snapshot_continues_the_same_episode(reservoir, either_way):
    env, other = paddock.make(ID), paddock.make(ID)
    env.reset(seed=8)
    for action in actions(1100)[:, 0]:
        if any(env.step(action)[2:4]):
            env.reset()
    kept = env.snapshot()
    other.restore(kept)
    for action in actions(20, seed=1)[:, 0]:
        assert same(other.step(action), env.step(action))


def test_arguments_and_attributes_are_the_params(reservoir, either_way):
    env = paddock.make(ID, gate=2)
    assert env.unwrapped.gate == 2.0
    assert type(env.unwrapped.gate) is float
    env.reset(seed=0)
    level = env.unwrapped.kernel_state.level
    inflow = env.unwrapped.kernel_state.inflow
    env.unwrapped.gate = 3.0
    env.step(np.ones(1, np.float32))
    assert env.unwrapped.kernel_state.level == level + inflow - 3.0
    with pytest.raises(TypeError, match="gatte"):
        paddock.make(ID, gatte=2)


def test_attributes_of_lanes_change_the_next_step(reservoir, either_way):
    env = lanes()
    env.reset(seed=0)
    before = [env._lanes.get_state(lane) for lane in range(N)]
    env.set_attr("gate", 3.0)
    assert env.get_attr("gate") == (3.0,) * N
    env.step(np.ones((N, 1), np.float32))
    expected = [state.level + state.inflow - 3.0 for state in before]
    assert [env._lanes.get_state(lane).level for lane in range(N)] == expected


def test_options_hold_for_one_beginning(reservoir, either_way):
    env = paddock.make(ID, num_envs=2, max_episode_steps=2)
    env.reset(seed=0, options={"level": 90.0})
    assert all(85 <= env._lanes.get_state(lane).level <= 95 for lane in range(2))
    for _ in range(3):
        env.step(np.zeros((2, 1), np.float32))
    assert all(45 <= env._lanes.get_state(lane).level <= 55 for lane in range(2))


def test_check_env_finds_nothing(reservoir):
    paddock.check_env(paddock.make(ID).unwrapped)


WITHOUT_NUMBA = f"""
import contextlib, io, json, sys
sys.modules["numba"] = None
sys.path.insert(0, {str(EXAMPLE.parent)!r})
import numpy as np
import paddock
import reservoir
from paddock.cli import main

env = paddock.make({ID!r}, num_envs={N}, max_episode_steps=40)
actions = np.random.default_rng(0).uniform(0, 1, (120, {N}, 1)).astype(np.float32)
env.reset(seed=3)
total = [float(sum(env.step(action)[1])) for action in actions]
one = paddock.make({ID!r})
one.reset(seed=3)
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    code = main(["explain", {ID!r}, "--num-envs", "4"]) + main(["explain", {ID!r}])
print(json.dumps([total, float(one.step(actions[0, 0])[1]), code, printed.getvalue(), "llvmlite" in sys.modules]))
"""


@pytest.mark.process
def test_without_numba_the_same_file_works_and_explain_says_so(reservoir, capsys):
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    totals, first, code, explained, compiled = json.loads(done.stdout.splitlines()[-1])
    steps = played(lanes())
    assert totals == [float(sum(step[1])) for step in steps]
    assert first == steps[0][1][0]
    assert not compiled
    assert code == 0
    text = " ".join(explained.split())
    assert text.count("as plain Python, slower") == 2, "of lanes, and of one environment"
    assert text.count("pip install numba") == 2


def test_page_of_kernels_shows_the_whole_example():
    page = EXAMPLE.parents[1] / "docs" / "kernels.md"
    assert f"```python\n{EXAMPLE.read_text()}```" in page.read_text()
