"""``paddock rescore``: score the steps of a trace again, with a rubric of your own.

A trace must not choose code to run. So the hidden fields of its tasks come from environments that are known by id, or
from one that you name.
"""

from __future__ import annotations

import inspect
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.environment import find_modules_here, open_env
from paddock.cli.output import FAILED, OK, CommandFailed, Output, environment_code, error_message, mistake
from paddock.core.problem import kind
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.agentic.rescoring import FindTask
    from paddock.agentic.rollouts import Estimate
    from paddock.agentic.rubrics import Rubric
    from paddock.record.trace import TraceReader


MOST_ROWS = 20


class Row(NamedTuple):
    """An episode with its old and its new return, or the reason why it has no new one."""

    episode: int
    task: str
    old: float | None
    new: float | None
    reason: str | None
    hidden: bool


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("traces", metavar="TRACES", help="a trace, such as traces.jsonl")
    add("--rubric", required=True, metavar="MODULE:NAME", help="your rubric: a class, a function or an instance")
    add("--out", metavar="FILE", help="write a trace with the new scores, which must not exist yet")
    add("--env", metavar="TARGET", help="the environment that has the hidden fields of the tasks")
    add("--isolation", metavar="KIND", help="as make(isolation=...), for --env")


def run(arguments: Namespace, output: Output) -> int:
    """Score, and print old and new."""
    from paddock.record.trace import TraceReader

    if not Path(arguments.traces).is_file():
        raise mistake(f"{arguments.traces} is not a file.")
    if arguments.out is not None and Path(arguments.out).exists():
        raise mistake(f"--out {arguments.out} exists. Name another file.")
    if arguments.isolation is not None and arguments.env is None:
        raise mistake("--isolation needs --env TARGET. Add that, or drop --isolation.")
    reader = TraceReader(arguments.traces)
    rows, notes = _score(arguments, reader)
    if reader.torn is not None:
        notes.append(f"{arguments.traces}: {reader.torn}")
    if not rows:
        raise CommandFailed(f"{arguments.traces} has no episodes.", exit_code=FAILED, code="NO_EPISODES")
    for note in notes:
        output.warning(note)
    if arguments.json:
        output.document(_document(arguments, rows, notes))
    else:
        _print(arguments, rows, output)
    return OK if all(row.new is not None for row in rows) else FAILED


def _score(arguments: Namespace, reader: TraceReader) -> tuple[list[Row], list[str]]:
    """Return a row for each episode, and notes for the user. Episodes are held in memory one at a time."""
    from paddock.agentic.rescoring import Rescoring, write
    from paddock.record.trace import TraceWriter

    rows = []
    with ExitStack() as stack:
        rescoring = stack.enter_context(closing(Rescoring(load_rubric(arguments.rubric))))
        tasks = HiddenTasks(arguments.env, arguments.isolation)
        writer = None if arguments.out is None else stack.enter_context(TraceWriter(arguments.out))
        for episode in reader:
            find_task = tasks.of(episode.env)
            with environment_code(lambda: f"the rubric {arguments.rubric}"):
                found = rescoring.score(episode, find_task)
            if writer is not None:
                write(writer, found, arguments.rubric)
            rows.append(Row(episode.number, found.task, found.old, found.new, found.reason, found.hidden))
    return sorted(rows, key=lambda row: row.episode), tasks.notes  # a trace has them in the order in which they ended


def _means(rows: Sequence[Row]) -> tuple[Estimate | None, Estimate | None]:
    """Return the old and the new mean, over rows that have both returns."""
    from paddock.agentic.rollouts.results import mean_of

    by_task: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.old is not None and row.new is not None:
            by_task.setdefault(row.task, []).append((row.old, row.new))
    groups = list(by_task.values())
    return mean_of([[old for old, _ in g] for g in groups]), mean_of([[new for _, new in g] for g in groups])


def _document(arguments: Namespace, rows: Sequence[Row], notes: Sequence[str]) -> dict[str, Any]:
    old, new = _means(rows)
    return {
        "traces": arguments.traces,
        "rubric": arguments.rubric,
        "out": arguments.out,
        "scored": sum(row.new is not None for row in rows),
        "not_scored": sum(row.new is None for row in rows),
        "old_mean": None if old is None else vars(old),
        "new_mean": None if new is None else vars(new),
        "episodes": [row._asdict() for row in rows],
        "notes": list(notes),
    }


def _failures(rows: Sequence[Row]) -> list[str]:
    """Return a line for each reason, with its episodes."""
    groups: dict[str | None, list[Row]] = {}
    for row in rows:
        if row.new is None:
            groups.setdefault(row.reason, []).append(row)
    lines = []
    for reason, group in groups.items():
        first = f"{group[0].episode} ({group[0].task})"
        which = f"episode {first}" if len(group) == 1 else f"{len(group):,} episodes, the first {first},"
        lines.append(f"{which} can't be scored: {reason}")
    return lines


def _print(arguments: Namespace, rows: Sequence[Row], output: Output) -> None:
    scored = [row for row in rows if row.new is not None]
    if scored:
        output.table(
            ["episode", "task", "old", "new", "hidden"],
            [[r.episode, r.task, r.old, r.new, "yes" if r.hidden else "no"] for r in scored[:MOST_ROWS]],
            title=f"{arguments.traces}, rubric {arguments.rubric}",
        )
        if len(scored) > MOST_ROWS:
            output.line(f"and {len(scored) - MOST_ROWS:,} more episodes (--json has all)")
        output.line("hidden: whether the rubric had the hidden fields of the task, such as its answer")
        output.line()
    for line in _failures(rows):
        output.line(line)
    old, new = _means(rows)
    output.facts(
        [
            ("scored", f"{len(scored)} of {len(rows)}"),
            ("old mean", "none" if old is None else str(old)),
            ("new mean", "none" if new is None else str(new)),
            *([] if arguments.out is None else [("written to", arguments.out)]),
        ]
    )


class HiddenTasks:
    """Finds tasks with their hidden fields, in ``target`` or, without one, in the environment that an episode names.

    A trace may name only known ids: a module, a folder or a server would be a stranger's choice. ``notes`` says which
    tasks are not available.
    """

    def __init__(self, target: str | None, isolation: str | None) -> None:
        self._target, self._isolation = target, isolation
        if target is not None:
            _check_without_wall(target, isolation)
        self._known: dict[str | None, FindTask | None] = {}
        self.notes: list[str] = []

    def of(self, env: str | None) -> FindTask | None:
        """Return a function that finds tasks of that environment; None if only public rows are available."""
        name = self._target or env
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def _look_up(self, name: str | None) -> FindTask | None:
        import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
        from paddock.core.registry import registry  # and what the user's code registers, the rubric's module for one

        if name is None or (self._target is None and name not in registry):
            self.notes.append(
                f"{name or 'no name'} in the trace is not a known id, so the hidden fields of its tasks are not looked "
                f"up. To name the environment: --env TARGET, or for a folder of your own --env ./FOLDER --isolation "
                f"none, because a wall keeps hidden fields in"
            )
            return None
        from paddock.agentic.tasks import Tasks

        try:
            with open_env(name, isolation=self._isolation) as env:
                tasks: Any = getattr(env.unwrapped, "tasks", None)
        except (PaddockError, CommandFailed) as error:
            if self._target is not None:
                raise
            self.notes.append(
                f"{name} can't be made, so the hidden fields of its tasks are unknown: {error_message(error)}"
            )
            return None
        if not isinstance(tasks, Tasks):
            self.notes.append(
                f"the tasks of {name} are not available: it has none, or they are on a server, which keeps hidden "
                f"fields in"
            )
            return None
        return tasks.get


def _check_without_wall(target: str, isolation: str | None) -> None:
    """Refuse before anything runs: every episode would fail without the fields that the wall keeps in."""
    from paddock.making.target import split_folder

    folder = split_folder(target) is not None
    if isolation == "none" or (isolation is None and not folder):
        return
    where = "runs behind a wall" if isolation is None else f"would run apart (--isolation {isolation})"
    own = "For a folder of your own" if folder else "For code of your own"
    raise mistake(f"--env {target} {where}, and a wall keeps hidden fields in. {own} add: --isolation none")


def load_rubric(text: str, **arguments: Any) -> Rubric:
    """Load the rubric ``module:Name``, from Python's path or the working folder: an instance, or what makes one.

    That gets the ``arguments``.
    """
    from paddock.agentic.rubrics import Rubric

    module, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise mistake(f"--rubric {text!r}: expected module:Name, such as my_rubrics:Strict.")
    find_modules_here()
    found = _import_attribute(module, name)
    if not isinstance(found, Rubric) and (inspect.isclass(found) or inspect.isroutine(found)):
        with environment_code(lambda: f"making {text}"):
            found = found(**arguments)
    if not isinstance(found, Rubric):
        raise mistake(f"--rubric {text}: it is {kind(found)}, expected a Rubric, or a class or function of one.")
    return found


def _import_attribute(module: str, name: str) -> Any:
    with environment_code(lambda: f"importing {module}"):
        try:
            found: Any = import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            raise mistake(f"--rubric: there is no module {module!r} here or on Python's path.") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise mistake(f"--rubric: {module} has no {name!r}.")
        found = getattr(found, part)
    return found
