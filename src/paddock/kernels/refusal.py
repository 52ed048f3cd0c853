"""Why a kernel can't be compiled, in a few words: which line, what is wrong there, and what to write instead.

Numba says it in pages, and says nothing of code that compiles to other numbers than Python's: that is refused here,
before Numba sees it (:mod:`paddock.kernels.forbidden`).
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paddock.errors import KernelNotCompiled
from paddock.kernels.forbidden import Forbidden, check_functions

_LONGEST_LINE = 70
_LONGEST_REASON = 110
_NOT_THE_AUTHORS = r"lanes_\w{40}|site-packages|kernels.machine\.py"  # the generated loop, Numba, and our draws

# Pattern in Numba's text -> what is wrong (groups by \1; None: in Numba's words), what to write instead. First match.
_KNOWN: tuple[tuple[str, str | None, str], ...] = (
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
    (r"Unknown attribute '_replace'", "_replace is a method.", "Build the tuple anew from its fields: State(x, y)."),
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
    (
        r"context manager|SETUP_WITH|WITH_",
        "'with' can't be compiled.",
        "Leave files and locks out of a kernel.",
    ),
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
    (r"told|info_", "info", "info() must return the same NamedTuple of numbers each time."),
    (r"seen|obs_", "observe", "observe() must return one number for each element of the observation space."),
)


@contextmanager
def explained(kernel: Any) -> Iterator[None]:
    """Turn whatever stops the compiler into one KernelNotCompiled; the whole story is its ``__context__``."""
    try:
        check_functions([kernel.initial, kernel.step, kernel.observe, kernel.info])
        yield
    except (OSError, MemoryError):
        raise  # the cache's folder, not the kernel
    except Forbidden as found:
        raise KernelNotCompiled(_sentence(f"{found.file}:{found.line}", found.reason, found.advice)) from None
    except Exception as error:
        raise KernelNotCompiled(refusal(str(error), kernel)) from None


def refusal(text: str, kernel: Any) -> str:
    """The sentence for one of Numba's errors."""
    clean = re.sub(r"\x1b\[[0-9;]*m", "", text)
    places = re.findall(r'File "([^"]+)", line (\d+)|(?: at|Raised from) (\S+) \((\d+)\)', clean)
    own = [(a or c, int(b or d)) for a, b, c, d in places if not re.search(_NOT_THE_AUTHORS, a or c)]
    if not own and "resolving callee type: type(CPUDispatcher" not in clean:
        return _returned(clean, kernel)
    code = kernel.step.__code__
    file, line = own[0] if own else (code.co_filename, code.co_firstlineno)  # the innermost call comes first
    reason, advice = _known(clean)
    return _sentence(f"{file}:{line}", reason, advice)


def _known(clean: str) -> tuple[str, str]:
    for pattern, reason, advice in _KNOWN:
        match = re.search(pattern, clean)
        if match:
            return match.expand(reason) if reason else _numbas_words(clean), advice
    return _numbas_words(clean), "Use numbers, tuples, fixed arrays and functions of math."


def _returned(clean: str, kernel: Any) -> str:
    """Nothing of the author's is named: the generated loop could not take what a function returned."""
    marked = re.search(r"\n *(\S[^\n]*)\n *[\^~]+\s*\n", clean)
    line = marked[1] if marked else ""
    for pattern, name, reason in _RETURNED:
        match = re.search(pattern, line)
        function = getattr(kernel, name)
        if match and function is not None:
            code = function.__code__
            advice = "Return a NamedTuple of numbers, the same on every path." if name == "step" else ""
            return _sentence(f"{code.co_filename}:{code.co_firstlineno}", match.expand(reason), advice)
    code = kernel.step.__code__
    reason, advice = _known(clean)
    return _sentence(f"{code.co_filename}:{code.co_firstlineno}", reason, advice)


def _sentence(place: str, reason: str, advice: str) -> str:
    file, _, number = place.rpartition(":")
    line = linecache.getline(file, int(number)).strip()
    shown = f" `{line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + '…'}`" if line else ""
    told = " ".join(f"{reason} {advice}".split())
    return f"{place}:{shown} can't be compiled. {told} It runs as plain Python: backend='loop'."


def _numbas_words(clean: str) -> str:
    lines = [line.strip() for line in clean.splitlines()]
    skipped = ("File ", "During", "Failed in", "[", "^", "<source", ">>>", "- ", "Enable", "This error")
    telling = next((line for line in lines if line and not line.startswith(skipped)), "Numba refused it")
    return f"{telling[:_LONGEST_REASON].rstrip('.:')}."
