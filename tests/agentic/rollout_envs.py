"""Environments that the tests of rollouts play, by functions of their names' meaning."""

from __future__ import annotations

import threading

import paddock
from paddock.agentic import Task, Tasks, ToolEnv, tool
from paddock.errors import EpisodeFailed
from tests.toys import Counter


class Guess(ToolEnv):
    """Find a number between 1 and 10."""

    tasks = Tasks(
        train=lambda i: Task(seed=i, prompt=f"Guess number {i}."),
        test=[Task(seed=7, prompt="Guess."), Task(prompt="Guess again.", metadata={"hard": True}), Task(prompt="And.")],
    )

    def begin(self, task):
        self.secret = int(self.np_random.integers(1, 11))
        return task.prompt

    @tool
    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: between 1 and 10.
        """
        if number == self.secret:
            self.award(1.0)
            self.finish()
            return "Right!"
        return "Higher." if number < self.secret else "Lower."

    @tool(on_error="end")
    def fall(self) -> str:
        """Fall over."""
        raise ValueError("the floor")

    @tool(timeout_s=None)
    def hang(self) -> str:
        """Hang."""
        threading.Event().wait(60)
        return "late"


class Parlour(ToolEnv):
    """Say please."""

    tasks = Tasks(train=["Ask for tea."])

    def listen(self, text):
        if "please" in text:
            self.award(1.0)
            self.finish()
            return None
        return "What do you say?"


class Watched(Counter):
    """Counts who is open, in which threads it is used, and how many at once."""

    open: list[Watched] = []
    made: list[Watched] = []
    threads: dict[int, set[int]] = {}
    lock = threading.Lock()

    def __init__(self, goal: int = 3) -> None:
        super().__init__(goal)
        with Watched.lock:
            Watched.open.append(self)
            Watched.made.append(self)

    @classmethod
    def begin_anew(cls) -> None:
        cls.open, cls.made, cls.threads = [], [], {}

    def _note(self) -> None:
        Watched.threads.setdefault(id(self), set()).add(threading.get_ident())

    def reset(self, *, seed=None, options=None):
        self._note()
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._note()
        return super().step(action)

    def close(self) -> None:
        self._note()
        with Watched.lock:
            if self in Watched.open:
                Watched.open.remove(self)


class Moody(Watched):
    """Fails by its seed: 1 raises in reset, 2 in step, 3 ends the episode as failed, 4 wants to exit."""

    def reset(self, *, seed=None, options=None):
        self.mood = seed
        if seed == 1:
            raise ValueError("not up for it")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.mood == 2:
            raise KeyError("where was I")
        if self.mood == 3:
            raise EpisodeFailed("the grader is ill")
        if self.mood == 4:
            raise SystemExit(3)
        return super().step(action)


class Slow(Watched):
    """Waits in a step, where its seed is odd, until ``go`` is set."""

    go = threading.Event()
    waiting = threading.Event()

    def reset(self, *, seed=None, options=None):
        self.odd = bool(seed % 2)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.odd:
            Slow.waiting.set()
            Slow.go.wait(60)
        return super().step(action)


def hang_in_making() -> paddock.Env:
    Slow.go.wait(60)
    return Slow()
