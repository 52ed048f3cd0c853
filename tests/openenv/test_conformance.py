"""OpenEnv's public behaviours, compared: the same programs run with the real package and with ours.

``conformance/cases.toml`` has the programs; here is what differs on purpose, and why.
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.peers import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent / "conformance"
AREAS = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
CASES = [(area, case) for area, found in AREAS.items() for case in found["cases"]]

# (area, case): what ours records, and why. docs/differences.md has them too.
SAFE_WORDS = "The environment raised ValueError (incident N)."
FIRST = {"type": "observation", "data": {"observation": {"metadata": {}, "text": "None []", "inner": None}}}
SAID_A = {"observation": {"metadata": {}, "text": "a", "inner": None}, "reward": 0.5, "done": False}


def error(message, code, **more):
    return {"type": "error", "data": {"message": message, "code": code, **more}}


NO_DICT = {"type": "dict_type", "loc": [], "msg": "Input should be a valid dictionary", "input": [1, 2]}
DIFFERENCES = {
    ("wire", "a step that fails"): (
        [
            {"type": "observation", "data": {**FIRST["data"], "reward": 0.0, "done": False}},
            error(SAFE_WORDS, "EXECUTION_ERROR"),
            {"type": "observation", "data": SAID_A},
        ],
        "the text of an exception may hold secrets: peers get the number of an incident, the log has the rest",
    ),
    ("clients", "an environment that fails"): (
        f"Server error: {SAFE_WORDS} (code: EXECUTION_ERROR)",
        "the same, as a client shows it",
    ),
    ("wire", "production has no episodes over its socket"): (
        [error("This is not permitted here.", "EXECUTION_ERROR")],
        "production is to have no reset, step and state; OpenEnv leaves them open on /ws",
    ),
    ("wire", "a list instead of a message"): (
        [error("Invalid message", "VALIDATION_ERROR", errors=[NO_DICT]), {"type": "observation", "data": SAID_A}],
        "a mistake of the client does not end its session",
    ),
    ("wire", "bytes instead of text"): (
        [
            error("Invalid JSON: expected a text message, got a binary one", "INVALID_JSON"),
            {"type": "observation", "data": SAID_A},
        ],
        "a mistake of the client does not end its session",
    ),
}
MISTAKES = {"NameError", "SyntaxError", "AttributeError", "ImportError", "IndexError"}  # in a case, not in OpenEnv


@functools.cache
def python():
    made = subprocess.run([ROOT / "scripts" / "peer", "openenv10"], capture_output=True, text=True, timeout=1800)
    assert made.returncode == 0, made.stderr[-2000:]
    return made.stdout.strip()


@functools.cache
def records(package, area):
    """What each case of the area records with this package. Both run in the same venv."""

    def named(text):
        return re.sub(r"\b(from|import) openenv\b", rf"\1 {package}", text)

    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        for file in HERE.glob("*.py"):
            Path(folder, file.name).write_text(named(file.read_text(encoding="utf-8")), encoding="utf-8")
        cases = {name: named(case) for name, case in AREAS[area]["cases"].items()}
        done = subprocess.run(
            [python(), "runner.py"],
            input=json.dumps({"imports": named(AREAS[area]["imports"]), "cases": cases}),
            capture_output=True,
            text=True,
            timeout=600,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("area", "case"), CASES, ids=lambda word: word)
def test_ours_does_what_openenv_does(area, case):
    theirs, ours = records("openenv", area)[case], records("paddock.openenv", area)[case]
    if isinstance(theirs, dict):
        kinds = theirs.get("raises", [])
        assert "missing" not in theirs and not MISTAKES.intersection(kinds), "the case itself is wrong"
        if isinstance(ours, dict) and kinds and kinds[0] in ours.get("raises", ()):
            ours["raises"] = kinds  # an error of ours may be more than OpenEnv's is
    if (area, case) in DIFFERENCES:
        assert ours == DIFFERENCES[area, case][0] != theirs
    else:
        assert ours == theirs


def test_every_difference_is_about_a_case():
    assert set(DIFFERENCES) <= set(CASES)
