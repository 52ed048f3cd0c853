"""The wall's own parts go up for an ordinary user too: the tests of the lock and the boot, run again as one."""

import os
import sys
import tempfile

import pytest

from tests.sandbox.as_user import USER, as_user

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's: they run on Linux only")


@pytest.mark.process
@pytest.mark.skipif(
    os.geteuid() != 0, reason="this is an ordinary user: the same tests run directly, without a change of user"
)
@pytest.mark.parametrize("file", ["test_lock_layers.py", "test_boot.py"])
def test_the_same_holds_for_an_ordinary_user(file):
    # Not below tmp_path: that is root's alone, and every run of pytest makes it so again.
    with tempfile.TemporaryDirectory() as place:
        os.chown(place, USER, USER)
        options = ["-q", "-p", "no:cacheprovider", f"--basetemp={place}/tests"]
        ran = as_user([sys.executable, "-m", "pytest", *options, f"tests/sandbox/{file}"])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
