"""paddock/PythonCode: write a program, try it out, hand it in. It runs apart from here, on tests that stay here.

The agent's code gets the arguments of the tests and gives back results. What was expected, the comparison and the
reward are in this process, which that code can neither see nor reach.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from paddock.agentic.env import ToolEnv
from paddock.agentic.envs.coding.grading import passed
from paddock.agentic.envs.coding.inside import NO_FUNCTION
from paddock.agentic.envs.coding.permissions import RUN_S, START_S
from paddock.agentic.envs.coding.problems import TasksOf, train_task
from paddock.agentic.envs.coding.running import Ended, Ran, call_program, run_program
from paddock.agentic.observations import GradedObservation
from paddock.agentic.rubrics import Rubric
from paddock.agentic.task import Task
from paddock.agentic.tasks import Tasks
from paddock.agentic.tools import tool
from paddock.errors import ToolFailed

MOST_CODE = 50_000  # characters
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_TOOL_S = START_S + RUN_S + 3.0


class AllPassed(Rubric):
    """1 in the step in which a program passes all tests: those that pass some are no programs that work."""

    def forward(self, action: Any, observation: GradedObservation) -> float:
        tests = observation.info.get("tests")
        return 1.0 if tests and observation.info.get("passed") == tests else 0.0


class Verdict(msgspec.Struct, frozen=True):
    """How many of the hidden tests passed. Which, and with what, is not told."""

    passed: int
    tests: int
    ended: Ended
    remark: str = ""


class PythonCode(ToolEnv):
    """Write a Python function. Run programs to try it out, then submit the one that is graded on hidden tests."""

    tasks = Tasks(train=train_task, validation=TasksOf("validation"), test=TasksOf("test"))
    rubric = AllPassed()

    def begin(self, task: Task) -> None:
        self._calls, self._expected = zip(*task.hidden["tests"], strict=True)

    def listen(self, text: str) -> str:
        """A program between fences is submitted; other words end the episode."""
        programs = _FENCED.findall(text)
        if not programs:
            self.finish()
            return "No program was submitted."
        verdict = self._judged(programs[-1])
        return f"{verdict.passed} of {verdict.tests} tests passed. {verdict.remark}".strip()

    @tool(timeout_s=_TOOL_S, on_error="end")
    def run_code(self, code: str) -> Ran:
        """Run a Python program, and see what it prints and how it ends. Each run begins anew, without files.

        Args:
            code: the whole program.
        """
        return run_program(_checked(code))

    @tool(timeout_s=_TOOL_S, on_error="end")
    def submit(self, code: str) -> Verdict:
        """Hand in the program that defines solve. This ends the episode.

        Args:
            code: the whole program.
        """
        return self._judged(code)

    def _judged(self, code: str) -> Verdict:
        lines, ended = call_program(_checked(code), self._calls)
        right = passed(lines, self._expected)
        self.info.update(passed=sum(right), tests=len(right))
        self.finish()
        remark = "The program defines no function solve." if NO_FUNCTION in lines else ""
        return Verdict(sum(right), len(right), ended, remark)


def _checked(code: str) -> str:
    if len(code) > MOST_CODE:
        raise ToolFailed(f"The program has {len(code)} characters; at most {MOST_CODE} are taken.")
    return code
