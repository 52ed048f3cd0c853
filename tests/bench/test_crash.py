"""A crash at any write, sync or rename leaves no record that verifies, and the run can be gone on with from there."""

import os
from pathlib import Path

import pytest

from paddock.bench.bundle import read_bundle
from paddock.bench.suites import Suite, SuiteTask
from paddock.errors import InvalidBundle, InvalidSuite
from tests.bench.forging import run, verify

SUITE = Suite("short", [SuiteTask("FrozenLake-v1", name="lake", episodes=3), SuiteTask("paddock/Echo", name="echo")])
DOORS = ("writev", "write", "fsync", "link", "replace", "rename", "unlink", "truncate", "ftruncate")


class Crash(BaseException):
    """The machine is gone: nothing that follows has any effect."""


class Machine:
    """Lets so many calls through to the disk, half of the next one if that is a write, and nothing after."""

    def __init__(self, monkeypatch, calls):
        self.left = calls
        for name in DOORS:
            monkeypatch.setattr(os, name, self.door(name, getattr(os, name)))

    def door(self, name, real):
        def call(*arguments, **options):
            if self.left > 0:
                self.left -= 1
                return real(*arguments, **options)
            if self.left == 0 and name == "writev":
                real(arguments[0], [b"".join(arguments[1])[: len(b"".join(arguments[1])) // 2]])
            self.left = -1
            raise Crash

        return call


def crash_after(calls, folder):
    """Whether the run crashed."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        Machine(monkeypatch, calls)
        try:
            run(folder, SUITE, episodes=2, num_envs=1)
        except Crash:
            return True
    return False


def test_crash_anywhere_yields_no_record_that_verifies_and_loses_no_episode(tmp_path):
    whole = run(tmp_path / "whole", SUITE, episodes=2, num_envs=1)
    calls, crashed = 0, True
    while crashed:
        folder = tmp_path / str(calls)
        crashed = crash_after(calls, folder)
        if crashed and not (folder / "statement.json").exists():
            verdict = verify(folder)
            assert verdict.reason in ("incomplete", "malformed"), (calls, verdict)
        ended = ended_episodes(folder)
        again = run(folder, SUITE, episodes=2, num_envs=1)
        assert again.digest == whole.digest, calls
        assert ended <= {(one.number, one.head) for one in again.episodes}
        assert verify(folder).reason is None
        assert len(again.episodes) == 4
        calls += 1
    assert calls > 20


def ended_episodes(folder):
    try:
        return {(one.number, one.head) for one in read_bundle(folder, partial=True).episodes}
    except InvalidBundle:  # the plan or the start is not there yet
        return set()


def test_attempt_that_was_interrupted_stays_visible(tmp_path):
    folder = tmp_path / "b"
    whole = run(tmp_path / "whole", SUITE, episodes=2, num_envs=1)
    calls = 0
    while not ((folder / "episodes.log").exists() and read_open(folder)):
        assert crash_after(calls, folder)
        calls += 1
    bundle = run(folder, SUITE, episodes=2, num_envs=1)
    assert bundle.log.abandoned >= 1
    assert bundle.digest == whole.digest
    assert any("interrupted" in note for note in verify(folder).notes)


def read_open(folder):
    bundle = read_bundle(folder, partial=True)
    return bundle.log.abandoned > 0


def test_run_of_another_plan_is_not_gone_on_with(tmp_path):
    run(tmp_path / "b", SUITE, episodes=2)
    with pytest.raises(InvalidSuite, match="another plan"):
        run(tmp_path / "b", SUITE, episodes=3)


def test_folder_with_other_files_is_not_written_to(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidSuite, match="other files"):
        run(tmp_path, SUITE)
    assert [path.name for path in Path(tmp_path).iterdir()] == ["notes.txt"]
