"""At least one environment of each family, everywhere: run where the packages are."""

from tests.peers import ROOT, pytest_with_peer


def test_families_of_gymnasium(tmp_path):
    # In a folder of its own: MuJoCo writes its warnings into a file where it stands.
    assert "passed" in pytest_with_peer("families", ROOT / "tests/families/gymnasium_families.py", cwd=tmp_path)
