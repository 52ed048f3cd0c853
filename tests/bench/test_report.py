"""Reports and comparisons: figures that anyone can compute again, inert text, no claim that the data can't carry."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from paddock.bench.report import BundleReport, compare, write_html, write_markdown
from paddock.bench.suites import Suite, SuiteTask
from paddock.bench.svg import Curve, Point, draw_curves, draw_intervals
from paddock.errors import NotComparable
from tests.bench.bundles import write_bundle

HOSTILE = '</title><script>alert(1)</script>"|`<img src=x onerror=y>\u202e\x1b[31m[a](javascript:b)'
SHAPES = {"svg", "rect", "line", "circle", "text", "polygon", "polyline"}
PAGE = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "dl", "dt", "dd", "table", "tr", "th", "td", "p"}
GOOD = [30.0, 31.0, 33.0, 30.5, 36.0, 31.5, 32.0, 38.0, 30.0, 34.0, 35.0, 31.0]
BAD = [10.0, 12.0, 9.0, 14.0, 11.0, 10.5, 13.0, 12.5, 9.5, 10.0, 15.0, 11.0]


def suite(episodes=12, *, kwargs=None, tasks=1, scale=True, title="task", **fields):
    ends = {"floor": 0.0, "ceiling": 40.0} if scale else {}
    made = [
        SuiteTask("CartPole-v1", name=f"{title}{n}", episodes=episodes, kwargs=kwargs or {}, **ends, **fields)
        for n in range(tasks)
    ]
    return Suite("tiny", made)


@pytest.fixture
def bundle(tmp_path):
    count = iter(range(100))

    def write(*returns, name=None, **more):
        how = {key: more.pop(key) for key in ("policy", "nonce") if key in more}
        made = suite(len(returns[0]), tasks=len(returns), **more)
        path = tmp_path / (name or f"run{next(count)}")
        return BundleReport(write_bundle(path, list(returns), suite=made, **how), path.name)

    return write


def test_figures_are_those_of_the_episodes(bundle):
    (task,) = bundle(GOOD).tasks
    assert (task.figures.n, task.figures.mean.value, task.figures.median.value) == (12, np.mean(GOOD), np.median(GOOD))
    assert task.figures.iqm.value == np.mean(sorted(GOOD)[3:-3])
    assert task.figures.mean.low < np.mean(GOOD) < task.figures.mean.high
    assert task.endings == {"complete": 12}


def test_the_same_run_has_the_same_report_and_another_nonce_other_intervals(bundle):
    same = {"policy": "p", "nonce": b"\1" * 32}
    one, again = bundle(GOOD, **same).document(), bundle(GOOD, **same).document()
    assert (one["tasks"], one["digest"]) == (again["tasks"], again["digest"])
    other = bundle(GOOD, nonce=b"\2" * 32).document()
    assert other["tasks"][0]["mean"]["value"] == one["tasks"][0]["mean"]["value"]
    assert other["tasks"][0]["mean"] != one["tasks"][0]["mean"]


def test_averages_over_tasks_need_a_scale(bundle):
    report = bundle(GOOD, BAD)
    assert report.averages["mean"].value == pytest.approx((np.mean(GOOD) + np.mean(BAD)) / 2 / 40)
    bare = bundle(GOOD, BAD, scale=False)
    assert bare.averages == {}
    assert bare.why_no_average == "no average over tasks: task0 has no floor and ceiling"


def test_a_report_never_says_more_than_was_checked(bundle):
    report = bundle(GOOD)
    for text in (str(report.document()), write_markdown([report]), write_html([report])):
        assert "not asked again" in text
        assert "L2" not in text
        assert "not about an algorithm" in text


def test_an_episode_that_failed_counts_with_its_tasks_value(bundle):
    report = bundle(GOOD, failure=-7.0)
    report.bundle.log.episodes[0].status = "failed"
    (task,) = BundleReport(report.bundle, "again").tasks
    assert (task.figures.n, task.figures.failures, task.figures.lowest) == (12, 1, -7.0)
    assert task.endings == {"complete": 11, "failed": 1}


def test_few_episodes_are_said_to_be_few(bundle):
    assert "4 episodes of a task are too few" in bundle(GOOD[:4]).doubts[0]


class Elements(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.names, self.attributes = set(), set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_hostile_text_is_text_in_a_page(bundle):
    page = write_html([bundle(GOOD, policy=HOSTILE, name="a<b>&'", title=HOSTILE)])
    found = Elements(page)
    assert found.names <= PAGE | SHAPES
    assert not any(name.startswith("on") or name in ("href", "src") for name in found.attributes)
    assert "&lt;script&gt;" in page
    assert [c for c in page if not (c.isprintable() or c == "\n")] == []
    assert re.findall(r"https?://[^\"'<\s]+", page) == ["http://www.w3.org/2000/svg"] * page.count("<svg")


def test_hostile_text_is_text_in_markdown(bundle):
    page = write_markdown([bundle(GOOD, policy=HOSTILE, title=HOSTILE)])
    assert re.search(r"(?<!\\)<", page) is None
    assert re.search(r"(?<!\\)\]\(", page) is None
    assert [c for c in page if not (c.isprintable() or c == "\n")] == []
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


def test_a_better_policy_is_called_better(bundle):
    (found,) = compare(bundle(GOOD), bundle(BAD))
    assert found.verdict == "A is better"
    assert found.improvement.value == 1.0
    assert found.difference.low > 0
    (other,) = compare(bundle(BAD), bundle(GOOD))
    assert other.verdict == "B is better"


def test_equal_policies_are_not_called_different(bundle):
    assert [one.verdict for one in compare(bundle(GOOD), bundle(GOOD[::-1]))] == ["no difference shown"]


def test_all_tasks_together_are_compared_even_without_a_common_scale(bundle):
    ours, theirs = bundle(GOOD, GOOD, scale=False), bundle(BAD, BAD, scale=False)
    last = compare(ours, theirs)[-1]
    assert (last.name, last.difference, last.verdict) == ("all tasks", None, "A is better")


def test_nine_episodes_carry_no_verdict(bundle):
    (found,) = compare(bundle(GOOD[:9]), bundle(BAD[:9]))
    assert found.verdict == "not enough for a comparison"
    assert "9 episodes of a task are too few for a claim; it takes 10" in found.doubts


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"kwargs": {"sutton_barto_reward": True}}, "Returns of different environments can't be compared"),
        ({"max_steps": 50}, "different environments"),
        ({"failure": -5.0}, "failure is"),
        ({"scale": False}, "floor is"),
    ],
)
def test_runs_that_measured_something_else_are_refused(bundle, other, why):
    with pytest.raises(NotComparable, match=why):
        compare(bundle(GOOD), bundle(BAD, **other))


def test_runs_of_other_tasks_are_refused(bundle):
    with pytest.raises(NotComparable, match="Compare runs of the same suite"):
        compare(bundle(GOOD), bundle(GOOD, BAD))


def test_a_bare_mean_is_refused(bundle):
    with pytest.raises(NotComparable, match="bare mean"):
        compare(bundle(GOOD[:1]), bundle(BAD[:1]))


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [1e300, -1e300], [np.inf, 1.0], [np.nan], [5e-324, 0.0]])
def test_charts_of_any_numbers_are_valid(values):
    x, y = np.arange(len(values), dtype=float), np.array(values)
    for chart in (
        draw_curves([Curve(HOSTILE, x, y, y, y)], title=HOSTILE, x=HOSTILE, y=HOSTILE),
        draw_intervals([Point(HOSTILE, value, value, value, 9) for value in values], title=HOSTILE, x=HOSTILE),
    ):
        root = ElementTree.fromstring(chart)
        assert {element.tag.rpartition("}")[2] for element in root.iter()} <= SHAPES
        assert "nan" not in chart.replace("&", "").lower().split("</text>")[-1]
