"""``paddock check``: what is wrong, and how to fix it. Errors make the exit code 1; warnings only with ``--strict``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from paddock.cli.arguments import add_json, add_target
from paddock.cli.failures import FAILED, OK, CommandFailed, environment_code
from paddock.cli.output import Output
from paddock.cli.printing import message_of
from paddock.errors import InvalidManifest, PaddockError, PlanError, SandboxUnavailable

if TYPE_CHECKING:
    from paddock.core.spec import EnvSpec
    from paddock.sandbox.policy import Policy
    from paddock.testing import Finding
    from paddock.testing.rules import Level

LEVELS: tuple[Level, ...] = ("error", "warning", "note")


# Several environments, more permissions than granted, no wall on this machine: no fault of the environment.
_NOT_TO_BE_RUN = (InvalidManifest.code, PlanError.code, SandboxUnavailable.code)


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_target(parser)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    parser.add_argument("--grant", action="store_true", help="run a folder with all that its paddock.toml asks for")
    parser.add_argument("--strict", action="store_true", help="warnings make the exit code 1 too")
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, which code hosts show as annotations")


def run(arguments: Namespace, output: Output) -> int:
    """Find, and print the findings."""
    from paddock.testing import report

    found = _find(arguments.target, output, grant=arguments.grant)
    findings = found.findings
    if arguments.json:
        output.document(report.to_json(findings, arguments.target))
    elif arguments.sarif:
        output.document(report.to_sarif(findings, arguments.target))
    else:
        _print(arguments.target, found, output)
    failing = ("error", "warning") if arguments.strict else ("error",)
    return OK if found.fair and not any(finding.level in failing for finding in findings) else FAILED


class Found(NamedTuple):
    """``ran``: not the source alone was looked at. ``fair``: it ran, or that it did not is no fault of its own."""

    findings: list[Finding]
    ran: bool = True
    fair: bool = True


def _find(target: str, output: Output, *, grant: bool) -> Found:
    """What the source shows, and what a run shows. A folder's source is looked at even if it can't be run here."""
    from paddock.making.folder_name import split_folder
    from paddock.testing.secure import find_in_folder

    named = split_folder(target)
    if named is None:
        return Found(_find_by_running(target, grant=grant))
    findings = find_in_folder(named[0])
    if any(finding.rule == "no-manifest" for finding in findings):
        return Found(findings, ran=False)
    try:
        return Found([*findings, *_find_by_running(target, grant=grant)])
    except (PaddockError, CommandFailed) as error:
        output.warning(f"only the source was looked at: {message_of(error)}")
        return Found(findings, ran=False, fair=error.code in _NOT_TO_BE_RUN)


def _find_by_running(target: str, *, grant: bool) -> list[Finding]:
    from paddock.cli.environment import granted, made
    from paddock.making.folder_name import split_folder
    from paddock.testing import find
    from paddock.testing.secure import find_at_run_time, find_in_module

    # Without validation: what the guard would refuse at once is what the findings are to tell.
    options = {"validate": False, "isolation": granted(target, None) if grant else None}
    with made(target, **options) as env, environment_code(lambda: f"checking {target}"):
        findings = find(env)
    if split_folder(target) is not None or not any(finding.level == "error" for finding in findings):
        # Anew: behind the wall, one that broke a rule has been stopped.
        with made(target, **options) as other, environment_code(lambda: f"checking {target}"):
            findings += find_at_run_time(other, _asked(target))
    for module in _modules(target, env.spec):
        findings += find_in_module(module)
    return list(dict.fromkeys(findings))  # a package and a module of it hold the same files


def _asked(target: str) -> Policy:
    from paddock.making import permissions

    return permissions(target)


def _modules(target: str, spec: EnvSpec | None) -> list[str]:
    """Whose source to look at: the module that was named, and the one that the environment comes from."""
    from paddock.making import locate

    located = locate(target)
    if located.kind not in ("module", "plugin"):
        return []  # built in, the caller's own, or a folder, whose manifest says more
    entry = spec.entry_point if spec is not None else None
    named = [located.module, entry.partition(":")[0] if isinstance(entry, str) else None]
    return list(dict.fromkeys(name for name in named if name and name.partition(".")[0] != "paddock"))


def _print(target: str, found: Found, output: Output) -> None:
    for finding in sorted(found.findings, key=lambda finding: LEVELS.index(finding.level)):
        output.line(f"{finding.level} {finding.code} {finding.rule}: {finding.message}")
        output.line(f"  fix: {finding.fix}")
    output.line(f"{target}: {'' if found.ran else 'source only: '}{_summary(found.findings)}")


def _summary(findings: Sequence[Finding]) -> str:
    count = Counter(finding.level for finding in findings)
    parts = [f"{count[level]} {level}{'' if count[level] == 1 else 's'}" for level in LEVELS if count[level]]
    return ", ".join(parts) or "no problems found"
