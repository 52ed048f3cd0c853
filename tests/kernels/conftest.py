"""What the tests of kernels share: lanes in Python on demand, and the author's example."""

import importlib.util
from pathlib import Path

import pytest

import paddock.kernels.env
import paddock.kernels.lanes

EXAMPLE = Path(__file__).parents[2] / "examples" / "reservoir.py"


@pytest.fixture
def in_python(monkeypatch):
    """A function that makes lanes and single environments made from now on run as plain Python, as without Numba."""

    def hide():
        for module in (paddock.kernels.lanes, paddock.kernels.env):
            monkeypatch.setattr(module, "numba_installed", lambda: False)

    return hide


@pytest.fixture(params=["compiled", "python"])
def either_way(request, in_python):
    """The test runs twice: with compiled lanes, and with lanes in Python."""
    if request.param == "python":
        in_python()
    return request.param


@pytest.fixture
def reservoir(fresh_registry):
    """The example of docs/kernels.md, newly imported, its id registered until the test ends."""
    spec = importlib.util.spec_from_file_location("reservoir", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
