"""What tests of the server start."""

from functools import partial

import pytest

from tests.server.in_process import vault_server
from tests.server.serving import make_certificate


@pytest.fixture
def start(tmp_path):
    """``start(**settings)``: a server in this process, of one test's own."""
    return partial(vault_server, tmp_path)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A folder with ``cert.pem`` and ``key.pem`` for 127.0.0.1."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
