"""``gymnasium.wrappers``."""

from paddock.gym.wrappers import common, rendering
from paddock.wrappers import HumanRendering, OrderEnforcing, PassiveEnvChecker, RenderCollection, TimeLimit

__all__ = [
    "HumanRendering",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "RenderCollection",
    "TimeLimit",
    "common",
    "rendering",
]
