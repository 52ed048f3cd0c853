"""Reports on bundles, and comparisons of two: every figure is computed here from the episodes, none is believed.

A report says how far the record was checked, and no more: reading a bundle proves who signed it and that it is whole,
not that the environments answer so. That is for ``paddock bench verify``.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from paddock.agentic.rollouts.results import Estimate, pass_at_k
from paddock.bench import statistics
from paddock.bench.bundle import ORIGINS, Bundle, Task
from paddock.bench.statistics import Figures, Scores, describe, doubts, draws, estimate, interval, normalize
from paddock.bench.svg import Curve, Point, draw_curves, draw_intervals, escape
from paddock.errors import NotComparable
from paddock.trust.keys import PublicKey

UNCHECKED = "signed and whole (L1); the environments were not asked again: run paddock bench verify"
_THRESHOLDS = 101
_BAD = ("failed", "aborted")


@dataclass(frozen=True)
class TaskReport:
    """One task of one bundle."""

    task: Task
    figures: Figures
    endings: dict[str, int]

    @property
    def name(self) -> str:
        return self.task.name


class BundleReport:
    """The figures of one bundle. There are averages over tasks if each has a floor and a ceiling."""

    def __init__(self, bundle: Bundle, name: str) -> None:
        self.bundle, self.name = bundle, name
        self.digest = bundle.digest
        self.tasks = tuple(self._describe(at, task) for at, task in enumerate(bundle.plan.tasks))

    @property
    def policy(self) -> str:
        return self.bundle.plan.policy.name

    @property
    def signer(self) -> str:
        """The fingerprint of the key that signed."""
        return PublicKey.parse(self.bundle.start.signer).fingerprint

    @property
    def values(self) -> list[Any]:
        """What the episodes count, by task."""
        return [self.bundle.values(at) for at in range(len(self.tasks))]

    @cached_property
    def scores(self) -> list[Any] | None:
        """The values with each task's floor as 0 and its ceiling as 1; None if a task has none."""
        scales = [scale_of(one.task) for one in self.tasks]
        found = [None if s is None else normalize(values, s) for s, values in zip(scales, self.values, strict=True)]
        return None if any(one is None for one in found) else found

    @property
    def why_no_average(self) -> str | None:
        missing = [one.name for one in self.tasks if scale_of(one.task) is None]
        return f"no average over tasks: {missing[0]} has no floor and ceiling" if missing else None

    @cached_property
    def averages(self) -> dict[str, Estimate]:
        """Over all tasks, of normalized scores; empty without them."""
        return {} if self.scores is None else statistics.average_tasks(self.scores, digest=self.digest)

    @cached_property
    def pass_at(self) -> dict[int, Estimate]:
        """pass@k over the agentic tasks, for the k that their episodes allow. A pass is what the task says, or 1."""
        rows = [(one.task, values) for one, values in zip(self.tasks, self.values, strict=True) if one.task.agentic]
        passed = [[bool(value >= _passes_at(task)) for value in values] for task, values in rows]
        most = min(map(len, passed), default=0)
        found = {k: pass_at_k(passed, k) for k in sorted({1, 5, 10, most}) if 0 < k <= most}
        return {k: one for k, one in found.items() if one is not None}

    @property
    def doubts(self) -> list[str]:
        return doubts([one.figures.n for one in self.tasks])

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON data."""
        return {
            "name": self.name,
            "suite": self.bundle.plan.suite,
            "policy": self.policy,
            "digest": self.digest,
            "plan": self.bundle.plan_digest,
            "signer": self.signer,
            "nonce": self.bundle.start.origin,
            "checked": UNCHECKED,
            "tasks": [
                {
                    "name": one.name,
                    "environment": one.task.environment,
                    "metric": one.task.metric,
                    "endings": one.endings,
                    **one.figures.document(),
                }
                for one in self.tasks
            ],
            "averages": {name: vars(one) for name, one in self.averages.items()},
            "no_averages": self.why_no_average,
            "pass_at": {str(k): vars(one) for k, one in self.pass_at.items()},
            "doubts": self.doubts,
        }

    def _describe(self, at: int, task: Task) -> TaskReport:
        endings = Counter(str(episode.status) for episode in self.bundle.of_task(at))
        salt = hashlib.sha256(f"{self.digest} task {at}".encode()).hexdigest()
        failures = sum(endings[status] for status in _BAD)
        figures = describe(self.bundle.values(at), digest=salt, failures=failures, scale=scale_of(task))
        return TaskReport(task, figures, dict(sorted(endings.items())))


def scale_of(task: Task) -> tuple[float, float] | None:
    """Return the floor and the ceiling of a task, if they span a scale."""
    if task.floor is None or task.ceiling is None or not float(task.floor) < float(task.ceiling):
        return None
    return float(task.floor), float(task.ceiling)


def _passes_at(task: Task) -> float:
    return float(task.success_at) if task.metric == "return" and task.success_at is not None else 1.0


# ── Comparison ──


@dataclass(frozen=True)
class Comparison:
    """One task of two bundles, or all of them: how much higher the first one's IQM is, and how often it wins."""

    name: str
    difference: Estimate | None
    improvement: Estimate
    doubts: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """What may be said: nothing with too few episodes, and nothing while the interval holds one half."""
        low, high = self.improvement.low, self.improvement.high
        if self.doubts or low is None or high is None:
            return "not enough for a comparison"
        return "A is better" if low > 0.5 else "B is better" if high < 0.5 else "no difference shown"

    def document(self) -> dict[str, Any]:
        found = None if self.difference is None else vars(self.difference)
        return {
            "name": self.name,
            "difference_of_iqm": found,
            "probability_of_improvement": vars(self.improvement),
            "verdict": self.verdict,
            "doubts": list(self.doubts),
        }


def compare(ours: BundleReport, theirs: BundleReport) -> list[Comparison]:
    """Compare two bundles task by task, and over all tasks if there are several.

    NotComparable unless both measured the same environments in the same way, with two episodes or more of each task.
    """
    for why in _obstacles(ours, theirs):
        raise NotComparable(why)
    digest = hashlib.sha256(f"{ours.digest} {theirs.digest}".encode()).hexdigest()
    pairs = [
        (task.name, [a], [b]) for task, a, b in zip(ours.bundle.plan.tasks, ours.values, theirs.values, strict=True)
    ]
    found = [_compare(name, a, b, digest, of_one_scale=True) for name, a, b in pairs]
    if len(pairs) > 1:
        alike = ours.scores is not None and theirs.scores is not None
        a, b = (ours.scores or ours.values), (theirs.scores or theirs.values)
        found.append(_compare("all tasks", a, b, digest, of_one_scale=alike))
    return found


def _obstacles(ours: BundleReport, theirs: BundleReport) -> Iterator[str]:
    a, b = (list(one.bundle.plan.tasks) for one in (ours, theirs))
    if (names := [task.name for task in a]) != (others := [task.name for task in b]):
        what = f"A has the tasks {', '.join(names)[:200]}, and B {', '.join(others)[:200]}"
        yield f"{what}. Compare runs of the same suite."
    for one, other in zip(a, b, strict=False):
        if (one.environment, one.package, one.spaces) != (other.environment, other.package, other.spaces):
            yield (
                f"{one.name}: A ran the environment {one.package or one.environment}, and B "
                f"{other.package or other.environment}. Returns of different environments can't be compared."
            )
        for field in ("metric", "success_at", "failure", "max_steps", "floor", "ceiling"):
            if getattr(one, field) != getattr(other, field):
                yield f"{one.name}: {field} is {getattr(one, field)} in A and {getattr(other, field)} in B."
        if min(one.episodes, other.episodes) < 2:
            yield (
                f"{one.name} has a single episode: a bare mean, which can't tell a difference from chance. "
                f"Run at least {statistics.ENOUGH_EPISODES} episodes."
            )


def _compare(name: str, ours: Scores, theirs: Scores, digest: str, *, of_one_scale: bool) -> Comparison:
    few = doubts([len(task) for scores in (ours, theirs) for task in scores], policies=statistics.ENOUGH_POLICIES)
    return Comparison(
        name=name,
        difference=estimate(statistics.difference, ours, theirs, digest=digest) if of_one_scale else None,
        improvement=estimate(statistics.probability_of_improvement, ours, theirs, digest=digest),
        doubts=tuple(few),
    )


# ── Markdown and HTML ──

_HEADS = ("task", "n", "failed", "mean", "median", "IQM", "lowest", "highest", "optimality gap")


def _rows(report: BundleReport) -> list[list[str]]:
    rows = []
    for one in report.tasks:
        f = one.figures
        gap = "" if f.gap is None else _figure(f.gap)
        cells = [_figure(f.mean), _figure(f.median), _figure(f.iqm), f"{f.lowest:.6g}", f"{f.highest:.6g}", gap]
        rows.append([one.name, str(f.n), str(f.failures), *cells])
    return rows


def _figure(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return f"{found.value:.4g}"
    return f"{found.value:.4g} [{found.low:.4g}, {found.high:.4g}]"


def _facts(report: BundleReport) -> list[tuple[str, str]]:
    plan = report.bundle.plan
    facts = [
        ("suite", plan.suite),
        ("policy", f"{plan.policy.name} ({plan.policy.digest or 'no digest'})"),
        ("run", report.digest),
        ("signed by", report.signer),
        ("nonce", ORIGINS[report.bundle.start.origin]),
        ("checked", UNCHECKED),
    ]
    facts += [(f"{name} of all tasks", _figure(one)) for name, one in report.averages.items()]
    facts += [(f"pass@{k}", _figure(one)) for k, one in report.pass_at.items()]
    facts += [("note", why) for why in (report.why_no_average, *report.doubts) if why is not None]
    return facts


def write_markdown(reports: Sequence[BundleReport]) -> str:
    """Return a Markdown page: for each bundle what it is, and a table of its tasks."""
    parts = ["# Benchmark report"]
    for report in reports:
        table = [_HEADS, ["---"] * len(_HEADS), *_rows(report)]
        lines = ["| " + " | ".join(cell if row is table[1] else _inert(cell) for cell in row) + " |" for row in table]
        facts = [f"- {name}: {_inert(value)}" for name, value in _facts(report)]
        parts += [f"## {_inert(report.name)}", "\n".join(facts), "\n".join(lines)]
    parts.append("Intervals are 95 %, by stratified bootstrap or, for means of zeros and ones, Wilson's.")
    return "\n\n".join(parts) + "\n"


def _inert(text: str) -> str:
    """Return text in which nothing is Markdown or HTML."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in text[:200])
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&$@:])", r"\\\1", shown)


_STYLE = """body{font:15px/1.5 sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}dt{font-weight:bold;float:left;clear:left;width:13em}
dd{margin-left:13em;overflow-wrap:anywhere}svg{max-width:100%;height:auto;margin:1em 0}"""


def write_html(reports: Sequence[BundleReport]) -> str:
    """Return one page with tables and charts. It loads nothing, runs nothing, and shows text of a record as text."""
    parts = [_head(), "<h1>Benchmark report</h1>", *draw(reports)]
    for report in reports:
        facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _facts(report))
        heads = "".join(f"<th>{name}</th>" for name in _HEADS)
        rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in _rows(report)]
        parts += [f"<h2>{escape(report.name)}</h2>", f"<dl>{facts}</dl>"]
        parts.append(f"<table><tr>{heads}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")
    parts.append("<p>Intervals are 95&nbsp;%, by stratified bootstrap or, for means of zeros and ones, Wilson's.</p>")
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _head() -> str:
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>Benchmark report</title><style>{_STYLE}</style></head><body>"
    )


def draw(reports: Sequence[BundleReport]) -> list[str]:
    """Return the charts: the IQM of each task, and the performance profiles where scores are normalized."""
    charts = []
    names = sorted({(at, one.name) for report in reports for at, one in enumerate(report.tasks)})
    for at, name in names:
        having = [(n, one) for n, one in enumerate(reports) if at < len(one.tasks) and one.tasks[at].name == name]
        iqms = [(n, one.name, one.tasks[at].figures.iqm) for n, one in having]
        points = [Point(label, found.value, found.low, found.high, series) for series, label, found in iqms]
        charts.append(draw_intervals(points, title=name, x=f"IQM of the {having[0][1].tasks[at].task.metric}, 95 %"))
    scored = [(report, report.scores) for report in reports if report.scores is not None]
    if scored:
        top = max(1.0, *(float(np.max(task)) for _, scores in scored for task in scores))
        bottom = min(0.0, *(float(np.min(task)) for _, scores in scored for task in scores))
        grid = np.linspace(bottom, min(top, bottom + 10.0), _THRESHOLDS)
        curves = [_profile(report, scores, grid) for report, scores in scored]
        title = "Performance profile: share of episodes above a score"
        charts.append(draw_curves(curves, title=title, x="normalized score", y="share of episodes"))
    return charts


def _profile(report: BundleReport, scores: Scores, grid: Any) -> Curve:
    value = statistics.profile(scores, grid)
    low, high = value, value
    if min(map(len, scores)) > 1:
        low, high = interval(
            lambda drawn: statistics.profile(drawn, grid), scores, indices=draws(report.digest, scores)
        )
    return Curve(report.name, grid, value, low, high)
