"""Stable-Baselines3 trains over our lanes; it runs in its own venv, as a peer."""

import subprocess
import sys

import pytest

import paddock
from paddock.adapters import sb3
from paddock.errors import DependencyNotInstalled
from tests.peers import ROOT, pytest_with_peer, run_with_peer

CASES = ROOT / "tests/adapters/sb3_cases.py"


@pytest.mark.peers
def test_stable_baselines3_over_lanes():
    assert "passed" in pytest_with_peer("sb3", CASES)


@pytest.mark.peers
@pytest.mark.full
def test_stable_baselines3_masters_cart_pole_in_one_environment():
    assert "1 passed" in pytest_with_peer("sb3", CASES, "-m", "full")


def test_missing_package_is_told_with_the_command_that_helps(monkeypatch):
    monkeypatch.setattr("paddock.adapters.find_spec", lambda name: None)
    for ask in (lambda: sb3.vec_env("CartPole-v1", 2), lambda: sb3.as_vec_env(paddock.make_vec("CartPole-v1", 2))):
        with pytest.raises(DependencyNotInstalled, match="pip install stable-baselines3 gymnasium"):
            ask()


@pytest.mark.process
def test_looking_at_the_adapters_imports_no_framework():
    program = """
import sys
import paddock.adapters.sb3, paddock.adapters.tensors
print(sorted({"torch", "stable_baselines3", "gymnasium", "jax"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.peers
def test_ppo_in_one_file_learns_over_both_libraries():
    assert all(one["mean return"] >= 150 for one in trained("--envs", "both", "--goal", "150", "--trainings", "1"))


@pytest.mark.peers
@pytest.mark.full
def test_ppo_in_one_file_reaches_its_goal_over_both_libraries():
    *each, ours, theirs = trained("--envs", "both")
    assert [one["mean return"] >= 475 for one in each] == [True] * 10
    print(f"paddock {ours}, Gymnasium {theirs}")  # how long that takes is for the quiet machine


def trained(*words):
    """What each line of the example says."""
    return run_with_peer(
        "sb3",
        f"""
        import contextlib, io, json, re, runpy, sys
        sys.argv = ["ppo_cartpole.py", *{words!r}]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path({str(ROOT / "examples" / "ppo_cartpole.py")!r}, run_name="__main__")
        line = re.compile(r"mean return +([\\d.]+) after +[\\d,]+ steps and +([\\d.]+) s, +([\\d.]+)% of them")
        names = "mean return", "seconds", "share of stepping"
        found = line.findall(printed.getvalue())
        print(json.dumps([dict(zip(names, map(float, numbers))) for numbers in found]))
        """,
    )
