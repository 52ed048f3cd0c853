"""`paddock bench report` and `compare`: what they print and write, from bundles of a few episodes."""

import numpy as np
import pytest

from paddock.bench.suites import Suite, SuiteTask
from tests.bench.bundles import write_bundle

GOOD = [30.0, 31.0, 33.0, 30.5, 36.0, 31.5, 32.0, 38.0, 30.0, 34.0, 35.0, 31.0]
BAD = [total - 20.0 for total in GOOD]
SUITE = Suite("tiny", [SuiteTask("CartPole-v1", name="cart", episodes=12, floor=0.0, ceiling=40.0)])


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, returns in (("good", GOOD), ("bad", BAD)):
        write_bundle(tmp_path / name, [returns], suite=SUITE, policy=name)


def test_commands_print_and_write(paddock, tmp_path):
    found = paddock("bench", "report", "good", "bad", "--html", "r.html", "--md", "r.md")
    assert found.code == 0
    assert "IQM" in found.out
    assert "were not asked again" in found.out
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert "| task | n |" in (tmp_path / "r.md").read_text()
    assert [one["name"] for one in paddock("bench", "report", "good", "bad", "--json").document["reports"]] == [
        "good",
        "bad",
    ]
    assert "A is better" in paddock("bench", "compare", "good", "bad").out
    assert paddock("bench", "compare", "good", "bad", "--json").document["comparisons"][0]["verdict"] == "A is better"


def test_a_damaged_bundle_has_no_report(paddock, tmp_path):
    log = tmp_path / "good" / "episodes.log"
    log.write_bytes(log.read_bytes().replace(np.float64(38.0).tobytes(), np.float64(98.0).tobytes()))
    found = paddock("bench", "report", "good")
    assert found.code != 0
    assert found.out == ""
