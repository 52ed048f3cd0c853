"""``paddock hostile``: run hostile environments against the tiers of this machine. 1 if a promise is broken.

The tiers without a wall are run only when asked for: what gets through there harms planted canaries alone.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from paddock.cli.arguments import add_json
from paddock.cli.failures import FAILED, OK, mistake
from paddock.cli.output import Output

if TYPE_CHECKING:
    from paddock.bench.hostile.attack import Attack
    from paddock.bench.hostile.score import Score

_TIERS = ("sandbox", "landlock", "process", "none", "auto")
_GROUPS = ("files", "network", "processes", "kernel", "resources", "protocol", "imports", "tampering")


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "--tier",
        action="append",
        choices=_TIERS,
        help="a tier to attack, may be repeated; else all walls of this machine",
    )
    parser.add_argument("--group", action="append", choices=_GROUPS, help="attacks of this group only, may be repeated")
    parser.add_argument("--attack", action="append", metavar="CODE", help="this attack only, may be repeated")
    parser.add_argument("--list", action="store_true", help="show the catalogue, and run nothing")
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Attack, and print the score."""
    attacks = _chosen(arguments)
    if arguments.list:
        _print_catalogue(attacks, output)
        return OK
    scores = []
    from paddock.bench.hostile.score import score

    for tier in arguments.tier or _here():
        with output.progress(f"attacks on {tier}", len(attacks)) as progress:
            scores.append(score(tier, attacks, progress))
    if output.json:
        output.document({one.tier: [result.to_dict() for result in one.results] for one in scores})
    else:
        _print(scores, output)
    return FAILED if any(one.broken for one in scores) else OK


def _chosen(arguments: Namespace) -> list[Attack]:
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


def _here() -> list[str]:
    from paddock.bench.hostile.score import available

    tiers = [tier for tier in ("sandbox", "landlock") if available(tier)]
    if not tiers:
        raise mistake("this machine has no wall to attack. See: paddock doctor", "SANDBOX_UNAVAILABLE")
    return tiers


def _print_catalogue(attacks: list[Attack], output: Output) -> None:
    if output.json:
        output.document(
            [{"code": one.code, "group": one.group, "title": one.title, "promise": one.promise} for one in attacks]
        )
    else:
        output.table(
            ["code", "group", "attack", "promise"], [[one.code, one.group, one.title, one.promise] for one in attacks]
        )


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
        output.line(f"{one.tier}: {_summary(one)}")


def _summary(score: Score) -> str:
    contained = sum(result.verdict.contained for result in score.results)
    broken = len(score.broken)
    return f"{contained} of {len(score.results)} contained, {broken or 'no'} promise{'' if broken == 1 else 's'} broken"
