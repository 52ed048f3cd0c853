"""``paddock check``: what is wrong, and how to fix it. Errors make the exit code 1; warnings do not."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paddock.cli.arguments import add_json, add_target
from paddock.cli.failures import FAILED, OK, environment_code
from paddock.cli.output import Output

if TYPE_CHECKING:
    from paddock.testing import Finding
    from paddock.testing.rules import Level

LEVELS: tuple[Level, ...] = ("error", "warning", "note")


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_target(parser)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, which code hosts show as annotations")


def run(arguments: Namespace, output: Output) -> int:
    """Find, and print the findings."""
    from paddock.cli.environment import made
    from paddock.testing import find, report

    # Without validation: what the guard would refuse at once is what the findings are to tell.
    with made(arguments.target, validate=False) as env, environment_code(lambda: f"checking {arguments.target}"):
        findings = find(env)
    if arguments.json:
        output.document(report.to_json(findings, arguments.target))
    elif arguments.sarif:
        output.document(report.to_sarif(findings, arguments.target))
    else:
        _print(arguments.target, findings, output)
    return FAILED if any(finding.level == "error" for finding in findings) else OK


def _print(target: str, findings: Sequence[Finding], output: Output) -> None:
    for finding in sorted(findings, key=lambda finding: LEVELS.index(finding.level)):
        output.line(f"{finding.level} {finding.code} {finding.rule}: {finding.message}")
        output.line(f"  fix: {finding.fix}")
    output.line(f"{target}: {_summary(findings)}")


def _summary(findings: Sequence[Finding]) -> str:
    count = Counter(finding.level for finding in findings)
    parts = [f"{count[level]} {level}{'' if count[level] == 1 else 's'}" for level in LEVELS if count[level]]
    return ", ".join(parts) or "no problems found"
