"""The facts about a machine, and what is said when some are missing."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from paddock.sandbox.cgroup import Controller
from paddock.sandbox.machine import Machine, _facts, _uids
from paddock.sandbox.promises import promises
from tests.sandbox.workers import needs_linux

pytestmark = needs_linux


def test_the_facts_fit_this_machine():
    machine = Machine.here()
    assert machine.linux and machine.root == (os.geteuid() == 0)
    assert machine.arch == os.uname().machine
    assert (machine.bwrap is None) or machine.bwrap_version >= (0, 8)
    assert machine.seccomp == os.path.exists("/proc/sys/kernel/seccomp/actions_avail")


@pytest.mark.process
def test_asking_changes_nothing_and_is_cheap():
    before = sorted(os.listdir("/proc/self/fd"))
    best = 1.0
    for _ in range(5):
        _facts.cache_clear()
        began = time.perf_counter()
        Machine.here()
        best = min(best, time.perf_counter() - began)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert best < 0.02  # a tenth of that when nothing else runs
    assert Machine.here() is Machine.here()


@pytest.mark.process
def test_the_sandbox_loads_no_numpy_and_little_else():
    code = (
        "import sys; before = set(sys.modules); from paddock.sandbox import Policy, launch, Call, Exec; "
        "new = set(sys.modules) - before; "
        "print(*(name for name in ('numpy', 'msgspec', 'rich', 'asyncio', 'multiprocessing') if name in new))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


@pytest.mark.process
@pytest.mark.parametrize(
    "first", ["from paddock.sandbox.launching import launch", "import paddock.sandbox.launching", "pass"]
)
def test_launch_of_the_package_is_the_function_whatever_was_imported_first(first):
    then = "from paddock.sandbox import launch, launching; print(launch is launching.launch)"
    ran = subprocess.run([sys.executable, "-c", f"{first}; {then}"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("change", "tier", "named"),
    [
        ({"linux": False}, "landlock", "Linux"),
        ({"arch": "riscv64"}, "landlock", "riscv64"),
        ({"landlock_abi": 0}, "landlock", "Landlock"),
        ({"seccomp": False}, "sandbox", "seccomp"),
        ({"root": True, "admin": False}, "sandbox", "CAP_SYS_ADMIN"),
        ({"root": False, "user_namespaces": False}, "sandbox", "user namespaces"),
    ],
)
def test_what_is_missing_is_named(change, tier, named):
    assert any(named in text for text in replace(Machine.here(), **change).missing(tier))


def test_namespaces_are_not_missed_by_the_tier_that_has_none():
    without = replace(Machine.here(), root=False, user_namespaces=False)
    assert without.missing("landlock") == Machine.here().missing("landlock")


@pytest.mark.parametrize(
    ("maps", "expected"),
    [
        ("0 0 4294967295\n", range(0x70000000, 0x71000000)),
        ("0 100000 65536\n", range(32768, 65534)),
        ("0 1000 1\n1 100000 65536\n", range(32768, 65535)),
        ("0 1000 1\n", range(0)),
        ("", range(0x70000000, 0x71000000)),
    ],
)
def test_workers_get_uids_that_exist_in_this_container(maps, expected):
    assert list(_uids(maps, maps)[:3]) == list(expected[:3]) and len(_uids(maps, maps)) == len(expected)


def test_root_with_no_other_uid_is_told_so():
    machine = replace(Machine.here(), root=True, admin=True, uids=range(0))
    assert any("uid" in text for text in machine.missing("sandbox"))


MEMORY = (Controller("memory", 2, "/no/such/folder"),)


@pytest.mark.parametrize(
    ("change", "launcher", "counted"),
    [
        ({"root": True, "cgroups": ()}, "bwrap", True),
        ({"root": False, "cgroups": MEMORY}, "bwrap", True),
        ({"root": False, "cgroups": ()}, "native", True),
        ({"root": False, "cgroups": (), "only_bwrap": True}, "bwrap", False),
        ({"root": False, "cgroups": (), "bwrap": None}, "native", True),
    ],
)
def test_bubblewrap_is_used_where_files_are_counted_or_nothing_else_may_be(change, launcher, counted):
    usual = {"bwrap": "/usr/bin/bwrap", "only_bwrap": False, "user_namespaces": True, "admin": True}
    machine = replace(Machine.here(), **{**usual, **change})
    assert machine.launcher == launcher
    (scratch,) = [one for one in promises("sandbox", machine) if one.key == "scratch-limited"]
    assert scratch.held == counted and bool(scratch.but) != counted


def test_bubblewrap_is_not_needed():
    assert replace(Machine.here(), bwrap=None).missing("sandbox") == Machine.here().missing("sandbox")
