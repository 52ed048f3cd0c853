"""Lanes of simulators that step together: run where MuJoCo and the ALE are."""

import pytest

from tests.peers import ROOT, pytest_with_peer

pytestmark = pytest.mark.peers


def test_lanes_of_mujoco_and_the_ale(tmp_path):
    # In a folder of its own: MuJoCo writes its warnings into a file where it stands.
    assert "passed" in pytest_with_peer("families", ROOT / "tests/families/physics_lanes.py", cwd=tmp_path)
