"""Tasks: the work that an environment has, in splits. A split may be endless: then only its tasks can be had, no list.

OpenEnv's Task API is answered from here, with public rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from paddock.agentic.task import Task
from paddock.errors import InvalidTask

Row: TypeAlias = "Task | str | Mapping[str, Any]"
Split: TypeAlias = "Sequence[Row] | Callable[[int], Row]"

ENDLESS = 1 << 31  # as far as tasks of an endless split are drawn
MOST_ROWS = 10_000  # that one answer of the Task API holds
_TYPES = ("train", "validation", "test")


class Tasks:
    """Splits by name: each a list of tasks, or a function that makes the i-th of endlessly many.

    A task may be written as its prompt alone, or as a dict of its fields. The first split is the usual one.

    >>> tasks = Tasks(train=lambda i: Task(seed=i, prompt="Guess."), test=["Guess once.", "Guess twice."])
    >>> tasks.get("train", 41).seed, tasks.get("test", 1).prompt
    (41, 'Guess twice.')
    >>> tasks.count("test"), tasks.count("train")
    (2, None)
    """

    def __init__(self, **splits: Split) -> None:
        if not splits:
            raise InvalidTask("Tasks() has no split; write Tasks(train=[...]).")
        for name, split in splits.items():
            listed = isinstance(split, Sequence) and not isinstance(split, (str, bytes))
            if not callable(split) and (not listed or not split):
                raise InvalidTask(
                    f"split {name!r}: expected a list of tasks that is not empty, or a function of an index, "
                    f"got {split!r:.100}."
                )
        self._splits = splits

    @property
    def names(self) -> list[str]:
        """The names of the splits."""
        return list(self._splits)

    def count(self, split: str) -> int | None:
        """How many tasks a split has; None if it is endless."""
        found = self._split(split)
        return None if callable(found) else len(found)

    def get(self, split: str, index: int) -> Task:
        """One task; InvalidTask where there is none."""
        found = self._split(split)
        count = self.count(split)
        if type(index) is not int or index < 0 or (count is not None and index >= count):
            upto = "0 or more" if count is None else f"0 to {count - 1}"
            raise InvalidTask(f"index: no task {_shown(index)} in the split {split!r}, expected {upto}.")
        return as_task(found(index) if callable(found) else found[index], f"task {index} of {split!r}")

    def draw(self, split: str, random: np.random.Generator) -> int:
        """A random index."""
        return int(random.integers(self.count(split) or ENDLESS))

    def rows(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Public rows of a range, as a slice takes its ends; InvalidTask if an endless split has no end given."""
        for end in (start, stop):
            if end is not None and type(end) is not int:
                raise InvalidTask(f"start and stop: expected integers, got {_shown(end)}.")
        count = self.count(split)
        if count is None:
            first = start or 0
            if stop is None or stop < 0 or first < 0:
                raise InvalidTask(f"the split {split!r} is endless: give start and stop, both 0 or more.")
            indices = range(first, stop)
        else:
            indices = range(*slice(start, stop).indices(count))
        if len(indices) > MOST_ROWS:
            raise InvalidTask(f"{len(indices)} tasks are too many at a time, expected at most {MOST_ROWS}.")
        return [self.get(split, index).public() for index in indices]

    def _split(self, name: Any) -> Any:
        found = self._splits.get(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidTask(f"split: no split {_shown(name)}, expected one of {', '.join(map(repr, self._splits))}.")
        return found

    def __repr__(self) -> str:
        sizes = (f"{name}: {'endless' if self.count(name) is None else self.count(name)}" for name in self._splits)
        return f"<Tasks {', '.join(sizes)}>"


def as_task(row: Any, place: str) -> Task:
    """A row as a Task."""
    if isinstance(row, Task):
        return row
    if isinstance(row, str):
        return Task(prompt=row)
    unknown = row.keys() - set(Task.__struct_fields__) if isinstance(row, Mapping) else ()
    try:
        if not unknown:
            return msgspec.convert(row, Task)
        problem = f"no field {_shown(min(unknown, key=str))}"
    except msgspec.ValidationError as error:
        problem = str(error)
    fields = ", ".join(Task.__struct_fields__)
    raise InvalidTask(f"{place}: {problem}; expected a Task, a prompt or a dict with some of {fields}.")


def told_splits(tasks: Tasks) -> list[dict[str, str]]:
    """The splits as OpenEnv's Task API lists them."""
    return [{"name": name, "type": name if name in _TYPES else "validation"} for name in tasks.names]


def answer(tasks: Tasks, method: str, *arguments: Any) -> Any:
    """What a method of the Task API returns; NotImplementedError for a list, or a count, of endlessly many."""
    if method == "list_splits":
        return told_splits(tasks)
    if method == "get_task" and len(arguments) == 2:
        return tasks.get(*arguments).public()
    if method == "get_task_range" and 1 <= len(arguments) <= 3:
        return tasks.rows(*arguments)
    if method in ("list_tasks", "num_tasks") and len(arguments) == 1:
        count = tasks.count(arguments[0])
        if count is None:
            raise NotImplementedError(f"{method} is not supported for this environment: the split is endless")
        return count if method == "num_tasks" else tasks.rows(arguments[0])
    raise InvalidTask(f"{method!r:.60} with {len(arguments)} arguments is no call of the Task API.")


def _shown(value: Any) -> str:
    return repr(value)[:60] if type(value) in (str, int, float, bool, type(None)) else f"a {type(value).__name__}"
