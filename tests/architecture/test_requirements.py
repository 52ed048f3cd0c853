"""docs/requirements.md stays whole and true: every requirement once, every path that it names there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAST = 267
STATUS = re.compile(r"shown|partly|not yet|not applicable: .+")
FOLDERS = ("tests/", "docs/", "benchmarks/", "examples/", "scripts/", ".github/", ".ci/")


def rows(text):
    """(id, words, status, shown by) of each line of the tables."""
    cells = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    )
    return [row for row in cells if re.fullmatch(r"S\d+", row[0])]


def paths(evidence):
    """The files and folders of this repository that a cell names, a test's own name (`file.py::test`) left off."""
    names = (name.split("::")[0] for name in re.findall(r"`([^`]+)`", evidence))
    return [name for name in names if name.startswith(FOLDERS) or name == "Makefile" or name.endswith(".md")]


@pytest.fixture(scope="module")
def table():
    return rows((ROOT / "docs" / "requirements.md").read_text())


def test_every_requirement_has_exactly_one_row(table):
    assert [row[0] for row in table] == [f"S{number}" for number in range(1, LAST + 1)]


def test_every_row_is_complete(table):
    assert [row for row in table if len(row) != 4 or not row[1]] == []


def test_every_status_is_one_of_the_four(table):
    assert [row for row in table if not STATUS.fullmatch(row[2])] == []


def test_every_row_that_claims_something_names_what_shows_it(table):
    assert [row for row in table if row[2] in ("shown", "partly") and not paths(row[3])] == []


def test_every_path_named_as_evidence_exists(table):
    claimed = (path for row in table if row[2] in ("shown", "partly") for path in paths(row[3]))
    assert [path for path in claimed if not (ROOT / path).exists()] == []


def test_tests_named_as_evidence_exist(table):
    named = (name.split("::") for row in table for name in re.findall(r"`(tests/[^`]+::[^`]+)`", row[3]))
    assert [(file, test) for file, test in named if f"def {test}(" not in (ROOT / file).read_text()] == []


def test_planted_row_is_read_and_its_path_found():
    (row,) = rows("| id | x |\n|---|---|\n| S9 | words | shown | `tests/a.py::test_b`, `SECURITY.md`, `py.typed` |")
    assert row[0] == "S9"
    assert paths(row[3]) == ["tests/a.py", "SECURITY.md"]
