"""Rubrics in a row, as children called rubric_0, rubric_1 … Each is looked up by its name, so it can be replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import overload

from paddock.agentic.rubrics.rubric import Rubric
from paddock.errors import InvalidRubric


class NumberedRubrics(Rubric):
    """What Sequential, WeightedSum and RubricList have in common: a length, an order and an index."""

    _count = 0

    def _add(self, rubrics: Iterable[Rubric]) -> None:
        if isinstance(rubrics, Rubric):
            raise InvalidRubric(f"{type(self).__name__} takes a list of rubrics; got one {type(rubrics).__name__}.")
        for rubric in rubrics:
            self._adopt(f"rubric_{self._count}", rubric)
            setattr(self, f"rubric_{self._count}", rubric)  # seq.rubric_0, as OpenEnv has it
            self._count += 1

    def _row(self) -> list[Rubric]:
        return [self._children[f"rubric_{at}"] for at in range(self._count)]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Rubric: ...
    @overload
    def __getitem__(self, index: slice) -> list[Rubric]: ...
    def __getitem__(self, index: int | slice) -> Rubric | list[Rubric]:
        return self._row()[index]

    def __iter__(self) -> Iterator[Rubric]:
        return iter(self._row())
