"""How long it takes until paddock can be used, against `import numpy` alone, each in fresh interpreters.

    python benchmarks/imports.py

Bars: the names of a first script at most 1.3x of `import numpy`; `paddock --help` at most 0.9x.
"""

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROUNDS = 15


class Case(NamedTuple):
    """What is started, and the most that it may take as a multiple of `import numpy`."""

    name: str
    arguments: tuple[str, ...]
    bar: float | None = None


BASE = Case("import numpy", ("-c", "import numpy"))
CASES = [
    BASE,
    Case("paddock.make, paddock.spaces.Box", ("-c", "import paddock; paddock.make; paddock.spaces.Box"), bar=1.3),
    Case("paddock --help", ("-c", "import sys; from paddock.cli import main; sys.exit(main(['--help']))"), bar=0.9),
    Case("python -m paddock --help", ("-m", "paddock", "--help"), bar=0.9),
    Case("paddock list", ("-m", "paddock", "list")),
    Case("import paddock", ("-c", "import paddock")),
    Case("python alone", ("-c", "pass")),
]
if importlib.util.find_spec("gymnasium"):
    CASES.append(Case("import gymnasium", ("-c", "import gymnasium")))


def seconds(case, environment):
    """One start, measured from outside: what a user waits for."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, *case.arguments],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    return time.perf_counter() - begin


def measure():
    """Median seconds of each case; rounds interleave the cases, so that a busy moment hits all of them."""
    # All cases run from byte code, as installed packages do, also where the setting of this machine is not to write it.
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for case in CASES:  # the first start writes the byte code and warms the disk
            seconds(case, environment)
        rounds = [[seconds(case, environment) for case in CASES] for _ in range(ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def main() -> int:
    times = measure()
    base = times[CASES.index(BASE)]
    failed = False
    print(f"{'':34} {'ms':>7} {'ratio':>6} {'bar':>5}")
    for case, took in zip(CASES, times, strict=True):
        ratio = took / base
        missed = case.bar is not None and ratio > case.bar
        failed |= missed
        verdict = "" if case.bar is None else f"{case.bar:5.1f}  {'MISSED' if missed else 'ok'}"
        print(f"{case.name:34} {took * 1e3:7.1f} {ratio:6.2f} {verdict}".rstrip())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
