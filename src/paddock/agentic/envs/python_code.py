"""paddock/PythonCode: write a program, try it out, hand it in. It runs in a workspace, and its tests stay here.

The agent's code gets the arguments of the tests and returns results. The expected results, the comparison and the
reward are in this process, which that code can neither see nor reach.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from zlib import crc32

import msgspec
import numpy as np

from paddock.agentic.env import ToolEnv
from paddock.agentic.envs.coding.families import FAMILIES, Arguments, Draws, Family
from paddock.agentic.envs.coding.inside import ANSWER, NO_FUNCTION
from paddock.agentic.envs.coding.workspace import RUN_S, START_S, Ended, Ran, call_program, run_program
from paddock.agentic.rubrics import Rubric
from paddock.agentic.rubrics.rubric import GradedObservation
from paddock.agentic.tasks import Task, Tasks
from paddock.agentic.tools import tool
from paddock.errors import ToolFailed

# ── The problems, divided among the splits, and the tasks made from them ──
#
# A problem is a family with its parameters and always belongs to the same split. Its hidden tests come from a seed.

Split: TypeAlias = Literal["train", "validation", "test"]

EXAMPLES, TESTS = 2, 10
_TENTHS: tuple[Split, ...] = ("test", "test", "validation", *("train",) * 7)  # of all problems, in a shuffled order
_SHUFFLE_SEED = 8
_HOW = """\
Try things with run_code, which tells what a program prints. Then hand in the whole program with submit, once: solve
is called with other arguments, and all results must be right. There is Python's standard library, but no files and no
network."""


@dataclass(frozen=True)
class Problem:
    """A family with its parameters."""

    family: Family
    parameters: dict[str, Any]

    @property
    def name(self) -> str:
        """Different for any two problems."""
        values = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.family.name}({values})"

    def answer(self, arguments: Arguments) -> Any:
        """What ``solve`` must return, as the plain data that comes out of a workspace."""
        return self.family.answer(*arguments, **self.parameters)

    def task(self, seed: int) -> Task:
        draws = Draws(crc32(self.name.encode()), seed)
        calls = list(self.family.edges)
        while len(calls) < TESTS + EXAMPLES:
            drawn = self.family.draw(draws)
            if drawn not in calls:
                calls.append(drawn)
        tests, examples = calls[:-EXAMPLES], calls[-EXAMPLES:]
        results = [f"  solve({', '.join(map(repr, one))}) == {self.answer(one)!r}" for one in examples]
        prompt = [
            f"Write a Python function: def solve({self.family.signature}",
            self.family.statement.format(**self.parameters),
            "\n".join(["For example:", *results]),
            _HOW,
        ]
        return Task(
            prompt="\n\n".join(prompt),
            seed=seed,
            metadata={"family": self.family.name, "parameters": dict(self.parameters)},
            hidden={"tests": [[list(one), self.answer(one)] for one in tests]},
        )


def divide(problems: Sequence[Problem]) -> dict[Split, list[Problem]]:
    """Shuffle the problems, always in the same way, and give each to one split."""
    splits: dict[Split, list[Problem]] = {"train": [], "validation": [], "test": []}
    for at, place in enumerate(np.random.default_rng(_SHUFFLE_SEED).permutation(len(problems))):
        splits[_TENTHS[at % len(_TENTHS)]].append(problems[place])
    return splits


PROBLEMS = divide([Problem(family, parameters) for family in FAMILIES for parameters in family.variants])


@lru_cache(maxsize=256)  # a trainer plays the same task several times, one after the other
def _task(split: Split, index: int) -> Task:
    problems = PROBLEMS[split]
    return problems[index % len(problems)].task(index)


def train_task(index: int) -> Task:
    """Training never runs out of tasks: each time round, the problems come with other tests."""
    return _task("train", index)


class TasksOf(Sequence[Task]):
    """One task for each problem of the split, made when it is read."""

    def __init__(self, split: Split) -> None:
        self._split: Split = split

    def __len__(self) -> int:
        return len(PROBLEMS[self._split])

    def __getitem__(self, index: Any) -> Any:
        seeds = range(len(self))[index]
        return _task(self._split, seeds) if isinstance(seeds, int) else [self[seed] for seed in seeds]


# ── The environment ──

MAX_CODE_CHARS = 50_000
MAX_ANSWER_BYTES = 10_000  # of one answer, as JSON
_MAX_DIGITS = 1_000
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_TOOL_S = START_S + RUN_S + 3.0


class AllPassed(Rubric):
    """1 in the step in which a program passes all tests. A program that passes only some of them does not work."""

    def forward(self, action: Any, observation: GradedObservation) -> float:
        tests = observation.info.get("tests")
        return 1.0 if tests and observation.info.get("passed") == tests else 0.0


class Verdict(msgspec.Struct, frozen=True):
    """How many of the hidden tests passed; never which, nor with what arguments."""

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
        verdict = self._grade_program(programs[-1])
        return f"{verdict.passed} of {verdict.tests} tests passed. {verdict.remark}".strip()

    @tool(timeout_s=_TOOL_S, on_error="end")
    def run_code(self, code: str) -> Ran:
        """Run a Python program, and see what it prints and how it ends. Each run starts from nothing, without files.

        Args:
            code: the whole program.
        """
        return run_program(_check_length(code))

    @tool(timeout_s=_TOOL_S, on_error="end")
    def submit(self, code: str) -> Verdict:
        """Hand in the program that defines solve. This ends the episode.

        Args:
            code: the whole program.
        """
        return self._grade_program(code)

    def _grade_program(self, code: str) -> Verdict:
        lines, ended = call_program(_check_length(code), self._calls)
        right = compare(lines, self._expected)
        self.info.update(passed=sum(right), tests=len(right))
        self.finish()
        remark = "The program defines no function solve." if NO_FUNCTION in lines else ""
        return Verdict(sum(right), len(right), ended, remark)


def _check_length(code: str) -> str:
    if len(code) > MAX_CODE_CHARS:
        raise ToolFailed(f"The program has {len(code)} characters; at most {MAX_CODE_CHARS} are allowed.")
    return code


def compare(lines: Sequence[bytes], expected: Sequence[Any]) -> list[bool]:
    """Compare each answer from a workspace with the expected one. A missing answer is wrong.

    Answers come from code that can't be trusted, so whatever is not short, plain data is wrong too.
    """
    right = [False] * len(expected)
    for at, (line, wanted) in enumerate(zip(lines, expected, strict=False)):
        if line.startswith(ANSWER) and len(line) <= MAX_ANSWER_BYTES:
            with suppress(ValueError, OverflowError, RecursionError):
                right[at] = same(json.loads(line[1:], parse_int=_read_integer, parse_constant=_refuse), wanted)
    return right


def same(answer: Any, wanted: Any) -> bool:
    """Whether two plain values have the same types throughout and are equal; floats nearly so."""
    if type(wanted) is float:
        return type(answer) in (int, float) and math.isclose(answer, wanted, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(wanted, (list, tuple)):
        return type(answer) is list and len(answer) == len(wanted) and all(map(same, answer, wanted))
    if type(wanted) is dict:
        alike = type(answer) is dict and answer.keys() == wanted.keys()
        return alike and all(same(answer[key], item) for key, item in wanted.items())
    return type(answer) is type(wanted) and bool(answer == wanted)


def _read_integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:  # reading it could take long
        raise ValueError("more digits than any answer has")
    return int(digits)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not an answer")
