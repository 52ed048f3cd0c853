"""RubricDict: rubrics by key, for a parent that decides which to ask. It has no score of its own.

A key is a child's name, so it may be any text without dots, also one that a method has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paddock.agentic.rubrics.rubric import Rubric


class RubricDict(Rubric):
    """``self.games = RubricDict({"chess": Chess()})``, then ``self.games[name](action, observation)``."""

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
        """``games.chess``; what rubrics have of their own comes first."""
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
        """The keys, in the order in which they were set."""
        return iter(self._children)

    def values(self) -> Iterator[Rubric]:
        """The rubrics."""
        return iter(self._children.values())

    def items(self) -> Iterator[tuple[str, Rubric]]:
        """Keys and rubrics."""
        return iter(self._children.items())

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        """Set all of them."""
        for key, rubric in rubrics.items():
            self[key] = rubric

    def forward(self, action: Any, observation: Any) -> float:
        """Always an error: how to combine the scores is the parent's choice."""
        raise NotImplementedError("A RubricDict has no score of its own. Ask one of its rubrics: rubrics[key](…).")
