"""Prepare an author's functions for Numba, and take their fingerprint.

Helpers that a kernel calls are compiled too: a copy of the function gets globals in which they are the compiled ones.
So the author decorates nothing, and the same functions still run as plain Python.
"""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Callable, Iterator
from enum import EnumMeta
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from paddock.kernels import numeric

_PRIMITIVES: set[Any] = {numeric.power, numeric.power32, numeric.f32, numeric.cos32, numeric.sin32}


def compiled_function(
    function: Callable[..., Any], compile_one: Callable[[Any], Any], done: dict[Any, Any], suffix: str
) -> Any:
    """Compile the function and the helpers that it calls; ``done`` holds those that are compiled already.

    ``suffix`` makes the names of this kernel's machine code its own. Code in the cache keeps the names under which it
    was compiled: without a suffix, two kernels with a ``step`` each could be linked to each other's.
    """
    if not isinstance(function, FunctionType) or function in _PRIMITIVES:
        return function
    if function not in done:
        # Numba's cache imports the module of what it holds: ours is always there, the author's may be a notebook cell.
        names = {**function.__globals__, "__name__": __name__}
        for name, value in _used_globals(function):
            names[name] = compiled_function(value, compile_one, done, suffix)
        cells = _cells(function, compile_one, done, suffix)
        copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__name__ = copy.__qualname__ = f"{function.__name__}_{suffix}"
        done[function] = compile_one(copy)
    return done[function]


def python_function(function: Callable[..., Any], done: dict[Any, Any] | None = None) -> Any:
    """Copy the function and its helpers so that they make records in half the time: see ``_quick_record``."""
    done = {} if done is None else done
    if isinstance(function, type) and hasattr(function, "_fields"):
        return _quick_record(function)
    if not isinstance(function, FunctionType) or function in _PRIMITIVES:
        return function
    if function not in done:
        names = {**function.__globals__}
        copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
        copy.__kwdefaults__ = function.__kwdefaults__
        done[function] = copy  # before its helpers: they may call it
        names.update((name, python_function(value, done)) for name, value in _used_globals(function))
    return done[function]


def _quick_record(kind: Any) -> Callable[..., Any]:
    """``kind(*values)`` without the detour through its ``__new__``: 150 ns instead of 300 per state."""
    new, size = tuple.__new__, len(kind._fields)

    def record(*values: Any, **named: Any) -> Any:
        return new(kind, values) if len(values) == size else kind(*values, **named)

    return record


def fingerprint(function: Callable[..., Any], visited: set[Any] | None = None) -> bytes:
    """Changes whenever the function, a helper or a constant that it uses changes."""
    visited = set() if visited is None else visited
    if not isinstance(function, FunctionType) or function in visited:
        return repr(getattr(function, "__qualname__", function)).encode()
    visited.add(function)
    digest = hashlib.sha256(_code_bytes(function.__code__))
    names = frozenset(_names(function.__code__))
    for value in (function.__defaults__, *sorted((function.__kwdefaults__ or {}).items(), key=_name_of)):
        digest.update(_value_bytes(value, visited))
    for name, value in sorted(_used_globals(function), key=_name_of):
        digest.update(name.encode() + _value_bytes(value, visited, names))
    for cell in function.__closure__ or ():
        digest.update(_value_bytes(cell.cell_contents, visited, names))
    return digest.digest()


def _used_globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


@lru_cache(maxsize=1024)
def _global_names(code: CodeType) -> frozenset[str]:
    """``co_names`` without those of attributes: ``rng.choice`` does not call the author's ``choice``."""
    own = (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
    return frozenset(own).union(*map(_global_names, _nested_code(code)))


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*map(_names, _nested_code(code)))


def _nested_code(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))


def _cells(function: FunctionType, compile_one: Callable[[Any], Any], done: dict[Any, Any], suffix: str) -> Any:
    if function.__closure__ is None:
        return None
    contents = (cell.cell_contents for cell in function.__closure__)
    return tuple(_cell(compiled_function(value, compile_one, done, suffix)) for value in contents)


def _cell(value: Any) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index]


def _code_bytes(code: CodeType) -> bytes:
    parts = [code.co_code, repr((code.co_names, code.co_varnames, code.co_freevars)).encode()]
    for const in code.co_consts:
        parts.append(_code_bytes(const) if isinstance(const, CodeType) else f"{type(const)}{const!r}".encode())
    return b"\0".join(parts)


def _value_bytes(value: Any, visited: set[Any], names: frozenset[str] = frozenset()) -> bytes:
    """A constant as bytes that change when it does. ``names`` are those of the code that uses it."""
    dispatcher = getattr(value, "_dispatcher", value)  # of a @vectorize function
    if isinstance(getattr(dispatcher, "py_func", None), FunctionType):  # the author's own @njit, with its options
        options = repr(sorted(getattr(dispatcher, "targetoptions", {}).items())).encode()
        return options + fingerprint(dispatcher.py_func, visited)
    if isinstance(value, FunctionType):
        return fingerprint(value, visited)
    if isinstance(value, ModuleType):
        return _module_bytes(value, visited, names)
    if isinstance(value, np.ndarray):
        return value.tobytes() + f"{value.dtype}{value.shape}".encode()
    if isinstance(value, tuple):  # part by part: the repr of an array leaves out its middle
        return repr(type(value)).encode() + b"".join(b"," + _value_bytes(part, visited) for part in value)
    if isinstance(value, EnumMeta):
        return repr([(name, value[name].value) for name in value.__members__]).encode()
    if isinstance(value, type) and hasattr(value, "_fields"):
        about = (value.__qualname__, value._fields, value.__annotations__, getattr(value, "_field_defaults", None))
        return repr(about).encode()
    return f"{type(value)}{value!r}".encode()


def _module_bytes(module: ModuleType, visited: set[Any], names: frozenset[str]) -> bytes:
    """What ``config.GAIN`` reads is a constant of the compiled code, so a part of it; so is a compiled function."""
    parts = [repr(module.__name__).encode()]
    for name in sorted(names & vars(module).keys()):
        value = vars(module)[name]
        compiled = hasattr(getattr(value, "_dispatcher", value), "py_func")  # _dispatcher: of a @vectorize function
        if (module, name) in visited or (callable(value) and not compiled):
            continue
        visited.add((module, name))
        parts.append(name.encode() + _value_bytes(value, visited, names))
    return b"".join(parts)


def _name_of(pair: tuple[str, Any]) -> str:
    return pair[0]
