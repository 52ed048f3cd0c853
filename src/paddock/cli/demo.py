"""``paddock demo``: the tour. The same seeded episode at every stop, and the same digest at each, or the demo fails."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.arguments import add_json
from paddock.cli.failures import FAILED, OK, CommandFailed
from paddock.cli.output import Output
from paddock.cli.printing import message_of
from paddock.errors import DependencyNotInstalled, PlanError, SandboxUnavailable
from paddock.kernels.installed import numba_installed

if TYPE_CHECKING:
    from paddock.cli.policies import Choose
    from paddock.core.env import Env

TARGET, SEED, STEPS, LANES = "CartPole-v1", 42, 500, 1024
# No line is longer than 60 characters: a narrow terminal shows them whole.
HEADER = (
    "paddock: one environment, every distance.",
    f"Five times the same episode of {TARGET}, seed {SEED}: equal",
    "digests prove equal numbers. Then Wordle, played by tool.",
)
FOOTER = (
    "A lane is one environment of a batch. Outside this process",
    "a step is a message there and back; many lanes share one.",
)
NEXT = (
    "paddock list               every environment there is",
    "paddock init my_env        write one of your own",
    f"paddock serve {TARGET}  serve one to other programs",
)
# What a machine may lack: a wall, an extra, worker processes. Such a row says why; any other failure ends the demo.
_NOT_HERE = {SandboxUnavailable.code, DependencyNotInstalled.code, PlanError.code}
# Stdin is a lifeline: it ends with the demo, however that ends, and the server stops as on Ctrl-C.
_SERVER = f"""
import sys
sys.path[:] = sys.argv[1:]
import os, signal, threading
from paddock.cli import main
def follow(): os.read(0, 1), os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=follow, daemon=True).start()
sys.exit(main(["serve", "{TARGET}", "--port", "0", "--isolation", "auto", "--json"]))
"""
_STOP_S = 30.0


class Stop(NamedTuple):
    """One distance: its name, what it is good for, how the environment is opened there, how many lanes step at once."""

    name: str
    good_for: str
    open: Callable[[], AbstractContextManager[Env[Any, Any]]]
    lanes: int = 1


class Row(NamedTuple):
    """What came of a stop. ``reason``: why this machine has no such stop."""

    name: str
    steps_per_s: float | None
    digest: str | None
    good_for: str
    steps: int = 0
    total_return: float | None = None
    reason: str | None = None


def _made(isolation: str | None = None) -> AbstractContextManager[Env[Any, Any]]:
    from paddock.cli.environment import made

    return made(TARGET, isolation=isolation)


def _lanes() -> AbstractContextManager[Env[Any, Any]]:
    from paddock.cli.first_lane import FirstLane

    return FirstLane(TARGET, LANES)


@contextmanager
def _served() -> Iterator[Env[Any, Any]]:
    """The environment on a server of the demo's own, with a token of its own, on a free port of this machine."""
    import subprocess

    from paddock.cli.environment import made
    from paddock.making import RemoteOptions

    # A session of its own: Ctrl-C is for the demo, which then ends the server in order.
    with subprocess.Popen(  # noqa: S603 - this Python, with words of ours
        [sys.executable, "-c", _SERVER, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            answer = _first_document(server.stdout)
            if "urls" not in answer:
                failure = answer.get("error", {"message": "the server ended by itself", "code": "ENV_LOST"})
                raise CommandFailed(failure["message"], exit_code=FAILED, code=failure["code"])
            with made(f"{answer['urls'][0]}/{TARGET}", remote=RemoteOptions(token=answer["token"])) as env:
                yield env
        finally:
            server.stdin.close()
            try:
                server.wait(_STOP_S)
            finally:
                server.kill()  # one that ended is left alone


def _first_document(lines: Iterator[str]) -> dict[str, Any]:
    text = ""
    for line in lines:
        text += line
        if line.rstrip() == "}":
            break
    return json.loads(text or "{}")  # type: ignore[no-any-return]


STOPS = (
    Stop("in process", "debugging, tests", _made),
    Stop(f"{LANES} lanes", "fast training", _lanes, LANES),
    Stop("another process", "code that may crash", lambda: _made("process")),
    Stop("sandbox", "untrusted code", lambda: _made("sandbox")),
    Stop("server", "other machines", _served),
)


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Visit every stop, compare the digests."""
    if not arguments.json:
        for text in (*HEADER, ""):
            output.line(text)
    rows = [*(_visit(stop, output) for stop in STOPS), _agentic()]
    same = len({row.digest for row in rows if row.digest is not None}) == 1
    if arguments.json:
        output.document({"target": TARGET, "seed": SEED, "rows": list(map(_plain, rows)), "same_trajectory": same})
    else:
        _print(rows, same, output)
    return OK if same else FAILED


def balance(env: Env[Any, Any], seed: int) -> Choose:
    """Push the cart to the side to which the pole falls."""
    return lambda observation, info: int(observation[2] + observation[3] / 2 > 0)


def _visit(stop: Stop, output: Output) -> Row:
    from paddock.cli.episodes import play

    try:
        with output.progress(f"{TARGET}, {stop.name}", STEPS) as on_step, stop.open() as env:
            played = play(env, balance, seed=SEED, on_step=on_step)
    except CommandFailed as error:
        if error.code not in _NOT_HERE:
            raise
        return Row(stop.name, None, None, stop.good_for, reason=message_of(error.__cause__ or error))
    if not played.episodes:  # interrupted in the only one
        raise KeyboardInterrupt
    speed = played.steps_per_second * stop.lanes
    return Row(stop.name, speed, played.digest, stop.good_for, played.steps, played.episodes[0].total_return)


def _agentic() -> Row:
    """An episode of another kind, so without the others' digest: Wordle, by a policy that calls its tool."""
    import re

    from paddock.agentic import CallTool, Turn, rollout
    from paddock.agentic.envs.wordle_marks import marks, shown
    from paddock.agentic.envs.wordle_words import ANSWERS

    def guess(turn: Turn) -> CallTool:
        """The first word that fits all marks so far."""
        told = re.findall(r"([A-Z]{5}) ([GY-]{5})", str(turn.messages[-1]["content"]))
        fits = (word for word in ANSWERS if all(shown(marks(row.lower(), word)) == marked for row, marked in told))
        return CallTool("guess", {"word": next(fits)})

    (one,) = rollout("paddock/Wordle", guess, tasks=[("test", 0)], progress=False)
    if one.error is not None:
        raise CommandFailed(f"paddock/Wordle: {one.error.message}", exit_code=FAILED, code=one.error.code)
    good_for = "language models"
    return Row("agentic", one.steps / one.seconds, None, good_for, one.steps, one.total_return)


def _plain(row: Row) -> dict[str, Any]:
    document = row._asdict()
    return {**document, "return": document.pop("total_return")}


def _print(rows: list[Row], same: bool, output: Output) -> None:
    output.table(
        ["where", "steps/s", "digest", "good for"],
        [
            [
                row.name,
                None if row.steps_per_s is None else round(row.steps_per_s),
                None if row.digest is None else row.digest[:16],
                row.good_for if row.reason is None else f"not here: {row.reason}",
            ]
            for row in rows
        ],
    )
    for text in FOOTER:
        output.line(text)
    if not numba_installed():
        output.line("The lanes ran as plain Python. Compiled they are far")
        output.line('faster: pip install "paddock[fast]"')
    if not same:
        output.error("the trajectories differ: the same environment must give the same numbers at every distance")
    output.line()
    activate = Path(sys.prefix, "bin", "activate")
    unknown = shutil.which("paddock") is None and activate.is_file()  # as after `make run`
    output.line(f"Next, after `. {os.path.relpath(activate)}`:" if unknown else "Next:")
    for text in NEXT:
        output.line(f"  {text}")
