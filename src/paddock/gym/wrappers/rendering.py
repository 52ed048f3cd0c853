"""``gymnasium.wrappers.rendering``."""

from paddock.wrappers import AddWhiteNoise, HumanRendering, ObstructView, RecordVideo, RenderCollection

__all__ = ["AddWhiteNoise", "HumanRendering", "ObstructView", "RecordVideo", "RenderCollection"]
