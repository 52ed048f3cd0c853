"""Groups with limits: found in every layout of cgroups, set as the kernel wants it, never left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paddock.sandbox.cgroup import Controller, Group, _controllers, controllers, sweep
from tests.clocks import awake_s

V1 = """\
30 20 0:25 / {root}/memory rw,relatime - cgroup cgroup rw,memory
31 20 0:26 / {root}/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 20 0:27 / {root}/pids rw,relatime - cgroup cgroup rw,pids
33 20 0:28 / {root}/unified rw,relatime - cgroup2 cgroup2 rw
"""
OWN_V1 = "4:pids:/\n3:cpu,cpuacct:/jobs\n2:memory:/jobs/7\n0::/\n"
V2 = "30 20 0:25 / {root} rw,relatime - cgroup2 cgroup2 rw\n"


def _tree(root, *folders, enabled=""):
    for folder in folders:
        path = root / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.procs").write_text("")
        (path / "cgroup.subtree_control").write_text(enabled)


def test_each_controller_of_v1_is_found_at_the_group_of_this_process(tmp_path):
    _tree(tmp_path, "memory/jobs/7", "cpu,cpuacct/jobs", "pids", "unified")
    found = {one.name: one for one in _controllers(V1.format(root=tmp_path), OWN_V1)}
    assert {name: one.folder for name, one in found.items()} == {
        "memory": f"{tmp_path}/memory/jobs/7",
        "cpu": f"{tmp_path}/cpu,cpuacct/jobs",
        "cpuacct": f"{tmp_path}/cpu,cpuacct/jobs",
        "pids": f"{tmp_path}/pids",
    }
    assert {one.version for one in found.values()} == {1}


def test_a_group_of_v2_is_made_beside_that_of_this_process(tmp_path):
    _tree(tmp_path, "user/app/mine")
    _tree(tmp_path, "user/app", enabled="memory pids")
    found = list(_controllers(V2.format(root=tmp_path), "0::/user/app/mine\n"))
    assert found == [Controller(name, 2, f"{tmp_path}/user/app") for name in ("memory", "pids")]


def test_what_is_not_enabled_for_groups_of_v2_is_not_usable(tmp_path):
    _tree(tmp_path, "user/app/mine")
    _tree(tmp_path, "user/app", enabled="cpuset")
    assert list(_controllers(V2.format(root=tmp_path), "0::/user/app/mine\n")) == []


def test_in_a_container_the_mount_is_a_part_of_the_tree(tmp_path):
    _tree(tmp_path, "inner")
    mounts = f"30 20 0:25 /docker/abc {tmp_path} rw - cgroup cgroup rw,memory\n"
    found = list(_controllers(mounts, "2:memory:/docker/abc/inner\n"))
    assert found == [Controller("memory", 1, f"{tmp_path}/inner")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; runs as uid 4000 in test_launch_as_user.py")
def test_what_may_not_be_written_is_not_found(tmp_path):
    _tree(tmp_path, "memory/jobs/7", "cpu,cpuacct/jobs", "pids", "unified")
    (tmp_path / "pids").chmod(0o555)
    assert "pids" not in {one.name for one in _controllers(V1.format(root=tmp_path), OWN_V1)}


class _Fake(Group):
    """On an ordinary folder the files of a group must be made before they can be written."""

    FILES = [
        "memory.max",
        "memory.swap.max",
        "memory.oom.group",
        "pids.max",
        "cgroup.procs",
        "cgroup.kill",
        "memory.events",
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "cpu.stat",
        "cpuacct.usage",
        "memory.oom_control",
    ]

    def _limit(self, controller, folder, value):
        Path(folder).mkdir(exist_ok=True)
        for name in self.FILES:
            Path(folder, name).touch()
        super()._limit(controller, folder, value)
        self.folder = Path(folder)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            1,
            {
                "memory.limit_in_bytes": "1048576",
                "memory.memsw.limit_in_bytes": "1048576",
                "pids.max": "9",
            },
        ),
        (
            2,
            {
                "memory.max": "1048576",
                "memory.swap.max": "0",
                "memory.oom.group": "1",
                "pids.max": "9",
            },
        ),
    ],
)
def test_limits_go_into_the_files_of_the_version(tmp_path, version, expected):
    among = [Controller(name, version, str(tmp_path)) for name in ("memory", "pids", "cpu", "cpuacct")]
    group = _Fake(among, memory_bytes=1 << 20, pids=9, cpu=True)
    assert {name: (group.folder / name).read_text() for name in expected} == expected
    assert group.limits == ("memory", "pids", "cpu")
    group.add(123)
    assert (group.folder / "cgroup.procs").read_text() == "123"
    assert group.cpu_s() is None  # nothing is counted in a file that says nothing
    (group.folder / "cpuacct.usage").write_text("2500000000\n")
    (group.folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\n")
    assert group.cpu_s() == 2.5
    (group.folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    (group.folder / "memory.events").write_text("low 0\noom 3\noom_kill 0\n")
    assert not group.out_of_memory()
    (group.folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (group.folder / "memory.events").write_text("low 0\noom 3\noom_kill 1\n")
    assert group.out_of_memory()


def test_only_what_is_asked_for_is_limited(tmp_path):
    among = [Controller(name, 2, str(tmp_path)) for name in ("memory", "pids", "cpu")]
    assert _Fake(among, pids=5).limits == ("pids",)


def test_a_group_that_can_not_be_made_says_so_and_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="memory.max"):
        Group([Controller("memory", 2, str(tmp_path))], memory_bytes=1 << 20)
    assert list(tmp_path.iterdir()) == []


def test_a_group_without_a_share_of_the_cpu_still_limits(tmp_path):
    among = [Controller("cpu", 2, str(tmp_path / "gone")), Controller("pids", 2, str(tmp_path))]
    group = _Fake(among[1:], pids=5, cpu=True)
    assert Group(among[:1], cpu=True).limits == () and group.limits == ("pids",)


REAL = pytest.mark.skipif(
    not controllers(), reason="no group may be made here: runs as root, or where a cgroup is delegated"
)


@pytest.mark.process
@REAL
def test_a_group_of_this_machine_ends_its_processes_and_is_removed():
    group = Group(controllers(), memory_bytes=64 << 20, pids=10)
    folders = list(group._folders)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        group.add(process.pid)
        began = awake_s()
        group.kill()
        assert process.wait(5) == -signal.SIGKILL
    finally:
        process.stdin.close()
        group.remove()
    assert awake_s() - began < 1
    assert folders and not any(os.path.exists(folder) for folder in folders)
    group.remove()
    group.kill()


@pytest.mark.process
@REAL
def test_removing_ends_what_still_runs():
    group = Group(controllers(), memory_bytes=64 << 20, pids=10)
    folders = list(group._folders)
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    group.add(process.pid)
    group.remove()
    assert process.wait(5) == -signal.SIGKILL
    assert not any(os.path.exists(folder) for folder in folders)


def test_groups_of_processes_that_are_gone_are_swept(tmp_path):
    me = f"{os.getpid()}-{Path('/proc/self/stat').read_text().rpartition(')')[2].split()[19]}"
    names = {"gone": "paddock-4194305-77-0", "reused": f"paddock-{os.getpid()}-1-0", "mine": f"paddock-{me}-0"}
    long_ago = time.time() - 3600
    for name in (*names.values(), "other"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / "paddock-4194305-78-0").mkdir()  # young: somebody may be about to use it
    sweep([Controller("memory", 2, str(tmp_path))])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([names["mine"], "other", "paddock-4194305-78-0"])
