"""Gymnasium 1.4's module tree over paddock: change ``import gymnasium as gym`` to ``import paddock.gym as gym``.

Re-exports mostly; modules that are nothing else have no file, see ``ALIASES`` in each package. What differs from
paddock's own API (signatures, legacy shapes, lenient rules) lives here.
"""

from paddock.core.env import Env
from paddock.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from paddock.gym import core, envs, error, experimental, logger, spaces, utils, vector, wrappers
from paddock.gym.envs.registration import (
    VectorizeMode,
    make,
    make_vec,
    pprint_registry,
    register,
    register_envs,
    registry,
    spec,
)
from paddock.spaces import Space

# The release of Gymnasium whose surface this is: programs compare it.
__version__ = "1.4.0"

__all__ = [
    "ActionWrapper",
    "Env",
    "ObservationWrapper",
    "RewardWrapper",
    "Space",
    "VectorizeMode",
    "Wrapper",
    "envs",
    "error",
    "experimental",
    "logger",
    "make",
    "make_vec",
    "pprint_registry",
    "register",
    "register_envs",
    "registry",
    "spaces",
    "spec",
    "utils",
    "vector",
    "wrappers",
]
