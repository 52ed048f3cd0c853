"""The workflows of continuous integration have no more rights than they need. Read as text: no YAML parser needed."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOAK = re.compile(r"""mark\.soak\(part="(\w+)"\)""")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def workflow(request):
    return request.param.read_text()


def test_workflow_may_only_read(workflow):
    assert re.search(r"^permissions:\n  contents: read\n", workflow, re.MULTILINE)
    assert "write" not in re.findall(r"^\s+[a-z-]+: (\w+)$", workflow, re.MULTILINE)


def test_actions_are_pinned_by_commit(workflow):
    actions = re.findall(r"uses: (\S+)", workflow)
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


def test_checkout_keeps_no_credentials(workflow):
    checkouts = re.findall(r"uses: actions/checkout@.*\n +with:\n((?: {10,}.*\n)+)", workflow)
    assert len(checkouts) == workflow.count("actions/checkout@")
    assert all("persist-credentials: false" in options for options in checkouts)


def test_strangers_pull_requests_never_run_with_our_rights(workflow):
    assert "pull_request_target" not in workflow


def test_text_from_outside_never_becomes_a_command(workflow):
    commands = re.findall(r"run: (.*)", workflow)
    assert [command for command in commands if "${{" in command] == []


def test_tests_run_on_every_python_that_we_support():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    (versions,) = re.findall(r"python: \[(.*)\]", workflow)
    assert versions == '"3.10", "3.11", "3.12", "3.13", "3.14"'
    assert "run: .ci/run" in workflow


@pytest.mark.process
def test_ci_is_the_commands_that_a_developer_runs():
    text = (ROOT / ".ci" / "run").read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert [line.split(" <")[0] for line in text.splitlines() if line.startswith("make ")] == [
        "make check",
        "make test",
        "make test-peers",
    ]
    subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=True, timeout=10)


def test_all_attacks_run_on_every_change_of_what_they_attack():
    workflow = (ROOT / ".github" / "workflows" / "hostile.yml").read_text()
    for event in ("push", "pull_request"):
        (paths,) = re.findall(
            rf"^  {event}:\n(?:    branches: .*\n)?    paths:\n((?:      - .*\n)+)", workflow, re.MULTILINE
        )
        for package in ("sandbox", "hosting", "server", "bench/hostile"):
            assert f"- src/paddock/{package}/**\n" in paths
    assert "make hostile" in workflow
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r'^hostile: .*\n\tPADDOCK_WALLS=needed .* -m "not soak" tests/hostile$', makefile, re.MULTILINE)


def test_parts_of_the_soak_are_those_of_the_makefile_and_of_the_page():
    used = {part for path in (ROOT / "tests").rglob("test_*.py") for part in SOAK.findall(path.read_text())}
    (listed,) = re.findall(r"^SOAK := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(listed.split()) == used
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert [part for part in used if f"| `{part}` |" not in page] == []


@pytest.mark.process
def test_unknown_part_of_the_soak_is_answered_with_those_there_are():
    done = subprocess.run(["make", "-n", "soak", "PART=nonsense"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "There is no part 'nonsense'. There are: kills" in done.stderr
