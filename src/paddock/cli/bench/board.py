"""``paddock bench submit``, ``list``, ``show`` and ``challenge``: the local leaderboard."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.bench.report import describe, write_text
from paddock.cli.output import FAILED, OK, CommandFailed, Output
from paddock.cli.program import integer
from paddock.errors import InvalidBundle

if TYPE_CHECKING:
    from paddock.bench.leaderboard import Board, Row
    from paddock.bench.verify import Verdict


def add_submit_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench submit``."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the record of a run: a folder")
    parser.add_argument("--sample", type=integer(1), metavar="N", help="replay N episodes; default: all")
    parser.add_argument("--env", action="append", default=[], metavar="TASK=TARGET", help="where a task's code lies")
    _add_board(parser)


def run_submit(arguments: Namespace, output: Output) -> int:
    """Verify a bundle and enter it."""
    with _open(arguments) as board:
        row = _checked(lambda: board.submit(arguments.bundle, partial(_verify, arguments)))
    if arguments.json:
        output.document(vars(row))
        return OK
    output.facts([("entered", row.id), ("level", row.level), ("attempt", f"{row.attempt} of {row.attempts}")])
    return OK


def add_list_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench list``."""
    parser.add_argument("--suite", metavar="NAME", help="only this suite")
    parser.add_argument("--checkpoint", metavar="FILE", help="write the ledger's checkpoint there, to keep")
    parser.add_argument("--since", metavar="FILE", help="a checkpoint that you kept: fail unless nothing of it changed")
    _add_board(parser)


def run_list(arguments: Namespace, output: Output) -> int:
    """Print the board, after a look at its ledger."""
    with _open(arguments, must_exist=True) as board:
        since = None if arguments.since is None else _read(arguments.since)
        _checked(lambda: board.ledger.check(since=since))
        rows = [row for row in _checked(board.rows) if arguments.suite in (None, row.suite)]
        note = board.ledger.checkpoint()
        key = str(board.ledger.key)
    if arguments.checkpoint is not None:
        write_text(arguments.checkpoint, note)
    if arguments.json:
        output.document({"results": [vars(row) for row in rows], "checkpoint": note, "key": key})
        return OK
    _print_rows(rows, output)
    size, root = note.split("\n")[1:3]
    output.line(f"ledger: {size} entries, root {root}")
    if since is not None:
        output.line("nothing was removed or changed since the checkpoint that you kept")
    return OK


def add_show_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench show``."""
    parser.add_argument("id", metavar="ID", help="how the id of a result begins")
    parser.add_argument("--proof", metavar="FILE", help="write the proof that it is in the ledger, as JSON")
    _add_board(parser)


def run_show(arguments: Namespace, output: Output) -> int:
    """Print one result, every attempt at its plan, and where it stands in the ledger."""
    from paddock.bench.ledger import verify_proof
    from paddock.bench.report import BundleReport

    with _open(arguments, must_exist=True) as board:
        row = _checked(lambda: board.find(arguments.id))
        report = BundleReport(_checked(lambda: board.bundle(row)), row.id[:12])
        proof = _checked(lambda: board.ledger.prove(row.entry))
        _checked(lambda: verify_proof(proof, board.ledger.key))
        same = [one for one in board.rows() if one.plan == row.plan]
        folder = board.folder / "bundles" / row.id
    if arguments.proof is not None:
        write_text(arguments.proof, json.dumps(proof, indent=1) + "\n")
    if arguments.json:
        attempts = [vars(one) for one in same]
        output.document({**vars(row), "report": report.document(), "proof": proof, "all_attempts": attempts})
        return OK
    output.table(
        ["task", "n", "failed", "mean", "IQM"],
        [[one.name, f.n, f.failures, describe(f.mean), describe(f.iqm)] for one in report.tasks for f in [one.figures]],
        title=f"{row.suite}, policy {row.policy}",
    )
    output.line()
    output.facts(
        [
            ("id", row.id),
            ("level at submission", row.level),
            ("replayed", "unknown" if row.replayed is None else f"{row.replayed} of {row.episodes} episodes"),
            ("attempt", f"{row.attempt} of {row.attempts} of its plan"),
            ("signed by", row.signer),
            ("ledger", f"entry {row.entry}, proved"),
            ("bundle", str(folder)),
        ]
    )
    if row.attempts > 1:
        output.line()
        output.line("All attempts at this plan:")
        _print_rows(same, output)
    return OK


def add_challenge_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench challenge``."""
    parser.add_argument("plan", metavar="PLAN", help="the digest of a plan, or a bundle that has the plan")
    _add_board(parser)


def run_challenge(arguments: Namespace, output: Output) -> int:
    """Enter a plan, and print the nonce for a run of it."""
    from paddock.bench.bundle import read_plan

    folder = Path(arguments.plan)
    plan = _checked(lambda: read_plan(folder)[1]) if folder.is_dir() else arguments.plan
    with _open(arguments) as board:
        nonce = _checked(lambda: board.challenge(plan))
    if arguments.json:
        output.document({"plan": plan, "nonce": nonce})
    else:
        output.facts([("plan", plan), ("nonce", nonce), ("use it", f"paddock bench run … --nonce {nonce}")])
    return OK


def _add_board(parser: ArgumentParser) -> None:
    parser.add_argument("--board", type=Path, metavar="DIR", help="the leaderboard's folder; default: your own")


def _open(arguments: Namespace, *, must_exist: bool = False) -> Board:
    """Open the board. ``submit`` and ``challenge`` begin one; a folder that was named must be there to be read."""
    from paddock.bench.leaderboard import Board

    if must_exist and arguments.board is not None and not (arguments.board / "ledger.key").is_file():
        text = f"there is no leaderboard in {arguments.board}. One begins with: paddock bench submit"
        raise CommandFailed(text, exit_code=FAILED)
    return Board(arguments.board)


def _verify(arguments: Namespace, path: Path, nonce: str | None, registered: bool) -> Verdict:
    """Verify as ``paddock bench verify`` does, whoever signed: the board shows who it was."""
    from paddock.bench.verify import Checks, verify_bundle
    from paddock.cli.bench import split_target

    checks = Checks(
        judge=lambda key: None,
        sample=arguments.sample,
        nonce=nonce,
        registered=registered,
        targets=dict(map(split_target, arguments.env)),
    )
    return verify_bundle(path, checks)


def _checked(do: Any) -> Any:
    """What ``do`` returns. What does not verify ends the command with 1, and its reason as the code."""
    try:
        return do()
    except InvalidBundle as error:
        raise CommandFailed(str(error), exit_code=FAILED, code=error.reason.upper()) from error


def _print_rows(rows: Sequence[Row], output: Output) -> None:
    output.table(
        ["id", "suite", "policy", "level", "IQM", "episodes", "attempt", "signed by", "entered"],
        [
            [
                row.id[:12],
                row.suite,
                row.policy,
                row.level if row.level == "T" or row.replayed in (None, row.episodes) else f"{row.level}, sample",
                None if row.average is None else float(row.average),
                row.episodes,
                f"{row.attempt} of {row.attempts}",
                row.signer[:12],
                datetime.fromtimestamp(row.time_s, timezone.utc).strftime("%Y-%m-%d"),
            ]
            for row in rows
        ],
        droppable=("entered", "signed by", "episodes"),
    )


def _read(name: str) -> str:
    from paddock.trust.files import read_bounded

    try:
        return read_bounded(name, 4096).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{name} can't be read: {error}", exit_code=FAILED) from None
