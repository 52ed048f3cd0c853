"""What this machine has to build a wall with. Facts only: the self-test finds out whether the wall holds."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paddock.errors import SandboxUnavailable
from paddock.sandbox.cgroup import Controller, controllers
from paddock.sandbox.policy import CONTAINERS

_CAP_SYS_ADMIN = 21
_UIDS = range(0x70000000, 0x71000000)  # far from any that a system or a container hands out
ARCHITECTURES = ("x86_64", "aarch64")  # those that the seccomp filter is written for


@dataclass(frozen=True)
class Machine:
    """Facts about this machine and this process's rights on it."""

    linux: bool
    arch: str
    root: bool
    admin: bool  # may make namespaces without a user namespace
    bwrap: str | None
    bwrap_version: tuple[int, ...]
    user_namespaces: bool  # as far as the settings say
    only_bwrap: bool  # Ubuntu's switch: only programs with a profile, such as bwrap, may make user namespaces
    landlock_abi: int  # 0: none
    seccomp: bool
    cgroups: tuple[Controller, ...]  # those that this process may make groups in
    uids: range  # from which root takes one for each worker

    @classmethod
    def here(cls) -> Machine:
        """The facts of this machine, read once per process and user."""
        return _facts(os.geteuid() if hasattr(os, "geteuid") else -1)

    def missing(self, tier: str) -> list[str]:
        """What ``tier`` needs and this machine does not have, each with the way to get it."""
        if not self.linux:
            return [f"Linux (this is {sys.platform})"]
        lacks = []
        if tier in CONTAINERS:
            from paddock.sandbox.containers import find_engine  # here: most programs need none

            try:
                find_engine(tier)
            except SandboxUnavailable as error:
                lacks.append(str(error))
            return lacks
        if self.arch not in ARCHITECTURES:
            lacks.append(f"a filter for {self.arch} (there is one for {' and '.join(ARCHITECTURES)})")
        if self.landlock_abi < 1:
            lacks.append("Landlock (Linux 5.13 or later, with 'landlock' among the lsm= of its command line)")
        if not self.seccomp:
            lacks.append("seccomp filters (CONFIG_SECCOMP_FILTER of the kernel)")
        if tier == "sandbox" and not self.namespaces:
            lacks.append(
                "the right to make namespaces (CAP_SYS_ADMIN: a container must be started with it)"
                if self.root
                else "user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1; on Ubuntu "
                "a profile of AppArmor for bwrap: apt install bubblewrap apparmor-profiles)"
            )
        elif tier == "sandbox" and self.root and not self.uids:
            lacks.append("a uid for each worker (this container has root's alone; give it more, or another user)")
        return lacks

    @property
    def namespaces(self) -> bool:
        """Whether namespaces may be made here: as root with the right to, or as a user in a user namespace."""
        return self.admin if self.root else self.user_namespaces

    def counts_files(self, backend: str) -> bool:
        """Whether the number of files in a worker's scratch folder is limited, or charged to its memory."""
        # bubblewrap can't limit it, and an ordinary user's worker can't either once it is inside.
        return backend == "native" or self.root or any(one.name == "memory" for one in self.cgroups)

    @property
    def launcher(self) -> Literal["bwrap", "native"]:
        """What makes the namespaces: bubblewrap, unless paddock's own way limits more than it does here."""
        if self.bwrap is None or (not self.counts_files("bwrap") and not self.only_bwrap):
            return "native"
        return "bwrap"


@functools.lru_cache(maxsize=4)
def _facts(uid: int) -> Machine:
    linux = sys.platform == "linux"
    landlock_abi = 0
    if linux:
        from paddock.sandbox.inside.landlock import version as landlock_version  # here: it needs Linux's libc

        landlock_abi = landlock_version()
    path = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin") if linux else None
    version = _version(path) if path else ()
    only_bwrap = _number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) != 0
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)", _text("/proc/self/status"), re.MULTILINE)
    user_namespaces = (
        Path("/proc/self/ns/user").exists()
        and _number("/proc/sys/user/max_user_namespaces", 1) != 0
        and _number("/proc/sys/kernel/unprivileged_userns_clone", 1) != 0  # Debian's switch
        and (not only_bwrap or bool(version))
    )
    return Machine(
        linux=linux,
        arch={"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine()),
        root=uid == 0,
        admin=capabilities is not None and bool(int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1),
        bwrap=path if version >= (0, 8) else None,
        bwrap_version=version,
        user_namespaces=linux and user_namespaces,
        only_bwrap=only_bwrap,
        landlock_abi=landlock_abi,
        seccomp=linux and Path("/proc/sys/kernel/seccomp/actions_avail").exists(),
        cgroups=controllers() if linux else (),
        uids=_uids(*(_text(f"/proc/self/{name}_map") for name in ("uid", "gid"))),
    )


def _version(path: str) -> tuple[int, ...]:
    with suppress(OSError, subprocess.SubprocessError):
        output = subprocess.run([path, "--version"], capture_output=True, timeout=5, check=True).stdout  # noqa: S603
        match = re.search(rb"(\d+)\.(\d+)(?:\.(\d+))?", output)
        if match:
            return tuple(int(part) for part in match.groups(default=b"0"))
    return ()


def _uids(*maps: str) -> range:
    """Numbers that no system hands out; in a container that has only some numbers, the upper ones of those."""
    last = _UIDS.stop
    for text in maps:
        ends = [int(first) + int(count) for first, _, count in (line.split() for line in text.splitlines())]
        last = min(last, max(ends, default=last))
    # The last two are mostly those of `nobody`.
    return _UIDS if last == _UIDS.stop else range(max(last // 2, 1), last - 2)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")  # a process's name is any bytes
    except OSError:
        return ""


def _number(path: str, otherwise: int) -> int:
    try:
        return int(_text(path))
    except ValueError:
        return otherwise
