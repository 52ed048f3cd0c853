"""Compile a kernel: one function of one address that steps any number of lanes, cached on disk between runs.

The file's name holds a hash of everything that went into it (functions, helpers, constants, layout, versions), so an
edited kernel or an upgraded library can never run stale code.
"""

from __future__ import annotations

import atexit
import builtins
import dis
import hashlib
import inspect
import linecache
import math
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from paddock import __version__
from paddock.errors import KernelNotCompiled
from paddock.kernels import driver, numeric
from paddock.kernels.functions import compiled_function, fingerprint
from paddock.kernels.kernel import Kernel
from paddock.kernels.layout import Layout

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


def load_if_cached(kernel: Kernel, layout: Layout) -> bool:
    """Load the machine code if it lies in the cache, and say whether it is loaded.

    The first time in a process this takes half a second, so it is done when an environment is made and never in a step;
    in a worker not at all. What a parent has loaded, the workers that it forks have too.
    """
    # In a worker process, ours or one of multiprocessing's, a step waits for a wake-up of a tenth of a millisecond:
    # half a second for quicker dynamics does not pay.
    processes = sys.modules.get("multiprocessing.process")
    forked = processes is not None and processes.parent_process() is not None
    worker = forked or "PADDOCK_WORKER" in os.environ
    reads = not worker and _keeps_code()
    if not reads and not _loaded:
        return False
    source = driver.compiled_source(layout)
    key = _key(kernel, source)
    if key not in _loaded and reads:
        folder = _own_folder()
        if folder is not None and any(folder.glob(f"__pycache__/{_name(key)}.*.nbi")):
            with suppress(KernelNotCompiled):
                compiled_run(kernel, layout)
    return key in _loaded


def _keeps_code() -> bool:
    """Whether machine code outlives this process: PADDOCK_CACHE=none says no, as behind a wall.

    Then compiling takes seconds every time, and is for many lanes only.
    """
    return os.environ.get("PADDOCK_CACHE") != "none"


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
    with explain(kernel):
        for name, function in _functions(kernel).items():
            if function is not None:
                names[name] = compiled_function(
                    function,
                    numba.njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options),
                    done,
                    suffix,
                )
        path = _cache_folder() / f"{_name(key)}.py"
        if not path.exists():
            handle, written = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(handle, "w") as file:
                file.write(source)
            Path(written).replace(path)
        run = _define(source, str(path), names)
        run.__name__ = run.__qualname__ = f"run_{suffix}"
        # Numba puts machine code beside the source, in the folder that was checked, not where NUMBA_CACHE_DIR points.
        chosen, numba.config.CACHE_DIR = numba.config.CACHE_DIR, ""
        try:
            return numba.njit(numba.int64(numba.int64), cache=True, **options)(run)  # type: ignore[no-any-return]
        except numba.core.errors.NumbaError:
            raise
        except Exception:  # a file that another process left damaged, say: not the kernel's fault, or it fails again
            return numba.njit(numba.int64(numba.int64), **options)(run)  # type: ignore[no-any-return]
        finally:
            numba.config.CACHE_DIR = chosen


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


def _cache_folder() -> Path:
    folder = _own_folder()
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="paddock-kernels-"))  # compiled again in each run, but always ours
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _own_folder() -> Path | None:
    """A folder of this user alone: anyone who can write there, or replace it, can make us run their code."""
    own = os.environ.get("PADDOCK_CACHE") if _keeps_code() else os.devnull
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
    """Whether only this user and root can write into the folder, or rename it or one that it is in."""
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


# ── Why a kernel can't be compiled: which line, what is wrong there, and what to write instead ──
#
# Numba says it in pages, and says nothing about code that compiles to other numbers than Python's. Such code is refused
# before Numba sees it. It is read from bytecode, so that kernels without a source file are checked as well.

_LONGEST_LINE = 70
_LONGEST_REASON = 110
_NOT_THE_AUTHORS = r"lanes_\w{40}|site-packages|kernels.machine\.py"  # the generated loop, Numba, and our draws

# Pattern in Numba's text, what is wrong (groups by \1), what to write instead. The first match counts.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"Unknown attribute '(\w+)' of type LaneRng",
        r"rng has no \1().",
        "It offers random, uniform, integers and choice.",
    ),
    (
        r"_method_choice at ",
        "rng.choice() takes a tuple or an array to choose from.",
        "A number from 0 to n - 1 is rng.integers(0, n).",
    ),
    (r"_method_(\w+) at ", r"rng.\1() is called with other arguments than it takes.", "See docs/kernels.md for them."),
    (r"Unknown attribute '_replace'", "_replace is a method.", "Build a new tuple from its fields: State(x, y)."),
    (
        r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'",
        r"\2.\1 can't be compiled.",
        "A function of your own is imported by name: from module import function.",
    ),
    (r"Unknown attribute '(\w+)' of type (\w+)\(", r"\2 has no field \1.", "Use one of its fields, or add this one."),
    (
        r"Untyped global name '(\w+)': Cannot determine Numba type of <class 'dict'>",
        r"\1 is a dict.",
        "Use a tuple or an array with a number as the index, or fields of params.",
    ),
    (
        r"Untyped global name '(\w+)'",
        r"\1 is an object.",
        "Pass its numbers through params, or use a number, a tuple, an array or a plain function.",
    ),
    (
        r"assigned to variable '(\w+)' in globals",
        r"\1 is a list outside of the function.",
        "Make it a tuple or an array.",
    ),
    (
        r"Can't unify return type from the following types",
        "The return statements give different types.",
        "Return the same on every path, for example 0.0 instead of 0.",
    ),
    (
        r"[Cc]an(?:no|')t unify .* for '(\w+?)(?:\.\d+)?'",
        r"\1 has different types on different paths.",
        "Give it one type, for example 0.0 instead of 0, and a tuple of one length.",
    ),
    (
        r"\b(?:list|dict|set|DictType|ListType|reflected)\b|build_(?:list|map|set)|LiteralStrKeyDict|LiteralList",
        "A list, dict or set like this can't be compiled.",
        "Use a tuple, fields of a NamedTuple, or a fixed array that initial() makes.",
    ),
    (r"context manager|SETUP_WITH|WITH_", "'with' can't be compiled.", "Leave files and locks out of a kernel."),
    (r"exception_match|SETUP_FINALLY|try", "'try' can't be compiled like this.", "Test for the case with if."),
    (r"IMPORT_NAME", "An import inside of a function.", "Import at the top of the file."),
    (r"yield", "'yield' and generators can't be compiled.", "Write a loop."),
    (
        r"getitem\((?:int64|float64|bool)",
        "A number is indexed.",
        "A Discrete action is an int, a Box action a sequence.",
    ),
    (r"unicode_type|Literal\[str\]", "Text can't be used like this.", "Leave text out of a kernel: use numbers."),
    (r"missing a required argument: '(\w+)'", r"A tuple is made without \1.", "Pass every field."),
    (
        r"NoneType|none|Optional",
        "A value is None on some path.",
        "Use a number that says so, for example -1 or math.nan.",
    ),
)
# The generated loop's own lines: what the author returned does not fit there.
_RETURNED = (
    (r"state, gain, done = step\(", "step", "step() must return (state, reward, terminated)."),
    (r"new_(\w+) = \w+\(state\.", "step", r"The state's field \1 is not a number of its type."),
    (r"gain|reward\[", "step", "The reward is not a number."),
    (r"done|terminated\[", "step", "terminated is not a bool."),
    (r"record|info_", "info", "info() must return the same NamedTuple of numbers each time."),
    (r"observation|obs_", "observe", "observe() must return one number for each element of the observation space."),
)


_OTHER_STREAMS = {"random", "numpy.random", "numpy.random.mtrand", "numpy.random._generator", "secrets"}
_TEXT = {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING"}
_MATRICES = "NumPy's products and solvers of matrices call other routines when compiled.", "Write the sums in a loop."
_POWER = {"BINARY_POWER", "INPLACE_POWER"}  # before Python 3.11; since then an argument of BINARY_OP

# Functions whose compiled selves differ in the last bit of some numbers. Measured on 40,000 with NumPy 2.4: most
# of NumPy's below, hypot, gamma, lgamma and pow. NumPy's sin, cos, power and the rest are here because which routine it
# takes depends on its build and the processor; sum because Python corrects its rounding since 3.12.
_TRANSCENDENTAL = (
    "sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh "
    "exp exp2 expm1 log log2 log10 log1p cbrt logaddexp logaddexp2"
)
_OTHER_DIGITS: dict[int, str] = {
    **{id(getattr(np, name)): "Use the function of math." for name in _TRANSCENDENTAL.split()},
    **dict.fromkeys(
        map(id, (pow, math.pow, np.power, np.float_power)), "Write x * x, or power(x, y) of paddock.kernels."
    ),
    **dict.fromkeys(
        map(id, (np.dot, np.vdot, np.inner, np.matmul, np.tensordot, np.einsum)), "Write the sums in a loop."
    ),
    id(math.hypot): "Write math.sqrt(x * x + y * y).",
    id(math.gamma): "There is no replacement.",
    id(math.lgamma): "There is no replacement.",
    id(sum): "Add them up in a loop.",
}


@contextmanager
def explain(kernel: Any) -> Iterator[None]:
    """Turn whatever stops the compiler into one KernelNotCompiled; the whole story is its ``__context__``."""
    try:
        for function in (kernel.initial, kernel.step, kernel.observe, kernel.info):
            if isinstance(function, FunctionType):
                _check(function, path=(), passed=set())
        yield
    except (OSError, MemoryError):
        raise  # the cache's folder, not the kernel
    except _Forbidden as found:
        raise KernelNotCompiled(_sentence(found.file, found.line, found.reason, found.advice)) from None
    except Exception as error:
        raise KernelNotCompiled(_translate(str(error), kernel)) from None


def _sentence(file: str, number: int, reason: str, advice: str) -> str:
    line = linecache.getline(file, number).strip()
    quote = f" `{line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + '…'}`" if line else ""
    why = " ".join(f"{reason} {advice}".split())
    return f"{file}:{number}:{quote} can't be compiled. {why} It runs as plain Python: backend='loop'."


def _translate(text: str, kernel: Any) -> str:
    """The sentence for one of Numba's errors."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    places = re.findall(r'File "([^"]+)", line (\d+)|(?: at|Raised from) (\S+) \((\d+)\)', text)
    own = [(a or c, int(b or d)) for a, b, c, d in places if not re.search(_NOT_THE_AUTHORS, a or c)]
    if own:
        return _sentence(*own[0], *_explain_known(text))  # the innermost call comes first
    if "resolving callee type: type(CPUDispatcher" not in text:
        # Nothing of the author's is named: the generated loop could not take what a function returned.
        marked = re.search(r"\n *(\S[^\n]*)\n *[\^~]+\s*\n", text)
        for pattern, name, reason in _RETURNED:
            match = re.search(pattern, marked[1] if marked else "")
            function = getattr(kernel, name)
            if match and function is not None:
                code = function.__code__
                advice = "Return a NamedTuple of numbers, the same on every path." if name == "step" else ""
                return _sentence(code.co_filename, code.co_firstlineno, match.expand(reason), advice)
    code = kernel.step.__code__
    return _sentence(code.co_filename, code.co_firstlineno, *_explain_known(text))


def _explain_known(text: str) -> tuple[str, str]:
    """What is wrong and what to write instead, by the first pattern that Numba's text matches."""
    for pattern, reason, advice in _KNOWN:
        match = re.search(pattern, text)
        if match:
            return match.expand(reason), advice
    skipped = ("File ", "During", "Failed in", "[", "^", "<source", ">>>", "- ", "Enable", "This error")
    lines = [line.strip() for line in text.splitlines()]
    first = next((line for line in lines if line and not line.startswith(skipped)), "Numba refused it")
    return f"{first[:_LONGEST_REASON].rstrip('.:')}.", "Use numbers, tuples, fixed arrays and functions of math."


class _Forbidden(Exception):
    """A line that must not be compiled, why, and what to write instead."""

    def __init__(self, file: str, line: int, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.file, self.line, self.reason, self.advice = file, line, reason, advice


def _check(function: FunctionType, path: Sequence[FunctionType], passed: set[FunctionType]) -> None:
    """Raise at the first line, of the function or of a helper that it calls, which must not be compiled."""
    code = function.__code__
    if function in path:
        raise _Forbidden(code.co_filename, code.co_firstlineno, "A function that calls itself.", "Write a loop.")
    if function in passed or function.__module__ == numeric.__name__:
        return
    if inspect.isgeneratorfunction(function):
        raise _Forbidden(code.co_filename, code.co_firstlineno, "'yield' can't be compiled.", "Return one value.")
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    names = {**vars(builtins), **function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    for used in _check_code(code, names):
        if isinstance(used, FunctionType):
            _check(used, [*path, function], passed)
    passed.add(function)


def _check_code(code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """Check one code object and those inside it; yields what it takes from outside."""
    line = code.co_firstlineno
    value: Any = None
    for instruction in dis.get_instructions(code):
        line = _line(instruction) or line
        # What lies on the stack if it comes from outside: a global, or an attribute of a module.
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
            value = names.get(instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            value = getattr(value, instruction.argval, None)
        elif instruction.opname not in ("PUSH_NULL", "CACHE", "PRECALL"):
            value = None
        fault = _instruction_fault(instruction, names) or _value_fault(value)
        if fault:
            raise _Forbidden(code.co_filename, line, *fault)
        if value is not None:
            yield value
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _check_code(const, names)


def _line(instruction: dis.Instruction) -> int | None:
    positions = getattr(instruction, "positions", None)
    if positions is not None:
        return positions.lineno  # type: ignore[no-any-return]
    return instruction.starts_line


def _instruction_fault(instruction: dis.Instruction, names: dict[str, Any]) -> tuple[str, str] | None:
    name = instruction.opname
    if name in _POWER or (name == "BINARY_OP" and instruction.argrepr.startswith("**")):
        return "** has other last digits when compiled.", "Write x * x, or power(x, y) of paddock.kernels."
    if name == "BINARY_MATRIX_MULTIPLY" or (name == "BINARY_OP" and instruction.argrepr.startswith("@")):
        return _MATRICES
    if name in _TEXT:
        return "Text compiles to other characters than Python's.", "Leave text out of a kernel: use numbers."
    if name == "LOAD_GLOBAL" and instruction.argval not in names:
        return f"The name {instruction.argval} is not defined.", "Define it at the top of the file."
    return None


def _value_fault(value: Any) -> tuple[str, str] | None:
    # A function such as numpy.random.rand is a method of a hidden object, whose class says where it comes from.
    home = value.__name__ if isinstance(value, ModuleType) else type(getattr(value, "__self__", None)).__module__
    if home in _OTHER_STREAMS:
        return "It draws from another random stream.", "Draw from rng: rng.random(), rng.uniform(low, high)."
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if module in ("numpy.linalg", "numpy.linalg._linalg"):
        return _MATRICES
    if id(value) in _OTHER_DIGITS:
        return f"{value.__name__} has other last digits when compiled.", _OTHER_DIGITS[id(value)]
    return None
