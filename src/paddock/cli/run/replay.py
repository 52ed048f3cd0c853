"""``paddock replay``: play a recorded trace again, and say where it differs. ``paddock record`` writes one.

A trace must not choose code to run: without ``--env`` only paddock's own environments and wrappers are made.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.environment import film, open_env
from paddock.cli.output import FAILED, OK, CommandFailed, Output, mistake
from paddock.cli.program import add_deadline
from paddock.errors import InvalidTrace

if TYPE_CHECKING:
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
    options: dict[str, Any] = {"isolation": arguments.isolation}
    if spec is not None:
        kwargs = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
        options |= {"env_kwargs": kwargs, "max_episode_steps": spec.max_episode_steps}
        options["wrappers"] = spec.additional_wrappers if arguments.env is None else ()
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
    output.line(f"{different:,} of {len(rows):,} episodes differ" if different else f"{len(rows):,} episodes: the same")
