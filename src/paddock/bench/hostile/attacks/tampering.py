"""Attacks on the program that uses the environment: its registry, its modules, its files, what it keeps in memory."""

from __future__ import annotations

import builtins
import ctypes
import errno
import gc
import json
import os
import re
import site
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from paddock.bench.hostile.attack import CONTAINED, DENIED, IN_ITS_PROCESS, LIVES, ONCE, enter
from paddock.bench.hostile.attacks.attempt import attack, first_that_works
from paddock.bench.hostile.attacks.imports import TOUCH

MARK = "paddock_hostile_was_here"


def impostor(**kwargs: Any) -> Any:
    """What a tampered registry makes in place of CartPole."""
    raise RuntimeError("an impostor was made")


@attack("T01", "registers an impostor", "program", expected=CONTAINED, **IN_ITS_PROCESS)
def register_impostor() -> str:
    """Puts an impostor under the id of a built-in environment."""
    from paddock.core.registry import registry
    from paddock.core.spec import EnvSpec

    entry = f"{__name__}:impostor"
    dict.__setitem__(registry, "CartPole-v1", EnvSpec("CartPole-v1", entry_point=entry))
    return "registered"


@attack("T03", "replaces functions", "program", expected=LIVES, **IN_ITS_PROCESS)
def replace_functions() -> str:
    json.hostile = MARK  # type: ignore[attr-defined]
    builtins.hostile = MARK  # type: ignore[attr-defined]
    sys.modules[MARK] = sys.modules[__name__]
    return "replaced"


@attack("T04", "changes the surroundings", "program", expected=LIVES, **IN_ITS_PROCESS)
def change_surroundings() -> str:
    """Changes what a process shares within itself: environment variables, sys.path, the filters of warnings."""
    os.environ[MARK] = "1"
    sys.path.append(f"/{MARK}")
    warnings.simplefilter("ignore", ResourceWarning)
    return "changed"


@attack("T05", "changes the user's results", "program", expected=DENIED, **IN_ITS_PROCESS)
def change_ledger() -> str:
    """Finds the user's own list of results in memory, and adds to it."""
    for one in gc.get_objects():
        if type(one) is dict and "hostile ledger" in one:
            one["hostile ledger"] = [MARK]
            return "added"
    raise FileNotFoundError("no ledger in this process")


@attack(
    "T13",
    "replaces functions of those that come after it",
    "neighbour",
    expected=LIVES,
    calls=("reset", "step", "another", "close"),
    **IN_ITS_PROCESS,
)
def poison() -> str:
    """Replaces what the next environment draws its numbers by."""
    import paddock.core.env as environments
    from paddock.bench.hostile.attacks import attempt

    replacements: list[tuple[Any, str, Any]] = [
        (attempt.Quiet, "_draw", lambda env: np.zeros(2, np.float32)),
        (environments.Env, "reset", lambda env, **options: (None, {})),
    ]
    for owner, name, other in replacements:
        setattr(owner, name, other)
    return "replaced"


_SECRET = re.compile(rb"secret [0-9a-f]{32}")
_PIECE = 1 << 16


@attack(
    "T14",
    "searches its own memory for its neighbour's secret",
    "secret",
    neighbour=True,
    control="none",
    needs="secrets-hidden",
)
def search_own_memory() -> str:
    """Searches its memory for what a neighbour, forked from the same template before it, was told."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.write.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
    libc.sbrk.restype = ctypes.c_void_p
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    top = libc.sbrk(ctypes.c_long(0)) // _PIECE
    # Python's own arenas, by the objects in them, and what lies below the end of the C library's heap.
    places = {id(one) >> 20 << 4 | part for one in gc.get_objects() for part in range(16)}
    try:
        for place in sorted({*places, *range(top - 1024, top + 1)}):
            # The kernel reads for it: it refuses where nothing is, and this process lives on.
            if libc.write(writes, place * _PIECE, _PIECE) > 0 and (found := _SECRET.search(os.read(reads, _PIECE))):
                return found[0].decode()
    finally:
        os.close(reads)
        os.close(writes)
    raise FileNotFoundError(errno.ENOENT, "nothing of its neighbour's")


def plant(folder: str | Path, name: str) -> str:
    """Leave a harmless file of that name there."""
    path = Path(folder, name)
    path.write_text("# harmless\n")
    return str(path)


@attack("T06", "plants in site-packages", "file", control_root=True)
def plant_in_packages(name: str) -> str:
    """Leaves a file where Python looks for packages: as .pth it would run in every later program."""
    folders = [*site.getsitepackages(), *(path for path in sys.path if path.endswith("-packages"))]
    return first_that_works(lambda folder: plant(folder, name), folders)


@attack("T07", "plants in paddock's folder", "file", {"folder": ""}, control_root=True)
@attack("T08", "plants among compiled files", "file", {"folder": "__pycache__"}, control_root=True)
def plant_in_paddock(name: str, folder: str) -> str:
    import paddock.errors as ours

    place = Path(ours.__file__).parent / folder
    place.mkdir(exist_ok=True)
    return plant(place, name)


@attack("T09", "opens paddock's source for writing", "claim", control_root=True)
def open_source() -> str:
    """Opens paddock's own source for writing, and writes nothing."""
    import paddock.errors as ours

    os.close(os.open(ours.__file__, os.O_WRONLY | os.O_APPEND))
    return "reached: our source"


enter(
    "T02",
    "registers an impostor when imported",
    "program",
    kind="module",
    target="from paddock.core.registry import registry\n"
    "from paddock.core.spec import EnvSpec\n"
    "dict.__setitem__(registry, 'CartPole-v1', EnvSpec('CartPole-v1', entry_point='os:system'))\n",
    expected=CONTAINED,
    needs="not-imported",
)
enter("T10", "rewrites its own source", "file", kind="module", target="open(__file__, 'a').write('# changed')\n")
enter(
    "T11",
    "a spec names os:system",
    "file",
    kind="spec",
    target="os:system",
    arguments={"command": "$command"},
    expected={"raised", "denied", "exit", "refused", "violation"},
    calls=(),
)
enter(
    "T12",
    "a wrapper by a path into the user's module",
    "file",
    kind="module wrapper",
    target=TOUCH,
    expected={"raised", "refused", "violation", "denied", "contained"},
    calls=ONCE,
)
