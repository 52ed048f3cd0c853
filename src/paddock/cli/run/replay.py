"""``paddock replay``: play a recorded trace again, and say where it differs. ``paddock view``: look at it.

A trace must not choose code to run: without ``--env`` only paddock's own environments and wrappers are made.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.environment import film, open_env
from paddock.cli.output import FAILED, OK, CommandFailed, Output, mistake
from paddock.cli.program import add_deadline
from paddock.errors import InvalidTrace

if TYPE_CHECKING:
    from paddock.agentic.rollouts.story import Story
    from paddock.core.spec import EnvSpec
    from paddock.record.trace import Difference, Episode

MOST_ROWS = 20


class Row(NamedTuple):
    """How the replay of an episode went: ``same``, or the first difference, or why it can't be repeated."""

    episode: int
    seed: int | None
    steps: int
    same: bool
    difference: Difference | None
    problem: str | None

    @property
    def result(self) -> str:
        return "the same" if self.same else str(self.difference or self.problem)


def add_replay_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("trace", metavar="TRACE", help="a trace, such as run.jsonl")
    add("--env", metavar="TARGET", help="the environment to play it in; without it, the one in the trace")
    add("--isolation", metavar="KIND", help="as make(isolation=...)")
    add("--infos", action="store_true", help="compare infos, too")
    add("--video", metavar="DIR", help="write an mp4 of each episode into this folder")
    add_deadline(parser)


def run_replay(arguments: Namespace, output: Output) -> int:
    """Replay, and print how each episode went."""
    from paddock.cli.watchdog import watch
    from paddock.record.trace import TraceReader

    if not Path(arguments.trace).is_file():
        raise mistake(f"{arguments.trace} is not a file.")
    reader = TraceReader(arguments.trace)
    with watch(output, arguments.deadline):
        rows = sorted(_replay(reader, arguments))
    if not rows:
        raise CommandFailed(f"{arguments.trace} has no episodes.", exit_code=FAILED, code="NO_EPISODES")
    if reader.torn is not None:
        output.warning(f"{arguments.trace}: {reader.torn}")
    if not reader.sealed:
        output.warning(f"{arguments.trace} has no seal: an episode that was left out would not be noticed.")
    same = all(row.same for row in rows)
    if arguments.json:
        episodes = [
            {**row._asdict(), "difference": None if row.difference is None else str(row.difference)} for row in rows
        ]
        output.document({"trace": arguments.trace, "same": same, "sealed": reader.sealed, "episodes": episodes})
    else:
        _print(arguments, rows, output)
    return OK if same else FAILED


def _replay(reader: Iterable[Episode], arguments: Namespace) -> Iterator[Row]:
    """Replay the episodes as they come. The environment stays open while they name the same one."""
    from paddock.record.trace import replay

    spec: Any = ()  # unlike any spec, and unlike none
    name, opened = Path(arguments.trace).stem, 0
    with ExitStack() as stack:
        for episode in reader:
            if episode.spec != spec:
                stack.close()
                spec = episode.spec
                env = stack.enter_context(open_env(*_target(episode, arguments), **_options(spec, arguments)))
                opened += 1
                if arguments.video is not None:
                    prefix = name if opened == 1 else f"{name}-{opened}"
                    env = stack.enter_context(film(env, arguments.video, prefix))
            try:
                found = replay(episode, env, infos=arguments.infos)
            except InvalidTrace as error:
                yield Row(episode.number, episode.seed, 0, False, None, str(error))
                continue
            yield Row(episode.number, episode.seed, found.steps, found.same, found.difference, None)


def _target(episode: Episode, arguments: Namespace) -> list[str]:
    from paddock.bench.plan import is_built_in

    if arguments.env is not None:
        return [arguments.env]
    if episode.spec is None or not is_built_in(episode.spec):
        name = episode.env or "no environment"
        raise mistake(f"the trace names {name}, which is not one of paddock's own. Name the one to use: --env TARGET.")
    return [episode.spec.id]


def _options(spec: EnvSpec | None, arguments: Namespace) -> dict[str, Any]:
    from paddock.bench.plan import needs_wall

    options: dict[str, Any] = {"isolation": arguments.isolation}
    if spec is not None:
        kwargs = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
        options |= {"env_kwargs": kwargs, "max_episode_steps": spec.max_episode_steps}
        if arguments.env is None:
            options["wrappers"] = spec.additional_wrappers
            if arguments.isolation is None and needs_wall(replace(spec, kwargs=kwargs)):
                options["isolation"] = "sandbox"
    if arguments.video is not None:
        options["render_mode"] = "rgb_array"
    return options


def _print(arguments: Namespace, rows: list[Row], output: Output) -> None:
    output.table(
        ["episode", "seed", "steps", "result"],
        [[row.episode, None if row.seed is None else str(row.seed), row.steps, row.result] for row in rows[:MOST_ROWS]],
        title=arguments.trace,
    )
    if len(rows) > MOST_ROWS:
        output.line(f"and {len(rows) - MOST_ROWS:,} more episodes (--json has all)")
    different = sum(not row.same for row in rows)
    output.line(f"{different or len(rows):,} of {len(rows):,} episodes {'differ' if different else 'are the same'}")


# ── paddock view: recorded episodes, one at a time in a terminal, or all in one page ──

_PAGE_EPISODES = 1000  # episodes of a page
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


def add_view_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("run", metavar="RUN", help="a trace such as run.jsonl, or the results folder of `paddock eval`")
    add("--html", metavar="FILE", help="write one self-contained page instead; a file that exists is replaced")
    add("--episode", type=int, metavar="N", help="only the episode of this number")
    add("--reward", type=comparison, metavar="COMPARISON", help="only returns such as '>=1' or '<0.5'")
    add("--error", nargs="?", const="", metavar="CODE", help="only episodes that failed, with this code")
    add("--task", metavar="TEXT", help="only tasks whose name has this text, such as 'test[3]'")


def run_view(arguments: Namespace, output: Output) -> int:
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
        documents = [_story_document(one) for one in stories]
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
            if count == _PAGE_EPISODES:
                more = True
                return
            count += 1
            yield one

    try:
        with draft.open("w", encoding="utf-8") as file:
            for piece in page(trace.name, counted()):
                file.write(piece)
        if not count:
            raise CommandFailed(f"{trace}: no episode fits.", exit_code=FAILED, code="NO_EPISODES")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    if more:
        output.warning(f"The page has the first {_PAGE_EPISODES} that fit. Choose by --task, --reward or --error.")
    facts = {"run": arguments.run, "html": str(target), "episodes": count, "more": more}
    output.report(facts, f"{target}: {count} episodes")
    return OK


def _story_document(one: Story) -> dict[str, Any]:
    return {**one._asdict(), "entries": [entry._asdict() for entry in one.entries]}


def _goes_on() -> bool:
    """Wait for a key and Enter: q ends, anything else goes on."""
    try:
        return input("-- Enter for the next episode, q to quit -- ").strip().lower() not in ("q", "quit")
    except EOFError:
        return False
