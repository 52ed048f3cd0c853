"""``gymnasium.envs.toy_text.blackjack``."""

from paddock.envs.toy_text.blackjack import BlackjackEnv

__all__ = ["BlackjackEnv"]
