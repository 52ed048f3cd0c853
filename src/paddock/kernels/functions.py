"""An author's functions made ready for Numba, and their fingerprint.

Helpers that a kernel calls are compiled too, by giving a copy of the function globals in which they are compiled: so
the author decorates nothing, and the same functions still run as plain Python.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from paddock.kernels import numeric

_PRIMITIVES: set[Any] = {numeric.power, numeric.power32, numeric.f32, numeric.cos32, numeric.sin32}


def compiled_function(function: Callable[..., Any], compile_one: Callable[[Any], Any], done: dict[Any, Any]) -> Any:
    """The function compiled, with the helpers that it calls; ``done`` keeps each helper compiled once."""
    if not isinstance(function, FunctionType) or function in _PRIMITIVES:
        return function
    if function not in done:
        names = {**function.__globals__}
        for name, value in _used_globals(function):
            names[name] = compiled_function(value, compile_one, done)
        copy = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, _cells(function, compile_one, done)
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        done[function] = compile_one(copy)
    return done[function]


def fingerprint(function: Callable[..., Any], seen: set[Any] | None = None) -> bytes:
    """Changes whenever the function, a helper or a constant that it uses changes."""
    seen = set() if seen is None else seen
    if not isinstance(function, FunctionType) or function in seen:
        return repr(getattr(function, "__qualname__", function)).encode()
    seen.add(function)
    digest = hashlib.sha256(_code_bytes(function.__code__))
    digest.update(repr((function.__defaults__, function.__kwdefaults__)).encode())
    for name, value in sorted(_used_globals(function), key=lambda pair: pair[0]):
        digest.update(name.encode() + _value_bytes(value, seen))
    for cell in function.__closure__ or ():
        digest.update(_value_bytes(cell.cell_contents, seen))
    return digest.digest()


def _used_globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> set[str]:
    nested = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*(_names(inner) for inner in nested))


def _cells(function: FunctionType, compile_one: Callable[[Any], Any], done: dict[Any, Any]) -> Any:
    if function.__closure__ is None:
        return None
    contents = (cell.cell_contents for cell in function.__closure__)
    return tuple(_cell(compiled_function(value, compile_one, done)) for value in contents)


def _cell(value: Any) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index]


def _code_bytes(code: CodeType) -> bytes:
    parts = [code.co_code, repr((code.co_names, code.co_varnames, code.co_freevars)).encode()]
    for const in code.co_consts:
        parts.append(_code_bytes(const) if isinstance(const, CodeType) else f"{type(const)}{const!r}".encode())
    return b"\0".join(parts)


def _value_bytes(value: Any, seen: set[Any]) -> bytes:
    if isinstance(value, FunctionType):
        return fingerprint(value, seen)
    if isinstance(value, ModuleType):
        return value.__name__.encode()
    if isinstance(value, np.ndarray):
        return value.tobytes() + f"{value.dtype}{value.shape}".encode()
    if isinstance(value, type) and hasattr(value, "_fields"):
        return repr((value.__qualname__, value._fields, value.__annotations__)).encode()
    return f"{type(value)}{value!r}".encode()
