"""Which types cross, for the writer and the reader of values. An exact type is meant wherever a table is asked."""

from __future__ import annotations

from typing import Any

import numpy as np

# Crosses as it is, whatever its value.
FIXED = frozenset({type(None), bool, float})
# Needs no reading.
ATOMS = frozenset({type(None), bool, float, int, str, bytes})

_NAMES = ["|b1", "|i1", "|u1"]
_NAMES += [f"{order}{kind}" for order in "<>" for kind in ("i2", "i4", "i8", "u2", "u4", "u8")]
_NAMES += [f"{order}{kind}" for order in "<>" for kind in ("f2", "f4", "f8", "c8", "c16")]

DTYPE_OF_NAME: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NAMES}
NAME_OF_DTYPE: dict[np.dtype[Any], str] = {dtype: name for name, dtype in DTYPE_OF_NAME.items()}
# `longlong` and its like are twins of others here: they arrive as those.
NAME_OF_SCALAR: dict[type, str] = {
    kind: NAME_OF_DTYPE[np.dtype(kind)] for kind in set(np.sctypeDict.values()) if np.dtype(kind) in NAME_OF_DTYPE
}

CODE_POINTS = 0x110000
