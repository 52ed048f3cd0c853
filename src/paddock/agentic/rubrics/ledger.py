"""What happens in one grading: which rubrics were asked, what each gave, and where an error came from.

``last_score`` of a rubric can't tell: it may be from a step before, when this one stopped early.
"""

from __future__ import annotations

from asyncio import CancelledError
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

    def asking(self, rubric: Rubric) -> _Asking:
        """Around the work of the rubric."""
        return _Asking(self, rubric)

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

    def open(self) -> _Opened:
        """Rubrics that are asked meanwhile, in this context and those copied from it, write here."""
        return _Opened(self)


# Classes and no generators: these are a good part of what grading a cheap step costs.
class _Asking:
    __slots__ = ("_ledger", "_rubric")

    def __init__(self, ledger: Ledger, rubric: Rubric) -> None:
        self._ledger, self._rubric = ledger, rubric

    def __enter__(self) -> None:
        ledger, rubric = self._ledger, self._rubric
        ledger._asked[id(rubric)] = ledger._running[self] = rubric
        ledger.replayable = ledger.replayable and rubric.replayable

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        del self._ledger._running[self]
        if isinstance(error, CancelledError):
            self._ledger._cancelled.append(self._rubric)
        elif isinstance(error, SystemExit):  # the rubric may end its grading, never the process
            no_score = NoScore("it called sys.exit()")
            self._ledger._origins.append((no_score, self._rubric))
            raise no_score from error
        elif isinstance(error, Exception):
            self._ledger._origins.append((error, self._rubric))


class _Opened:
    __slots__ = ("_ledger", "_token")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._token = _current.set(self._ledger)

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._token)


_current: ContextVar[Ledger | None] = ContextVar("paddock_rubric_ledger", default=None)


def current_ledger() -> Ledger:
    """The ledger of the grading that runs in this context; one that nobody reads if there is none."""
    return _current.get() or Ledger()
