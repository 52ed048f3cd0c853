"""Groups of processes with limits, by cgroup v1 or v2. What a process took before it was added is not counted."""

# ruff: noqa: PTH106, PTH112, PTH123 - for each worker, several times: pathlib would take twice as long
from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NAMES = ("memory", "pids", "cpu", "cpuacct")  # v1 counts CPU time in a tree of its own
_PREFIX = "paddock-"
_LIMITS = {1: "memory.limit_in_bytes", 2: "memory.max"}  # by version
_REMOVED_WITHIN_S = 1.0  # a group stays busy for a moment after its last process has ended
_STALE_S = 10.0  # a group younger than this may be one that another process is about to fill
_numbers = itertools.count()


@dataclass(frozen=True)
class Controller:
    """A kind of limit, and the folder below which this process may make groups for it."""

    name: str
    version: int
    folder: str


def controllers() -> tuple[Controller, ...]:
    """Those of memory, pids and CPU time that this process may use. Nothing is changed to find out."""
    try:
        mounts, own = (Path("/proc/self", name).read_text(errors="replace") for name in ("mountinfo", "cgroup"))
    except OSError:
        return ()
    return tuple(_controllers(mounts, own))


def _controllers(mounts: str, own: str) -> Iterable[Controller]:
    places = _places(own)
    names: set[str] = set()
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, point = (part.encode().decode("unicode_escape") for part in left.split(" ")[3:5])
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup":
            for name in _NAMES:
                if name in options.split(",") and name in places and name not in names:
                    folder = _folder(point, root, places[name])
                    if os.access(folder, os.W_OK | os.X_OK):
                        names.add(name)
                        yield Controller(name, 1, folder)
        elif kind == "cgroup2" and "" in places:
            for one in _find_unified(_folder(point, root, places[""]), point):
                if one.name not in names:
                    names.add(one.name)
                    yield one


def _groups_of(pid: int) -> Iterable[Controller]:
    """Where the groups are in which the process is, whether or not they may be changed here."""
    mounts, own = _read("/proc/self/mountinfo"), _places(_read(f"/proc/{pid}/cgroup"))
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, point = (part.encode().decode("unicode_escape") for part in left.split(" ")[3:5])
        kind, _, options = right.split(" ", 2)
        for name in _NAMES:
            if kind == "cgroup" and name in options.split(",") and name in own:
                yield Controller(name, 1, _folder(point, root, own[name]))
            elif kind == "cgroup2" and own.get("", "/") != "/":
                yield Controller(name, 2, _folder(point, root, own[""]))


def _places(own: str) -> dict[str, str]:
    """From each controller to this process's group; v2's is under the empty name."""
    places = {}
    for line in own.splitlines():
        _, names, place = line.split(":", 2)
        for name in names.split(","):
            places[name] = place
    return places


def _folder(point: str, root: str, place: str) -> str:
    """A container sees a part of the tree: ``root`` of it is mounted at ``point``."""
    if root != "/" and (place == root or place.startswith(root + "/")):
        place = place[len(root) :]
    return os.path.normpath(point + "/" + place.lstrip("/"))


def _find_unified(folder: str, point: str) -> Iterable[Controller]:
    # A group of v2 that holds processes can't limit groups below it: the new one is mostly made beside this process's.
    for parent in (folder, str(Path(folder).parent)):
        if not parent.startswith(point) or not os.access(parent + "/cgroup.procs", os.W_OK):
            continue
        enabled = _read(parent + "/cgroup.subtree_control").split()
        usable = [name for name in _NAMES if name in enabled]
        if usable and os.access(parent, os.W_OK | os.X_OK):
            for name in usable:
                yield Controller(name, 2, parent)
            return


class Group:
    """A group in each tree that is needed. Made empty and with its limits set; OSError if the kernel refuses one."""

    def __init__(
        self,
        among: Iterable[Controller],
        *,
        memory_bytes: int | None = None,
        pids: int | None = None,
        cpu: bool = False,
    ) -> None:
        # With ``cpu`` it gets the share of one process, however many threads it has, and no fixed limit.
        share = 0 if cpu else None
        wanted = {"memory": memory_bytes, "pids": pids, "cpu": share, "cpuacct": share}
        self._owner = os.getpid()
        self._folders: dict[str, int] = {}
        self._memory: tuple[str, int] | None = None
        self._cpu_used: str | None = None  # the file
        self.limits: tuple[str, ...] = ()  # the kinds that it enforces
        name = f"{_PREFIX}{identify(self._owner)}-{next(_numbers)}"
        try:
            for one in among:
                value = wanted[one.name]
                if value is not None:
                    try:
                        self._limit(one, f"{one.folder}/{name}", value)
                    except OSError:
                        if one.name in ("memory", "pids"):  # the others are a matter of fairness
                            raise
        except BaseException:
            self.remove()
            raise

    @classmethod
    def of(cls, pid: int) -> Group:
        """The group that somebody else made for the process: to read, and not to end or remove."""
        group = cls(())
        for one in _groups_of(pid):
            if one.name == "memory" and Path(one.folder, _LIMITS[one.version]).exists():
                group._memory = (one.folder, one.version)
            used = f"{one.folder}/{'cpu.stat' if one.version == 2 else 'cpuacct.usage'}"
            if (one.version == 2 or one.name == "cpuacct") and Path(used).exists():
                group._cpu_used = used
        return group

    def memory_limit(self) -> int | None:
        """The bytes that it may take, as the kernel has them; None if that can't be read."""
        if self._memory is None:
            return None
        folder, version = self._memory
        text = _read(f"{folder}/{_LIMITS[version]}").strip()
        return int(text) if text.isdigit() else 1 << 63 if text == "max" else None

    def _limit(self, controller: Controller, folder: str, value: float) -> None:
        if folder not in self._folders:
            with suppress(FileExistsError):
                Path(folder).mkdir()
            self._folders[folder] = controller.version
        for file, text in _settings(controller, value):
            path = f"{folder}/{file.lstrip('?')}"
            if not file.startswith("?") or Path(path).exists():
                _write(path, text)
        if controller.name == "memory":
            self._memory = (folder, controller.version)
        if controller.version == 2 or controller.name == "cpuacct":
            self._cpu_used = f"{folder}/{'cpu.stat' if controller.version == 2 else 'cpuacct.usage'}"
        if controller.name != "cpuacct":
            self.limits += (controller.name,)

    def add(self, pid: int) -> None:
        """Put the process into the group; its children will be in it too. OSError if the kernel refuses."""
        # A copy: another thread may `remove` them meanwhile, and then the write fails.
        for folder in list(self._folders):
            _write(f"{folder}/cgroup.procs", str(pid))

    def out_of_memory(self) -> bool:
        """Whether a process of it was ended for taking too much memory."""
        if self._memory is None:
            return False
        folder, version = self._memory
        for line in _read(f"{folder}/{'memory.oom_control' if version == 1 else 'memory.events'}").splitlines():
            key, _, number = line.partition(" ")
            if key == "oom_kill":
                return int(number) > 0
        return False

    def cpu_s(self) -> float | None:
        """CPU seconds of all that was ever in it; None where they are not counted."""
        words = _read(self._cpu_used).split() if self._cpu_used else []
        if not words:
            return None
        return int(words[1]) / 1e6 if words[0] == "usage_usec" else int(words[0]) / 1e9

    def memory_bytes(self) -> int | None:
        """What it takes now; None where that is not counted."""
        if self._memory is None:
            return None
        folder, version = self._memory
        text = _read(f"{folder}/{'memory.usage_in_bytes' if version == 1 else 'memory.current'}").strip()
        return int(text) if text.isdigit() else None

    def kill(self) -> None:
        """End every process in it. Never raises; in a forked child it does nothing."""
        if os.getpid() != self._owner:
            return
        for folder, version in self._folders.items():
            with suppress(OSError):
                if version == 2:
                    _write(f"{folder}/cgroup.kill", "1")
            for pid in _read(f"{folder}/cgroup.procs").split():
                with suppress(OSError):
                    os.kill(int(pid), signal.SIGKILL)

    def remove(self) -> None:
        """End what is in it and remove it. Never raises; the next ``sweep`` removes what can't be removed now."""
        ends = time.monotonic() + _REMOVED_WITHIN_S
        while self._folders and os.getpid() == self._owner:
            for folder in list(self._folders):
                with suppress(OSError):
                    os.rmdir(folder)
                if not os.path.isdir(folder):
                    del self._folders[folder]
            if not self._folders or time.monotonic() > ends:
                return
            self.kill()  # also what was forked since
            time.sleep(0.001)


def sweep(among: Iterable[Controller]) -> None:
    """Remove the empty groups of processes that were ended before they could."""
    for parent in {one.folder for one in among}:
        with suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if not entry.name.startswith(_PREFIX) or time.time() - entry.stat().st_mtime <= _STALE_S:
                    continue
                pid, _, rest = entry.name[len(_PREFIX) :].partition("-")
                if not (pid.isdigit() and identify(int(pid)) == f"{pid}-{rest.partition('-')[0]}"):
                    with suppress(OSError):  # busy: somebody in another pid namespace uses it
                        Path(entry.path).rmdir()


def _settings(controller: Controller, value: float) -> list[tuple[str, str]]:
    """Files and what goes into them, in this order; "?" marks those that not every kernel has."""
    number = str(int(value))
    if controller.name == "pids":
        return [("pids.max", number)]
    if controller.name == "memory" and controller.version == 1:
        return [("memory.limit_in_bytes", number), ("?memory.memsw.limit_in_bytes", number)]
    if controller.name == "memory":
        return [("memory.max", number), ("?memory.swap.max", "0"), ("?memory.oom.group", "1")]
    return []


def identify(pid: int) -> str:
    """The process's number and when it began, which together no other one has."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return f"{pid}-{fields[19] if len(fields) > 19 else 'gone'}"


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:  # a process's name is any bytes
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
