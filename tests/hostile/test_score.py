"""The judge and the score can tell good from bad: what they are shown here is made up."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from paddock.bench.hostile import score as score_module
from paddock.bench.hostile.attack import Verdict
from paddock.bench.hostile.catalogue import ATTACKS
from paddock.bench.hostile.host_state import dead_children, descendants, reap
from paddock.bench.hostile.score import groups, promises, score
from paddock.bench.hostile.trial import leaks, lies, lies_of_error
from paddock.cli import main

from .tiers import linux_only


def verdict(attack, *, contained, cause):
    hits = {} if contained else {attack.canary: "harmed"}
    return Verdict(attack.code, contained, cause, 0.1, (), "made up", hits, cause in attack.expected)


@pytest.fixture
def escaping(monkeypatch):
    """Attacks whose code is added to this set get through; the others end as they should."""
    escaped = set()

    def run(attack, isolation):
        cause = sorted(attack.expected)[0]
        return verdict(attack, contained=attack.code not in escaped, cause=cause)

    monkeypatch.setattr(score_module, "run_attack", run)
    return escaped


@linux_only
def test_promise_is_broken_by_an_escape_that_the_tier_rules_out(escaping, capsys):
    escaping.add("F02")
    assert main(["hostile", "--tier", "sandbox", "--group", "files"]) == 1
    said = capsys.readouterr().out
    assert "25 of 26" in said
    assert "sandbox: promise broken: F02 reads a file in the user's home: made up" in said


@linux_only
def test_escape_from_a_tier_that_promises_nothing_is_shown_and_no_failure(escaping, capsys):
    escaping.update(attack.code for attack in ATTACKS)
    assert main(["hostile", "--tier", "none"]) == 0
    said = capsys.readouterr().out
    assert f"0 of {len(ATTACKS)} contained, no promises broken" in said


@linux_only
def test_wrong_cause_breaks_a_promise_too(monkeypatch, capsys):
    monkeypatch.setattr(score_module, "run_attack", lambda attack, tier: verdict(attack, contained=True, cause="exit"))
    assert main(["hostile", "--tier", "sandbox", "--attack", "r15"]) == 1
    assert "ended as exit" in capsys.readouterr().out


@linux_only
def test_score_as_json_has_a_list_of_results_for_each_tier(escaping, capsys):
    assert main(["hostile", "--tier", "sandbox", "--tier", "process", "--attack", "K01", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {tier: [one["code"] for one in results] for tier, results in document.items()} == {
        "sandbox": ["K01"],
        "process": ["K01"],
    }
    assert document["sandbox"][0]["promised"] is True
    assert document["process"][0]["promised"] is False


@linux_only
def test_each_attack_is_a_line_on_stderr_as_it_goes(escaping, capsys):
    escaping.add("F02")
    main(["hostile", "--tier", "sandbox", "--attack", "F01", "--attack", "F02", "--json"])
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"sandbox 1/2 F01 .+ … contained, \d+\.\d s", first)
    assert re.fullmatch(r"sandbox 2/2 F02 .+ … NOT CONTAINED, \d+\.\d s", second)


@linux_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_in_the_middle_it_shows_the_score_so_far(escaping, monkeypatch, capsys, number):
    run = score_module.run_attack

    def stopped(attack, isolation):
        if attack.code == "F03":
            signal.raise_signal(number)
        return run(attack, isolation)

    monkeypatch.setattr(score_module, "run_attack", stopped)
    handler = signal.getsignal(signal.SIGTERM)
    interrupts = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores them
    try:
        assert main(["hostile", "--tier", "sandbox", "--tier", "process", "--group", "files"]) == 130
    finally:
        signal.signal(signal.SIGINT, interrupts)
    said = capsys.readouterr()
    assert "sandbox: 2 of 2 contained, no promises broken" in said.out
    assert "process" not in said.out
    assert said.err.endswith("paddock: error: stopped after 2 of 26 attacks on sandbox\n")
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.process
@linux_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_of_an_attack_outlives_the_program_that_runs_it(number, tmp_path):
    command = [sys.executable, "-m", "paddock", "hostile", "--tier", "none", "--attack", "L23"]
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=variables) as program:
        trials = {}
        while not trials and program.poll() is None:
            trials = {pid for pid, name in descendants(program.pid).items() if is_trial(pid)}
        program.send_signal(number)
        assert program.wait(20) in (130, -number)
    ends = time.monotonic() + 10
    while alive := [pid for pid in trials if is_trial(pid)]:
        assert time.monotonic() < ends, alive
    assert trials


@pytest.mark.process
@linux_only
def test_an_interrupt_from_the_terminal_leaves_no_traceback(tmp_path):
    """Ctrl-C goes to every process of the group, not to the program alone."""
    command = [sys.executable, "-m", "paddock", "hostile", "--tier", "none", "--attack", "L23"]
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=variables, text=True, start_new_session=True) as program:
        while program.poll() is None and not any(is_trial(pid) for pid in descendants(program.pid)):
            pass
        os.killpg(program.pid, signal.SIGINT)
        said = program.communicate(timeout=60)[1]
    assert program.returncode == 130 and "stopped after 0 of 1 attacks" in said
    assert "Traceback" not in said, said


def is_trial(pid):
    """Whether it runs; a dead process has no command line."""
    try:
        return b"paddock.bench.hostile.trial" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.process
@linux_only
def test_dead_children_are_reaped():
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert child in dead_children()
    reap({child})
    assert child not in dead_children()


def test_catalogue_is_listed_and_unknown_codes_are_refused(capsys):
    assert main(["hostile", "--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(ATTACKS)
    assert main(["hostile", "--attack", "X99", "--tier", "none"]) == 2
    assert "there is no attack 'X99'" in capsys.readouterr().err


@linux_only
def test_rows_of_the_table_are_groups(escaping):
    escaping.add("N01")
    scores = [
        score(tier, [one for one in ATTACKS if one.code in ("N01", "N02", "K01")]) for tier in ("none", "process")
    ]
    assert groups(scores) == [["network", "1 of 2", "1 of 2"], ["kernel", "1 of 1", "1 of 1"]]


@linux_only
def test_process_tier_promises_its_caller_and_nothing_else():
    held = {attack.promise for attack in ATTACKS if promises("process", attack)}
    assert held == {"own-process", "frames-checked"}
    assert not any(promises("none", attack) for attack in ATTACKS)


NOTHING = (np.zeros(2, "float32"), 0.0, False, False, {})


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, [0.0, 0.0]),
        (0, NOTHING[0] + 2),
        (0, NOTHING[0].astype("float64")),
        (0, NOTHING[0] * float("nan")),
        (1, float("inf")),
        (1, 1e10),
        (1, "1"),
        (2, 1),
        (3, "no"),
        (4, []),
        (4, {"note": "\x1b[2J"}),
        (4, {"list": [{"\x1b": 1}]}),
        (4, {"long": "x" * 300_000}),
    ],
)
def test_lies_are_recognised(place, value):
    assert lies("step", NOTHING, []) == []
    told = [*NOTHING[:place], value, *NOTHING[place + 1 :]]
    assert len(lies("step", told, [])) == 1


def test_steps_after_the_end_are_recognised():
    assert lies("step", NOTHING, [{"call": "step", "ended": True}]) == ["step: goes on after the end"]


def test_secrets_are_found_wherever_they_are():
    for value in ({"a": ["x secret-7 y"]}, {"secret-7": 1}, (b"..secret-7",), np.frombuffer(b"secret-7", "uint8")):
        assert leaks(value, ["secret-7"], "step") == ["step brought back a secret"]
    assert leaks({"a": ["harmless"]}, ["secret-7"], "step") == []


def test_errors_that_steer_a_terminal_are_recognised():
    assert lies_of_error(ValueError("\x1b[2J"), "step") == ["step: an error with terminal escapes"]
    assert lies_of_error(ValueError("plain"), "step") == []
