"""Which episodes to play: tasks of the environment, or seeds where it has none. The same list gives the same seeds.

A task brings its own seed. One that has none gets a seed from its split and index, so it begins the same in any list.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddock.agentic.task import Task, task_name
from paddock.core.env import Env
from paddock.errors import InvalidTask, PaddockError
from paddock.seeding import derived_seed, to_seed

_MOST = 1_000_000
_ROWS_AT_ONCE = 100


@dataclass(frozen=True)
class Work:
    """What ``reset`` is given. ``row`` is the task's public row, with its split and index, where there is one."""

    seed: int
    options: dict[str, Any] | None
    row: dict[str, Any]

    @property
    def name(self) -> str:
        """For people: ``test[3]``, or the seed."""
        return task_name(self.row, self.seed)


def work_of(env: Env[Any, Any], tasks: Any, seed: int) -> list[Work]:
    """What ``tasks`` names; see :func:`rollout`. Asks the environment's Task API where it has one."""
    splits = env.metadata.get("splits")
    if isinstance(splits, (list, tuple)) and splits:
        return _TaskBook(env, seed).work(tasks)
    return _seeds(tasks, seed)


def _seeds(tasks: Any, seed: int) -> list[Work]:
    if tasks is None:
        tasks = 1
    if isinstance(tasks, (int, np.integer)):
        tasks = range(seed, seed + _count(tasks))
    if isinstance(tasks, (str, bytes, Mapping)) or not isinstance(tasks, Sequence):
        raise InvalidTask(f"tasks={tasks!r:.80}: this environment has no tasks. Expected a count, or a list of seeds.")
    return [_one_seed(item) for item in tasks]


def _one_seed(item: Any) -> Work:
    if isinstance(item, Mapping):
        options = item.get("options")
        return Work(to_seed(item.get("seed")), None if options is None else dict(options), {})
    return Work(to_seed(item), None, {})


def _count(tasks: Any) -> int:
    if not 0 <= tasks <= _MOST:
        raise InvalidTask(f"tasks={tasks}: expected a count of 0 to {_MOST}.")
    return int(tasks)


class _TaskBook:
    """The tasks of one environment, near or far, by its Task API."""

    def __init__(self, env: Env[Any, Any], seed: int) -> None:
        self._ask = env.get_wrapper_attr("task")
        self._seed = seed
        self._first = str(env.metadata["splits"][0]["name"])
        self._rows: dict[tuple[str, int], dict[str, Any]] = {}

    def work(self, tasks: Any) -> list[Work]:
        if tasks is None:
            return self._split(self._first, None)
        if isinstance(tasks, str):
            return self._split(tasks, None)
        if isinstance(tasks, (int, np.integer)):
            return self._split(self._first, _count(tasks))
        if isinstance(tasks, (Mapping, Task)) or not isinstance(tasks, Sequence):
            raise InvalidTask(
                f"tasks={tasks!r:.80}: expected the name of a split, a count, or a list of indices, (split, index) or "
                f"rows of tasks."
            )
        return [self._one(item) for item in tasks]

    def _split(self, split: str, count: int | None) -> list[Work]:
        found = self._number_of(split)
        if count is None and found is None:
            raise InvalidTask(f"The split {split!r} is endless. Say how many: tasks=100, or a list of indices.")
        if found is not None and count is not None and count > found:
            raise InvalidTask(f"tasks={count}: the split {split!r} has {found}. Use attempts= to try each again.")
        wanted = (found or 0) if count is None else count
        for begin in range(0, wanted, _ROWS_AT_ONCE):
            self._read_ahead(split, begin, min(begin + _ROWS_AT_ONCE, wanted))
        return [self._task(split, index) for index in range(wanted)]

    def _read_ahead(self, split: str, begin: int, end: int) -> None:
        """Rows in one call, for an environment at a server; where that fails, ``_task`` asks for each and says why."""
        with suppress(PaddockError, NotImplementedError):
            for index, row in enumerate(self._ask("get_task_range", split, begin, end), begin):
                self._rows[split, index] = dict(row)

    def _number_of(self, split: str) -> int | None:
        """None if it is endless."""
        try:
            return int(self._ask("num_tasks", split))
        except NotImplementedError:
            return None

    def _one(self, item: Any) -> Work:
        if isinstance(item, Task):
            raise InvalidTask(
                "A Task by itself does not say where it stands. Pass its index, (split, index), or the row that "
                "info['task'] has."
            )
        given = None
        if isinstance(item, Mapping):
            if "index" not in item:
                raise InvalidTask(f"{dict(item)!r:.80} names no task: it has no 'index' (and 'split').")
            split, index, given = item.get("split", self._first), item["index"], item.get("seed")
        elif isinstance(item, (tuple, list)) and len(item) == 2:
            split, index = item
        else:
            split, index = self._first, item
        if not isinstance(split, str) or isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise InvalidTask(f"{item!r:.80} names no task. Expected an index, (split, index) or a row of a task.")
        return self._task(split, int(index), given)

    def _task(self, split: str, index: int, given: int | None = None) -> Work:
        key = split, index
        if key not in self._rows:
            self._rows[key] = dict(self._ask("get_task", split, index))
        row = self._rows[key]
        seed = row.get("seed") if given is None else given
        if seed is None:
            seed = derived_seed(self._seed, zlib.crc32(split.encode()) << 32 | index)
        return Work(to_seed(seed), {"split": split, "index": index}, {**row, "split": split, "index": index})
