"""dm_control, gym3 with Procgen, and gymnax: run where the packages are."""

import pytest

from tests.peers import ROOT, pytest_with_peer

pytestmark = pytest.mark.peers

FILES = ["other_libraries.py", "dm_env_families.py", "gym3_families.py", "gymnax_families.py"]


def test_families_of_other_libraries(tmp_path, pytestconfig):
    # In a folder of its own: MuJoCo writes its warnings into a file where it stands.
    files = [ROOT / "tests/families" / name for name in FILES]
    marks = ["-m", pytestconfig.option.markexpr.removeprefix("peers and ")]  # long ones only where it runs them
    assert "passed" in pytest_with_peer("dmcontrol", *files, *marks, cwd=tmp_path, timeout=1800)
