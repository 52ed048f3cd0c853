"""``paddock audit`` and ``log``, and what ``info`` says of where an id comes from."""

import textwrap

import pytest

from paddock.testing.rules import AUDIT_RULES, SECURE_RULES
from paddock.trust.log import add_to_log, log_path

MANIFEST = """
[package]
name = "acme/maze"
version = "1.0"
[[env]]
id = "Maze-v0"
entry = "maze_env:Maze"
{env}
[dependencies]
{dependencies}
"""
SOURCE = """
import numpy as np
import paddock
{imports}

class Maze(paddock.Env):
    observation_space = paddock.spaces.Box(-1e12, 1e12, (1,), np.float64)
    action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([{value}]), {{}}

    def step(self, action):
        return np.array([{value}]), 0.0, False, False, {{}}
"""
PLAIN = "self.np_random.random()"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """``folder(value=…, imports=…)``: ./maze, whose observations are this expression."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    (tmp_path / "maze").mkdir()

    def write(value=PLAIN, imports="", *, env="", dependencies="", files=()):
        (tmp_path / "maze" / "maze_env.py").write_text(SOURCE.format(value=value, imports=textwrap.dedent(imports)))
        (tmp_path / "maze" / "paddock.toml").write_text(MANIFEST.format(env=env, dependencies=dependencies))
        for name, text in dict(files).items():
            (tmp_path / "maze" / name).parent.mkdir(exist_ok=True)
            (tmp_path / "maze" / name).write_text(text)
        return "./maze"

    return write


def rules(found):
    return {one["rule"]: one for one in found.document["findings"]}


NOT_REPEATABLE = {
    "the hash seed": ("float(hash('maze') % 1000)", "", "hash seed"),
    "an address": ("float(id(object()) % 100000)", "", "memory addresses"),
    "the clock": ("time.time()", "import time", "looks at the clock"),
    "the day": (
        "float(datetime.date.today().toordinal())",
        "import datetime",
        "depend on the clock",
    ),
    "a stream of the process": ("random.random()", "import random", "draws from one of those"),
    "NumPy's stream": ("float(np.random.random())", "", "draws from one of those"),
    "the process": ("float(os.getpid())", "import os", "the number of its process"),
    "threads": ("float(os.environ.get('OMP_NUM_THREADS', 0))", "import os", "the number of threads"),
}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("value", "imports", "words"), NOT_REPEATABLE.values(), ids=NOT_REPEATABLE)
def test_results_that_depend_on_the_worker_are_found_with_the_cause(paddock, folder, walled, value, imports, words):
    import re

    found = paddock("audit", folder(value, imports), "--json")
    assert found.code == 1
    broken = rules(found)["not-repeatable"]
    assert (broken["code"], broken["level"], broken["environment"]) == ("AUD004", "error", "Maze-v0")
    assert re.search(words, broken["message"]), broken["message"]


@pytest.mark.process
def test_a_repeatable_package_is_clean(paddock, folder, walled):
    found = paddock("audit", folder(), "--strict")
    assert (found.code, found.out) == (0, "./maze: no problems found\n")


@pytest.fixture
def release(paddock, folder):
    """``release(value=…)``: the signed file of the package that ``folder`` writes."""

    def make(*words, **options):
        folder(*words, **options)
        for command in (
            ["pack", "./maze", "--no-spaces", "-o", "maze.pad"],
            ["keygen"],
            ["sign", "maze.pad"],
        ):
            assert paddock(*command).code == 0
        return "maze.pad"

    return make


@pytest.mark.process
@pytest.mark.parametrize("installed", [False, True], ids=["file", "installed"])
def test_a_sound_package_is_clean_in_its_file_and_installed(paddock, release, walled, installed):
    name = release(env='[[env]]\nid = "Other-v0"\nentry = "maze_env:Maze"')
    if installed:
        assert paddock("install", name, "--yes").code == 0
        name = "acme/maze@1"
    found = paddock("audit", name, "--strict")
    assert (found.code, found.out, found.err) == (0, f"{name}: no problems found\n", "")
    assert paddock("audit", name, "--json").document["ran"] is True


@pytest.mark.process
def test_an_unsound_package_is_found_in_its_file_and_installed(paddock, release, walled):
    release("float(os.getpid())", "import os\ntry:\n    import absent_library\nexcept ImportError:\n    pass")
    assert paddock("install", "maze.pad", "--yes").code == 0
    for name in ("maze.pad", "acme/maze@1.0"):
        found = paddock("audit", name, "--json")
        assert (found.code, found.document["ran"]) == (1, True)
        assert {"not-repeatable", "undeclared-import"} <= rules(found).keys()


@pytest.mark.process
def test_an_installed_package_is_played_with_what_was_granted(paddock, release, walled):
    release(env="[permissions]\ndescriptors = 4000")
    assert paddock("install", "maze.pad", "--yes").code == 0
    found = paddock("audit", "acme/maze@1.0", "--json")
    assert (found.code, found.document["ran"]) == (0, True)


@pytest.mark.process
def test_an_environment_that_fails_is_a_finding(paddock, folder, walled):
    found = paddock("audit", folder("1 / 0"), "--json")
    assert (found.code, found.document["ran"]) == (1, False)
    assert "ZeroDivisionError" in rules(found)["env-raised"]["message"]


@pytest.mark.process
def test_what_is_declared_to_vary_is_not_compared(paddock, folder, walled):
    found = paddock("audit", folder("time.time()", "import time", env="deterministic = false"), "--json")
    assert (found.code, "not-repeatable" in rules(found)) == (0, False)


VARIES = {"env": "deterministic = false"}  # nothing is run: quicker
LOCK = f"numpy==2.1.0 --hash=sha256:{'0' * 64}\n"


@pytest.mark.parametrize(
    ("options", "rule", "words"),
    [
        ({"imports": "import requests"}, "undeclared-import", "maze/maze_env.py:4: imports requests"),
        ({"imports": "from yaml import safe_load"}, "undeclared-import", "imports yaml"),
        ({"imports": "import importlib\nimportlib.import_module('torch.nn')"}, "undeclared-import", "imports torch"),
        ({"dependencies": 'scipy = "*"'}, "dependency-unpinned", "there is no lock/requirements.txt"),
        ({"dependencies": 'scipy = "*"', "files": {"lock/requirements.txt": LOCK}}, "dependency-unpinned", "not lock"),
        ({"files": {"evil.pth": "import evil"}}, "runs-unasked", "evil.pth"),
        ({"files": {"setup.py": ""}}, "runs-unasked", "setup.py"),
        ({"files": {"sub/sitecustomize.py": ""}}, "runs-unasked", "sub/sitecustomize.py"),
        ({"imports": "import subprocess\nsubprocess.run(['ls'])"}, "starts-processes", "subprocess"),
    ],
)
def test_what_a_package_does_not_declare_is_found(paddock, folder, options, rule, words):
    found = paddock("audit", folder(**VARIES, **options), "--json")
    assert found.code == 0
    assert words in rules(found)[rule]["message"]
    assert paddock("audit", "./maze", "--strict").code == 1


@pytest.mark.parametrize(
    "options",
    [
        {"imports": "import numpy, json, msgspec"},
        {"imports": "from maze_parts import walls", "files": {"maze_parts.py": "walls = 3"}},
        {"imports": "from yaml import safe_load", "dependencies": 'PyYAML = "==6.0"'},
        {"imports": "import typing\nif typing.TYPE_CHECKING:\n    import torch"},
        {"files": {"tests/test_maze.py": "import pytest"}},
    ],
)
def test_what_is_declared_or_comes_along_is_not_found(paddock, folder, options):
    options = {"files": {"lock/requirements.txt": LOCK.replace("numpy==2.1.0", "pyyaml==6.0")}} | options
    found = paddock("audit", folder(**VARIES, **options), "--json")
    assert "undeclared-import" not in rules(found)


@pytest.mark.process
def test_sarif_has_the_rules_of_the_audit(paddock, folder, walled):
    found = paddock("audit", folder("float(os.getpid())", "import os"), "--sarif")
    (run,) = found.document["runs"]
    assert {"AUD001", "AUD004"} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert any(result["ruleId"] == "AUD004" for result in run["results"])


def test_page_lists_the_rules_of_the_audit(request):
    page = (request.config.rootpath / "docs" / "secure-environments.md").read_text()
    rows = [f"| {rule.code} | {rule.name} | {rule.meaning} | {rule.fix} |" for rule in AUDIT_RULES]
    assert "\n".join([*rows, ""]) in page
    assert {rule.name for rule in AUDIT_RULES} & {rule.name for rule in SECURE_RULES} == set()


def test_what_is_not_a_package_is_a_mistake(paddock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.pad").write_bytes(b"PK\x05\x06" + bytes(18))
    for target in ("CartPole-v1", "./nothing", "acme/none@1.0", "bad.pad"):
        found = paddock("audit", target)
        assert found.code == 2 and found.err.startswith("paddock: error: ")


def test_log_shows_checks_and_names_what_was_changed(paddock, folder):
    assert "lines  0" in paddock("log").out
    for number in range(3):
        add_to_log("override", id=f"me/Maze-v{number}", before="\x1b[31m", now="b:C")
    found = paddock("log", "--last", "1")
    assert (found.code, "me/Maze-v2" in found.out, "me/Maze-v1" in found.out) == (0, True, False)
    told = paddock("log", "--json").document
    assert (told["lines"], told["broken"], told["entries"][-1]["digest"]) == (3, None, told["head"])
    assert paddock("log", "--verify", "--json").document["entries"] == []
    log_path().write_bytes(log_path().read_bytes().replace(b"Maze-v1", b"Maze-v9"))
    found = paddock("log", "--verify")
    assert found.code == 1
    assert "line 3 does not follow the line before it" in found.err


def test_info_says_where_an_id_comes_from(paddock, folder):
    facts = paddock("info", "CartPole-v1", "--json").document
    assert facts["package"].startswith("paddock ")
    assert facts["module"] == "paddock.envs.classic_control.cartpole"
    assert (facts["key"], facts["isolation"]) == ("none: it comes with paddock", "none")
    facts = paddock("info", folder(), "--json").document
    assert (facts["module"], facts["isolation"], facts["key"]) == ("maze_env", "sandbox", "none: not signed")
    assert facts["file"].endswith("maze/maze_env.py")
    assert len(facts["digest"]) == 64
