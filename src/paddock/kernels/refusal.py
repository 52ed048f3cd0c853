"""What Numba says about a function that it can't compile, in one sentence: which line, and what to write instead."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paddock.errors import KernelNotCompiled

_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_ADVICE = (
    (r"Unknown attribute '\w+' of type LaneRng|LaneRng", "rng offers random, uniform, integers and choice."),
    (
        r"np\.random|random\.",
        "Draw from the rng argument: rng.random(), rng.uniform(low, high), rng.integers(low, high).",
    ),
    (r"cannot unify|Cannot unify|Can't unify", "Give a value one type on every path, for example 0.0 instead of 0."),
    (r"reflected list|list\(|BUILD_LIST|empty list", "Use a tuple, or a fixed NumPy array made in initial()."),
    (r"dict|BUILD_MAP", "Use fields of a NamedTuple instead of a dict."),
    (
        r"Untyped global name '(\w+)'",
        "Pass the value through params, or make it a number, a tuple or a plain function.",
    ),
    (r"unicode_type|f-string|FORMAT", "Leave text out of the dynamics."),
    (r"with-item|context manager|SETUP_WITH|TRY|raise", "Leave 'with' and 'try' out of the dynamics."),
)


@contextmanager
def explained(kernel: Any) -> Iterator[None]:
    """Turn Numba's pages into one KernelNotCompiled."""
    from numba.core.errors import NumbaError

    try:
        yield
    except NumbaError as error:
        raise KernelNotCompiled(refusal(str(error))) from error


def refusal(text: str) -> str:
    """The sentence for one of Numba's errors."""
    clean = re.sub(r"\x1b\[[0-9;]*m", "", text)
    where = [m for m in _LINE.finditer(clean) if "lanes_" not in m["file"] and "numba" not in m["file"]]
    place = ""
    if where:
        file, line = where[-1]["file"], int(where[-1]["line"])
        place = f"{file}:{line}: `{linecache.getline(file, line).strip()}`: "
    reason = _reason(clean)
    advice = next((hint for pattern, hint in _ADVICE if re.search(pattern, clean)), "Write it with numbers and tuples.")
    return f"This kernel can't be compiled. {place}{reason} {advice} It runs as it is in plain Python: backend='loop'."


def _reason(clean: str) -> str:
    lines = [line.strip() for line in clean.splitlines()]
    telling = [
        l for l in lines if l and not l.startswith(("File ", "During", "Failed in", "[", "^", "<source", ">>>", "- "))
    ]
    best = next(
        (
            l
            for l in telling
            if re.search(r"Unknown|No implementation|nify|Untyped|unsupported|not supported|Use of", l)
        ),
        None,
    )
    sentence = (best or (telling[0] if telling else "Numba refused it"))[:160]
    return sentence if sentence.endswith(".") else sentence + "."
