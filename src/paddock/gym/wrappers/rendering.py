"""``gymnasium.wrappers.rendering``."""

from paddock.wrappers import HumanRendering, RenderCollection

__all__ = ["HumanRendering", "RenderCollection"]
