"""``paddock demo``: a tour. The same seeded episode at every stop must give the same digest, or the demo fails."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cli.environment import open_env
from paddock.cli.output import FAILED, OK, CommandFailed, Output, error_message
from paddock.errors import DependencyNotInstalled, PlanError, SandboxUnavailable
from paddock.kernels import numba_installed

if TYPE_CHECKING:
    from paddock.cli.run.episodes import Choose
    from paddock.core.env import Env

TARGET, SEED, STEPS, LANES = "CartPole-v1", 42, 500, 1024
# No line is longer than 60 characters, for narrow terminals.
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
# A machine may lack a wall, an extra or worker processes: then the row says why. Any other failure ends the demo.
_MISSING = {SandboxUnavailable.code, DependencyNotInstalled.code, PlanError.code}
# Stdin is a lifeline: it closes when the demo ends, however that ends, and the server stops as on Ctrl-C.
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
    """One distance: what it is good for, how to open the environment there, and how many lanes step at once."""

    name: str
    good_for: str
    open: Callable[[], AbstractContextManager[Env[Any, Any]]]
    lanes: int = 1


class Row(NamedTuple):
    """The result of a stop. ``reason``: why this machine can't have it."""

    name: str
    steps_per_s: float | None
    digest: str | None
    good_for: str
    steps: int = 0
    total_return: float | None = None
    reason: str | None = None


def _open_here(isolation: str | None = None) -> AbstractContextManager[Env[Any, Any]]:
    return open_env(TARGET, isolation=isolation)


def _open_lanes() -> AbstractContextManager[Env[Any, Any]]:
    from paddock.cli.run.episodes import FirstLane

    return FirstLane(TARGET, LANES)


@contextmanager
def _open_served() -> Iterator[Env[Any, Any]]:
    """Open the environment on the demo's own server, with a token of its own, on a free port of this machine."""
    import subprocess

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
            text = ""
            for line in server.stdout:
                text += line
                if line.rstrip() == "}":  # the end of the first document
                    break
            answer = json.loads(text or "{}")
            if "urls" not in answer:
                failure = answer.get("error", {"message": "the server ended by itself", "code": "ENV_LOST"})
                raise CommandFailed(failure["message"], exit_code=FAILED, code=failure["code"])
            with open_env(f"{answer['urls'][0]}/{TARGET}", remote=RemoteOptions(token=answer["token"])) as env:
                yield env
        finally:
            server.stdin.close()
            try:
                server.wait(_STOP_S)
            finally:
                server.kill()  # does nothing if it has ended


STOPS = (
    Stop("in process", "debugging, tests", _open_here),
    Stop(f"{LANES} lanes", "fast training", _open_lanes, LANES),
    Stop("another process", "code that may crash", lambda: _open_here("process")),
    Stop("sandbox", "untrusted code", lambda: _open_here("sandbox")),
    Stop("server", "other machines", _open_served),
)


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
    """Push the cart towards the side where the pole falls."""
    return lambda observation, info: int(observation[2] + observation[3] / 2 > 0)


def _visit(stop: Stop, output: Output) -> Row:
    from paddock.cli.run.episodes import play

    try:
        with output.progress(f"{TARGET}, {stop.name}", STEPS) as on_step, stop.open() as env:
            played = play(env, balance, seed=SEED, on_step=on_step)
    except CommandFailed as error:
        if error.code not in _MISSING:
            raise
        return Row(stop.name, None, None, stop.good_for, reason=error_message(error.__cause__ or error))
    if not played.episodes:  # interrupted in the only one
        raise KeyboardInterrupt
    speed = played.steps_per_second * stop.lanes
    return Row(stop.name, speed, played.digest, stop.good_for, played.steps, played.episodes[0].total_return)


def _agentic() -> Row:
    """Play Wordle by calling its tool. It is another environment, so it does not have the others' digest."""
    import re

    from paddock.agentic import CallTool, Turn, rollout
    from paddock.agentic.envs.wordle import ANSWERS, format_marks, mark_guess

    def guess(turn: Turn) -> CallTool:
        """Guess the first word that fits all marks so far."""
        rows = re.findall(r"([A-Z]{5}) ([GY-]{5})", str(turn.messages[-1]["content"]))
        fits = (
            word for word in ANSWERS if all(format_marks(mark_guess(row.lower(), word)) == marks for row, marks in rows)
        )
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
        output.line("faster: pip install numba")
    if not same:
        output.error("the trajectories differ: the same environment must give the same numbers at every distance")
    output.line()
    activate = Path(sys.prefix, "bin", "activate")
    unknown = shutil.which("paddock") is None and activate.is_file()  # as after `make run`
    output.line(f"Next, after `. {os.path.relpath(activate)}`:" if unknown else "Next:")
    for text in NEXT:
        output.line(f"  {text}")
