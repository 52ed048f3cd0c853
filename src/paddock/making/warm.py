"""Spare workers behind their walls, started before anyone needs them, so that a new environment is ready at once."""

from __future__ import annotations

import os
import threading
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any

from paddock.errors import PlanError

if TYPE_CHECKING:
    from paddock.hosting.launch import Launcher

Started = tuple[Any, Any]  # the near socket and the child


class WarmPool:
    """``spares`` workers that ``start`` started; one that is taken is replaced in the background. Close it."""

    def __init__(self, start: Launcher, spares: int, key: Any) -> None:
        if type(spares) is not int or spares < 1:
            raise PlanError(f"spares={spares!r}: expected how many workers to keep ready, at least 1.")
        self._start, self._spares, self._key = start, spares, key
        self._ready: deque[Started] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._owner = os.getpid()
        self._filler = threading.Thread(target=self._fill, name="paddock-warm-pool", daemon=True)
        self._filler.start()
        _OPEN[key] = self

    def take(self) -> Started | None:
        """A spare that lives, or None."""
        if os.getpid() != self._owner:  # a forked child has no share in its parent's workers
            return None
        with self._changed:
            while self._ready:
                near, child = self._ready.popleft()
                self._changed.notify()
                if not child.wait(0.0):
                    return near, child
                near.close()
                child.kill()
        return None

    def wait(self, timeout: float | None = None) -> bool:
        """Until all spares are started; False if that took longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or len(self._ready) >= self._spares, timeout)

    def _fill(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._ready) < self._spares)
                if self._closed:
                    return
            try:
                started = self._start()
            except Exception:  # make() will start its own, and say what is wrong
                with self._changed:
                    self._changed.wait(1.0)
                continue
            with self._changed:
                self._ready.append(started)
                self._changed.notify_all()

    def close(self) -> None:
        """End the spares; those that were taken live on. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if _OPEN.get(self._key) is self:
            del _OPEN[self._key]
        if os.getpid() == self._owner:
            self._filler.join()
            while self._ready:
                near, child = self._ready.popleft()
                near.close()
                child.kill()

    def __enter__(self) -> WarmPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_OPEN: dict[Any, WarmPool] = {}


def spare_for(key: Any) -> Started | None:
    """A spare worker that was started just like this, if a pool for it is open."""
    pool = _OPEN.get(key)
    return None if pool is None else pool.take()
