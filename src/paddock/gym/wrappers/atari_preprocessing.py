"""``gymnasium.wrappers.atari_preprocessing``."""

from paddock.wrappers import AtariPreprocessing

__all__ = ["AtariPreprocessing"]
