"""``check`` and ``run`` never hang in silence: which call it is, where it stands, and an end by ``--deadline``."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from paddock.cli import watchdog

SOURCE = """
import re, time
import paddock

class Fine(paddock.Env):
    observation_space = paddock.spaces.Discrete(3)
    action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return int(self.np_random.integers(3)), {}

    def step(self, action):
        return 0, 1.0, True, False, {}

class Step(Fine):
    def step(self, action):
        while True:
            pass  # step

class Reset(Fine):
    def reset(self, *, seed=None, options=None):
        time.sleep(1000)  # reset

class Init(Fine):
    def __init__(self):
        while True:
            pass  # __init__

class Stubborn(Fine):
    def step(self, action):
        while True:
            try:
                time.sleep(1000)  # stubborn
            except Exception:
                pass

class Keeps(Fine):
    def step(self, action):
        re.match("(a+)+$", "a" * 60 + "b")  # keeps

class Slow(Fine):
    def step(self, action):
        time.sleep(0.05)
        return 0, 1.0, True, False, {}
"""
REGISTER = """
for one in (Fine, Step, Reset, Init, Stubborn, Keeps, Slow):
    paddock.register(f"me/{one.__name__}-v0", one)
"""
MANIFEST = '[package]\nname = "hang"\nversion = "1.0"\n' + "".join(
    f'[[env]]\nid = "{name}-v0"\nentry = "hang_of_a_folder:{name}"\n' for name in ("Fine", "Step", "Init")
)


def line_of(mark):
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if line.endswith(f"# {mark}"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with the module ``hang`` and, in ``folder``, the same behind a manifest."""
    (tmp_path / "hang.py").write_text(SOURCE + REGISTER)
    (tmp_path / "hangs_at_import.py").write_text("import paddock\nwhile True:\n    pass\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "hang_of_a_folder.py").write_text(SOURCE)
    (tmp_path / "folder" / "paddock.toml").write_text(MANIFEST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    yield tmp_path
    for name in ("hang", "hangs_at_import"):
        sys.modules.pop(name, None)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("call", ["step", "reset", "__init__"])
def test_run_ends_a_call_at_its_deadline_and_says_where_it_stood(paddock, here, walled, call):
    found = paddock("run", f"hang:me/{call.strip('_').capitalize()}-v0", "--deadline", "0.5", "--json")
    assert found.code == 1
    error = found.document["error"]
    assert error["code"] == "DEADLINE"
    place = f"{call} has not returned for 0.5 s and was ended; it stood at {here}/hang.py"
    assert place in error["message"]
    assert abs(int(error["message"].partition("hang.py:")[2].split()[0]) - line_of(call)) <= 1


def test_import_is_ended_too(paddock, here):
    found = paddock("run", "hangs_at_import:me/Maze-v0", "--deadline", "0.5", "--isolation", "none")
    assert found.code == 1
    assert "the import of hangs_at_import has not returned for 0.5 s" in found.err
    assert "hangs_at_import.py:" in found.err


@pytest.mark.process
def test_check_reports_the_call_as_a_finding(paddock, here, walled):
    found = paddock("check", "hang:me/Step-v0", "--deadline", "0.5", "--json")
    assert found.code == 1
    (raised,) = [one for one in found.document["findings"] if one["code"] == "PD039"]
    assert (
        f"`env.step()`: step has not returned for 0.5 s and was ended; it stood at {here}/hang.py" in raised["message"]
    )


@pytest.mark.process
@pytest.mark.slow
def test_silence_is_broken_before_any_deadline(paddock, here, walled, monkeypatch):
    monkeypatch.setattr(watchdog, "FIRST_S", 0.2)
    found = paddock("run", "hang:me/Reset-v0", "--deadline", "1.5")
    warned = [line for line in found.err.splitlines() if line.startswith("paddock: warning: ")]
    assert "reset has not returned for 0 s; it stands at " in warned[0]
    assert f"hang.py:{line_of('reset')} in reset. --deadline SECONDS ends such a call." in warned[0]
    assert len([line for line in warned if "reset has" in line]) <= 3  # more and more seldom


@pytest.mark.process
def test_calls_that_return_are_no_news(paddock, here, walled, monkeypatch):
    monkeypatch.setattr(watchdog, "FIRST_S", 0.3)
    found = paddock("run", "hang:me/Slow-v0", "--episodes", "12", "--deadline", "60")
    assert (found.code, found.err) == (0, "paddock: hang:me/Slow-v0 runs behind the wall (isolation sandbox)\n")


def test_deadline_is_a_number_of_seconds(paddock):
    for text in ("0", "-1", "nan", "soon"):
        assert paddock("run", "CartPole-v1", "--deadline", text).code == 2


@pytest.mark.process
@pytest.mark.parametrize("where", [["hang:me/Step-v0", "--isolation", "process"], ["./folder:Step-v0"]], ids=str)
def test_worker_says_where_it_stands(paddock, here, walled, where):
    found = paddock("run", *where, "--deadline", "1")
    assert found.code == 1
    assert "step has not returned for 1 s and was ended; it stood at " in found.err
    assert abs(int(found.err.partition(".py:")[2].split()[0]) - line_of("step")) <= 1


@pytest.mark.process
def test_starting_a_worker_does_not_count(paddock, here, walled):
    found = paddock("run", "./folder:Init-v0", "--deadline", "0.2")
    assert found.code == 1
    assert "__init__ has not returned for 0.2 s and was ended; it stood at " in found.err
    assert abs(int(found.err.partition(".py:")[2].split()[0]) - line_of("__init__")) <= 1


@pytest.mark.process
def test_the_walls_own_deadline_names_the_line(here, walled):
    import paddock

    folder = here / "folder"
    (folder / "paddock.toml").write_text(MANIFEST + "[permissions]\ncall_s = 1\n")
    with paddock.make(f"{folder}:Step-v0") as env:
        env.reset(seed=0)
        with pytest.raises(paddock.DeadlineExceeded, match=rf"It stood at {folder}/hang_of_a_folder.py:\d+ in step\."):
            env.step(0)


@pytest.mark.process
def test_every_environment_of_a_folder_is_checked(paddock, here, walled):
    found = paddock("check", "./folder", "--deadline", "4")
    assert found.code == 1
    errors = [line for line in found.out.splitlines() if line.startswith("error PD039")]
    assert [("Step-v0: `env.step()`" in line, "Init-v0: making ./folder:Init-v0" in line) for line in errors] == [
        (True, False),
        (False, True),
    ]
    assert found.out.count("uses time.sleep") == 1  # of the source, once for all
    assert found.out.count("  fix: The call did not return within the deadline; look at that line for a loop") == 2
    findings = paddock("check", "./folder", "--deadline", "4", "--json").document["findings"]
    late = [(one["environment"], one["file"], one["line"]) for one in findings if one["code"] == "PD039"]
    file = "folder/hang_of_a_folder.py"
    # A loop of two lines stands at either.
    assert [(env, at) for env, at, _ in late] == [("Step-v0", file), ("Init-v0", file)]
    assert late[0][2] in (line_of("step"), line_of("step") - 1)
    assert late[1][2] in (line_of("__init__"), line_of("__init__") - 1)


def paddock_process(here, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "paddock", *words],
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "said"),
    [("Stubborn", "step has not returned for 1 s and was ended"), ("Keeps", "hang.py")],
)
def test_what_can_not_be_interrupted_ends_with_the_process(here, name, said):
    with paddock_process(here, "run", f"hang:me/{name}-v0", "--deadline", "1") as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 1
    assert said in err
    assert str(line_of(name.lower())) in err


@pytest.mark.process
def test_ctrl_c_prints_what_there_is(here):
    with paddock_process(
        here, "run", "hang:me/Slow-v0", "--episodes", "100000", "--json", "--trace", "t.jsonl"
    ) as process:
        trace, ends = here / "t.jsonl", time.monotonic() + 240
        while not trace.exists() or trace.read_text().count('"type":"end"') < 3:
            assert time.monotonic() < ends
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    document = json.loads(out)
    assert document["interrupted"] is True
    assert len(document["episodes"]) >= 2
    assert document["mean_return"] == 1.0
