"""``paddock bench report`` and ``compare``: what the records of runs say, and whether one policy is better."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.output import OK, Output, mistake

if TYPE_CHECKING:
    from paddock.agentic.rollouts.results import Estimate
    from paddock.bench.report import BundleReport


def add_report_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench report``."""
    parser.add_argument("bundles", nargs="+", metavar="BUNDLE", help="the record of a run: a folder")
    parser.add_argument("--html", metavar="FILE", help="write a page with tables and charts; replaces the file")
    parser.add_argument("--md", metavar="FILE", help="write Markdown tables; replaces the file")


def run_report(arguments: Namespace, output: Output) -> int:
    """Print tables, and write the files that were asked for."""
    from paddock.bench.report import write_html, write_markdown

    reports = _read(arguments.bundles)
    for name, write in ((arguments.html, write_html), (arguments.md, write_markdown)):
        if name is not None:
            write_text(name, write(reports))
    if arguments.json:
        output.document({"reports": [one.document() for one in reports]})
        return OK
    for report in reports:
        output.table(
            ["task", "n", "failed", "mean", "median", "IQM"],
            [
                [one.name, f.n, f.failures, describe(f.mean), describe(f.median), describe(f.iqm)]
                for one in report.tasks
                for f in [one.figures]
            ],
            title=f"{report.name}: {report.bundle.plan.suite}, policy {report.policy}",
        )
        output.line()
        facts = [(f"{name} of all tasks", describe(found)) for name, found in report.averages.items()]
        facts += [(f"pass@{k}", describe(found)) for k, found in report.pass_at.items()]
        output.facts([*facts, ("run", report.digest), ("signed by", report.signer)])
        for line in (report.why_no_average, *report.doubts):
            if line is not None:
                output.line(f"note: {line}")
    output.line(f"checked: {_unchecked()}")
    return OK


def add_compare_arguments(parser: ArgumentParser) -> None:
    """The options of ``paddock bench compare``."""
    parser.add_argument("a", metavar="A", help="the record of a run: a folder")
    parser.add_argument("b", metavar="B", help="that of another, of the same environments")


def run_compare(arguments: Namespace, output: Output) -> int:
    """Print how much better A is, and whether that may be said."""
    from paddock.bench.report import compare

    ours, theirs = _read([arguments.a, arguments.b])
    found = compare(ours, theirs)
    same = ours.digest == theirs.digest
    if arguments.json:
        sides = {"a": ours.digest, "b": theirs.digest, "same_run": same}
        output.document({**sides, "checked": _unchecked(), "comparisons": [one.document() for one in found]})
        return OK
    output.table(
        ["task", "IQM of A - B", "P(A > B)", "verdict"],
        [
            [one.name, "" if one.difference is None else describe(one.difference), describe(one.improvement), verdict]
            for one in found
            for verdict in [one.verdict]
        ],
        title=f"A: {ours.name}, policy {ours.policy}. B: {theirs.name}, policy {theirs.policy}",
    )
    output.line()
    if same:
        output.line("note: A and B are the same run")
    for doubt in dict.fromkeys(doubt for one in found for doubt in one.doubts):
        output.line(f"note: {doubt}")
    output.line("note: this is about two policies; a claim about algorithms takes 5 policies of each")
    output.line(f"checked: {_unchecked()}")
    return OK


def describe(found: Estimate) -> str:
    """Return a figure with its interval."""
    if found.low is None or found.high is None:
        return f"{found.value:,.2f}"
    return f"{found.value:,.2f} [{found.low:,.2f}, {found.high:,.2f}]"


def write_text(name: str, text: str) -> None:
    """Write a file, or leave what was there."""
    from paddock.trust.files import replace_file

    try:
        replace_file(name, text.encode(), 0o644)
    except OSError as error:
        raise mistake(f"{name} can't be written: {error.strerror}. Name a file in a folder that exists.") from error


def _read(paths: list[str]) -> list[BundleReport]:
    from paddock.bench.bundle import read_bundle
    from paddock.bench.report import BundleReport

    return [BundleReport(read_bundle(path), Path(path).name or path) for path in paths]


def _unchecked() -> str:
    from paddock.bench.report import UNCHECKED

    return UNCHECKED
