"""``gymnasium.envs.toy_text.taxi``."""

from paddock.envs.toy_text.taxi import TaxiEnv

__all__ = ["TaxiEnv"]
