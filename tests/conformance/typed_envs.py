"""Environments with typed records for the suite. Importable, so a worker finds them by name."""

import dataclasses
from typing import Annotated, Literal

import msgspec
import numpy as np

import paddock
from paddock.agentic import Action, Observation, Task, Tasks, ToolEnv, tool
from paddock.spaces import Box, Dict, Discrete, Struct, Tuple
from paddock.wrappers.guard import Guard


@dataclasses.dataclass
class Seen:
    image: Annotated[np.ndarray, Box(0, 255, (4, 5, 3), np.uint8)]
    caption: str
    spots: list[Annotated[np.ndarray, Box(-1, 1, (2,))]] = dataclasses.field(default_factory=list)


class Move(msgspec.Struct, tag=True):
    to: Annotated[np.ndarray, Box(-1, 1, (2,))]
    speed: float = 1.0


class Wait(msgspec.Struct, tag=True):
    steps: Annotated[int, msgspec.Meta(ge=1, le=9)]


@dataclasses.dataclass
class Paint:
    color: Literal["red", "blue"]
    thick: bool = False


@dataclasses.dataclass
class Erase:
    area: Annotated[np.ndarray, Box(0, 9, (4,), np.int64)]


SPACES = {
    "image-in-a-record": lambda: Struct(Seen),
    "tagged-union": lambda: Struct(Move | Wait),
    "untagged-union": lambda: Struct(Paint | Erase),
    "mixed-union": lambda: Struct(Paint | Erase | Move),
    "record-in-a-dict": lambda: Dict({"seen": Struct(Seen), "gear": Discrete(3)}),
    "union-in-a-tuple": lambda: Tuple([Struct(Move | Wait), Box(0, 1, (2,))]),
    "actions-of-agents": lambda: Struct(Action),
    "observations-of-agents": lambda: Struct(Observation),
}


class Drawn(paddock.Env):
    """Observations drawn from a space; what it was told last is in the info, as JSON data."""

    def __init__(self, name):
        self.observation_space, self.action_space = SPACES[name](), SPACES[name]()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        told = self.action_space.to_jsonable([action])
        return self.observation_space.sample(), 0.5, False, False, {"told": repr(told)}


def drawn(name):
    return Guard(Drawn(name))


class HiddenGuess(ToolEnv):
    """Find a number between 1 and 10."""

    tasks = Tasks(
        train=lambda i: Task(seed=i, prompt=f"Guess number {i}.", hidden={"answer": i % 10 + 1}), test=["Guess é 🎲."]
    )

    def begin(self, task):
        self.secret = task.hidden.get("answer", 4)

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
        self.info["asked"] = number
        return "Higher." if number < self.secret else "Lower."

    @tool
    async def draw(self, count: int = 3) -> list[float]:
        """Random numbers."""
        return self.np_random.random(count).tolist()

    @tool
    def break_down(self) -> str:
        """Fails."""
        raise ValueError("a secret path")

    @tool(on_error="end")
    def give_up(self) -> str:
        """Fails for good."""
        raise ValueError("a secret path")


def guessing():
    return Guard(HiddenGuess())
