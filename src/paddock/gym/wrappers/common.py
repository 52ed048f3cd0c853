"""``gymnasium.wrappers.common``."""

from paddock.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

__all__ = ["OrderEnforcing", "PassiveEnvChecker", "TimeLimit"]
