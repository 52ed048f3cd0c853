"""Every problem of PythonCode, divided among the splits, and the tasks that they make.

A problem is a family with its parameters, and belongs to one split for good. Its hidden tests come from a seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from zlib import crc32

import numpy as np

from paddock.agentic.envs.coding import grids, numbers, sequences, texts
from paddock.agentic.envs.coding.family import Arguments, Draws, Family
from paddock.agentic.task import Task

Split: TypeAlias = Literal["train", "validation", "test"]

FAMILIES: tuple[Family, ...] = (*numbers.FAMILIES, *texts.FAMILIES, *sequences.FAMILIES, *grids.FAMILIES)
EXAMPLES, TESTS = 2, 10
_TENTHS: tuple[Split, ...] = ("test", "test", "validation", *("train",) * 7)  # of all problems, in a shuffled order
_SHUFFLED_BY = 8
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
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.family.name}({given})"

    def answer(self, arguments: Arguments) -> Any:
        """What ``solve`` is to return, as the plain data that comes out of a workspace."""
        return self.family.answer(*arguments, **self.parameters)

    def task(self, seed: int) -> Task:
        """The problem in words, with examples, and the tests that only the grader has."""
        draws = Draws(crc32(self.name.encode()), seed)
        calls = [*self.family.edges, *_drawn(self.family, draws)]
        examples, tests = calls[-EXAMPLES:], calls[:-EXAMPLES]
        return Task(
            prompt=self._prompt(examples),
            seed=seed,
            metadata={"family": self.family.name, "parameters": dict(self.parameters)},
            hidden={"tests": [[list(one), self.answer(one)] for one in tests]},
        )

    def _prompt(self, examples: Iterable[Arguments]) -> str:
        calls = [f"  solve({', '.join(map(repr, one))}) == {self.answer(one)!r}" for one in examples]
        statement = self.family.statement.format(**self.parameters)
        head = f"Write a Python function: def solve({self.family.signature}"
        return "\n\n".join([head, statement, "\n".join(["For example:", *calls]), _HOW])


def _drawn(family: Family, draws: Draws) -> list[Arguments]:
    """As many different calls as are missing beside the edges."""
    found: list[Arguments] = []
    while len(found) + len(family.edges) < TESTS + EXAMPLES:
        one = family.draw(draws)
        if one not in found and one not in family.edges:
            found.append(one)
    return found


def _divided() -> dict[Split, list[Problem]]:
    problems = [Problem(family, parameters) for family in FAMILIES for parameters in family.variants]
    found: dict[Split, list[Problem]] = {"train": [], "validation": [], "test": []}
    for at, place in enumerate(np.random.default_rng(_SHUFFLED_BY).permutation(len(problems))):
        found[_TENTHS[at % len(_TENTHS)]].append(problems[place])
    return found


PROBLEMS: dict[Split, list[Problem]] = _divided()


@lru_cache(maxsize=256)  # a trainer plays the same task several times, one after the other
def _task(split: Split, index: int) -> Task:
    problems = PROBLEMS[split]
    return problems[index % len(problems)].task(index)


def train_task(index: int) -> Task:
    """There is no last one: each time round, the problems come with other tests."""
    return _task("train", index)


class TasksOf(Sequence[Task]):
    """One task for each problem of the split, made when it is asked for."""

    def __init__(self, split: Split) -> None:
        self._split: Split = split

    def __len__(self) -> int:
        return len(PROBLEMS[self._split])

    def __getitem__(self, index: Any) -> Any:
        seeds = range(len(self))[index]
        return _task(self._split, seeds) if isinstance(seeds, int) else [self[seed] for seed in seeds]
