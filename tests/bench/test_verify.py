"""Replay finds what differs at its first step, and honest records never raise an alarm, however they were made."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import paddock
from paddock.bench.bundle import read_bundle
from paddock.bench.suites import BUILT_IN, Suite, SuiteTask, SuiteWrapper
from paddock.package import store
from tests.bench.forging import CARTPOLE, run, verify
from tests.package.signed import release, trust

GOLDEN = Path(__file__).parent / "golden"


def first_difference(gravity, bundle):
    """The first (episode, step) at which CartPole with another gravity differs, by stepping it."""
    row = bundle.plan.tasks[0].row
    for episode, (_, payloads) in zip(bundle.episodes, bundle.log.load(bundle.episodes), strict=True):
        rows = np.frombuffer(b"".join(payloads), row)
        with closing(paddock.make("CartPole-v1")) as env:
            env.unwrapped.gravity = gravity
            env.reset(seed=episode.seed)
            for step, want in enumerate(rows, 1):
                observation = env.step(want["action"])[0]
                if observation.tobytes() != want["observation"].tobytes():
                    return episode.number, step
    return None


def test_gravity_that_differs_by_1e_11_is_found_at_its_first_step(tmp_path, monkeypatch):
    bundle = run(tmp_path / "b", Suite("long", [SuiteTask("CartPole-v1", name="CartPole-v1", episodes=400)]))
    expected = first_difference(9.8 + 1e-11, bundle)
    assert expected is not None
    import paddock.bench.verify as verifying

    make = verifying.make_environment

    def patched(*arguments, **options):
        env = make(*arguments, **options)
        if hasattr(env, "set_attr") and hasattr(env, "num_envs"):
            env.set_attr("gravity", 9.8 + 1e-11)
        else:
            env.unwrapped.gravity = 9.8 + 1e-11
        return env

    monkeypatch.setattr(verifying, "make_environment", patched)
    verdict = verify(bundle.path)
    assert (verdict.reason, verdict.episode, verdict.step) == ("tampered", *expected)
    assert "observation[" in verdict.message


def test_replay_in_lanes_and_one_by_one_agree(tmp_path, monkeypatch):
    bundle = run(tmp_path / "b", BUILT_IN["toy-text"], episodes=4)
    assert verify(bundle.path).level == "L2"
    monkeypatch.setattr("paddock.bench.verify.needs_wall", lambda spec: True)
    assert verify(bundle.path, isolation="none").level == "L2"
    monkeypatch.undo()
    monkeypatch.setattr("paddock.bench.verify._GROUP_BYTES", 200)  # some episodes don't fit into memory
    assert verify(bundle.path).level == "L2"


@pytest.mark.process
def test_wrapped_environment_is_the_same_on_both_sides_of_a_wall(tmp_path):
    """Also one of a suite that leaves arguments out, and whose observations are more than one row of numbers."""
    wrappers = [
        SuiteWrapper("FrameStackObservation", {"stack_size": 4}),
        SuiteWrapper("ClipReward", {"min_reward": -9}),
    ]
    suite = Suite("stacked", [SuiteTask("Pendulum-v1", name="stacked", wrappers=wrappers, episodes=2, max_steps=20)])
    for isolation in (None, "none"):
        bundle = run(tmp_path / f"{isolation}", suite, isolation=isolation)
        assert {verify(bundle.path).level, verify(bundle.path, isolation="none").level} == {"L2"}


def test_environments_of_tools_are_replayed_from_their_lines(tmp_path):
    bundle = run(tmp_path / "b", BUILT_IN["agentic-text"], episodes=2)
    assert verify(bundle.path).level == "L2"
    log = bundle.path / "episodes.log"
    log.write_bytes(log.read_bytes().replace(b'"say"', b'"sqy"').replace(b"call_tool", b"call_tooo"))
    assert verify(bundle.path).reason == "tampered"


def test_sample_is_chosen_by_the_digest(tmp_path):
    bundle = run(tmp_path / "b", CARTPOLE, episodes=20)
    verdict = verify(bundle.path, sample=5)
    assert (verdict.level, verdict.replayed, verdict.episodes) == ("L2", 5, 20)
    assert any("a sample" in note for note in verdict.notes)


def test_folder_is_replayed_behind_its_wall(tmp_path):
    folder = tmp_path / "count"
    folder.mkdir()
    (folder / "paddock.toml").write_text(
        '[package]\nname = "count"\nversion = "1.0"\n\n'
        '[[env]]\nid = "Count-v0"\nentry = "count:Count"\nmax_episode_steps = 5\n'
    )
    (folder / "count.py").write_text(
        "import paddock\n"
        "from paddock.spaces import Discrete\n"
        "class Count(paddock.Env):\n"
        "    observation_space = Discrete(100)\n"
        "    action_space = Discrete(3)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        self.n = int(self.np_random.integers(50))\n"
        "        return self.n, {}\n"
        "    def step(self, action):\n"
        "        self.n += 1\n"
        "        return self.n, float(action), False, False, {}\n"
    )
    suite = Suite("folders", [SuiteTask(str(folder), name="count", episodes=3)])
    bundle = run(tmp_path / "b", suite, isolation="none")
    assert [episode.status for episode in bundle.episodes] == ["truncated"] * 3
    where = {"targets": {"count": str(folder)}, "isolation": "none"}
    assert verify(bundle.path, **where).level == "L2"
    code = folder / "count.py"
    code.write_text(code.read_text().replace("float(action)", "float(action) + 1"))
    assert verify(bundle.path, **where).reason == "tampered"
    assert str(tmp_path) not in (bundle.path / "plan.json").read_text()


PROGRAM = """
import json, sys, threading, time
from pathlib import Path
if sys.argv[2] == "late and busy":
    real = time.time
    time.time = lambda: real() + 1e7
    threading.Thread(target=lambda: sum(iter(lambda: 1, 0)), daemon=True).start()
from tests.bench.forging import run
from paddock.bench.suites import BUILT_IN
digests = [run(Path(sys.argv[1]) / name, BUILT_IN[name], episodes=2, num_envs=int(sys.argv[3])).digest
           for name in ("smoke", "agentic-text")]
print(json.dumps(digests))
"""


@pytest.mark.process
def test_surroundings_change_no_bit(tmp_path):
    surroundings = [
        ({"PYTHONHASHSEED": "0"}, "now", "1"),
        ({"PYTHONHASHSEED": "4242", "OMP_NUM_THREADS": "3", "LC_ALL": "C", "TZ": "Asia/Tokyo"}, "late and busy", "3"),
    ]
    root = str(Path(__file__).parents[2])
    found = []
    for at, (variables, clock, lanes) in enumerate(surroundings):
        place = tmp_path / str(at)
        place.mkdir()
        command = [sys.executable, "-c", PROGRAM, str(place), clock, lanes]
        printed = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": root, **variables}, cwd=place, capture_output=True, check=True
        )
        found.append(json.loads(printed.stdout.splitlines()[-1]))
    assert found[0] == found[1]


@pytest.mark.parametrize("bundle", sorted(GOLDEN.iterdir()), ids=lambda path: path.name)
def test_golden_bundles_of_version_1_verify_for_ever(bundle):
    expected = json.loads((GOLDEN.parent / "golden.json").read_text())[bundle.name]
    assert read_bundle(bundle).digest == expected
    verdict = verify(bundle, judge=lambda signer: None)
    assert verdict.reason is None, verdict.message
    assert verdict.level == "L2"


@pytest.mark.full
def test_two_hundred_honest_bundles_raise_no_alarm(tmp_path):
    rows = [
        "CartPole-v1",
        "MountainCar-v0",
        "Pendulum-v1",
        "FrozenLake-v1",
        "Taxi-v4",
        "Blackjack-v1",
        "paddock/Wordle",
    ]
    alarms = []
    for at in range(200):
        suite = Suite(
            f"s{at}", [SuiteTask(rows[at % 7], name="a", episodes=1 + at % 3), SuiteTask(rows[at % 5], name="b")]
        )
        place = tmp_path / str(at)
        bundle = run(place, suite, seed=at, episodes=1 + at % 4, num_envs=1 + at % 5, policy=("random", "null")[at % 2])
        verdict = verify(bundle.path)
        if verdict.reason is not None:
            alarms.append((at, verdict.message))
        shutil.rmtree(place)
    assert alarms == []


@pytest.mark.process
def test_installed_package_is_named_by_its_digest_and_replayed_behind_the_wall(tmp_path, monkeypatch):
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    trust()
    installed = store.install(release(tmp_path / "maze"), lambda *question: True)
    suite = Suite("packages", [SuiteTask("acme/maze@1.0.0", name="maze", episodes=2)])
    bundle = run(tmp_path / "b", suite)
    assert bundle.plan.tasks[0].package == installed.digest
    assert [episode.status for episode in bundle.episodes] == ["complete"] * 2
    assert verify(bundle.path).level == "L2"
    other = store.install(release(tmp_path / "other", version="1.0.1"), lambda *question: True)
    assert other.digest != installed.digest
    assert verify(bundle.path, targets={"maze": "acme/maze@1.0.1"}).reason == "tampered"
