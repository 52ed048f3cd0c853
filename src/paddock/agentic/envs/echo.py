"""paddock/Echo: the agent repeats a word. One step, and a reward that tells near misses from far ones."""

from __future__ import annotations

from typing import Any

import msgspec

from paddock.agentic.env import ToolEnv
from paddock.agentic.messages import Say
from paddock.agentic.rubrics import Rubric
from paddock.agentic.rubrics.rubric import GradedObservation
from paddock.agentic.tasks import Task, Tasks
from paddock.agentic.tools import tool
from paddock.errors import InvalidSpec

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = ("hello", "paddock", "river", "stone", "cloud", "apple", "seven", "green", "horse", "music")


class Likeness(Rubric):
    """1 for the task's word, less for a similar one, 0 if no letter is in its place.

    Every letter that comes right is worth something, so there are no local optima to get stuck in.
    """

    def forward(self, action: Any, observation: GradedObservation) -> float:
        if observation.error is not None:
            return 0.0
        said = action.text if isinstance(action, Say) else str(action.arguments.get("message", ""))
        word = observation.task.metadata["word"]
        return sum(map(str.__eq__, said, word)) / max(len(said), len(word))


class Echoed(Rubric):
    """Likeness divided by the number of turns, so that the rewards of an episode sum to at most 1."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.likeness, self.turns = Likeness(), turns

    def forward(self, action: Any, observation: GradedObservation) -> float:
        score = self.likeness(action, observation)
        assert isinstance(score, float), "nothing in it waits"
        return score / self.turns


class Length(msgspec.Struct, frozen=True):
    """A message and its length."""

    message: str
    length: int


def _task(index: int, word: str) -> Task:
    return Task(seed=index, prompt=f"Echo this, and nothing else: {word}", metadata={"word": word})


_TEST = ("paper", "night", "ocean", "lemon", "tiger", "piano")


class Echo(ToolEnv):
    """Echo the word that you are told, by a tool or by saying it."""

    tasks = Tasks(
        train=[_task(at, word) for at, word in enumerate((*_LETTERS, *_WORDS))],
        test=[_task(at, word) for at, word in enumerate(_TEST)],
    )
    timeout_s = begin_timeout_s = rubric_timeout_s = None  # nothing in it can hang

    def __init__(self, turns: int = 1) -> None:
        if type(turns) is not int or turns < 1:
            raise InvalidSpec(f"turns={turns!r}: expected the number of echoes in an episode, at least 1.")
        self._turns, self._left = turns, 0
        self.rubric = Echoed(turns)

    def begin(self, task: Task) -> None:
        self._left = self._turns

    def listen(self, text: str) -> str:
        return self._echo(text)

    @tool
    def echo_message(self, message: str) -> str:
        """Echo a message.

        Args:
            message: what to say.
        """
        return self._echo(message)

    @tool
    def echo_with_length(self, message: str) -> Length:
        """Echo a message, with its length.

        Args:
            message: what to say.
        """
        return Length(self._echo(message), len(message))

    def _echo(self, message: str) -> str:
        self._left -= 1
        if self._left <= 0:
            self.finish()
        return message
