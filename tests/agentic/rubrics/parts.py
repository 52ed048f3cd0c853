"""Rubrics to build others from, and a way to ask one from code that waits."""

import asyncio
import inspect
import threading

from paddock.agentic.rubrics import ExponentialDiscountingTrajectoryRubric, Rubric


class Fixed(Rubric):
    """Gives what it was told, and counts how often."""

    def __init__(self, score):
        self.score, self.calls = score, 0

    def forward(self, action, observation):
        self.calls += 1
        return self.score


class Later(Fixed):
    """The same, async."""

    async def forward(self, action, observation):
        self.calls += 1
        await asyncio.sleep(0)
        return self.score


class Raising(Rubric):
    def __init__(self, error=None):
        self.error = error or ValueError("the answer is 42")

    def forward(self, action, observation):
        raise self.error


class RaisingLater(Raising):
    async def forward(self, action, observation):
        await asyncio.sleep(0)
        raise self.error


class Won(ExponentialDiscountingTrajectoryRubric):
    """The score of an episode is its last action."""

    def score_trajectory(self, trajectory):
        return trajectory[-1][0]


class Seen:
    """An observation that may be the last."""

    def __init__(self, done=False):
        self.done = done


def ask(rubric, action="a", observation=None):
    """The rubric's score, waited for."""
    given = rubric(action, observation)
    return asyncio.run(given) if inspect.iscoroutine(given) else given


class Blocked(Rubric):
    """Waits until it is let go."""

    def __init__(self):
        self.go = threading.Event()
        self.ended = threading.Event()

    def forward(self, action, observation):
        self.go.wait(60)
        self.ended.set()
        return 1.0


class Endless(Rubric):
    cancelled = False

    async def forward(self, action, observation):
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True
