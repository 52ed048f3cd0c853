"""``paddock rescore``: score the steps of a trace again. The rubric is code of yours; a trace names no code to run.

So what is hidden of its tasks is looked up in environments that are known by id, or in one that you name.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.arguments import add_json
from paddock.cli.failures import FAILED, OK, CommandFailed, environment_code, mistake
from paddock.cli.output import Output

if TYPE_CHECKING:
    from paddock.agentic.rollouts import Estimate
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
    parser.add_argument("traces", metavar="TRACES", help="a trace, such as traces.jsonl")
    parser.add_argument(
        "--rubric", required=True, metavar="MODULE:NAME", help="a rubric of yours: a class, a function or an instance"
    )
    parser.add_argument("--out", metavar="FILE", help="write a trace with the new scores, which must not exist yet")
    parser.add_argument("--env", metavar="TARGET", help="where to look up what is hidden of the tasks")
    parser.add_argument("--isolation", metavar="KIND", help="as make(isolation=...), for --env")
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Score, and print old and new."""
    from paddock.record.trace import TraceReader

    if not Path(arguments.traces).is_file():
        raise mistake(f"{arguments.traces} is no file.")
    if arguments.out is not None and Path(arguments.out).exists():
        raise mistake(f"--out {arguments.out} exists. Name another file.")
    if arguments.isolation is not None and arguments.env is None:
        raise mistake("--isolation is for --env TARGET. Name one, or drop it.")
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
    """A row for each episode, and what the user should hear besides. Episodes are held one at a time."""
    from paddock.agentic.rescoring import Rescoring, write
    from paddock.cli.hidden_tasks import HiddenTasks
    from paddock.cli.named_rubric import named_rubric
    from paddock.record.trace import TraceWriter

    rows = []
    with ExitStack() as stack:
        rescoring = stack.enter_context(closing(Rescoring(named_rubric(arguments.rubric))))
        tasks = HiddenTasks(arguments.env, arguments.isolation)
        writer = None if arguments.out is None else stack.enter_context(TraceWriter(arguments.out))
        for episode in reader:
            find_task = tasks.of(episode.env)
            with environment_code(lambda: f"the rubric {arguments.rubric}"):
                found = rescoring.score(episode, find_task)
            if writer is not None:
                write(writer, found, arguments.rubric)
            rows.append(Row(episode.number, found.task, found.old, found.new, found.reason, found.hidden))
    return sorted(rows, key=lambda row: row.episode), tasks.notes  # a trace has them as they ended


def _means(rows: Sequence[Row]) -> tuple[Estimate | None, Estimate | None]:
    """Of the rows that have both returns, so that they can be compared."""
    from paddock.agentic.rollouts.statistics import mean_of

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
    """One line for each reason, with the episodes that it holds for."""
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
        output.line("hidden: whether the rubric had what is hidden of the task, such as its answer")
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
