"""Interruptible: what Ctrl-C leaves half done is forgotten, so that the next call begins from something known."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType


class Interruptible:
    """``with`` it around work that must not be left half done. One object for all uses: the step path is hot."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = weakref.WeakMethod(forget)  # its owner holds this object: no cycle for the collector

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            forget = self._forget()
            if forget is not None:
                forget()
