"""The file of a cassette is a file: the trusted side writes to it, and follows no link to another."""

import os

import pytest

from paddock.errors import InvalidCassette
from paddock.sandbox.cassette import Cassette
from tests.sandbox.workers import needs_linux

pytestmark = needs_linux


@pytest.mark.parametrize("mode", ["record", "auto", "replay"])
@pytest.mark.parametrize("content", ["", "precious", '{"paddock cassette": 1}\n'])
def test_a_link_is_refused_and_what_it_leads_to_untouched(tmp_path, mode, content):
    (tmp_path / "victim").write_text(content)
    (tmp_path / "tape").symlink_to("victim")
    with pytest.raises(InvalidCassette, match="link"):
        Cassette(tmp_path / "tape", mode)
    assert (tmp_path / "victim").read_text() == content


def test_a_link_to_nothing_makes_nothing(tmp_path):
    (tmp_path / "tape").symlink_to("victim")
    with pytest.raises(InvalidCassette, match="link"):
        Cassette(tmp_path / "tape", "record")
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("mode", ["record", "auto", "replay"])
def test_what_is_no_file_is_refused_at_once(tmp_path, mode):
    os.mkfifo(tmp_path / "tape")
    with pytest.raises(InvalidCassette, match="expected a file"):
        Cassette(tmp_path / "tape", mode)
