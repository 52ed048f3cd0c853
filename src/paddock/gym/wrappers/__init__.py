"""``gymnasium.wrappers``."""

from paddock.wrappers import HumanRendering, OrderEnforcing, PassiveEnvChecker, RenderCollection, TimeLimit

__all__ = ["HumanRendering", "OrderEnforcing", "PassiveEnvChecker", "RenderCollection", "TimeLimit"]
