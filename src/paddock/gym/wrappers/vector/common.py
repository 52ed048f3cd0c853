"""``gymnasium.wrappers.vector.common``."""

from paddock.wrappers.vector import RecordEpisodeStatistics

__all__ = ["RecordEpisodeStatistics"]
