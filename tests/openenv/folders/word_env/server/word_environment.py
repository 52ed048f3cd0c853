"""Guess a word of five letters: G is right, Y elsewhere in it, X not in it."""

import random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment

from ..models import WordAction, WordMessage, WordObservation, WordState

WORDS = ("crane", "slate", "pious", "mound", "light")


class WordEnvironment(Environment):
    """Six turns."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._word, self._state = WORDS[0], WordState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> WordObservation:
        self._word = random.Random(seed).choice(WORDS)
        self._state = WordState(episode_id=episode_id or str(uuid4()), step_count=0)
        return WordObservation(prompt="Guess a word of five letters, as [crane].", reward=0.0)

    def step(self, action: WordAction, timeout_s: float | None = None, **kwargs: Any) -> WordObservation:
        guess = action.message.strip("[] ").lower()
        self._state.step_count += 1
        self._state.turn += 1
        won = guess == self._word
        feedback = "".join(self._mark(at, letter) for at, letter in enumerate(guess[:5]))
        self._state.last_reward = sum({"G": 0.2, "Y": 0.1, "X": 0.0}[one] for one in feedback)
        self._state.last_info = {"won": won}
        said = [WordMessage(sender_id=0, content=action.message), WordMessage(sender_id=-1, content=feedback)]
        return WordObservation(
            prompt=feedback,
            messages=said,
            info={"turn": self._state.turn, "won": won},
            reward=self._state.last_reward,
            done=won or self._state.turn >= 6,
            metadata={"game": "words"},
        )

    def _mark(self, at: int, letter: str) -> str:
        return "G" if self._word[at] == letter else "Y" if letter in self._word else "X"

    @property
    def state(self) -> WordState:
        return self._state
