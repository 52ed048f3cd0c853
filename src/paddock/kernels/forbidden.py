"""What a kernel may not do although Numba would compile it: the compiled numbers would differ from Python's.

Read from bytecode, so that kernels without a source file are checked as well.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from paddock.kernels import numeric

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


class Forbidden(Exception):
    """A line that must not be compiled, why, and what to write instead. It becomes KernelNotCompiled in refusal.py."""

    def __init__(self, file: str, line: int, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.file, self.line, self.reason, self.advice = file, line, reason, advice


def check_functions(functions: Iterable[Callable[..., Any] | None]) -> None:
    """Raise Forbidden at the first line of the functions, or of a helper that they call, which is."""
    for function in functions:
        if isinstance(function, FunctionType):
            _check(function, path=(), passed=set())


def _check(function: FunctionType, path: Sequence[FunctionType], passed: set[FunctionType]) -> None:
    code = function.__code__
    if function in path:
        raise Forbidden(code.co_filename, code.co_firstlineno, "A function that calls itself.", "Write a loop.")
    if function in passed or function.__module__ == numeric.__name__:
        return
    if inspect.isgeneratorfunction(function):
        raise Forbidden(code.co_filename, code.co_firstlineno, "'yield' can't be compiled.", "Return one value.")
    for used in _check_code(code, _names_of(function)):
        if isinstance(used, FunctionType):
            _check(used, [*path, function], passed)
    passed.add(function)


def _names_of(function: FunctionType) -> dict[str, Any]:
    """Every name from outside that the function's code may use."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    inner = {name: cell.cell_contents for name, cell in cells}
    return {**vars(builtins), **function.__globals__, **inner}


def _check_code(code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """Check one code object and those inside it; yields what it takes from outside."""
    line, held = code.co_firstlineno, None
    for instruction in dis.get_instructions(code):
        line = _line(instruction) or line
        fault = _fault(instruction, names)
        if fault:
            raise Forbidden(code.co_filename, line, *fault)
        held = _held(instruction, names, held)
        fault = _foreign(held)
        if fault:
            raise Forbidden(code.co_filename, line, *fault)
        if held is not None:
            yield held
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _check_code(const, names)


def _line(instruction: dis.Instruction) -> int | None:
    positions = getattr(instruction, "positions", None)
    if positions is not None:
        return positions.lineno  # type: ignore[no-any-return]
    return instruction.starts_line


def _fault(instruction: dis.Instruction, names: dict[str, Any]) -> tuple[str, str] | None:
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


def _held(instruction: dis.Instruction, names: dict[str, Any], held: Any) -> Any:
    """What lies on the stack if it comes from outside: a global, or an attribute of a module."""
    if instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
        return names.get(instruction.argval)
    if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(held, ModuleType):
        return getattr(held, instruction.argval, None)
    return held if instruction.opname in ("PUSH_NULL", "CACHE", "PRECALL") else None


def _foreign(value: Any) -> tuple[str, str] | None:
    """What is wrong with something from outside."""
    # A function such as numpy.random.rand is a method of a hidden object, whose class tells where it is from.
    home = value.__name__ if isinstance(value, ModuleType) else type(getattr(value, "__self__", None)).__module__
    if home in _OTHER_STREAMS:
        return "It draws from another random stream.", "Draw from rng: rng.random(), rng.uniform(low, high)."
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if module in ("numpy.linalg", "numpy.linalg._linalg"):
        return _MATRICES
    if id(value) in _OTHER_DIGITS:
        return f"{value.__name__} has other last digits when compiled.", _OTHER_DIGITS[id(value)]
    return None
