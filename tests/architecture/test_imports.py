"""What an import brings along, seen in fresh interpreters: this process has imported everything already."""

import json
import pkgutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec

import pytest

import paddock

HEAVY = {
    "asyncio",
    "cloudpickle",
    "cryptography",
    "cv2",
    "fastapi",
    "gymnasium",
    "jax",
    "llvmlite",
    "matplotlib",
    "multiprocessing",
    "numba",
    "pandas",
    "pydantic",
    "pygame",
    "ray",
    "rich",
    "scipy",
    "starlette",
    "torch",
    "uvicorn",
    "websockets",
}

# Absent on Windows, most of them on macOS too.
LINUX_MODULES = ["fcntl", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog", "_posixshmem"]
LINUX_FUNCTIONS = {
    "eventfd",
    "fork",
    "forkpty",
    "geteuid",
    "getgid",
    "getloadavg",
    "getuid",
    "killpg",
    "memfd_create",
    "mkfifo",
    "pidfd_open",
    "posix_spawn",
    "register_at_fork",
    "sched_getaffinity",
    "sched_setaffinity",
    "setsid",
    "sysconf",
    "uname",
}
LINUX_ONLY = {"sandbox"}
# Modules that import an optional dependency at their top.
NEED_AN_EXTRA = {
    "paddock.kernels.machine": "numba",
    "paddock.adapters.gymnasium_env": "gymnasium",
    "paddock.sources.gymnasium_spaces": "gymnasium",
    "paddock.adapters.sb3_vec_env": "stable_baselines3",
    "paddock.adapters.tianshou_lanes": "tianshou",
    "paddock.adapters.torchrl_env": "torchrl",
    "paddock.adapters.verl": "verl",
}


def portable_modules():
    """Every module of ours that must import on every system, given the extras that are installed here."""
    modules = {module.name for module in pkgutil.walk_packages(paddock.__path__, "paddock.")}
    absent = {name for name, extra in NEED_AN_EXTRA.items() if find_spec(extra) is None}
    return sorted(name for name in modules - absent if name.split(".")[1] not in LINUX_ONLY)


def run(program, *arguments):
    """What the program prints as JSON on its last line."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.process
@pytest.mark.parametrize(
    "program",
    [
        "import paddock",
        "import paddock; paddock.make; paddock.make_vec; paddock.register; paddock.Env; paddock.spaces.Box",
        "import paddock; [getattr(paddock, name) for name in paddock.__all__]",
    ],
    ids=["import", "the usual names", "every name"],
)
def test_import_paddock_brings_nothing_heavy_beyond_numpy(program):
    new = run(
        """
        import json, sys
        import numpy
        before = set(sys.modules)
        exec(sys.argv[1])
        print(json.dumps(sorted(set(sys.modules) - before)))
        """,
        program,
    )
    assert "paddock" in new
    assert {name.split(".")[0] for name in new} & HEAVY == set()


@pytest.mark.process
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]], ids=" ".join)
def test_command_line_starts_without_numpy(arguments):
    seen = run(
        """
        import contextlib, io, json, runpy, sys
        sys.argv[0] = "paddock"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                runpy.run_module("paddock", run_name="__main__", alter_sys=True)
                code = 0
            except SystemExit as stop:
                code = stop.code or 0
        print(json.dumps({"code": code, "text": printed.getvalue(), "numpy": "numpy" in sys.modules}))
        """,
        *arguments,
    )
    assert (seen["code"], seen["numpy"]) == (0, False)
    assert "paddock" in seen["text"]


# NumPy first: its Linux build looks for what its builds elsewhere do not need.
HIDE_LINUX = f"""
import os, sys
import numpy
for name in {LINUX_MODULES}:
    sys.modules[name] = None
for name in {LINUX_FUNCTIONS}:
    vars(os).pop(name, None)
    vars(sys.modules["posix"]).pop(name, None)
"""


@pytest.mark.process
def test_core_works_where_linux_modules_are_missing():
    answer = run(
        HIDE_LINUX
        + textwrap.dedent("""
        import json
        import numpy as np
        import paddock

        class Walk(paddock.Env):
            observation_space = paddock.spaces.Box(-9, 9, (2,), np.float64)
            action_space = paddock.spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                self.place = self.np_random.uniform(-1, 1, 2)
                return self.place.copy(), {}

            def step(self, action):
                self.place[int(action)] += 1
                return self.place.copy(), 1.0, False, False, {}

        paddock.register("me/Walk-v0", Walk, max_episode_steps=2)
        with paddock.make("me/Walk-v0") as env:
            first, _ = env.reset(seed=3)
            env.step(0)
            last, reward, terminated, truncated, _ = env.step(1)
            moved = bool(np.array_equal(last, first + 1))
        print(json.dumps([moved, reward, terminated, truncated]))
        """)
    )
    assert answer == [True, 1.0, False, True]


@pytest.mark.process
def test_every_portable_module_imports_where_linux_modules_are_missing():
    failed = run(
        HIDE_LINUX
        + textwrap.dedent("""
        import ctypes.util, importlib, json
        ctypes.util.find_library = lambda name: None  # its Linux form asks os.uname; this is Windows' answer for "m"
        failed = {}
        for name in sys.argv[1:]:
            try:
                importlib.import_module(name)
            except Exception as error:
                failed[name] = repr(error)
        print(json.dumps(failed))
        """),
        *portable_modules(),
    )
    assert failed == {}
