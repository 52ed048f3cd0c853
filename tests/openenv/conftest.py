"""What tests of our clients connect to."""

import pytest

from tests.openenv.real_server import real_server


@pytest.fixture(scope="module", params=["openenv10", "openenv03"])
def server(request):
    """The name of the real package, and the URL of its server."""
    with real_server(request.param) as url:
        yield request.param, url
