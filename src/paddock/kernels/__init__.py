"""Environments written once: plain scalar Python functions that run as they are, and compiled over n lanes.

See ``docs/kernels.md``. Numba is used when it is installed (``pip install "paddock[fast]"``) and never required.
"""

from paddock.kernels.env import KernelEnv
from paddock.kernels.kernel import Kernel
from paddock.kernels.numeric import cos32, f32, power, power32, sin32
from paddock.kernels.rng import LaneRng
from paddock.kernels.vector import KernelVectorEnv

__all__ = ["Kernel", "KernelEnv", "KernelVectorEnv", "LaneRng", "cos32", "f32", "power", "power32", "sin32"]
