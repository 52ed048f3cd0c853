"""What happens in one grading: which rubrics were asked, what each gave, and where an error came from.

``last_score`` of a rubric can't tell: it may be from a step before, when this one stopped early.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from paddock.agentic.rubrics.score import NoScore

if TYPE_CHECKING:
    from paddock.agentic.rubrics.rubric import Rubric


class Ledger:
    """Rubrics are told apart by identity, and never by truth: one of length 0 is a rubric all the same."""

    def __init__(self) -> None:
        self.replayable = True
        self._asked: dict[int, Rubric] = {}  # keeps them alive, so that no id is used twice
        self._running: dict[object, Rubric] = {}
        self._scores: dict[int, float] = {}
        self._cancelled: list[Rubric] = []
        self._origins: list[tuple[BaseException, Rubric]] = []

    @contextmanager
    def asking(self, rubric: Rubric) -> Iterator[None]:
        """Around the work of the rubric."""
        key = object()
        self._asked[id(rubric)] = self._running[key] = rubric
        self.replayable = self.replayable and rubric.replayable
        try:
            yield
        except CancelledError:
            self._cancelled.append(rubric)
            raise
        except SystemExit as stop:  # the rubric may end its grading, never the process
            error = NoScore("it called sys.exit()")
            self._origins.append((error, rubric))
            raise error from stop
        except Exception as error:
            self._origins.append((error, rubric))
            raise
        finally:
            del self._running[key]

    def enter(self, rubric: Rubric, score: float) -> None:
        """The rubric gave this score; of several in one grading the last counts."""
        self._scores[id(rubric)] = score

    def origin(self, error: BaseException) -> Rubric | None:
        """The innermost rubric that raised this very error; None if none did."""
        return next((rubric for known, rubric in self._origins if known is error), None)

    def late(self) -> Rubric | None:
        """The innermost rubric that was cancelled; else, of those that still run, the one that was asked last."""
        return next(iter([*self._cancelled, *reversed(tuple(self._running.values()))]), None)

    def parts(self, root: Rubric) -> dict[str, float]:
        """The scores of the root's descendants that were asked, by dotted name."""
        named = root.named_rubrics()
        return {name: self._scores[id(rubric)] for name, rubric in named if id(rubric) in self._scores}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Rubrics that are asked meanwhile, in this context and those copied from it, write here."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Ledger | None] = ContextVar("paddock_rubric_ledger", default=None)


def current_ledger() -> Ledger:
    """The ledger of the grading that runs in this context; one that nobody reads if there is none."""
    return _current.get() or Ledger()
