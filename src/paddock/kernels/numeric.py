"""Arithmetic whose last bit matters, the same in Python and compiled: libm's pow, and single precision.

A compiler turns ``x**2`` into ``x*x``, which differs from libm's pow in the last bit of some numbers. Where an
environment must equal one that called pow, its kernel says ``power(x, 2.0)``.
"""

from __future__ import annotations

import math
from ctypes import c_float

import numpy as np


def power(x: float, y: float) -> float:
    """Libm's ``pow`` of two doubles."""
    return math.pow(x, y)


def power32(x: float, y: float) -> float:
    """Libm's ``powf``: both arguments and the result in single precision."""
    return float(np.float32(x) ** y)  # a plain float for y: NumPy takes it as float32, in half the time


def f32(x: float) -> float:
    """``x`` rounded to single precision."""
    return c_float(x).value


def cos32(x: float) -> float:
    """NumPy's cosine of a float32. Compiled it is exact for |x| <= pi/4, where NumPy needs no range reduction."""
    return float(np.cos(np.float32(x)))


def sin32(x: float) -> float:
    """NumPy's sine of a float32, as ``cos32``."""
    return float(np.sin(np.float32(x)))
