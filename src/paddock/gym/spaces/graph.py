"""``gymnasium.spaces.graph``."""

from paddock.spaces.graph import Graph, GraphInstance

__all__ = ["Graph", "GraphInstance"]
