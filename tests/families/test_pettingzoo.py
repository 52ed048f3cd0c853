"""PettingZoo's games: run where PettingZoo is."""

import pytest

from tests.peers import ROOT, pytest_with_peer

pytestmark = pytest.mark.peers


def test_games_of_pettingzoo(tmp_path):
    assert "passed" in pytest_with_peer("families", ROOT / "tests/families/pettingzoo_families.py", cwd=tmp_path)
