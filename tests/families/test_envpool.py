"""EnvPool's lanes. The package takes 885 MB, so `make test` does without; see also tests/sources/test_envpool.py."""

import pytest

from tests.peers import ROOT, pytest_with_peer

pytestmark = pytest.mark.peers


@pytest.mark.full
def test_lanes_of_envpool(tmp_path):
    assert "passed" in pytest_with_peer("envpool", ROOT / "tests/families/envpool_lanes.py", cwd=tmp_path)
