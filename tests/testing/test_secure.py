"""The rules of docs/secure-environments.md: each has sources or an environment that break it, and some that do not."""

import sys

import numpy as np
import pytest

import paddock
from paddock.sandbox.policy import Policy
from paddock.testing.rules import RULES
from paddock.testing.secure import SECURE_RULES, find_at_run_time, find_in_folder, find_in_module
from tests.testing.insecure import BAD, GOOD, GOOD_SOURCE, Case

MANIFEST = """
[package]
name = "maze"
version = "1.0"
[[env]]
id = "Maze-v0"
entry = "maze_env:Maze"
{env}
[permissions]
{permissions}
"""
RUN_TIME = {"reward-outside", "info-refused", "info-tells"}
WITHOUT_SOURCE = {"no-manifest", *RUN_TIME} - set(BAD)
CODES = {rule.name: rule.code for rule in SECURE_RULES}


def cases(table):
    return [
        pytest.param(rule, case, id=f"{rule}-{at}") for rule, found in table.items() for at, case in enumerate(found)
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """``folder(case)``: ./maze with this source and manifest."""
    monkeypatch.chdir(tmp_path)

    def write(case, *, manifest=True):
        place = tmp_path / "maze"
        place.mkdir()
        (place / "maze_env.py").write_text(case.source)
        if manifest:
            (place / "paddock.toml").write_text(MANIFEST.format(env=case.env, permissions=case.permissions))
        return "./maze"

    yield write
    assert "maze_env" not in sys.modules


def test_every_rule_is_tried_both_ways():
    assert set(BAD) == set(GOOD)
    assert set(BAD) | WITHOUT_SOURCE == set(CODES)


def test_codes_are_unique_and_in_order():
    codes = [rule.code for rule in SECURE_RULES]
    assert codes == sorted(set(codes))
    assert all(rule.level == "warning" for rule in SECURE_RULES)
    assert {rule.name for rule in SECURE_RULES} & {rule.name for rule in RULES} == set()


def test_page_lists_the_rules(request):
    page = request.config.rootpath / "docs" / "secure-environments.md"
    head = ["| code | rule | what is wrong | how to fix it |", "|---|---|---|---|"]
    rows = [f"| {rule.code} | {rule.name} | {rule.meaning} | {rule.fix} |" for rule in SECURE_RULES]
    assert "\n".join([*head, *rows, ""]) in page.read_text()


@pytest.mark.parametrize(("rule", "case"), cases(BAD))
def test_bad_source_is_found_by_its_rule(folder, rule, case):
    found = [finding for finding in find_in_folder(folder(case)) if finding.rule == rule]
    assert found
    assert {(finding.code, finding.level) for finding in found} == {(CODES[rule], "warning")}
    assert all(finding.file in ("maze/maze_env.py", "paddock.toml") for finding in found)
    assert all(finding.message.isprintable() for finding in found)


@pytest.mark.parametrize(("rule", "case"), cases(GOOD))
def test_good_source_passes_its_rule(folder, rule, case):
    assert [finding for finding in find_in_folder(folder(case)) if finding.rule == rule] == []


def test_good_package_breaks_no_rule(folder):
    assert find_in_folder(folder(Case(GOOD_SOURCE))) == []


def test_finding_names_file_and_lines_once(folder):
    (found,) = find_in_folder(folder(Case("import time\n\ndef f():\n    time.sleep(1)\n    time.sleep(2)\n")))
    assert found.message == "maze/maze_env.py:4: uses time.sleep. (also line 5)"
    assert (found.file, found.line) == ("maze/maze_env.py", 4)


def test_secret_itself_is_never_shown(folder):
    found = find_in_folder(folder(Case("api_key = 'q8w7e6r5t4y3'\n", "variables = { API_TOKEN = 'z9x8c7v6b5n4' }")))
    told = "".join(map(str, found))
    assert "api_key" in told
    assert "q8w7" not in told
    assert "z9x8" not in told


def test_allowed_line_becomes_a_note(folder):
    source = "import time\n\ndef f():\n    time.sleep(1)  # paddock: allow SEC014 for the motor\n    time.sleep(2)\n"
    found = {finding.line: finding for finding in find_in_folder(folder(Case(source)))}
    assert (found[4].level, found[5].level) == ("note", "warning")
    assert "which the author allows there" in found[4].message


def test_allowing_one_rule_allows_no_other(folder):
    (found,) = find_in_folder(folder(Case("def f():\n    input()  # paddock: allow SEC001\n")))
    assert (found.code, found.level) == ("SEC014", "warning")


def test_folder_without_a_manifest_is_told_and_read(folder):
    found = find_in_folder(folder(Case("def f(x):\n    eval(x)\n"), manifest=False))
    assert [finding.code for finding in found] == ["SEC020", "SEC003"]


def test_compiled_files_links_and_many_files_are_told(folder, tmp_path, monkeypatch):
    from paddock.testing.secure import source

    place = tmp_path / folder(Case("", env=""))
    (place / "maze_env.py").unlink()
    package = place / "maze_env"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "fast.so").write_bytes(b"\x7fELF")
    (package / "link.py").symlink_to("/etc/passwd")
    assert [f.message for f in find_in_folder("./maze")] == [
        "maze/maze_env/fast.so: it is compiled.",
        "maze/maze_env/link.py: it is a link.",
    ]
    monkeypatch.setattr(source, "MAX_FILES", 1)
    assert "there are more than 1 files" in find_in_folder("./maze")[-1].message


def test_module_is_read_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "planted_canary"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "part.py").write_text("def f(x):\n    eval(x)\n")
    (package / "other.py").write_text("def f(x):\n    input()\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [f.code for f in find_in_module("planted_canary.part")] == ["SEC003"]
    assert [f.code for f in find_in_module("planted_canary")] == ["SEC014", "SEC003"]
    assert find_in_module("no_such_module_anywhere") == []
    assert "planted_canary" not in sys.modules


class Speaks(paddock.Env):
    """Returns what it was made with."""

    observation_space = paddock.spaces.Discrete(1)
    action_space = paddock.spaces.Discrete(2)

    def __init__(self, reward=0.0, info=None, fails=False):
        self.reward, self.info, self.fails = reward, info or {}, fails

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        if self.fails:
            raise RuntimeError
        return 0, self.reward, True, False, self.info


@pytest.mark.parametrize(
    ("rule", "env", "policy"),
    [
        ("reward-outside", Speaks(reward=2.0), Policy(reward_range=(0, 1))),
        ("info-refused", Speaks(info={"x": object()}), Policy()),
        ("info-refused", Speaks(info={"x": np.zeros(1000)}), Policy(info_kb=1)),
        ("info-tells", Speaks(info={"deep": {"Answer": 42}}), Policy()),
    ],
)
def test_run_shows_what_breaks_a_rule(rule, env, policy):
    (found,) = find_at_run_time(env, policy, steps=3)
    assert (found.rule, found.code) == (rule, CODES[rule])


@pytest.mark.parametrize(
    ("env", "policy"),
    [
        (Speaks(reward=1.0), Policy(reward_range=(0, 1))),
        (Speaks(reward=float("nan")), Policy()),  # PD033: it is in no range
        (Speaks(info={"x": np.zeros(1000)}), Policy(info_kb=64)),
        (Speaks(info={"answered": True}), Policy()),
        (Speaks(fails=True), Policy()),
    ],
)
def test_run_of_a_good_environment_shows_nothing(env, policy):
    assert find_at_run_time(env, policy, steps=3) == []
