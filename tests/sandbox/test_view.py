"""What exists inside: no more than the interpreter, the named modules and what the policy grants."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.errors import InvalidPolicy
from paddock.sandbox.launching import bubblewrap_command, with_parents
from paddock.sandbox.mounts import Mount, PythonWorld, _in_order, _libraries, inside_path, list_mounts, private
from paddock.sandbox.policy import Policy, covers
from tests.sandbox.workers import needs_linux

pytestmark = needs_linux
PACKAGE = str(Path(paddock.__file__).resolve().parent)


def _targets(policy=None, modules=None):
    return {one.target: one for one in list_mounts(policy or Policy(), PythonWorld.here(), modules)}


def test_the_interpreter_and_its_libraries_are_there():
    shown = _targets()
    executable = os.path.realpath(sys.executable)
    assert any(covers(target, executable) for target in shown)
    assert any(covers(target, os.path.realpath(os.__file__)) for target in shown)
    assert any(covers(target, PACKAGE) for target in shown)


VERSION = "python" + ".".join(map(str, sys.version_info[:2]))


def _prefix(folder, *names):
    for name in (f"lib/{VERSION}/os.py", "lib/libssl.so.3", "lib/notes.txt", "lib/python2.7/os.py", "bin/x", *names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return [str(one) for one in map(Path, _libraries(str(folder))) if folder in one.parents]


def test_of_a_prefix_its_library_and_shared_libraries_are_needed(tmp_path):
    assert _prefix(tmp_path / "home") == [f"{tmp_path}/home/lib/{VERSION}", f"{tmp_path}/home/lib/libssl.so.3"]
    both = _prefix(tmp_path / "apart", f"lib64/{VERSION}/lib-dynload/x.so")
    assert f"{tmp_path}/apart/lib64/{VERSION}" in both


def test_of_condas_prefix_its_lib_is_needed_and_not_its_other_environments(tmp_path):
    assert _prefix(tmp_path, "conda-meta/history", "envs/other/lib/x.so", ".condarc") == [f"{tmp_path}/lib"]


def test_a_libpython_that_lies_elsewhere_is_shown():
    maps = Path("/proc/self/maps").read_text()
    mapped = {line.split(maxsplit=5)[5] for line in maps.splitlines() if "/libpython" in line}
    shown = _targets()
    assert all(any(covers(target, one) for target in shown) for one in mapped)


def test_of_a_source_checkout_only_the_package_is_shown():
    beside = os.path.dirname(PACKAGE)
    if os.path.basename(beside) == "site-packages":
        pytest.skip("paddock is installed, not a checkout: runs in the checkout that make test sets up")
    shown = _targets()
    assert PACKAGE in shown and beside not in shown


def test_neither_home_nor_the_current_folder_is_shown(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    shown = _targets()
    for hidden in (
        str(tmp_path),
        os.path.expanduser("~"),
        "/etc",
        "/home",
        "/var",
        "/proc",
        "/sys",
        "/",
        "/usr",
        "/dev",
    ):
        assert not any(covers(target, hidden) for target, one in shown.items() if one.how != "scratch"), hidden


def test_a_module_is_a_file_and_a_package_is_a_folder(tmp_path):
    (tmp_path / "one.py").write_text("")
    (tmp_path / "many").mkdir()
    shown = _targets(modules={"one": str(tmp_path / "one.py"), "many": str(tmp_path / "many")})
    assert shown["/target/one/one.py"].source == str(tmp_path / "one.py")
    assert shown["/target/many"].source == str(tmp_path / "many")
    assert inside_path("one", str(tmp_path / "one.py")) == "/target/one/one.py"


def test_only_processes_and_programs_bring_proc():
    assert "/proc" not in _targets()
    assert "/proc" in _targets(Policy(processes=2))
    assert "/proc" in _targets(Policy(programs=("/usr/bin/env",)))


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"read": ("/no/such/file",)}, "/no/such/file"),
        ({"write": ("/no/such/folder",)}, "/no/such/folder"),
        ({"programs": ("/no/such/program",)}, "/no/such/program"),
        ({"devices": ("/dev/no-such-device",)}, "/dev/no-such-device"),
        ({"read": ("/proc/self",)}, "/proc/self"),
        ({"read": ("/tmp",)}, "/tmp"),
        ({"write": ("/dev/shm",)}, "/dev/shm"),
    ],
)
def test_what_can_not_be_shown_is_named(policy, named):
    with pytest.raises(InvalidPolicy, match=named):
        _targets(Policy(**policy))


@pytest.mark.parametrize("name", ["a.b", "../x", "", "a/b"])
def test_a_module_has_a_plain_name(tmp_path, name):
    with pytest.raises(InvalidPolicy):
        _targets(modules={name: str(tmp_path)})


def test_to_write_beats_to_read(tmp_path):
    shown = _targets(Policy(read=(str(tmp_path),), write=(str(tmp_path),)))
    assert shown[str(tmp_path)].how == "rw"


def test_a_folder_to_write_in_one_to_read_is_its_own_mount(tmp_path):
    (tmp_path / "out").mkdir()
    shown = _targets(Policy(read=(str(tmp_path),), write=(str(tmp_path / "out"),)))
    assert shown[str(tmp_path)].how == "ro" and shown[str(tmp_path / "out")].how == "rw"


def test_what_others_may_not_use_is_private(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o640)
    mounts = [Mount(str(tmp_path / name), "/" + name, "ro") for name in ("open", "closed", "file")]
    assert private(mounts) == ["/closed", "/file"]
    assert private([Mount(str(tmp_path / "open"), "/open", "rw")]) == ["/open"]


names = st.sampled_from(["a", "b", "c", "usr", "lib"])
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
mounts = st.lists(st.builds(Mount, paths, paths, st.sampled_from(["ro", "rw", "dev"])), max_size=12)


@given(mounts)
def test_parents_come_first_and_each_place_once(given):
    kept = _in_order(tuple(given))
    targets = [one.target for one in kept]
    assert len(set(targets)) == len(targets)
    for place, target in enumerate(targets):
        assert not any(covers(target, earlier) and earlier != target for earlier in targets[:place])
    for one in given:  # nothing is lost: it is there, or something above it shows the same
        assert any(covers(target, one.target) for target in targets)


@given(mounts)
def test_every_folder_above_a_mount_is_made_once_before_it(given):
    made = set()
    for one, above in with_parents(_in_order(tuple(given))):
        assert not made & set(above)
        made |= set(above)
        parent = os.path.dirname(one.target)
        made_here = any(covers(other, parent) for other in made) or parent == "/"
        assert made_here
        made.add(one.target)


def test_the_command_has_no_user_namespace_for_root_and_one_for_others():
    for root in (True, False):
        argv = bubblewrap_command("bwrap", [], ["python"], root=root, scratch_bytes=1, info_fd=9)
        assert ("--unshare-user" in argv) == ("--disable-userns" in argv) == (not root)
        assert {"--unshare-net", "--unshare-pid", "--die-with-parent", "--new-session"} <= set(argv)
        assert argv[-2:] == ["--", "python"]
