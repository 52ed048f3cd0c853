"""A tool environment as its author writes one. Behind the wall this file is a module of its own."""

import paddock
from paddock.agentic import Image, Task, Tasks, Text, ToolEnv, ToolFailed, tool


class Guess(ToolEnv):
    """Find a number between 1 and 10."""

    tasks = Tasks(
        train=[Task(seed=index, prompt=f"Guess number {index}.", hidden={"answer": "hunter2"}) for index in range(3)],
        test=[Task(seed=7, prompt="Guess.")],
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

    @tool
    async def notes(self, about: str) -> dict[str, int]:
        """Count letters."""
        return {letter: about.count(letter) for letter in sorted(set(about))}

    @tool
    def look(self) -> list[Text | Image]:
        """See something."""
        return [Text("Look:"), Image("UE5H")]

    @tool
    def complain(self) -> str:
        """Fail, with words."""
        raise ToolFailed("The desk is closed.")

    @tool
    def crash(self) -> str:
        """Fail, without."""
        raise ValueError("hunter2")


paddock.register("Guess-v0", entry_point=Guess)
