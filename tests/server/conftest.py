"""What tests of the server start."""

from functools import partial

import pytest

from tests.server.in_process import vault_server


@pytest.fixture
def start(tmp_path):
    """``start(**settings)``: a server in this process, of one test's own."""
    return partial(vault_server, tmp_path)
