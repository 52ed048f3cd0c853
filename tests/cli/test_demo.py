"""The demo: one episode at every distance with one digest, and a server that never outlives it."""

import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import paddock as package
from paddock.cli import demo, main
from paddock.record import TrajectoryDigest
from tests.cli.terminal import Terminal

ROOT = Path(__file__).parents[2]
NAMES = ["in process", "1024 lanes", "another process", "sandbox", "server", "agentic"]


def played_here():
    """The digest of the demo's episode, by a loop of this test's own."""
    digest = TrajectoryDigest()
    with package.make(demo.TARGET) as env:
        observation, _ = env.reset(seed=demo.SEED)
        digest.reset(demo.SEED, observation)
        ended = False
        while not ended:
            action = int(observation[2] + observation[3] / 2 > 0)
            observation, reward, terminated, truncated, _ = env.step(action)
            digest.step(action, observation, reward, terminated, truncated)
            ended = terminated or truncated
    return digest.hexdigest()


@pytest.mark.process
def test_every_distance_gives_the_same_episode(paddock):
    document = paddock("demo", "--json").document
    rows = document["rows"]
    assert [row["name"] for row in rows] == NAMES
    assert [row["reason"] for row in rows] == [None] * 6
    assert [row["digest"] for row in rows] == [played_here()] * 5 + [None]
    assert {(row["steps"], row["return"]) for row in rows[:5]} == {(500, 500.0)}
    assert rows[5]["return"] > 0.8  # Wordle's word was found
    assert all(row["steps_per_s"] > 0 and row["good_for"] for row in rows)
    assert document["same_trajectory"] is True


def test_it_fails_when_a_stop_gives_other_numbers(paddock, monkeypatch):
    from paddock.cli.environment import open_env

    elsewhere = demo.Stop("elsewhere", "nothing", lambda: open_env("CartPole-v1", max_episode_steps=30))
    monkeypatch.setattr(demo, "STOPS", (demo.STOPS[0], elsewhere))
    found = paddock("demo")
    assert found.code == 1
    assert "the trajectories differ" in found.err
    assert paddock("demo", "--json").document["same_trajectory"] is False


@pytest.mark.process
@pytest.mark.parametrize(
    ("hide", "missing"),
    [
        (
            "from paddock.sandbox.machine import Machine\nMachine.missing = lambda self, tier: ['a newer kernel']",
            {"sandbox": "needs a newer kernel", "server": "No wall holds on this machine"},
        ),
        ("import sys\nsys.modules['picows'] = None", {"server": "pip install"}),
    ],
    ids=["no wall", "no server extra"],
)
def test_a_row_says_why_this_machine_does_not_have_it(tmp_path, hide, missing):
    (tmp_path / "sitecustomize.py").write_text(hide)  # in the demo's server too
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    command = [sys.executable, "-m", "paddock", "demo", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    assert list(rows) == NAMES
    assert {name for name, row in rows.items() if row["reason"]} == set(missing)
    for name, words in missing.items():
        assert words in rows[name]["reason"]
        assert (rows[name]["steps_per_s"], rows[name]["digest"]) == (None, None)


@pytest.mark.parametrize("installed", [True, False])
def test_sixty_columns_break_no_word_and_no_digest(monkeypatch, installed):
    digest = "fe030c41d9c94576" * 4

    def visited(stop, output):
        if not installed and stop.name == "sandbox":
            return demo.Row(stop.name, None, None, stop.good_for, reason="it needs a newer kernel. See: paddock doctor")
        return demo.Row(stop.name, 31_234_567.8, digest, stop.good_for, 500, 500.0)

    out = Terminal()
    monkeypatch.setattr(demo, "_visit", visited)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["demo"]) == 0
    text = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())
    assert max(map(len, text.splitlines())) <= 60
    assert text.count(digest[:16]) == (5 if installed else 4)
    assert text.count("31,234,568") == (5 if installed else 4)
    words = set(" ".join([*NAMES, *(stop.good_for for stop in demo.STOPS[:3])]).split())
    words |= set() if installed else {"not", "here:", "newer", "kernel.", "doctor"}
    assert words <= set(text.replace("│", " ").split())
    if installed:  # a row takes two lines at most
        assert sum(line.startswith("│") for line in text.splitlines()) <= 2 * len(NAMES)
    assert [line.strip() for line in text.splitlines()[-3:]] == list(demo.NEXT)
    assert len(demo.NEXT) == 3


# The demo with its server's row alone, which stays there: `ready` when the session is open.
STAYING = """
import sys, time
from paddock.cli import demo, main

def stay(env, seed):
    print("ready", file=sys.__stdout__, flush=True)
    time.sleep(600)

demo.balance, demo.STOPS = stay, demo.STOPS[-1:]
sys.exit(main(["demo"]))
"""


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_the_server_ends_with_the_demo_however_that_ends(number):
    if not Path("/proc/self/task").exists():
        pytest.skip("needs Linux' /proc to find the server: it runs there")
    command = [sys.executable, "-c", STAYING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "ready\n" in iter(process.stdout.readline, ""), process.stderr.read()
        (server,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        ended = os.pidfd_open(server)
        try:
            process.send_signal(number)
            _, told = process.communicate(timeout=60)
            alive = select.select([ended], [], [], 30)[0] == []  # a pidfd can be read once its process has ended
            if alive:
                os.kill(server, signal.SIGKILL)
            assert not alive, "the server outlived the demo"
        finally:
            os.close(ended)
    assert process.returncode == (130 if number is signal.SIGINT else -number)
    assert "Traceback" not in told
