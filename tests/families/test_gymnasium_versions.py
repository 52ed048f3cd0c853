"""The adapters with every Gymnasium from 1.0 on; the newest is the one that the whole suite runs with."""

import pytest

from tests.peers import ROOT, pytest_with_peer

pytestmark = pytest.mark.peers

FILES = [
    "tests/sources/test_gymnasium.py",
    "tests/adapters/test_gymnasium.py",
    "tests/adapters/test_gymnasium_vector.py",
]


@pytest.mark.parametrize(
    "peer",
    [
        "gymnasium10",
        pytest.param("gymnasium11", marks=pytest.mark.full),
        pytest.param("gymnasium12", marks=pytest.mark.full),
        pytest.param("gymnasium13", marks=pytest.mark.full),
    ],
)
def test_adapters_work_with_an_older_gymnasium(peer):
    assert "passed" in pytest_with_peer(peer, *(ROOT / file for file in FILES))
