"""At least one environment of each family, everywhere: run where the packages are."""

import pytest

from tests.peers import ROOT, pytest_with_peer

pytestmark = pytest.mark.peers


def test_families_of_gymnasium(tmp_path, pytestconfig):
    # In a folder of its own: MuJoCo writes its warnings into a file where it stands.
    marks = ["-m", pytestconfig.option.markexpr.removeprefix("peers and ")]  # long ones only where it runs them
    found = pytest_with_peer("families", ROOT / "tests/families/gymnasium_families.py", *marks, cwd=tmp_path)
    assert "passed" in found
