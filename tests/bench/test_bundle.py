"""A bundle is read without belief: its parts fit each other, or it is refused with the reason."""

import numpy as np
import pytest

import paddock
from paddock.bench.bundle import PolicyPlan, read_bundle
from paddock.bench.log import TERMINATED, LogWriter
from paddock.bench.plan import make_plan
from paddock.bench.policies import PolicySource
from paddock.bench.recording import RowRecorder
from paddock.bench.run import run_suite
from paddock.bench.suites import Suite, SuiteTask
from paddock.errors import InvalidBundle
from tests.bench.bundles import CARTPOLES, write_bundle
from tests.bench.forging import KEY, verify


def test_bundle_has_the_episodes_that_were_written(tmp_path):
    bundle = write_bundle(tmp_path / "bundle", [[1.0, 2.0, -0.0, 4.0]])
    assert bundle.complete
    assert [episode.total for episode in bundle.episodes] == [1.0, 2.0, 0.0, 4.0]
    assert [episode.steps for episode in bundle.episodes] == [3] * 4
    assert np.array_equal(bundle.values(0), [1.0, 2.0, 0.0, 4.0])
    assert bundle.digest == read_bundle(tmp_path / "bundle").digest


@pytest.mark.parametrize("file", ["plan.json", "start.json", "episodes.log", "statement.json"])
def test_any_changed_byte_is_noticed(tmp_path, file):
    path = write_bundle(tmp_path / "bundle", [[1.0, 2.0, 3.0, 4.0]]).path / file
    text = path.read_bytes()
    hint = text.find(b"keyid"), text.find(b'"sig"')  # DSSE's own signature leaves this part out
    for at in range(0, len(text), max(1, len(text) // 40)):
        if file == "statement.json" and hint[0] <= at < hint[1]:
            continue
        path.write_bytes(text[:at] + bytes((text[at] ^ 1,)) + text[at + 1 :])
        with pytest.raises(InvalidBundle) as caught:
            read_bundle(path.parent)
        assert caught.value.reason in ("malformed", "tampered", "incomplete"), at


def test_bundle_without_a_statement_is_incomplete(tmp_path):
    bundle = write_bundle(tmp_path / "bundle", [[1.0, 2.0, 3.0, 4.0]])
    (bundle.path / "statement.json").unlink()
    with pytest.raises(InvalidBundle) as caught:
        read_bundle(bundle.path)
    assert caught.value.reason == "incomplete"
    assert not read_bundle(bundle.path, partial=True).complete


@pytest.mark.parametrize("steps", [0, 1, 4096, 4097, 10_000])
def test_arrays_and_lists_are_recorded_as_the_same_bytes(tmp_path, steps):
    task = make_plan(CARTPOLES, PolicyPlan(name="by hand", digest=None)).tasks[0]
    space = paddock.make("CartPole-v1").observation_space
    draws = np.random.default_rng(7)
    actions, rewards = draws.integers(0, 2, steps).tolist(), draws.normal(size=steps).tolist()
    observations = draws.normal(size=(steps + 1, 4)).astype(np.float32)

    def record(name, form):
        log = LogWriter(tmp_path / name, "00" * 32, "00" * 32)
        recorder = RowRecorder(log, 0, task, space)
        recorder.begin(0, 1, form(observations[0]))
        buffer = np.zeros(4, np.float32)
        for action, observation, reward in zip(actions, observations[1:], rewards, strict=True):
            buffer[:] = observation  # an environment may write into the array that it returned before
            recorder.step((action, form(buffer), reward))
        recorder.end("complete" if steps else "failed", flags=TERMINATED)
        log.close()
        return (tmp_path / name).read_bytes()

    assert record("arrays", lambda array: array) == record("lists", np.ndarray.tolist)


def test_policy_may_change_an_action_that_it_returned(tmp_path):
    def maker(*spaces):
        action = np.zeros(1, np.float32)

        def choose(observation):
            np.negative(observation[2:], out=action)
            return np.clip(action, -2, 2, out=action)

        return choose

    suite = Suite("one", [SuiteTask("Pendulum-v1", name="Pendulum-v1", episodes=1)])
    bundle = run_suite(suite, PolicySource(PolicyPlan(name="by hand", digest=None), maker), tmp_path / "b", KEY)
    assert verify(bundle.path).level == "L2"
