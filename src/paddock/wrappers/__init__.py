"""Wrappers: what changes the data between agent and environment."""

from paddock.wrappers.guard import Guard
from paddock.wrappers.order_enforcing import OrderEnforcing
from paddock.wrappers.passive_checker import PassiveEnvChecker
from paddock.wrappers.rendering import HumanRendering, RenderCollection
from paddock.wrappers.time_limit import TimeLimit

__all__ = ["Guard", "HumanRendering", "OrderEnforcing", "PassiveEnvChecker", "RenderCollection", "TimeLimit"]
