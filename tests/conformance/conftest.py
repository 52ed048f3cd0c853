"""Ends the processes that tests shared."""

import pytest

from tests.conformance.tiers import KEPT, SERVER


@pytest.fixture(scope="package", autouse=True)
def _end_kept_workers():
    yield
    for channel in KEPT.values():
        channel.end()
    SERVER.end()
