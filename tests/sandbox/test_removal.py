"""Removing what a stranger left in a folder: however deep, closed or linked it is."""

import os
import sys

import pytest

from paddock.sandbox.removal import remove_tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's: they run on Linux only")


def dig(folder, levels):
    """A chain of folders, far longer than a path may be."""
    place = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "scratch"
    made.mkdir()
    return made


def test_a_folder_deeper_than_python_recurses_is_removed(folder):
    dig(folder, 2 * sys.getrecursionlimit() + 1000)
    assert remove_tree(str(folder), within_s=60)
    assert not folder.exists()


def test_it_needs_few_descriptors(folder):
    import resource

    dig(folder, 300)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 32, hard))
    try:
        assert remove_tree(str(folder), within_s=60)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_links_are_removed_and_not_followed(folder, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    (folder / "inner").mkdir()
    (folder / "link").symlink_to(kept)
    (folder / "inner" / "link").symlink_to(kept)
    assert remove_tree(str(folder))
    assert (kept / "file").read_text() == "mine"
    (tmp_path / "top").symlink_to(kept)
    assert not remove_tree(str(tmp_path / "top"))
    assert (kept / "file").exists()


def test_many_files_in_many_folders_go(folder):
    for place in range(20):
        inner = folder / f"{place}" / "inner"
        inner.mkdir(parents=True)
        for number in range(50):
            (inner / f"{number}").write_text("")
    assert remove_tree(str(folder), within_s=60)


def test_time_out_leaves_the_rest_and_raises_nothing(folder):
    dig(folder, 50)
    assert not remove_tree(str(folder), within_s=0.0)
    assert folder.exists()
    assert remove_tree(str(folder), within_s=60)


def test_what_is_not_there_is_gone(folder):
    assert remove_tree(str(folder / "no"))


def test_folders_without_permissions_go_too(folder):
    (folder / "a" / "b" / "c").mkdir(parents=True)
    for closed in ("a/b/c", "a/b", "a"):
        (folder / closed).chmod(0)
    assert remove_tree(str(folder))
