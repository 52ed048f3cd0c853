"""Games of one step for tests of trainers: press, or name, the button that the prompt asks for."""

import os
import time
from typing import Literal

from paddock.agentic import Task, Tasks, ToolEnv, tool

COLOURS = ("red", "green", "blue", "amber")
TASKS = Tasks(
    train=[Task(prompt=f"Press {colour}", seed=at, hidden={"colour": colour}) for at, colour in enumerate(COLOURS)],
    fixed=[Task(prompt="Press blue", seed=9, hidden={"colour": "blue"})],
)


class Buttons(ToolEnv):
    """A panel with four buttons."""

    tasks = TASKS

    @tool
    def press(self, colour: Literal["red", "green", "blue", "amber"]) -> str:
        """Press a button.

        Args:
            colour: which one.
        """
        self.award(float(colour == self.task.hidden["colour"]))
        self.finish()
        return f"You pressed {colour}."

    @tool
    def look(self, twice: bool = False) -> str:
        """Look at the panel.

        Args:
            twice: whether to look again.
        """
        return "Four buttons. Four buttons." if twice else "Four buttons."

    @tool
    def nap(self, seconds: float) -> str:
        """Sleep.

        Args:
            seconds: for how long.
        """
        time.sleep(seconds)
        return "Slept."

    @tool
    def explode(self) -> str:
        """End the process that this runs in."""
        os._exit(3)


class Answers(ToolEnv):
    """The same without tools: the answer is what the agent says."""

    tasks = TASKS

    def listen(self, text):
        self.award(float(text.startswith(self.task.hidden["colour"])))
        self.finish()
