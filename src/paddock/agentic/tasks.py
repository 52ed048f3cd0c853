"""Tasks: the work of an environment, in splits. An endless split has no list and no count, only tasks by index.

``answer`` implements OpenEnv's Task API, which sees public rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from paddock.agentic.messages import Message
from paddock.errors import InvalidTask

Row: TypeAlias = "Task | str | Mapping[str, Any]"
Split: TypeAlias = "Sequence[Row] | Callable[[int], Row]"

ENDLESS = 1 << 31  # indices of an endless split are drawn below this
MAX_ROWS = 10_000  # in one answer of the Task API
_OPENENV_TYPES = ("train", "validation", "test")


# Only the environment and its grader see ``hidden``: no peer ever gets it.
class Task(msgspec.Struct, frozen=True, kw_only=True):
    """``seed`` begins its episode unless ``reset`` is given another. ``metadata`` is public, as the prompt is."""

    prompt: str | list[Message] = ""
    seed: int | None = None
    metadata: dict[str, Any] = {}
    hidden: dict[str, Any] = {}

    def public(self) -> dict[str, Any]:
        row: dict[str, Any] = msgspec.to_builtins(self)
        del row["hidden"]
        return row


def task_name(row: Mapping[str, Any], seed: int | None) -> str:
    """Name the task of a public row for people: ``test[3]``, or by its seed if the row has no index."""
    return f"{row.get('split', '')}[{row['index']}]" if "index" in row else f"seed {seed}"


class Tasks:
    """Splits by name. A split is a list of tasks, or for an endless split a function that makes the i-th task.

    A task may be written as its prompt alone, or as a dict of its fields. The first split is the default.

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
        return list(self._splits)

    def count(self, split: str) -> int | None:
        """How many tasks a split has; None if it is endless."""
        rows = self._split(split)
        return None if callable(rows) else len(rows)

    def get(self, split: str, index: int) -> Task:
        """Return one task; InvalidTask if there is none."""
        rows = self._split(split)
        count = self.count(split)
        if type(index) is not int or index < 0 or (count is not None and index >= count):
            expected = "0 or more" if count is None else f"0 to {count - 1}"
            raise InvalidTask(f"index: no task {_quote(index)} in the split {split!r}, expected {expected}.")
        return _to_task(rows(index) if callable(rows) else rows[index], f"task {index} of {split!r}")

    def draw(self, split: str, random: np.random.Generator) -> int:
        return int(random.integers(self.count(split) or ENDLESS))

    def rows(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return the public rows of a range, with the ends of a slice; an endless split needs both ends."""
        for end in (start, stop):
            if end is not None and type(end) is not int:
                raise InvalidTask(f"start and stop: expected integers, got {_quote(end)}.")
        count = self.count(split)
        if count is None:
            first = start or 0
            if stop is None or stop < 0 or first < 0:
                raise InvalidTask(f"the split {split!r} is endless: give start and stop, both 0 or more.")
            indices = range(first, stop)
        else:
            indices = range(*slice(start, stop).indices(count))
        if len(indices) > MAX_ROWS:
            raise InvalidTask(f"{len(indices)} tasks are too many at a time, expected at most {MAX_ROWS}.")
        return [self.get(split, index).public() for index in indices]

    def openenv_splits(self) -> list[dict[str, str]]:
        """List the splits as OpenEnv's Task API does."""
        return [{"name": name, "type": name if name in _OPENENV_TYPES else "validation"} for name in self._splits]

    def _split(self, name: Any) -> Any:
        split = self._splits.get(name) if isinstance(name, str) else None
        if split is None:
            raise InvalidTask(f"split: no split {_quote(name)}, expected one of {', '.join(map(repr, self._splits))}.")
        return split

    def __repr__(self) -> str:
        sizes = (f"{name}: {'endless' if self.count(name) is None else self.count(name)}" for name in self._splits)
        return f"<Tasks {', '.join(sizes)}>"


def _to_task(row: Any, place: str) -> Task:
    if isinstance(row, Task):
        return row
    if isinstance(row, str):
        return Task(prompt=row)
    unknown = row.keys() - set(Task.__struct_fields__) if isinstance(row, Mapping) else ()
    try:
        if not unknown:
            return msgspec.convert(row, Task)
        problem = f"no field {_quote(min(unknown, key=str))}"
    except msgspec.ValidationError as error:
        problem = str(error)
    fields = ", ".join(Task.__struct_fields__)
    raise InvalidTask(f"{place}: {problem}; expected a Task, a prompt or a dict with some of {fields}.")


def answer(tasks: Tasks, method: str, *arguments: Any) -> Any:
    """Answer a call of the Task API; NotImplementedError for the list or the count of an endless split."""
    if method == "list_splits":
        return tasks.openenv_splits()
    if method == "get_task" and len(arguments) == 2:
        return tasks.get(*arguments).public()
    if method == "get_task_range" and 1 <= len(arguments) <= 3:
        return tasks.rows(*arguments)
    if method in ("list_tasks", "num_tasks") and len(arguments) == 1:
        count = tasks.count(arguments[0])
        if count is None:
            raise NotImplementedError(f"{method} is not supported for this environment: the split is endless")
        return count if method == "num_tasks" else tasks.rows(arguments[0])
    raise InvalidTask(f"{method!r:.60} with {len(arguments)} arguments is not a call of the Task API.")


def _quote(value: Any) -> str:
    return repr(value)[:60] if type(value) in (str, int, float, bool, type(None)) else f"a {type(value).__name__}"
