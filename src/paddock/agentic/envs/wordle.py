"""paddock/Wordle: find a word of five letters in six guesses. A word that is not known costs no guess, but a step."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from paddock.agentic.env import ToolEnv
from paddock.agentic.envs.wordle_marks import marks, shown
from paddock.agentic.envs.wordle_words import ALSO_ALLOWED, ANSWERS
from paddock.agentic.observations import GradedObservation
from paddock.agentic.rubrics import Rubric
from paddock.agentic.task import Task
from paddock.agentic.tasks import Tasks
from paddock.agentic.tools import tool
from paddock.errors import ToolFailed

LETTERS, GUESSES = 5, 6
_ALLOWED = frozenset((*ANSWERS, *ALSO_ALLOWED))
_SHUFFLED_BY = 5
_TENTHS = ("test", "validation", *("train",) * 8)  # of all answers, in a shuffled order
_IN_BRACKETS = re.compile(r"\[\s*([A-Za-z]+)\s*\]")
_PROMPT = f"""\
Wordle: find the secret word of {LETTERS} letters in {GUESSES} guesses. Guess with the tool, or say the word in square
brackets, as [crane]. Each guess is marked letter by letter: G is right and in its place, Y is in the word but
elsewhere, - is not in the word (or not once more)."""


class Solved(Rubric):
    """1 in the step that finds the word."""

    def forward(self, action: Any, observation: GradedObservation) -> float:
        return 1.0 if observation.info.get("solved") else 0.0


class Quickness(Rubric):
    """1 for a word that is found with the first guess, less with each further one, 0 for one that is not found."""

    def forward(self, action: Any, observation: GradedObservation) -> float:
        if not observation.info.get("solved"):
            return 0.0
        return 1.0 - (int(observation.info["guesses"]) - 1) / GUESSES


class Game(Rubric):
    """A word that is found is worth 0.8, and up to 0.2 more for being found soon."""

    def __init__(self) -> None:
        super().__init__()
        self.solved, self.quickness = Solved(), Quickness()

    def forward(self, action: Any, observation: GradedObservation) -> float:
        solved, quickness = self.solved(action, observation), self.quickness(action, observation)
        assert isinstance(solved, float)
        assert isinstance(quickness, float)  # neither waits for anything
        return 0.8 * solved + 0.2 * quickness


def answers_of(split: str) -> list[str]:
    """The answers of a split; no word is in two of them."""
    shuffled = np.random.default_rng(_SHUFFLED_BY).permutation(len(ANSWERS))
    return [ANSWERS[place] for at, place in enumerate(shuffled) if _TENTHS[at % len(_TENTHS)] == split]


def _tasks(split: str) -> list[Task]:
    return [Task(prompt=_PROMPT, seed=at, hidden={"answer": word}) for at, word in enumerate(answers_of(split))]


class Wordle(ToolEnv):
    """Wordle: find a secret word of five letters in six guesses."""

    tasks = Tasks(train=_tasks("train"), validation=_tasks("validation"), test=_tasks("test"))
    rubric = Game()

    def begin(self, task: Task) -> None:
        self._answer: str = task.hidden["answer"]
        self._rows: list[str] = []

    def listen(self, text: str) -> str:
        found = _IN_BRACKETS.findall(text)
        if not found and not text.strip().isalpha():
            raise ToolFailed("No guess: say the word in square brackets, as [crane].")
        return self._guessed(found[-1] if found else text)

    @tool
    def guess(self, word: str) -> str:
        """Guess the word; every guess so far comes back with its marks.

        Args:
            word: five letters, a common English word.
        """
        return self._guessed(word)

    def _guessed(self, word: str) -> str:
        word = word.strip().lower()
        if word not in _ALLOWED:
            raise ToolFailed(f"{word[:20]!r} is no word of {LETTERS} letters that is known here. It costs no guess.")
        self._rows.append(f"{word.upper()} {shown(marks(word, self._answer))}")
        solved, used = word == self._answer, len(self._rows)
        self.info.update(solved=solved, guesses=used)
        told = list(self._rows)
        if solved:
            told.append(f"Solved in {used}.")
        elif used == GUESSES:
            told.append(f"The word was {self._answer.upper()}.")
        else:
            told.append(f"{GUESSES - used} left.")
        if solved or used == GUESSES:
            self.finish()
        return "\n".join(told)
