"""Each command: what it says, its JSON, its exit code."""

import importlib.metadata
import json
import os
import sys

import numpy as np
import pytest

from paddock import __version__
from paddock.cli import doctor
from paddock.cli.program import COMMANDS
from tests.package.signed import trust
from tests.toys import Counter

ALL = [
    ["list"],
    ["info", "CartPole-v1"],
    ["info", "CartPole-v1", "--make"],
    ["check", "CartPole-v1"],
    ["run", "CartPole-v1"],
    ["demo"],
    ["doctor"],
    ["explain", "CartPole-v1"],
    ["explain", "CartPole-v1", "--num-envs", "4"],
    ["permissions", "CartPole-v1"],
    ["hostile", "--list"],
    ["deploy", "k8s"],
]


@pytest.mark.process
@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_text_and_json(paddock, words):
    text, document = paddock(*words), paddock(*words, "--json")
    assert (text.code, document.code) == (0, 0)
    assert text.out.strip()
    assert document.document
    assert document.err == text.err == ""


def test_every_command_is_tried_above():
    # in tests/server and tests/bench, and test_ps, test_replay …
    elsewhere = {"serve", "gateway", "ps", "kill", "rescore", "record", "replay", "view", "bench", "init", "openenv"}
    elsewhere |= {"build", "audit", "log", "eval", "compare"}
    packages = {command.name for command in COMMANDS if command.module == "packages"}  # in test_packages
    assert {words[0] for words in ALL} == {command.name for command in COMMANDS} - elsewhere - packages


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help_and_json(paddock, command):
    shown = paddock(command.name, "--help")
    assert shown.code == 0
    assert command.help in " ".join(shown.out.split())
    assert "--json" in shown.out


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_help_names_all_commands(paddock, words):
    shown = paddock(*words)
    assert shown.code == 0
    assert all(command.name in shown.out for command in COMMANDS)


def test_version(paddock):
    assert paddock("--version").out == f"paddock {__version__}\n"


def test_list_shows_where_each_id_comes_from(paddock, monkeypatch, tmp_path):
    import paddock as package

    (tmp_path / "hostile_plugin.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    plant(monkeypatch, ("acme/Maze-v0", "hostile_plugin:Env"), ("\x1b[31m", "a:b"))
    package.register("me/Mine-v0", lambda: None, max_episode_steps=7)
    listed = paddock("list", "--json")
    rows = {row["id"]: row for row in listed.document}
    assert rows["CartPole-v1"]["origin"] == "built in"
    assert (rows["me/Mine-v0"]["origin"], rows["me/Mine-v0"]["max_episode_steps"]) == ("registered", 7)
    assert (rows["acme/Maze-v0"]["origin"], rows["acme/Maze-v0"]["entry_point"]) == ("plugin", "hostile_plugin:Env")
    assert "paddock: warning: plugin '\\x1b[31m'" in listed.err
    assert "acme/Maze-v0" in paddock("list").out
    assert paddock("info", "acme/Maze-v0").code == 0
    assert paddock("run", "acme/Maze-v0").code == 1


def test_list_says_which_plugins_are_refused_for_a_key(paddock, monkeypatch, home):
    trust()
    plant(monkeypatch, ("acme/Maze-v0", "hostile_plugin:Env"))
    listed = paddock("list")
    assert "'acme' belongs to the key" in listed.err and "acme/Maze-v0" not in listed.out


def plant(monkeypatch, *entries):
    """Entry points, as installed distributions would bring them."""
    found = [importlib.metadata.EntryPoint(name, value, "paddock.envs") for name, value in entries]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found)


def test_info_reads_the_spec(paddock):
    document = paddock("info", "CartPole-v1", "--json").document
    assert (document["id"], document["max_episode_steps"], document["reward_threshold"]) == ("CartPole-v1", 500, 475.0)
    assert "observation_space" not in document


def test_info_with_make_shows_the_spaces(paddock):
    document = paddock("info", "CartPole-v1", "--make", "--json").document
    assert document["action_space"] == "Discrete(2)"
    assert document["observation_space"].startswith("Box(")


def test_info_without_a_version_takes_the_newest_and_says_so(paddock):
    found = paddock("info", "CartPole", "--json")
    assert found.document["id"] == "CartPole-v1"
    assert found.err.startswith("paddock: warning: Using the latest versioned environment `CartPole-v1`")


def test_explain_prints_the_plan(paddock):
    from paddock.making import locate, plan

    rows = plan(locate("CartPole-v1"), num_envs=3).lines()
    document = paddock("explain", "CartPole-v1", "--num-envs", "3", "--json").document
    assert [(row["what"], row["how"]) for row in document["plan"]] == rows
    assert [line.split()[0] for line in paddock("explain", "CartPole-v1", "--num-envs", "3").out.splitlines()] == [
        what.split()[0] for what, _ in rows
    ]


def test_run_is_the_plain_loop(paddock):
    import paddock as package
    from paddock.record import TrajectoryDigest

    document = paddock("run", "CartPole-v1", "--episodes", "3", "--seed", "5", "--json").document
    env, digest, rows = package.make("CartPole-v1"), TrajectoryDigest(), []
    env.action_space.seed(5)
    for seed in (5, 6, 7):
        observation, _ = env.reset(seed=seed)
        digest.reset(seed, observation)
        total, length, terminated, truncated = 0.0, 0, False, False
        while not (terminated or truncated):
            action = env.action_space.sample()
            observation, reward, terminated, truncated, _ = env.step(action)
            digest.step(action, observation, reward, terminated, truncated)
            total, length = total + reward, length + 1
        rows.append({"seed": seed, "return": total, "length": length, "ended_by": "terminated"})
    assert document["episodes"] == rows
    assert document["mean_return"] == np.mean([row["return"] for row in rows])
    assert document["steps"] == sum(row["length"] for row in rows)
    assert document["trajectory_digest"] == digest.hexdigest()
    assert document["steps_per_second"] > 0


def test_run_prints_the_seed_and_the_digest(paddock):
    words = ["run", "CartPole-v1", "--episodes", "2", "--seed", "11"]
    printed, document = paddock(*words).out, paddock(*words, "--json").document
    assert "seed 11" in printed
    assert document["trajectory_digest"] in printed


def test_run_shows_the_first_of_many_episodes(paddock):
    lines = paddock("run", "CartPole-v1", "--episodes", "30", "--max-episode-steps", "2").out.splitlines()
    assert sum(line.endswith("truncated") for line in lines) == 20
    assert "and 10 more episodes (--json has all)" in lines


def test_run_takes_arguments_of_the_environment_and_writes_a_trace(paddock, tmp_path):
    from paddock.record.trace import TraceReader

    trace = tmp_path / "run.jsonl"
    words = (
        "run",
        "CartPole-v1",
        "--kwargs",
        '{"sutton_barto_reward": true}',
        "--episodes",
        "2",
        "--trace",
        str(trace),
    )
    document = paddock(*words, "--json").document
    assert [episode["return"] for episode in document["episodes"]] == [-1.0, -1.0]
    read = list(TraceReader(trace))
    assert [(episode.seed, episode.total_return) for episode in read] == [(0, -1.0), (1, -1.0)]
    assert read[0].spec.kwargs["sutton_barto_reward"] is True
    again = paddock(*words)
    assert (again.code, "is not overwritten" in again.err) == (2, True)


@pytest.mark.parametrize("text", ["{", "[1]", "7"])
def test_kwargs_are_a_json_object(paddock, text):
    assert paddock("run", "CartPole-v1", "--kwargs", text).code == 2


def test_run_with_a_limit_ends_an_endless_environment(paddock, hostile_ids):
    document = paddock("run", "bad/Endless-v0", "--max-episode-steps", "4", "--json").document
    assert document["episodes"] == [{"seed": 0, "return": 4.0, "length": 4, "ended_by": "truncated"}]


def test_run_without_canonical_bytes_says_why_there_is_no_digest(paddock, hostile_ids):
    found = paddock("run", "bad/NoDigest-v0", "--json")
    assert (found.code, found.document["trajectory_digest"]) == (0, None)
    assert "has no canonical bytes" in found.document["no_digest"]
    assert "none: value is an object" in paddock("run", "bad/NoDigest-v0").out


def test_check_finds_and_fails(paddock, hostile_ids):
    found = paddock("check", "bad/Outside-v0")
    assert found.code == 1
    assert "error PD017 observation-outside: " in found.out
    assert "\n  fix: " in found.out
    document = paddock("check", "bad/Outside-v0", "--json").document
    assert document["ok"] is False
    assert "PD017" in {finding["code"] for finding in document["findings"]}
    sarif = paddock("check", "bad/Outside-v0", "--sarif")
    assert (sarif.code, sarif.document["version"]) == (1, "2.1.0")
    assert "PD017" in {result["ruleId"] for result in sarif.document["runs"][0]["results"]}


def test_check_warnings_do_not_fail(paddock):
    found = paddock("check", "CartPole-v1", "--sarif")
    assert found.code == 0
    assert all(result["level"] != "error" for result in found.document["runs"][0]["results"])


@pytest.mark.process
def test_doctor_reports_what_is_missing(paddock, monkeypatch):
    monkeypatch.setattr(doctor, "BASE", ("numpy", "no-such-distribution"))
    monkeypatch.setitem(
        doctor.EXTRAS, "fast", doctor.Extra("speed", "no_such_module", ("no-such-distribution",), "a-package")
    )
    plant(monkeypatch, ("\x1b[31m", "a:b"))
    found, document = paddock("doctor"), paddock("doctor", "--json")
    assert (found.code, document.code) == (1, 1)
    assert "no: pip install a-package" in found.out
    assert document.document["dependencies"]["no-such-distribution"] is None
    assert document.document["extras"]["fast"]["installed"] is False
    assert len(document.document["problems"]) == 2
    assert "problem: plugin '\\x1b[31m'" in found.out


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's: they run on Linux only")
def test_doctor_says_what_is_visible_behind_the_wall(paddock):
    visible = paddock("doctor", "--json").document["isolation"]["machine"]["visible"]
    executable = os.path.realpath(sys._base_executable)
    assert any(os.path.commonpath([one, executable]) == one for one in visible)
    assert sys.base_prefix not in visible and os.path.expanduser("~") not in visible
    assert f"visible inside        {visible[0]}, " in paddock("doctor").out


@pytest.mark.process
def test_doctor_knows_the_versions(paddock):
    document = paddock("doctor", "--json").document
    assert document["dependencies"]["numpy"] == np.__version__
    assert document["environments"]["built_in"] >= 2


def test_modules_in_the_working_folder_can_be_targets(paddock, tmp_path, monkeypatch):
    import sys

    (tmp_path / "maze_in_this_folder.py").write_text(
        "import paddock\nfrom tests.toys import Counter\npaddock.register('Maze-v0', Counter)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    found = paddock("run", "maze_in_this_folder:Maze-v0", "--isolation", "none", "--json")
    assert found.document["episodes"][0]["length"] == 5
    assert "maze_in_this_folder:Maze-v0 runs in this process and may do all that you may (isolation none)" in found.err
    # Last in the search: a file here can't stand in for an installed module.
    assert sys.path[-1] == str(tmp_path)


def test_explain_looks_for_modules_in_the_working_folder(paddock, tmp_path, monkeypatch):
    import sys

    (tmp_path / "maze_to_explain.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    document = paddock("explain", "maze_to_explain:Maze-v0", "--isolation", "sandbox", "--json").document
    seen = [row["how"] for row in document["plan"] if row["what"] == "sees"]
    assert any(how.startswith(str(tmp_path / "maze_to_explain.py")) for how in seen)


def test_json_of_a_mistake_is_one_document_too(paddock):
    found = paddock("run", "CartPol-v1", "--json")
    assert found.code == 2
    assert json.loads(found.out)["error"]["code"] == "NAME_NOT_FOUND"


def test_info_tells_what_the_table_of_families_knows(paddock, monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: module == "gymnasium")
    for id, family in (("LunarLander-v3", "Box2D"), ("ALE/Pong-v5", "Atari"), ("dm_control:a/b", "dm_control")):
        document = paddock("info", id, "--json").document
        assert (document["id"], document["family"], document["installed"]) == (id, family, False)
        assert document["install"].startswith("pip install ")
        assert document["spec_and_spaces"] == f"paddock info --make {id}"
    assert "pip install gymnasium box2d pygame-ce" in paddock("info", "LunarLander-v3").out


def test_list_shows_every_family(paddock):
    from paddock.sources.families import FAMILIES, LIBRARIES

    text = paddock("list").out
    assert all(one.name in text for one in (*FAMILIES, *(one for each in LIBRARIES.values() for one in each)))


class Masked(Counter):
    """Raises when it is given what its last info did not allow: each time one action is allowed, the next one."""

    def _allowed(self):
        return {"action_mask": np.eye(3, dtype=np.int8)[self.count % 3]}

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], self._allowed()

    def step(self, action):
        if action != self.count % 3:
            raise ValueError(f"{action} is not allowed")
        return (*super().step(action)[:4], self._allowed())


def test_random_actions_keep_to_the_mask(paddock):
    import paddock as package

    package.register("me/Masked-v0", Masked, max_episode_steps=40)
    assert paddock("run", "me/Masked-v0", "--episodes", "3").code == 0
    checked = paddock("check", "me/Masked-v0")
    assert checked.code == 0, checked.out
