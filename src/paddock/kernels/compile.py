"""A kernel compiled: one function of one address that steps any number of lanes, kept on disk between runs.

The file's name holds a hash of everything that went into it (functions, helpers, constants, layout, versions), so an
edited kernel or an upgraded library can never run stale code.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from paddock import __version__
from paddock.errors import KernelNotCompiled
from paddock.kernels import driver
from paddock.kernels.functions import compiled_function, fingerprint
from paddock.kernels.installed import is_worker, keeps_code
from paddock.kernels.kernel import Kernel
from paddock.kernels.layout import Layout
from paddock.kernels.refusal import explained

_DTYPES = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
_loaded: dict[bytes, Callable[[int], int]] = {}
_refused: dict[bytes, str] = {}


def compiled_run(kernel: Kernel, layout: Layout) -> Callable[[int], int]:
    """``run(address)`` for a block of addresses; compiled or read from the cache at the first call."""
    source = driver.compiled_source(layout)
    key = _key(kernel, source)
    if key in _refused:
        raise KernelNotCompiled(_refused[key])
    if key not in _loaded:
        try:
            _loaded[key] = _compile(kernel, source, key)
        except KernelNotCompiled as error:
            _refused[key] = str(error)  # the next of a hundred lanes need not wait for the same answer
            raise
    return _loaded[key]


def load_if_kept(kernel: Kernel, layout: Layout) -> bool:
    """Whether the machine code is here: it was loaded before, or lies in the cache and is loaded now.

    The first time in a process that takes half a second, so it is done when an environment is made and never in a step;
    in a worker not at all. What a parent has loaded, the workers that it forks have too.
    """
    if is_worker() and not _loaded:
        return False
    source = driver.compiled_source(layout)
    key = _key(kernel, source)
    if key not in _loaded and not is_worker() and keeps_code():
        folder = _own_folder()
        if folder is not None and any(folder.glob(f"__pycache__/{_name(key)}.*.nbi")):
            with suppress(KernelNotCompiled):
                compiled_run(kernel, layout)
    return key in _loaded


def shared_run(run: Callable[[int], int]) -> Callable[[int], int]:
    """``run`` for one of several threads that share lanes, without the interpreter's lock.

    The address is of four words: the part to begin with, the number of parts, and where a flag and the address of the
    block of each part are. Beginning at a place of its own, a thread finds its lanes in its own cache, step after step.
    """
    import numba

    from paddock.kernels.machine import claim, pointer

    def run_parts(address):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Numba stumbles over annotations
        words = numba.carray(pointer(address), (4,), np.int64)
        home, parts, flags = words[0], words[1], words[2]
        blocks = numba.carray(pointer(words[3]), (parts,), np.int64)
        count = 0
        for offset in range(parts):
            part = (home + offset) % parts
            if claim(flags + 8 * part) == 0:
                count += run(blocks[part])
        return count

    return numba.njit(numba.int64(numba.int64), nogil=True)(run_parts)  # type: ignore[no-any-return]


def python_run(kernel: Kernel, layout: Layout) -> Callable[..., int]:
    """The same loop as plain Python."""
    return _define(driver.python_source(layout), "<paddock lanes>", _functions(kernel))


def _functions(kernel: Kernel) -> dict[str, Any]:
    return {"initial": kernel.initial, "step": kernel.step, "observe": kernel.observe, "info": kernel.info}


def _compile(kernel: Kernel, source: str, key: bytes) -> Callable[[int], int]:
    import numba

    from paddock.kernels import machine

    names: dict[str, Any] = {name: getattr(np, name) for name in _DTYPES}
    names |= {"carray": numba.carray, "pointer": machine.pointer, "rng_at": machine.rng_at}
    names |= {"State": kernel.state_type, "Params": type(kernel.params)}
    # error_model: dividing by zero gives inf or nan as in NumPy, instead of a check before every division.
    options: dict[str, Any] = {"error_model": "numpy", "boundscheck": _checks_bounds()}
    done: dict[Any, Any] = {}
    suffix = key.hex()[:24]
    with explained(kernel):
        for name, function in _functions(kernel).items():
            if function is not None:
                names[name] = compiled_function(
                    function,
                    numba.njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options),
                    done,
                    suffix,
                )
        run = _define(source, str(_cache_file(source, key)), names)
        run.__name__ = run.__qualname__ = f"run_{suffix}"
        try:
            with _numba_beside_the_source():
                return numba.njit(numba.int64(numba.int64), cache=True, **options)(run)  # type: ignore[no-any-return]
        except numba.core.errors.NumbaError:
            raise
        except Exception:  # a file that another process left damaged, say: not the kernel's fault, or it fails again
            return numba.njit(numba.int64(numba.int64), **options)(run)  # type: ignore[no-any-return]


def _define(source: str, filename: str, names: dict[str, Any]) -> Callable[..., int]:
    # Our own generated text: nothing of it comes from a peer or a file.
    names["__name__"] = __name__  # Numba's cache imports it when it reads machine code back
    exec(compile(source, filename, "exec"), names)  # noqa: S102
    run: Callable[..., int] = names["run"]
    return run


def _key(kernel: Kernel, source: str) -> bytes:
    digest = hashlib.sha256(source.encode())
    for function in _functions(kernel).values():
        digest.update(fingerprint(function) if function is not None else b"none")
    for record in (kernel.state_type, type(kernel.params)):
        digest.update(repr((record.__qualname__, record._fields)).encode())
    digest.update(repr((sys.version, np.__version__, __version__, _numba_version(), _checks_bounds())).encode())
    digest.update((Path(__file__).parent / "machine.py").read_bytes())
    return digest.digest()


def _checks_bounds() -> bool:
    """For authors who look for an index out of range: PADDOCK_BOUNDSCHECK=1 makes it an IndexError."""
    return os.environ.get("PADDOCK_BOUNDSCHECK", "") not in ("", "0")


@cache
def _numba_version() -> tuple[str, str]:
    return version("numba"), version("llvmlite")  # without importing them: that takes a quarter of a second


def _name(key: bytes) -> str:
    return f"lanes_{key.hex()[:40]}"


def _cache_file(source: str, key: bytes) -> Path:
    """The generated source on disk; Numba puts the machine code beside it."""
    path = _cache_folder() / f"{_name(key)}.py"
    if not path.exists():
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(source)
        Path(name).replace(path)
    return path


def _cache_folder() -> Path:
    folder = _own_folder()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="paddock-kernels-"))  # compiled again in each run, but always ours
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _own_folder() -> Path | None:
    """A folder of this user's alone: whoever can write there, or put another in its place, can make us run code."""
    own = os.environ.get("PADDOCK_CACHE") if keeps_code() else os.devnull
    try:
        shared = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = (Path(own) if own else shared / "paddock") / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.resolve()
        if not _is_private(folder):
            raise PermissionError(f"{folder} can be changed by others")
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        return None


def _is_private(folder: Path) -> bool:
    """Whether nobody but this user and root can write into the folder, or rename it or one that it is in."""
    if not hasattr(os, "getuid"):
        return True  # Windows: a user's own folders are private by default
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        return False
    for parent in folder.parents:
        status = parent.stat()
        foreign = status.st_uid not in (0, os.getuid())
        if foreign or (status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX):
            return False
    return True


@contextmanager
def _numba_beside_the_source() -> Iterator[None]:
    """Numba keeps machine code in the folder that was checked, not where NUMBA_CACHE_DIR points."""
    import numba

    asked, numba.config.CACHE_DIR = numba.config.CACHE_DIR, ""
    try:
        yield
    finally:
        numba.config.CACHE_DIR = asked
