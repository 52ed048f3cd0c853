"""``paddock hostile``: run hostile environments against the tiers of this machine. Exit code 1 if a promise is broken.

Tiers without a wall run only on request; what gets through there harms only planted canaries.
"""

from __future__ import annotations

import signal
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paddock.cli.output import FAILED, INTERRUPTED, OK, Output, mistake

if TYPE_CHECKING:
    from paddock.bench.hostile.attack import Attack
    from paddock.bench.hostile.score import Result, Score

_TIERS = ("sandbox", "landlock", "docker", "podman", "gvisor", "process", "none", "auto", "all")
_GROUPS = ("files", "network", "processes", "kernel", "resources", "protocol", "imports", "tampering")


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.epilog = (
        "An attack takes one to ten seconds and is ended after forty; there are some 170 for each tier, so all of them "
        "take minutes. Try first: paddock hostile --tier sandbox --group files. Ctrl-C or SIGTERM shows the score."
    )
    parser.add_argument(
        "--tier",
        action="append",
        choices=_TIERS,
        help="a tier to attack, may be repeated (default: sandbox and landlock; all: every tier that this machine has)",
    )
    parser.add_argument("--group", action="append", choices=_GROUPS, help="attacks of this group only, may be repeated")
    parser.add_argument("--attack", action="append", metavar="CODE", help="this attack only, may be repeated")
    parser.add_argument("--list", action="store_true", help="show the catalogue, and run nothing")


def run(arguments: Namespace, output: Output) -> int:
    """Attack, and print the score."""
    attacks = _choose_attacks(arguments)
    if arguments.list:
        _print_catalogue(attacks, output)
        return OK
    from paddock.bench.hostile.score import score

    scores: list[Score] = []
    with _stopped_by_sigterm():
        for tier in _choose_tiers(arguments.tier):
            scores.append(score(tier, attacks, _Lines(output, len(attacks))))
            if scores[-1].stopped:
                break
    if output.json:
        output.document({one.tier: [result.to_dict() for result in one.results] for one in scores})
    else:
        _print(scores, output)
    if scores[-1].stopped:
        output.error(f"stopped after {len(scores[-1].results)} of {len(attacks)} attacks on {scores[-1].tier}")
        return INTERRUPTED
    return FAILED if any(one.broken for one in scores) else OK


class _Lines:
    """One line per attack on stderr: which one runs and, as soon as it is over, how it went."""

    def __init__(self, output: Output, total: int) -> None:
        self._output, self._total, self._number = output, total, 0

    def begins(self, tier: str, attack: Attack) -> None:
        self._number += 1
        self._began_s = time.monotonic()
        self._say(f"{tier} {self._number}/{self._total} {attack.code} {attack.title} … ")

    def ended(self, result: Result) -> None:
        how = "contained" if result.verdict.contained else "NOT CONTAINED" if result.promised else "not contained"
        self._say(f"{how}, {time.monotonic() - self._began_s:.1f} s\n")

    def _say(self, text: str) -> None:
        self._output.stderr.write(text)
        self._output.stderr.flush()


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C: the attack ends with everything that it started, and the score so far is shown."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _choose_attacks(arguments: Namespace) -> list[Attack]:
    from paddock.bench.hostile.catalogue import ATTACKS

    codes = [code.upper() for code in arguments.attack or ()]
    unknown = set(codes) - {attack.code for attack in ATTACKS}
    if unknown:
        raise mistake(f"there is no attack {sorted(unknown)[0][:40]!r}. See: paddock hostile --list")
    return [
        attack
        for attack in ATTACKS
        if (not codes or attack.code in codes) and (not arguments.group or attack.group in arguments.group)
    ]


def _choose_tiers(names: list[str] | None) -> list[str]:
    from paddock.bench.hostile.score import TIERS, available

    if names and "all" not in names:
        return names
    tiers = [tier for tier in (TIERS if names else ("sandbox", "landlock")) if available(tier)]
    if not tiers:
        raise mistake("this machine has no wall to attack. See: paddock doctor", "SANDBOX_UNAVAILABLE")
    return tiers


def _print_catalogue(attacks: list[Attack], output: Output) -> None:
    rows = [{name: getattr(one, name) for name in ("code", "group", "title", "promise")} for one in attacks]
    if output.json:
        output.document(rows)
    else:
        output.table(["code", "group", "attack", "promise"], [list(row.values()) for row in rows])


def _print(scores: list[Score], output: Output) -> None:
    from paddock.bench.hostile.score import groups

    output.table(["contained", *(one.tier for one in scores)], groups(scores))
    for one in scores:
        output.line()
        for result in one.results:
            verdict = result.verdict
            if verdict.passed:
                continue
            what = "promise broken" if result.promised else "not promised"
            why = verdict.detail if not verdict.contained else f"ended as {verdict.cause}: {verdict.detail}"
            output.line(f"{one.tier}: {what}: {result.attack.code} {result.attack.title}: {why}")
        contained, broken = sum(result.verdict.contained for result in one.results), len(one.broken)
        promises = f"{broken or 'no'} promise{'' if broken == 1 else 's'} broken"
        output.line(f"{one.tier}: {contained} of {len(one.results)} contained, {promises}")
