"""An array library of ten lines that speaks the standard and nothing else: what a conversion may rely on."""

import sys

import numpy as np

__all__ = ["Tiny", "asarray", "empty", "from_dlpack"]


class Tiny:
    """Holds a NumPy array, and is none: no ``__array__``, no iteration."""

    def __init__(self, values, device="here"):
        self.values, self.device = values, device

    def __dlpack__(self, **kwargs):
        return self.values.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __array_namespace__(self):
        return sys.modules[__name__]

    def to_device(self, device):
        return Tiny(self.values, device)

    def __float__(self):
        return float(self.values)

    def __bool__(self):
        return bool(self.values)


def empty(shape):
    return Tiny(np.empty(shape))


def asarray(value, device=None):
    values = np.asarray(value)
    if values.dtype.kind not in "biufc":
        raise TypeError(f"{values.dtype} is no type of numbers")
    return Tiny(values, device or "here")


def from_dlpack(array):
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise BufferError("read-only")
    return Tiny(np.from_dlpack(array))
