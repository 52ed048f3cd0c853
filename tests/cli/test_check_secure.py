"""``paddock check`` and the rules of docs/secure-environments.md: folders, modules, --strict, SARIF."""

import sys
from pathlib import Path

import pytest

MANIFEST = """
[package]
name = "maze"
version = "1.0"
[[env]]
id = "Maze-v0"
entry = "maze_env_of_a_folder:Maze"
[permissions]
{permissions}
"""
SOURCE = """
import time
import paddock

class Maze(paddock.Env):
    observation_space = paddock.spaces.Discrete(3)
    action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return int(self.np_random.integers(3)), {}

    def step(self, action):
        time.sleep(0)
        return 0, 0.0, False, False, {}

paddock.register("Maze-v0", "%s:Maze", max_episode_steps=9, replace=True)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """``folder()``: ./maze, a package whose module must not be imported here."""
    monkeypatch.chdir(tmp_path)

    def write(permissions="", source=SOURCE % "maze_env_of_a_folder"):
        place = tmp_path / "maze"
        place.mkdir()
        (place / "maze_env_of_a_folder.py").write_text(source)
        (place / "paddock.toml").write_text(MANIFEST.format(permissions=permissions))
        return "./maze"

    yield write
    assert "maze_env_of_a_folder" not in sys.modules


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The id of a module in the working folder."""
    (tmp_path / "maze_of_this_folder.py").write_text(SOURCE % "maze_of_this_folder")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    yield "maze_of_this_folder:Maze-v0"
    sys.modules.pop("maze_of_this_folder", None)


# More than the default, and nobody granted it: only the source can be looked at, on every machine.
UNGRANTED = "hosts = ['a.example:443']"


def test_source_of_a_folder_that_can_not_run_is_looked_at(paddock, folder):
    found = paddock("check", folder(UNGRANTED))
    assert found.code == 0
    assert "warning SEC014 waits: maze/maze_env_of_a_folder.py:14: uses time.sleep." in found.out
    assert "warning SEC021 permission-unused: paddock.toml: permissions: hosts" in found.out
    assert "only the source was checked: " in found.err and "on the command line with --grant" in found.err
    assert found.out.splitlines()[-1] == "./maze: source only: 2 warnings"


def test_url_is_refused_with_the_way_to_check_what_it_serves(paddock):
    found = paddock("check", "http://127.0.0.1:9/CartPole-v1")
    assert found.code == 2 and "Check its id, module or folder there." in found.err


def test_strict_fails_on_warnings(paddock, folder):
    assert paddock("check", folder(UNGRANTED), "--strict").code == 1


def test_strict_passes_without_warnings(paddock, folder):
    source = "import requests\n\ndef f(x):\n    return requests.get(x, timeout=3)\n"
    found = paddock("check", folder(UNGRANTED, source), "--strict")
    assert found.code == 0
    assert found.out.endswith(": source only: no problems found\n")


def test_sarif_names_file_and_line(paddock, folder):
    results = paddock("check", folder(UNGRANTED), "--sarif").document["runs"][0]["results"]
    places = {result["ruleId"]: result["locations"][0]["physicalLocation"] for result in results}
    assert places["SEC014"] == {
        "artifactLocation": {"uri": "maze/maze_env_of_a_folder.py"},
        "region": {"startLine": 14},
    }


def test_json_has_file_and_line(paddock, folder):
    findings = paddock("check", folder(UNGRANTED), "--json").document["findings"]
    (found,) = [finding for finding in findings if finding["code"] == "SEC014"]
    assert (found["file"], found["line"]) == ("maze/maze_env_of_a_folder.py", 14)


def test_file_and_line_of_what_was_raised_are_fields_too(paddock, module):
    raising = SOURCE.replace("time.sleep(0)", "1 / 0") % "maze_of_this_folder"
    Path("maze_of_this_folder.py").write_text(raising)
    (found,) = paddock("check", module, "--json").document["findings"]
    assert (found["code"], found["file"], found["line"]) == ("PD039", "maze_of_this_folder.py", 14)
    (result,) = paddock("check", module, "--sarif").document["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "maze_of_this_folder.py"},
        "region": {"startLine": 14},
    }


def test_folder_without_a_manifest(paddock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maze").mkdir()
    found = paddock("check", "./maze")
    assert found.code == 0
    assert "warning SEC020 no-manifest: ./maze has no paddock.toml." in found.out


def test_invalid_manifest_is_a_mistake(paddock, folder):
    found = paddock("check", folder("root = true"))
    assert found.code == 2
    assert "There is no permission 'root'" in found.err


def test_module_is_run_and_its_source_read(paddock, module):
    found = paddock("check", module)
    assert found.code == 0
    assert "warning SEC014 waits: maze_of_this_folder.py:14: uses time.sleep." in found.out
    assert paddock("check", module, "--strict").code == 1


@pytest.mark.process
def test_folder_runs_behind_the_wall_and_keeps_the_rules_of_the_api(paddock, folder, walled):
    found = paddock("check", folder())
    assert (found.code, found.err) == (0, WALLED)
    assert [line.split()[1] for line in found.out.splitlines() if line.startswith(("warning", "error"))] == ["SEC014"]


@pytest.mark.process
def test_reward_outside_its_range_is_told_though_the_wall_stops_the_environment(paddock, folder, walled):
    found = paddock("check", folder("reward_range = [-2, -1]"))
    assert found.code == 1
    assert "warning SEC030 reward-outside: reward: 0.0 is not " in found.out


@pytest.mark.process
def test_grant_runs_a_folder_that_asks_for_more(paddock, folder, walled):
    found = paddock("check", folder("processes = 2"), "--grant")
    assert (found.code, found.err) == (0, WALLED)
    assert "SEC021" in found.out


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "`env.step()` raised ZeroDivisionError('division by zero') at {place}/maze_env_of_a_folder.py:15."),
        ("import os; os._exit(3)", "`env.step()`: The worker process"),
        ("import absent_one", "`env.step()` raised ModuleNotFoundError(\"No module named 'absent_one'\") at {place}"),
        ("print('a\\nb')", "PD040 prints: `env.step()` prints 2 lines per step."),
        ("return 0, float('nan'), False, False, {{}}", "error PD033 reward-not-finite: `env.step()`: reward: nan is"),
        (
            "return 0, __import__('numpy').ones(1), False, False, {{}}",
            "error PD032 reward-type: `env.step()`: reward: ",
        ),
        ("return 10**6, 0.0, False, False, {{}}", "error PD017 observation-outside: `env.step()`: observation: 1"),
    ],
    ids=["raises", "exits", "imports", "prints", "nan", "array", "outside"],
)
def test_what_happens_behind_the_wall_is_told_with_its_place(paddock, folder, walled, tmp_path, code, said):
    source = SOURCE.replace("        return 0, 0.0", f"        {code.format()}\n        return 0, 0.0")
    found = paddock("check", folder(source=source % "maze_env_of_a_folder"))
    assert said.format(place=tmp_path / "maze") in found.out
    assert "src/paddock" not in found.out
    assert found.code == (0 if "print" in code else 1)
    assert "SEC030" not in found.out  # the range is not what is wrong
    if "_exit" in code:
        assert "exited with code 3." in found.out
        assert "file and line" not in found.out and "fix: Look in that call for what ends a process" in found.out


WALLED = "paddock: ./maze runs behind the wall (isolation sandbox)\n"
PRINTS = SOURCE.replace("        return 0, 0.0", "        print('\\x1b[31mowned')\n        return 0, 0.0")


@pytest.mark.process
def test_what_is_printed_behind_the_wall_is_shown_escaped_and_bounded(paddock, folder, walled):
    target = folder("output_kb = 1", PRINTS % "maze_env_of_a_folder")
    assert paddock("run", target, "--max-episode-steps", "3").err == WALLED + "\\x1b[31mowned\n" * 3
    assert "more bytes were thrown away]" in paddock("run", target, "--max-episode-steps", "200").err
    checked = paddock("check", target).err.splitlines()
    assert checked[1:20] == ["\\x1b[31mowned"] * 19
    assert "more lines that the environment printed)" in checked[20]
    assert len(checked) == 21


@pytest.mark.process
def test_what_is_printed_before_making_fails_is_shown(paddock, folder, walled):
    found = paddock("run", folder(source="print('\\x1b[31mowned')\n1 / 0\n"))
    assert found.code == 1
    assert found.err.startswith("\\x1b[31mowned\n")


@pytest.mark.process
def test_what_is_printed_in_a_process_of_its_own_is_escaped(paddock, module):
    Path("maze_of_this_folder.py").write_text(PRINTS % "maze_of_this_folder")
    found = paddock("run", module, "--isolation", "process")
    assert (found.code, found.err.count("\\x1b[31mowned\n")) == (0, 9)


@pytest.mark.process
def test_missing_package_is_named_with_the_line_that_wants_it(paddock, folder, walled, tmp_path):
    found = paddock("run", folder(source="import absent_one\n" + SOURCE % "maze_env_of_a_folder"))
    assert found.code == 2
    assert f"No module named 'absent_one' at {tmp_path}/maze/maze_env_of_a_folder.py:1. Install it for" in found.err


def test_folder_with_several_says_how_to_name_one(paddock, folder):
    place = folder()
    with Path(place, "paddock.toml").open("a") as manifest:
        manifest.write("[[env]]\nid = 'Other-v0'\nentry = 'maze_env_of_a_folder:Maze'\n")
    for target in ("./maze", "./maze:Nope-v0"):
        assert "There are: Maze-v0, Other-v0. The target is then ./maze:Maze-v0." in paddock("run", target).err
    assert "The target is then ./maze:Maze-v0." in paddock("check", "./maze:Nope-v0").err
    assert "./maze:Maze-v0" in paddock("check", "--help").out


@pytest.mark.process
def test_findings_of_a_folder_with_several_name_the_environment(paddock, folder, walled):
    place = folder(source=(SOURCE % "maze_env_of_a_folder").replace("time.sleep(0)", "1 / 0"))
    with Path(place, "paddock.toml").open("a") as manifest:
        manifest.write("[[env]]\nid = 'Other-v0'\nentry = 'maze_env_of_a_folder:Maze'\n")
    place = {"artifactLocation": {"uri": "maze/maze_env_of_a_folder.py"}, "region": {"startLine": 14}}
    results = paddock("check", "./maze", "--sarif").document["runs"][0]["results"]
    assert [result["locations"] for result in results] == [
        [{"physicalLocation": place, "logicalLocations": [{"name": id, "kind": "object"}]}]
        for id in ("Maze-v0", "Other-v0")
    ]


def test_module_says_what_it_registers(paddock, module):
    name = module.partition(":")[0]
    said = f"{name} registers: Maze-v0. Name one, as {name}:Maze-v0."
    for words in (
        ["check", f"{name}:Maze"],
        ["check", f"{name}:Mase"],
        ["run", f"{name}.py"],
        ["check", f"./{name}.py"],
    ):
        found = paddock(*words)
        if words[1] != f"{name}:Maze":  # without a version it is the newest
            assert (found.code, found.err.rstrip().endswith(said)) == (2, True)


def test_file_with_an_id_is_told_as_its_module(paddock, module):
    with Path("maze_of_this_folder.py").open("a") as file:
        file.write("paddock.register('me/Good-v0', 'maze_of_this_folder:Maze')\n")
        file.write("paddock.register('a/First-v0', 'maze_of_this_folder:Maze')\n")
    for words in (["run", "maze_of_this_folder.py:Good"], ["check", "./maze_of_this_folder.py:me/Good-v0"]):
        found = paddock(*words)
        assert found.code == 2
        assert found.err.endswith("Name one, as maze_of_this_folder:me/Good-v0.\n")


def test_file_of_a_folder_with_a_manifest_is_told_as_the_folder(paddock, folder, monkeypatch):
    folder()
    for words in (["run", "maze/maze_env_of_a_folder.py"], ["check", "./maze/maze_env_of_a_folder.py:Maze-v0"]):
        found = paddock(*words)
        assert (found.code, found.err.endswith("which has a paddock.toml: ./maze\n")) == (2, True)
    monkeypatch.chdir("maze")
    assert paddock("run", "maze_env_of_a_folder.py").err.endswith("which has a paddock.toml: .\n")


def test_draw_is_told_once_under_its_name(paddock, folder):
    draw = "import numpy as np\n" + SOURCE.replace("time.sleep(0)", "np.random.uniform(-1, 1, 3).astype(np.float32)")
    found = paddock("check", folder(UNGRANTED, draw % "maze_env_of_a_folder"))
    assert [line.rpartition(": ")[2] for line in found.out.splitlines() if "SEC007" in line] == [
        "draws from numpy.random.uniform."
    ]


def test_grant_is_for_folders(paddock):
    assert paddock("check", "CartPole-v1", "--grant").code == 2


def test_built_in_environments_are_not_read(paddock):
    assert "SEC" not in paddock("check", "CartPole-v1").out
