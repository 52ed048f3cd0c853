"""Run a program in the venv of a peer: a package that we are tested against and never depend on."""

import json
import os
import subprocess
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_with_peer(name, program, *, timeout=600):
    """What the program prints as JSON on its last line. The first call makes `.peers/NAME`, which takes minutes."""
    done = _run([python_of(name), "-c", textwrap.dedent(program)], timeout=timeout)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def pytest_with_peer(name, *words, timeout=600, cwd=None):
    """Run pytest in the peer's venv, on files that pytest would not find by itself; what failed is told here."""
    command = [python_of(name), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *map(str, words)]
    done = _run([*command, "-c", ROOT / "pyproject.toml"], timeout=timeout, cwd=cwd)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def python_of(name):
    made = subprocess.run([ROOT / "scripts" / "peer", name], capture_output=True, text=True, timeout=1800)
    assert made.returncode == 0, made.stderr[-2000:]
    return made.stdout.strip()


def _run(command, *, timeout, cwd=None):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory(prefix="peer-") as scratch:  # some of them leave folders behind
        environment["TMPDIR"] = scratch
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, cwd=cwd)
