"""The forms in which tests of environments run them."""

import pytest

from tests.envs.identity import AT_ONCE, IN_PYTHON, compile_after


@pytest.fixture(params=["python", "compiled"])
def form(request, monkeypatch):
    """Single environments that stay in Python, or that are compiled at their first step."""
    compile_after(monkeypatch, IN_PYTHON if request.param == "python" else AT_ONCE)
    return request.param
