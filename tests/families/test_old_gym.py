"""OpenAI's Gym, with the last version of each of its two APIs."""

import pytest

from tests.peers import ROOT, pytest_with_peer

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("peer", ["gym21", "gym26"])
def test_environments_of_an_old_gym(peer, tmp_path):
    assert "passed" in pytest_with_peer(peer, ROOT / "tests/families/old_gym_families.py", cwd=tmp_path)
