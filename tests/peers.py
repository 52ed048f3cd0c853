"""Run a program in the venv of a peer: a package that we are tested against and never depend on."""

import json
import os
import subprocess
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_with_peer(name, program, *, timeout=600):
    """What the program prints as JSON on its last line. The first call makes `.peers/NAME`, which takes minutes."""
    made = subprocess.run([ROOT / "scripts" / "peer", name], capture_output=True, text=True, timeout=1800)
    assert made.returncode == 0, made.stderr[-2000:]
    python = made.stdout.strip()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=timeout, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
