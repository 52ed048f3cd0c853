"""What may be written to has no say in what a policy's paths lead to."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidPolicy
from paddock.sandbox.mounts import PythonWorld, find_escapes, follow_links, list_mounts
from paddock.sandbox.policy import Policy
from tests.sandbox.workers import needs_linux

pytestmark = needs_linux


@pytest.fixture
def place(tmp_path):
    """A folder to write to, one to read, a secret, and links: one made outside of ``out``, one within."""
    for name in ("out/a/b", "data", "secret"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "out" / "tape").touch()
    (tmp_path / "other-out").symlink_to("out")
    (tmp_path / "out" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "data" / "away").symlink_to(tmp_path / "secret")
    (tmp_path / "data" / "through").symlink_to(tmp_path / "out" / "a")
    return tmp_path


def seen(policy, modules=None):
    return {one.target: one for one in list_mounts(policy, PythonWorld.here(), modules)}


@pytest.mark.parametrize("field", ["read", "programs", "write"])
@pytest.mark.parametrize("path", ["out/a/b", "out/link", "other-out/a", "data/through"])
@pytest.mark.parametrize("out", ["out", "other-out"])
def test_nothing_is_named_below_what_may_be_written(place, field, path, out):
    written = str(place / out)
    named = {"write": (written,), field: (str(place / path),)}
    if field == "write":
        named = {"write": (written, str(place / path))}
    with pytest.raises(InvalidPolicy, match="lies below"):
        seen(Policy(**named))


def test_what_a_workspace_may_write_is_not_for_the_environment_to_name_within(place):
    out, below = str(place / "out"), str(place / "out" / "a")
    for policy in (
        Policy(read=(below,), workspaces=1, workspace=Policy(write=(out,))),
        Policy(write=(out,), workspaces=1, workspace=Policy(read=(below,))),
    ):
        with pytest.raises(InvalidPolicy, match="lies below"):
            seen(policy)


def test_a_module_below_what_may_be_written_is_refused(place):
    (place / "out" / "maze.py").touch()
    with pytest.raises(InvalidPolicy, match=r"maze\.py.*lies below"):
        seen(Policy(write=(str(place / "out"),)), {"maze": str(place / "out" / "maze.py")})


def test_the_interpreter_below_what_may_be_written_is_refused():
    with pytest.raises(InvalidPolicy, match="lies below"):
        seen(Policy(write=(str(Path(os.__file__).parents[1]),)))


@pytest.mark.parametrize("tape", ["out/tape", "out/new", "other-out/tape", "out"])
def test_a_cassette_is_not_where_may_be_written(place, tape):
    with pytest.raises(InvalidPolicy, match="cassette"):
        seen(Policy(write=(str(place / "out"),), cassette=str(place / tape)))


def test_a_cassette_that_is_a_file_to_write_is_refused(place):
    tape = str(place / "out" / "tape")
    with pytest.raises(InvalidPolicy, match="cassette"):
        seen(Policy(write=(tape,), cassette=tape))


def test_folders_side_by_side_and_one_twice_are_fine(place):
    out, data = str(place / "out"), str(place / "data")
    shown = seen(Policy(read=(data, out), write=(out,), cassette=str(place / "tape")))
    assert (shown[data].how, shown[out].how) == ("ro", "rw")


def test_a_source_is_where_the_link_leads_at_the_time_of_the_plan(place):
    shown = seen(Policy(write=(str(place / "other-out"),), read=(str(place / "data" / "away"),)))
    assert shown[str(place / "other-out")].source == os.path.realpath(place / "out")
    assert shown[str(place / "data" / "away")].source == os.path.realpath(place / "secret")


def test_a_link_out_of_what_was_granted_is_outside(place):
    granted = Policy(read=(str(place / "data"),))
    (place / "data" / "level").mkdir()
    assert find_escapes(Policy(read=(str(place / "data" / "level"),)), granted) == []
    assert find_escapes(Policy(read=(str(place / "data" / "away"),)), granted) == [str(place / "data" / "away")]
    assert find_escapes(granted, granted) == []


@pytest.mark.process
def test_a_circle_of_links_is_an_invalid_policy(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InvalidPolicy, match="is a loop of more than 40 links"):
        follow_links(str(tmp_path / "a"))


steps = st.lists(st.sampled_from(["a", "b", "up", "across", "root", "gone", "..", "."]), max_size=6)


@given(steps=steps)
def test_a_way_ends_where_realpath_says(tmp_path_factory, steps):
    top = tmp_path_factory.mktemp("way")
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "up").symlink_to("../a/b/..")
    (top / "a" / "b" / "across").symlink_to(top / "a")
    (top / "root").symlink_to("/")
    path = os.path.join(top, *steps)
    real, folders = follow_links(path)
    assert real == os.path.realpath(path)
    assert all(folder == os.path.realpath(folder) for folder in folders)
