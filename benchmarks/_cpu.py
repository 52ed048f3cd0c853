"""CPU time of processes, from /proc: on a machine that does other things too it says more than the clock does."""

from __future__ import annotations

from pathlib import Path


def cpu_s(pid: int) -> float:
    """What a process has used until now, all its threads that live."""
    return sum(_first(task / "schedstat") for task in _tasks(pid)) / 1e9


def cpu_below_s(pid: int) -> float:
    """The same for all that it started, and what that started."""
    return sum(cpu_s(child) + cpu_below_s(child) for task in _tasks(pid) for child in _numbers(task / "children"))


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").glob("*"))


def _numbers(path: Path) -> list[int]:
    try:
        return [int(one) for one in path.read_text().split()]
    except OSError:  # it has ended, or this is no Linux
        return []


def _first(path: Path) -> int:
    return next(iter(_numbers(path)), 0)
