"""Rubrics that are made of other rubrics: in sequence, weighted, behind a gate, within a time limit.

A failure is never turned into a score of 0.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from inspect import isawaitable
from time import monotonic
from typing import Any, overload

from paddock.agentic.rubrics.maybe_async import Steps, discard, gather, maybe_async
from paddock.agentic.rubrics.rubric import Late, Rubric, check_number
from paddock.agentic.threads import TIDY_S, TimedThread, TookTooLong
from paddock.errors import InvalidRubric


class NumberedRubrics(Rubric):
    """The base of Sequential, WeightedSum and RubricList: children called rubric_0, rubric_1, and so on.

    Each is looked up by its name, so it can be replaced.
    """

    _count = 0

    def _add(self, rubrics: Iterable[Rubric]) -> None:
        if isinstance(rubrics, Rubric):
            raise InvalidRubric(f"{type(self).__name__} takes a list of rubrics; got one {type(rubrics).__name__}.")
        for rubric in rubrics:
            self._adopt(f"rubric_{self._count}", rubric)
            setattr(self, f"rubric_{self._count}", rubric)  # seq.rubric_0, as in OpenEnv
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


class Sequential(NumberedRubrics):
    """Rubrics one after another, until one gives 0: put cheap checks first. Without rubrics, the score is 1.

    The score is the last one's, not a product.
    """

    def __init__(self, *rubrics: Rubric) -> None:
        super().__init__()
        self._add(rubrics)

    @maybe_async
    def forward(self, action: Any, observation: Any) -> Steps[float]:
        score: float = 1.0
        for rubric in self._row():
            score = yield rubric(action, observation)
            if score == 0.0:
                return 0.0  # never -0.0
        return score


TOLERANCE = 1e-6


class WeightedSum(NumberedRubrics):
    """The sum of weight times score, with weights that sum to 1. If one rubric fails, the others are cancelled.

    Async rubrics run at the same time, the others in order.
    """

    state_fields = ("weights",)

    def __init__(self, rubrics: Sequence[Rubric], weights: Sequence[float]) -> None:
        super().__init__()
        self._add(rubrics)
        self.weights = list(weights)

    @property
    def weights(self) -> list[float]:
        """A copy; assign a list to change them."""
        return list(self._weights)

    @weights.setter
    def weights(self, values: Sequence[float]) -> None:
        weights = [check_number(f"weight {at}", weight) for at, weight in enumerate(values)]
        if len(weights) != len(self):
            raise InvalidRubric(f"Number of rubrics ({len(self)}) must match number of weights ({len(weights)}).")
        if abs(math.fsum(weights) - 1.0) > TOLERANCE:
            raise InvalidRubric(f"Weights must sum to 1.0, got {math.fsum(weights)}: {weights}.")
        self._weights = weights

    @maybe_async
    def forward(self, action: Any, observation: Any) -> Steps[float]:
        scores: list[Any] = []
        try:
            for rubric in self._row():
                scores.append(rubric(action, observation))
        except BaseException:
            discard(scores)
            raise
        if any(not isinstance(score, float) for score in scores):
            scores = yield gather(scores)
        total = 0.0
        for score, weight in zip(scores, self._weights, strict=True):
            total += score * weight  # not sum(), whose rounding depends on the version of Python
        return total


class RubricList(NumberedRubrics):
    """Rubrics by position, for a parent that decides which to call. It has no score of its own.

    ``self.games = RubricList([Chess(), Go()])``, then ``self.games[0](action, observation)``.
    """

    def __init__(self, rubrics: Iterable[Rubric] | None = None) -> None:
        super().__init__()
        self.extend(() if rubrics is None else rubrics)

    def append(self, rubric: Rubric) -> None:
        self._add([rubric])

    def extend(self, rubrics: Iterable[Rubric]) -> None:
        self._add(rubrics)

    def forward(self, action: Any, observation: Any) -> float:
        raise NotImplementedError("A RubricList has no score of its own. Ask one of its rubrics, or use WeightedSum.")


class RubricDict(Rubric):
    """Rubrics by key, for a parent that decides which to call. It has no score of its own.

    ``self.games = RubricDict({"chess": Chess()})``, then ``self.games[name](action, observation)``. A key is a child's
    name, so it may be any text without dots, even the name of a method.
    """

    def __init__(self, rubrics: Mapping[str, Rubric] | None = None) -> None:
        super().__init__()
        self.update({} if rubrics is None else rubrics)

    def __setitem__(self, key: str, rubric: Rubric) -> None:
        self._adopt(key, rubric)

    def __delitem__(self, key: str) -> None:
        del self._children[key]

    def __getitem__(self, key: str) -> Rubric:
        return self._children[key]

    def __getattr__(self, name: str) -> Rubric:
        """Return a rubric as ``games.chess``, unless every rubric has an attribute of that name."""
        try:
            return self.__dict__["_children"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no rubric and no attribute {name!r}.") from None

    def __contains__(self, key: object) -> bool:
        return key in self._children

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[str]:
        return iter(self._children)

    def keys(self) -> Iterator[str]:
        return iter(self._children)

    def values(self) -> Iterator[Rubric]:
        return iter(self._children.values())

    def items(self) -> Iterator[tuple[str, Rubric]]:
        return iter(self._children.items())

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        for key, rubric in rubrics.items():
            self[key] = rubric

    def forward(self, action: Any, observation: Any) -> float:
        raise NotImplementedError("A RubricDict has no score of its own. Ask one of its rubrics: rubrics[key](…).")


class Gate(Rubric):
    """The child's score if it is at least ``threshold``, else 0. A score that passes does not become 1."""

    state_fields = ("threshold",)

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        super().__init__()
        self._adopt("rubric", rubric)
        self.rubric = rubric
        self.threshold = threshold

    @property
    def threshold(self) -> float:
        return self._threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        self._threshold = check_number("threshold", value)

    @maybe_async
    def forward(self, action: Any, observation: Any) -> Steps[float]:
        score: float = yield self.rubric(action, observation)
        return score if score >= self.threshold else 0.0


class Timeout(Rubric):
    """The child's score, if it comes within ``timeout_s`` seconds. If not, the grading fails.

    Late async code is cancelled. Late sync code can't be: it is left behind on its thread, and until it ends every call
    is late at once.
    """

    state_fields = ("timeout_s",)

    def __init__(self, rubric: Rubric, timeout_s: float) -> None:
        super().__init__()
        self._adopt("rubric", rubric)
        self.rubric = rubric
        self.timeout_s = timeout_s
        self._thread = TimedThread()

    @property
    def timeout_s(self) -> float:
        return self._timeout_s

    @timeout_s.setter
    def timeout_s(self, value: float) -> None:
        seconds = check_number("timeout_s", value)
        if seconds <= 0:
            raise InvalidRubric(f"timeout_s: {value!r} is not positive; expected seconds above 0.")
        self._timeout_s = seconds

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        end = monotonic() + self.timeout_s
        context = contextvars.copy_context()
        try:
            # In a tuple, which the thread can't await: the caller awaits a coroutine in its own loop, like all others.
            (score,) = self._thread.run(lambda: (context.run(self.rubric, action, observation),), self.timeout_s)
        except TookTooLong as error:
            raise Late(str(error)) from None
        return self._in_time(score, end) if isawaitable(score) else score

    async def _in_time(self, waiting: Awaitable[float], end: float) -> float:
        # Not wait_for: it waits for the end of what it cancelled, however long that takes.
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait([task], timeout=max(0.0, end - monotonic()))
            if task.done():
                return task.result()
        finally:
            if task.cancel():
                await asyncio.wait([task], timeout=TIDY_S)
        raise Late(f"no result within {self.timeout_s:g} s")
