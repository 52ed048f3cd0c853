"""``paddock view``: look at recorded episodes, one at a time in a terminal, or all in one page of HTML."""

from __future__ import annotations

import os
import re
import shutil
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import FAILED, OK, CommandFailed, Output, mistake

if TYPE_CHECKING:
    from paddock.agentic.rollouts.story import Story

_MOST = 1000  # episodes of a page
_COMPARISON = re.compile(r"\s*(<=|>=|<|>|=|==)?\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)\s*")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
}


def comparison(text: str) -> Callable[[float], bool]:
    """A type for ``>=1``, ``<0.5``, ``1``."""
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text[:40]!r} is not a comparison such as '>=1', '<0.5' or '0'")
    compare, bound = _COMPARE[found[1] or "="], float(found[2])
    return lambda value: compare(value, bound)


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("run", metavar="RUN", help="a trace such as run.jsonl, or the results folder of `paddock eval`")
    add("--html", metavar="FILE", help="write one self-contained page instead; a file that exists is replaced")
    add("--episode", type=int, metavar="N", help="only the episode of this number")
    add("--reward", type=comparison, metavar="COMPARISON", help="only returns such as '>=1' or '<0.5'")
    add("--error", nargs="?", const="", metavar="CODE", help="only episodes that failed, with this code")
    add("--task", metavar="TEXT", help="only tasks whose name has this text, such as 'test[3]'")


def run(arguments: Namespace, output: Output) -> int:
    """Show, or write the page."""
    from paddock.agentic.rollouts import story

    path = Path(arguments.run)
    trace = path / "run.jsonl" if path.is_dir() else path
    if not trace.is_file():
        raise mistake(f"{trace} is not a file. Expected a trace, such as rollout(…, trace='run.jsonl') writes.")
    stories = _chosen(arguments, trace)
    if arguments.html is not None:
        return _write(arguments, trace, stories, output)
    found = 0
    if arguments.json:
        documents = [_document(one) for one in stories]
        output.document({"run": arguments.run, "episodes": documents})
        return OK if documents else FAILED
    asks = output.stdout.isatty() and sys.stdin.isatty()
    width = shutil.get_terminal_size().columns if asks else 100
    for one in stories:
        if found:
            output.line()
        found += 1
        for line in story.lines(one, width):
            output.line(line)
        if asks and not _goes_on():
            return OK
    if not found:
        raise CommandFailed(f"{trace}: no episode fits.", exit_code=FAILED, code="NO_EPISODES")
    return OK


def _chosen(arguments: Namespace, trace: Path) -> Iterator[Story]:
    from paddock.agentic.rollouts.story import story_of
    from paddock.record.trace import TraceReader

    for episode in TraceReader(trace):
        one = story_of(episode)
        code = None if episode.error is None else episode.error.code
        if (
            arguments.episode in (None, one.number)
            and (arguments.reward is None or (one.total is not None and arguments.reward(one.total)))
            and (arguments.error is None or (one.total is None and arguments.error in ("", code)))
            and (arguments.task is None or arguments.task in one.task)
        ):
            yield one


def _write(arguments: Namespace, trace: Path, stories: Iterator[Story], output: Output) -> int:
    from paddock.agentic.rollouts.story import page

    target, count, more = Path(arguments.html), 0, False
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")

    def counted() -> Iterator[Story]:
        nonlocal count, more
        for one in stories:
            if count == _MOST:
                more = True
                return
            count += 1
            yield one

    try:
        with draft.open("w", encoding="utf-8") as file:
            for piece in page(str(trace), counted()):
                file.write(piece)
        if not count:
            raise CommandFailed(f"{trace}: no episode fits.", exit_code=FAILED, code="NO_EPISODES")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    if more:
        output.warning(f"The page has the first {_MOST} episodes that fit. Choose by --task, --reward or --error.")
    if arguments.json:
        output.document({"run": arguments.run, "html": str(target), "episodes": count, "more": more})
    else:
        output.line(f"{target}: {count} episodes")
    return OK


def _document(one: Story) -> dict[str, Any]:
    return {**one._asdict(), "entries": [entry._asdict() for entry in one.entries]}


def _goes_on() -> bool:
    """Wait for a key and Enter: q ends, anything else goes on."""
    try:
        return input("-- Enter for the next episode, q to quit -- ").strip().lower() not in ("q", "quit")
    except EOFError:
        return False
