"""``gymnasium.wrappers.vector.rendering``."""

from paddock.wrappers.vector import HumanRendering, RecordVideo

__all__ = ["HumanRendering", "RecordVideo"]
