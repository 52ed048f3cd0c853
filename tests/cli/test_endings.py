"""Exit codes, one-line errors, and environments that print, raise or exit where they should not."""

import io
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from paddock.cli import main, program
from paddock.cli.output import Output
from tests.cli import hostile
from tests.cli.terminal import Terminal

MISTAKES = {
    "no such command": ["lst"],
    "no such option": ["list", "--colour"],
    "no target": ["run"],
    "not a number": ["run", "CartPole-v1", "--episodes", "x"],
    "no such port": ["serve", "CartPole-v1", "--port", "65536"],
    "no episodes": ["run", "CartPole-v1", "--episodes", "0"],
    "negative seed": ["run", "CartPole-v1", "--seed=-1"],
    "endless seed": ["run", "CartPole-v1", "--seed", "9" * 9999],
    "no such policy": ["run", "CartPole-v1", "--policy", "clever"],
    "no such agent": ["run", "CartPole-v1", "--policy", "./clever.py"],
    "two forms": ["check", "CartPole-v1", "--json", "--sarif"],
    "unknown id": ["run", "CartPol-v1"],
    "unknown version": ["info", "CartPole-v99"],
    "unknown namespace": ["check", "nowhere/CartPole-v1"],
    "malformed id": ["explain", "Cart Pole"],
    "escapes in the id": ["run", "\x1b[31mCartPole-v1"],
    "escapes in an option": ["list", "\x1b[31m"],
    "unknown module": ["run", "no_such_module_anywhere:Maze-v0"],
    "module without that id": ["run", "math:Maze-v0"],
    "info of a module": ["info", "math:Maze-v0"],
    "a folder": ["run", "./maze"],
    "a wall around a server": ["explain", "https://example.org/Maze-v0", "--isolation", "sandbox"],
    "unknown isolation": ["explain", "CartPole-v1", "--isolation", "hope"],
    "unknown backend": ["explain", "CartPole-v1", "--backend", "abacus"],
    "missing extra": ["run", "bad/NeedsPackage-v0"],
    "missing module": ["run", "bad/NeedsModule-v0"],
    "lone surrogate": ["run", "\ud800"],
    "empty": ["run", ""],
    "no such tier": ["run", "CartPole-v1", "--isolation", "vault"],
    "trace in no folder": ["run", "CartPole-v1", "--trace", "/dev/null/x.jsonl"],
}


@pytest.mark.parametrize("words", MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_one_line_and_exit_code_2(paddock, hostile_ids, words):
    found = paddock(*words)
    assert found.code == 2
    assert found.err.startswith("paddock: error: ")
    assert found.err.count("\n") == 1
    assert found.out == "" or "--json" in words
    assert "[Errno" not in found.err and " raised " not in found.err


FAILURES = {
    "bad/FailsAt-v0": "step 2 of the episode with seed 0 raised RuntimeError: \\x1b[31mowned",
    "bad/FailsInReset-v0": "reset with seed 0 raised RuntimeError: \\x1b[31mowned",
    "bad/FailsInInit-v0": "making bad/FailsInInit-v0 raised RuntimeError: \\x1b[31mowned",
    "bad/FailsInClose-v0": "close raised RuntimeError: \\x1b[31mowned",
    "bad/Exits-v0": "step 2 of the episode with seed 0 raised SystemExit: 0",
    "bad/Unnameable-v0": "raised Error: (its message can't be shown)",
    "bad/OddReward-v0": "step 1 of the episode with seed 0 raised ",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("id", "message"), FAILURES.items(), ids=FAILURES)
def test_failing_environment_is_one_line_and_exit_code_1(paddock, hostile_ids, id, message):
    found = paddock("run", id, "--json")
    assert found.code == 1
    assert found.err.splitlines()[-1].startswith("paddock: error: ")
    assert message in found.err.splitlines()[-1]
    assert message in found.document["error"]["message"].replace("\\\\", "\\")


def test_run_names_the_line_that_raised(paddock, hostile_ids):
    found = paddock("run", "bad/FailsAt-v0")
    text = Path(hostile.__file__).read_text().splitlines()
    place = f"{hostile.__file__}:{text.index('            raise self.error') + 1}"
    assert found.err.splitlines()[-1].endswith(f" at {place}")


def test_check_shows_the_first_lines_that_an_environment_prints(paddock, hostile_ids):
    found = paddock("check", "bad/Loud-v0")
    assert len(found.err.splitlines()) < 30
    assert re.search(r"\(and \d[\d,]* more lines that the environment printed\)", found.err)
    assert "PD040 prints: `env.step()` prints 1 line per step." in found.out


def test_run_shows_all_that_an_environment_prints(paddock, hostile_ids):
    assert "more lines" not in paddock("run", "bad/Loud-v0", "--episodes", "20").err


@pytest.mark.parametrize("words", [["run", "bad/Loud-v0"], ["check", "bad/Loud-v0"], ["info", "bad/Loud-v0", "--make"]])
def test_what_an_environment_prints_reaches_stderr_escaped(paddock, hostile_ids, words):
    found = paddock(*words, "--json")
    assert found.document
    assert "\\x1b[31mowned" in found.err
    assert "\x1b" not in found.err + paddock(*words).out  # the fixture looks for every other control as well


def test_escapes_in_a_spec_are_shown(paddock, hostile_ids):
    import paddock as package

    package.register("bad/Noted-v0", "tests.cli.hostile:Loud", kwargs={"note": "\x1b[31m", "\x1b[32m": object()})
    assert "\\x1b[31m" in paddock("info", "bad/Noted-v0").out
    assert paddock("info", "bad/Noted-v0", "--json").document["kwargs"]["note"] == "\x1b[31m"
    assert "\\x1b[31m" in paddock("explain", "bad/Noted-v0").out


def test_ctrl_c_is_quiet(paddock, hostile_ids):
    found = paddock("run", "bad/Interrupts-v0")
    assert found.code == 130
    assert "error" not in found.err


def test_ctrl_c_is_a_document_too(paddock, monkeypatch):
    from paddock.cli import demo

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupt)
    found = paddock("demo", "--json")
    assert (found.code, found.err) == (130, "")
    assert found.document["error"]["code"] == "INTERRUPTED"


def test_an_interrupted_benchmark_says_how_it_goes_on(paddock, monkeypatch, tmp_path):
    from paddock.bench import run as bench_run

    def interrupt(suite, policy, out, *more, **options):
        out.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_run, "run_suite", interrupt)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found = paddock("bench", "run", "smoke", "--policy", "null", "--out", "half", "--json")
    assert found.code == 130
    assert "same command with --out half" in found.err
    assert found.document["error"]["code"] == "INTERRUPTED"


def test_an_unknown_option_names_the_help_of_its_command(paddock):
    assert "See: paddock run --help" in paddock("run", "CartPole-v1", "--epsodes", "2").err


def test_the_first_error_is_told_when_close_fails_as_well(paddock, hostile_ids, monkeypatch):
    from tests.cli.hostile import FailsAt

    monkeypatch.setattr(FailsAt, "close", lambda self: 1 / 0)
    assert "step 2" in paddock("run", "bad/FailsAt-v0").err.splitlines()[-1]


def test_debugging_shows_the_traceback_escaped(capsys, hostile_ids, monkeypatch):
    monkeypatch.setenv("PADDOCK_DEBUG", "1")
    assert main(["run", "bad/FailsAt-v0"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "tests/cli/hostile.py" in shown.replace(os.sep, "/")
    assert "\x1b" not in shown


def test_bug_of_ours_shows_its_traceback(capsys, monkeypatch):
    monkeypatch.setattr(program, "_run", lambda words, output: 1 / 0)
    assert main(["list"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "a bug in paddock: ZeroDivisionError" in shown


def test_streams_and_warnings_are_put_back(hostile_ids, capsys):
    import warnings

    before = sys.stdout, sys.stderr, warnings.showwarning
    main(["run", "bad/FailsAt-v0"])
    assert before == (sys.stdout, sys.stderr, warnings.showwarning)


def test_missing_base_dependency_is_a_mistake_that_names_it(paddock, monkeypatch):
    def run(words, output):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(program, "_run", run)
    found = paddock("list")
    assert (found.code, found.err) == (2, "paddock: error: numpy is not installed. Run: pip install numpy\n")


class Closed(io.StringIO):
    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


def test_closed_pipe_ends_quietly(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Closed())
    assert main(["list"]) == 141
    assert capsys.readouterr().err == ""


def test_process_without_streams_works(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["list"]) == 0
    assert main(["run", "CartPol-v1"]) == 2


def python(program, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


@pytest.mark.process
def test_listing_needs_neither_numpy_nor_rich():
    done = python("""
        import sys
        from paddock.cli import main
        for words in (["list"], ["list", "--json"], ["info", "CartPole-v1"], ["doctor"], ["run", "--help"], ["x"]):
            main(words)
        loaded = {name.partition(".")[0] for name in sys.modules}
        sys.exit(",".join(loaded & {"numpy", "rich", "msgspec", "gymnasium"}) or 0)
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_full_disk_and_closed_pipe_in_a_real_process():
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full, which Linux has: it runs there")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "paddock", "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("paddock: error: ")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "paddock", "list"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.process
@pytest.mark.parametrize("words", [["demo"], ["run", "CartPole-v1", "--episodes", "2"]], ids=lambda words: words[0])
def test_terminal_gets_a_bar_and_a_table(monkeypatch, words):
    out, err = Terminal(), Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(words) == 0
    assert "CartPole-v1" in err.getvalue()
    assert "━" in err.getvalue()
    assert "│" in out.getvalue()


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200])
def test_narrow_terminal_gets_fewer_columns_and_whole_words(monkeypatch, columns):
    out = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["list"]) == 0
    lines = out.getvalue().splitlines()
    assert max(len(line) for line in lines if "│" in line) <= columns
    cells = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    for whole in ("CliffWalkingSlippery-v1", "MountainCarContinuous-v0", "CartPole-v1"):
        assert whole in cells
    assert ("paddock.envs.classic_control.cartpole:CartPoleEnv" in out.getvalue()) == (columns > 150)
    assert ("pip install" in out.getvalue()) or columns == 40
    assert "\x1b" not in out.getvalue()


def test_bar_is_on_stderr_so_that_json_stays_clean(monkeypatch):
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["run", "CartPole-v1", "--json"]) == 0
    assert out.getvalue().startswith("{\n")
    assert out.getvalue().isascii()
    assert "\x1b" not in out.getvalue()


def test_environment_that_prints_during_a_bar_is_escaped(monkeypatch, hostile_ids):
    out, err = Terminal(), Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["run", "bad/Loud-v0"]) == 0
    assert "\\x1b[31mowned" in err.getvalue()
    assert "\x1b[31mowned" not in err.getvalue()
    assert "\x07" not in err.getvalue()


def test_output_without_a_terminal_is_plain():
    out, err = io.StringIO(), io.StringIO()
    output = Output(stdout=out, stderr=err)
    with output.progress("label", 3) as advance:
        advance(1)
    output.table(["a"], [["b"]])
    assert (out.getvalue(), err.getvalue()) == ("a\nb\n", "")
