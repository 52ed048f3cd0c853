"""What tests of clients connect to."""

import pytest

from tests.hosting.native_server import native_server


@pytest.fixture
def server():
    with native_server() as server:
        yield server
