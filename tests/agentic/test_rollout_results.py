"""The figures of rollouts: means and pass@k with intervals, errors apart; tables and files."""

import itertools
import json
import threading
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from paddock.agentic.rollouts import Failure, Rollout, Rollouts, progress, rollout
from paddock.agentic.rollouts.progress import Tally, report_progress
from paddock.agentic.rollouts.results import mean_of, pass_at_k


def one(place=0, attempt=0, total=1.0, error=None, **more):
    rewards = () if error else (0.0, total)
    return Rollout(place, f"train[{place}]", {"index": place}, attempt, 0, rewards, not error, error=error, **more)


LATE = Failure("DEADLINE", "too late", "time", 3)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=5), st.integers(1, 6))
def test_pass_at_k_is_the_share_of_all_choices_of_k_attempts_with_a_pass(groups, k):
    fits = [group for group in groups if len(group) >= k]
    found = pass_at_k(groups, k)
    if not fits:
        assert found is None
        return
    shares = [np.mean([any(chosen) for chosen in itertools.combinations(group, k)]) for group in fits]
    assert found.value == pytest.approx(np.mean(shares))
    assert found.tasks == len(fits)


@given(st.lists(st.lists(st.floats(-10, 10), max_size=4), max_size=6))
def test_the_mean_is_over_all_values_and_lies_in_its_interval(groups):
    values = [value for group in groups for value in group]
    found = mean_of(groups)
    if not values:
        assert found is None
        return
    assert found.value == pytest.approx(np.mean(values))
    if found.tasks > 1:
        assert found.low - 1e-9 <= found.value <= found.high + 1e-9


def test_one_task_has_no_interval():
    found = mean_of([[1.0, 0.0, 1.0]])
    assert (found.low, found.high, found.tasks) == (None, None, 1)
    assert str(found) == "0.667"


@given(st.data())
def test_the_order_of_tasks_and_attempts_does_not_matter(data):
    groups = data.draw(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=3), min_size=2, max_size=6))
    other = data.draw(st.permutations([data.draw(st.permutations(group)) for group in groups]))
    assert mean_of(other) == mean_of(groups)
    passed = [[value > 0 for value in group] for group in groups]
    assert pass_at_k(list(reversed(passed)), 1) == pass_at_k(passed, 1)


def test_intervals_repeat_with_their_seed_and_narrow_with_more_tasks():
    draws = np.random.default_rng(3).random(400)
    few, many = mean_of([[x] for x in draws[:25]]), mean_of([[x] for x in draws])
    assert few == mean_of([[x] for x in draws[:25]])
    assert few != mean_of([[x] for x in draws[:25]], seed=1)
    assert many.high - many.low < (few.high - few.low) / 2
    assert mean_of([[x] for x in draws], confidence=0.5).high < many.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        found = mean_of([[float(x)] for x in rng.random(40) < 0.3], seed=trial)
        covered += found.low <= 0.3 <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_attempts_at_one_task_count_as_one_draw():
    """Ten attempts that all agree say no more of other tasks than one does."""
    agreeing = mean_of([[float(task % 2)] * 10 for task in range(20)])
    alone = mean_of([[float(task % 2)] for task in range(20)])
    assert (agreeing.low, agreeing.high) == (alone.low, alone.high)


def test_shares_have_wilsons_interval_and_some_width_at_both_ends():
    """By hand for 0 of 6: high = z^2 / (n + z^2) with z = 1.95996."""
    none, all_six = mean_of([[0.0]] * 6), mean_of([[1.0]] * 6)
    assert (none.low, none.high) == (0.0, pytest.approx(0.39033, abs=1e-5))
    assert (all_six.low, all_six.high) == (pytest.approx(1 - 0.39033, abs=1e-5), 1.0)
    two = mean_of([[1.0]] * 2 + [[0.0]] * 4)
    assert (two.low, two.high) == (pytest.approx(0.09677, abs=1e-5), pytest.approx(0.70001, abs=1e-5))
    assert pass_at_k([[False]] * 6, 1) == none
    assert pass_at_k([[False] * 8] * 6, 8) == none
    assert mean_of([[0.0]] * 6, confidence=0.8).high < none.high


def test_attempts_that_never_passed_say_no_more_of_other_tasks_than_one_each():
    assert mean_of([[0.0] * 8] * 6) == mean_of([[0.0]] * 6)
    assert mean_of([[1.0] * 8] * 6) == mean_of([[1.0]] * 6)


def test_attempts_that_differ_within_a_task_narrow_the_interval_of_a_share():
    alone, many = mean_of([[float(task % 2)] for task in range(20)]), mean_of([[0.0, 1.0] * 4] * 20)
    assert (many.high - many.low) / (alone.high - alone.low) == pytest.approx(8**-0.5, rel=0.1)
    assert (many.low, many.high) == (pytest.approx(0.4237, abs=1e-3), pytest.approx(0.5763, abs=1e-3))  # 80 of 160


def test_the_interval_of_a_share_covers_the_truth_when_tasks_differ():
    """Tasks with chances of their own, from Beta(0.5, 1.5): a mean of 0.25. Two attempts to eight at each."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        chances, attempts = rng.beta(0.5, 1.5, 12), rng.integers(2, 9, 12)
        groups = [(rng.random(n) < p).astype(float).tolist() for p, n in zip(chances, attempts, strict=True)]
        found = mean_of(groups)
        covered += found.low <= 0.25 <= found.high
    assert 0.88 <= covered / 300 <= 0.99


def test_other_returns_keep_the_bootstrap_over_tasks():
    assert (mean_of([[2.0], [3.0]]).low, mean_of([[2.0], [3.0]]).high) == (2.0, 3.0)
    assert (mean_of([[0.5]] * 4).low, mean_of([[0.5]] * 4).high) == (0.5, 0.5)


def test_large_numbers_of_tasks_take_little_memory():
    found = mean_of([[1.0]] * 50_000 + [[0.0]] * 50_000)
    assert found.value == 0.5
    assert found.high - found.low < 0.01


@pytest.fixture
def rollouts():
    return Rollouts([one(0), one(0, 1, 0.5), one(1, 0, 0.0), one(1, 1, error=LATE, seconds=2.0)])


def test_errors_count_in_no_mean(rollouts):
    assert rollouts.mean_return().value == pytest.approx(0.5)
    assert rollouts.error_share == 0.25
    assert [r.error.code for r in rollouts.errors] == ["DEADLINE"]
    assert (rollouts[3].total_return, rollouts[3].reward, rollouts[3].ended) == (None, None, "error")


def test_a_task_with_too_few_scored_attempts_is_left_out_of_pass_at_k(rollouts):
    assert rollouts.pass_at(1).value == pytest.approx((0.5 + 0.0) / 2)
    assert (rollouts.pass_at(2).value, rollouts.pass_at(2).tasks) == (1.0, 1)
    assert rollouts.pass_at(3) is None
    assert rollouts.pass_at(1, at_least=0.5).value == pytest.approx(0.5)
    with pytest.raises(ValueError, match="pass_at\\(0\\)"):
        rollouts.pass_at(0)


def test_no_rollouts_have_no_figures():
    none = Rollouts([])
    assert (len(none), none.mean_return(), none.error_share) == (0, None, 0.0)
    assert "mean return none" in repr(none)
    assert none.table().row_count == 0
    assert none.summary()["mean_return"] is None
    all_failed = Rollouts([one(error=LATE)])
    assert (all_failed.mean_return(), all_failed.error_share) == (None, 1.0)


def shown(renderable, width=200):
    console = Console(file=StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()


def test_the_table_has_figures_and_rows(rollouts):
    text = shown(rollouts)
    assert "4 rollouts, mean return 0.500" in text
    assert "pass@1 0.250" in text and "pass@2 1.000" in text and "errors 25.0%" in text
    assert "DEADLINE: too late" in text
    assert "and 2 more" in shown(rollouts.table(2))


def test_a_table_can_be_printed(rollouts, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("FORCE_COLOR", "1")
    print(rollouts.table())
    printed = capsys.readouterr().out
    assert "4 rollouts, mean return 0.500" in printed and "DEADLINE: too late" in printed
    assert "\x1b" not in printed and printed.endswith("┘\n") and max(map(len, printed.splitlines())) <= 100
    assert shown(rollouts.table()) == shown(rollouts)


def test_equal_errors_stand_once_above_the_rows_with_their_count():
    equal = Failure("POLICY_ERROR", f"KeyError: {'no such word ' * 30}", "policy", 0)
    many = Rollouts([*(one(place, error=equal) for place in range(6)), one(6, error=LATE), one(7)])
    lines = shown(many, 60).splitlines()
    assert lines[1] == "6 x POLICY_ERROR: KeyError: no such word no such word no su\u2026"
    assert lines[2] == "1 x DEADLINE: too late"
    assert sum("POLICY_ERROR" in line for line in lines) == 7
    assert len(lines) == 1 + 2 + 3 + 8 + 1  # the figures, the errors, the head, the rows, the foot


def test_errors_that_differ_fill_no_screen():
    text = shown(Rollouts([one(place, error=Failure("ENV_ERROR", f"at {place}", "step", 0)) for place in range(12)]))
    assert text.count("1 x ENV_ERROR: at") == 5 and "7 x another error" in text


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80])
def test_a_narrow_table_drops_columns_and_breaks_no_word(rollouts, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = str(rollouts.table()).splitlines()
    assert max(map(len, lines)) <= width
    head, *rows = [
        line.replace("\u2503", "\u2502").strip("\u2502").split("\u2502") for line in lines if line[0] in "\u2502\u2503"
    ]
    names = [name.strip() for name in head]
    assert len(rows) == 4 and {"task", "return", "ended"} <= set(names)
    assert set(names) <= {"task", "attempt", "return", "steps", "turns", "seconds", "ended"}
    assert [row[0].strip() for row in rows] == ["train[0]", "train[0]", "train[1]", "train[1]"]
    assert [row[-1].strip() for row in rows] == ["terminated"] * 3 + ["DEADLINE"]
    assert (len(names) == 7) == (width >= 70)


def test_words_of_strangers_can_not_drive_the_terminal():
    bad = Failure("ENV_ERROR", "\x1b[2J[bold red]gone[/] \x9b31m\nnew line", "step", 0)
    text = shown(Rollouts([one(error=bad), Rollout(1, "\x1b]0;title\x07[link=x]y[/link]", {}, 0, 0)]))
    assert "\x1b" not in text and "\x9b" not in text and "\x07" not in text
    assert "[bold red]gone[/]" in text


def test_a_saved_file_has_it_all(rollouts, tmp_path):
    messages = [{"role": "user", "content": "caf\u00e9"}]
    odd = one(2, messages=messages, total=float("inf"))
    Rollouts([*rollouts, odd]).save(tmp_path / "r.json")
    found = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)
    assert found["format"] == "paddock.rollouts.v1"
    assert found["summary"]["error_share"] == 0.2
    assert found["summary"]["errors"] == {"DEADLINE": 1}
    assert [row["return"] for row in found["rollouts"]] == [1.0, 0.5, 0.0, None, {"$float": "inf"}]
    assert found["rollouts"][3]["error"] == {"code": "DEADLINE", "message": "too late", "where": "time", "step": 3}
    assert found["rollouts"][4]["messages"] == messages
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_saving_replaces_a_file_whole_or_not_at_all(rollouts, tmp_path, monkeypatch):
    rollouts.save(tmp_path / "r.json")
    before = (tmp_path / "r.json").read_text()
    monkeypatch.setattr(json, "dumps", lambda *a, **k: "\u00e9 can't be written as ASCII")
    with pytest.raises(UnicodeEncodeError):
        rollouts.save(tmp_path / "r.json")
    assert (tmp_path / "r.json").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_slices_are_rollouts_too(rollouts):
    assert isinstance(rollouts[:2], Rollouts)
    assert [r.place for r in rollouts[:2]] == [0, 0]


def test_the_tally_keeps_errors_apart():
    tally = Tally()
    assert tally.words() == "0 turns, no return yet"
    tally.add(None, 1)
    assert tally.words() == "1 turn, no return yet, 1 error"
    tally.add(1.0, 4)
    tally.add(0.5, 2)
    tally.running_turns = 3
    assert (tally.words(), tally.done) == ("10 turns, mean return 0.750, 1 error", 3)
    tally.add(None, 0)
    assert tally.words() == "10 turns, mean return 0.750, 2 errors"


def test_one_is_not_many():
    assert "1 rollout, mean" in shown(Rollouts([one()]))
    assert repr(Rollouts([one(error=LATE)])) == "<Rollouts 1: mean return none, 1 error>"


def test_the_bar_is_drawn_on_a_terminal_alone(monkeypatch, capsys):
    class Terminal(StringIO):
        def isatty(self):
            return True

    tally = Tally()
    tally.add(1.0, 1)
    with report_progress(1, True) as show:
        show(tally)
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with report_progress(1, False) as show:
        show(tally)
    assert terminal.getvalue() == ""
    with report_progress(1, True) as show:
        show(tally)
    assert "mean return 1.000" in terminal.getvalue()


def test_elsewhere_than_on_a_terminal_a_line_is_written_every_ten_seconds(capsys):
    clock = iter((100.0, 101.0, 109.9, 110.0, 111.0, 119.9, 120.0, 121.0, 121.0, 121.0))
    tally = Tally()
    with report_progress(3, True, clock=lambda: next(clock)) as show:
        for _ in range(5):
            show(tally)
        assert capsys.readouterr().err == "0 of 3 rollouts, 0 turns, no return yet, 10 s\n"
        tally.add(1.0, 2)
        show(tally)
        show(tally)
        assert capsys.readouterr().err == "1 of 3 rollouts, 2 turns, mean return 1.000, 20 s\n"
        tally.add(None, 4)
        tally.add(0.0, 1)
        show(tally)
        show(tally)
        assert capsys.readouterr() == ("", "3 of 3 rollouts, 7 turns, mean return 0.500, 1 error, 21 s\n")


def test_a_short_run_and_an_unwanted_one_write_no_line(capsys):
    now = 0.0
    tally = Tally()
    tally.add(1.0, 1)
    with report_progress(1, True, clock=lambda: now) as show:
        now = 9.9
        show(tally)
    with report_progress(1, False, clock=lambda: now) as show:
        now = 99.0
        show(tally)
    assert capsys.readouterr() == ("", "")


def test_a_closed_log_does_not_stop_rollouts(monkeypatch):
    log = StringIO()
    monkeypatch.setattr("sys.stderr", log)
    now = 0.0
    with report_progress(1, True, clock=lambda: now) as show:
        log.close()
        now = 10.0
        show(Tally())


def test_lines_come_while_no_rollout_ends(monkeypatch, capsys):
    """The policy answers only once a line was written."""
    log = StringIO()
    written = threading.Event()
    monkeypatch.setattr(log, "flush", written.set)
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr(progress, "LINE_S", 0.1)
    played = rollout("CartPole-v1", lambda turn: int(written.wait(60)), tasks=1, max_turns=1)
    assert log.getvalue().startswith("0 of 1 rollout, 0 turns, no return yet, ")
    assert not played.errors and written.is_set()


def test_the_line_counts_the_turns_of_a_rollout_that_goes_on(monkeypatch):
    """The policy ends only once a line has told of its turns."""
    log = StringIO()
    written = threading.Event()
    monkeypatch.setattr(
        log, "flush", lambda: "of 1 rollout, 3 turns, no return yet" in log.getvalue() and written.set()
    )
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr(progress, "LINE_S", 0.1)
    rollout("CartPole-v1", lambda turn: int(turn.number < 3 or written.wait(60)), tasks=1, max_turns=4)
    assert written.is_set()
