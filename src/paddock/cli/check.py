"""``paddock check`` and ``audit``: what is wrong, and how to fix it.

Errors make the exit code 1; with ``--strict``, warnings too.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from paddock.cli.environment import grant_all, open_env, refuse_file
from paddock.cli.output import FAILED, OK, CommandFailed, Output, environment_code, error_message, mistake
from paddock.cli.program import add_deadline, add_json, add_target
from paddock.errors import InvalidManifest, NoCanonicalForm, PaddockError, PlanError, SandboxUnavailable

if TYPE_CHECKING:
    from paddock.core.spec import EnvSpec
    from paddock.making.plan import Isolation
    from paddock.package import ManifestEnv
    from paddock.sandbox.policy import Policy
    from paddock.testing import Finding
    from paddock.testing.rules import Level

LEVELS: tuple[Level, ...] = ("error", "warning", "note")
PRINTED_LINES = 20  # of what an environment prints: the checks call it hundreds of times

# More permissions than granted, or no wall on this machine: not the environment's fault.
_CANT_RUN = (PlanError.code, SandboxUnavailable.code)


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add_target(parser)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    add_deadline(parser)
    parser.add_argument("--grant", action="store_true", help="grant a folder the permissions that it asks for")
    parser.add_argument("--isolation", metavar="KIND", help="as make(isolation=...); code of others is sandboxed")
    parser.add_argument("--strict", action="store_true", help="warnings make the exit code 1 too")
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, which code hosts show as annotations")


def run(arguments: Namespace, output: Output) -> int:
    """Find, and print the findings."""
    from paddock.cli.watchdog import watch

    with watch(output, arguments.deadline):
        isolation = grant_all(arguments.target, arguments.isolation) if arguments.grant else arguments.isolation
        findings, ran = _find(arguments.target, output, isolation)
    return _report(arguments.target, findings, arguments, output, ran=ran)


def _find(target: str, output: Output, isolation: Isolation) -> tuple[list[Finding], bool]:
    """Check the source, and run each environment of a folder. Returns the findings and whether anything ran."""
    from paddock.making.target import split_folder
    from paddock.package import read_manifest
    from paddock.testing.secure import find_in_folder

    refuse_file(target)
    if "://" in target:
        text = f"{target!r} is on a server, which keeps the environment's code. Check its id, module or folder there."
        raise mistake(text)
    named = split_folder(target)
    if named is None:
        return _find_by_running(target, isolation), True
    findings = find_in_folder(named[0])
    if any(finding.rule == "no-manifest" for finding in findings):
        return findings, False
    ids = [env.spec.id for env in read_manifest(named[0]).envs]
    if named[1] is not None or len(ids) == 1:
        found, ran = _find_in_one(target, output, isolation)
        return [*findings, *found], ran
    runs = []
    with output.progress(target, len(ids)) as on_env:
        for id in ids:
            found, ran = _find_in_one(f"{target}:{id}", output, isolation)
            runs.append(ran)
            findings += [replace(one, message=f"{id}: {one.message}", environment=id) for one in found]
            on_env(len(runs))
    return findings, any(runs)


def _find_in_one(target: str, output: Output, isolation: Isolation) -> tuple[list[Finding], bool]:
    """Run one environment of a folder, if this machine can. Returns the findings and whether it ran."""
    from paddock.core.problem import Problem
    from paddock.testing.rules import finding_of

    try:
        return _find_by_running(target, isolation), True
    except InvalidManifest:  # it names an environment that the folder does not have
        raise
    except (PaddockError, CommandFailed) as error:
        if error.code not in _CANT_RUN:
            return [finding_of(Problem("env-raised", error_message(error), cause=error))], False
        output.warning(f"only the source was checked: {error_message(error)}")
        return [], False


def _find_by_running(target: str, isolation: Isolation) -> list[Finding]:
    from paddock.core.env import isolation_of
    from paddock.making import permissions
    from paddock.testing import find
    from paddock.testing.secure import find_at_run_time, find_in_module

    # Without validation: the guard would refuse at once what the findings should report.
    options: Any = {"validate": False, "isolation": isolation}
    with open_env(target, **options) as env, environment_code(lambda: f"checking {target}"):
        findings = find(env)
        apart = isolation_of(env) != "none"
        if apart and any(finding.level == "error" for finding in findings):
            env.unwrapped.abandon()  # it may hang, and then would not close
    if apart or not any(finding.level == "error" for finding in findings):
        # In another environment: behind a wall, one that broke a rule has been stopped.
        with open_env(target, announce=False, **options) as other, environment_code(lambda: f"checking {target}"):
            findings += find_at_run_time(other, permissions(target))
            if apart:
                other.unwrapped.abandon()
    for module in _modules(target, env.spec):
        findings += find_in_module(module)
    return list(dict.fromkeys(findings))  # a package and a module of it hold the same files


def _modules(target: str, spec: EnvSpec | None) -> list[str]:
    """Return the modules whose source to check: the one in the target, and the one that defines the environment."""
    from paddock.making import locate

    located = locate(target)
    if located.kind not in ("module", "plugin"):
        return []  # built in, registered here, or a folder, which has a manifest
    known = located.spec or spec
    entry = None if known is None else known.entry_point
    named = [located.module, entry.partition(":")[0] if isinstance(entry, str) else None]
    return list(dict.fromkeys(name for name in named if name and name.partition(".")[0] != "paddock"))


def _report(target: str, findings: list[Finding], arguments: Namespace, output: Output, *, ran: bool) -> int:
    """Print the findings in the form that was asked for, and return the exit code."""
    from paddock.testing import report

    if arguments.json:
        output.document({**report.to_json(findings, target), "ran": ran})
    elif arguments.sarif:
        output.document(report.to_sarif(findings, target))
    else:
        _print(target, findings, output, ran=ran)
    failing = LEVELS[: 2 if arguments.strict else 1]
    return FAILED if any(finding.level in failing for finding in findings) else OK


def _print(target: str, findings: Sequence[Finding], output: Output, *, ran: bool) -> None:
    for finding in sorted(findings, key=lambda finding: LEVELS.index(finding.level)):
        output.line(f"{finding.level} {finding.code} {finding.rule}: {finding.message}")
        output.line(f"  fix: {finding.fix}")
    count = Counter(finding.level for finding in findings)
    parts = [f"{count[level]} {level}{'' if count[level] == 1 else 's'}" for level in LEVELS if count[level]]
    output.line(f"{target}: {'' if ran else 'source only: '}{', '.join(parts) or 'no problems found'}")


# ── paddock audit: whether a stranger can rely on a package: its source, its manifest, what it imports, its results ──


def add_audit_arguments(parser: ArgumentParser) -> None:
    """The options of ``audit``."""
    parser.add_argument("package", metavar="PACKAGE|DIR", help="a package's file, an installed one, or a folder")
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, which code hosts show as annotations")
    parser.add_argument("--grant", action="store_true", help="grant it the permissions that it asks for")
    parser.add_argument("--strict", action="store_true", help="warnings make the exit code 1 too")


def run_audit(arguments: Namespace, output: Output) -> int:
    """Find, and print the findings."""
    with _folder_of(arguments.package) as (folder, target):
        findings, ran = _find_in_package(folder, target, output, grant=arguments.grant)
    return _report(arguments.package, findings, arguments, output, ran=ran)


@contextmanager
def _folder_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the folder of a package, and what ``make`` calls it.

    A package in a file is checked, and unpacked for as long as the audit takes.
    """
    from paddock.making.target import split_folder, split_package

    if Path(text).is_file():
        from paddock.package.pad import CODE, Pad

        with Pad(text) as pad, TemporaryDirectory(prefix="paddock-audit-") as work:
            pad.check_files()
            pad.extract(Path(work))
            folder = str(Path(work) / CODE)
            yield folder, folder
    elif split_folder(text) is not None:
        yield text, text
    elif (named := split_package(text)) is not None:
        from paddock.package.store import use_installed

        name, version, _ = named
        yield str(use_installed(name, version).folder), f"{name}@{version}"
    else:
        raise mistake(f"{text} is neither a package nor a folder. Name one, as ./maze, maze.pad or acme/maze@1.2.")


def _find_in_package(folder: str, package: str, output: Output, *, grant: bool) -> tuple[list[Finding], bool]:
    from paddock.core.problem import Problem
    from paddock.package import read_manifest
    from paddock.testing.audit import find_in_package, find_unrepeatable
    from paddock.testing.rules import finding_of
    from paddock.testing.secure import find_in_folder

    findings = [*find_in_folder(folder), *find_in_package(folder)]
    envs = [env for env in read_manifest(folder).envs if env.deterministic]
    ran = True
    with output.progress(f"{package}: the same episodes in several workers", len(envs)) as on_env:
        for number, env in enumerate(envs, start=1):
            target = f"{package}:{env.spec.id}"
            try:
                wall = _wall(target, grant=grant)
                found = find_unrepeatable(partial(_play_apart, target, env, wall))
                with environment_code(partial("playing {}".format, target)):
                    findings += [replace(one, environment=env.spec.id) for one in found]
            except (PaddockError, CommandFailed) as error:
                ran = False
                if error.code in _CANT_RUN:
                    output.warning(f"{target}: its results were not compared: {error_message(error)}")
                else:
                    problem = Problem("env-raised", error_message(error), cause=error)
                    findings.append(replace(finding_of(problem), environment=env.spec.id))
            on_env(number)
    return findings, ran


def _wall(target: str, *, grant: bool) -> Policy:
    from paddock.making import locate
    from paddock.making.plan import choose_wall

    wall = grant_all(target, None) if grant else choose_wall(locate(target), None)
    assert wall is not None, "a folder is behind a wall"
    return replace(wall, fresh=True)  # a fork of a template has its hash seed and its memory


def _play_apart(text: str, env: ManifestEnv, wall: Policy, variables: dict[str, str], **how: Any) -> list[str]:
    """Play in a worker of its own, which ``how`` perturbs."""
    from paddock.making import build, locate, plan
    from paddock.testing.audit import play_episodes
    from paddock.testing.perturbed import ENTRY

    target = locate(text)
    kwargs = {"entry": env.spec.entry_point, "arguments": env.spec.kwargs, **how}
    target = replace(target, spec=replace(env.spec, entry_point=ENTRY, kwargs=kwargs))
    wall = replace(wall, variables={**wall.variables, **variables})
    made: Any = build(plan(target, isolation=wall))
    with made:
        try:
            return play_episodes(made)
        except NoCanonicalForm as error:
            raise CommandFailed(str(error), exit_code=FAILED, code=error.code) from error
