"""Attacks on the memory that lanes share with their caller: what it holds can change after it was looked at."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import Any

from paddock.bench.hostile.attacks.attempt import NOTHING, Hostile
from paddock.core.env import Info


class Scribble(Hostile):
    """Answers honestly, and overwrites the answers as long as anybody could read them."""

    def attempt(self) -> str:
        if self.steps == 2:
            threading.Thread(target=self._scribble, daemon=True).start()
            time.sleep(0.05)
        return "scribbles"

    def _scribble(self) -> None:
        from paddock.hosting.block import Block

        blocks = [found for found in gc.get_objects() if isinstance(found, Block)]
        ends = time.monotonic() + self.told["seconds"]
        while time.monotonic() < ends:
            for block in blocks:
                block.observations[...] = 7.0
                block.rewards[...] = float("nan")
                block.terminations[...] = 7
            time.sleep(0)


class Shrink(Hostile):
    """Keeps the file behind the shared memory, and cuts it off: whoever reads on is killed by the kernel."""

    def __init__(self, **told: Any) -> None:
        from paddock.hosting import serve

        super().__init__(**told)
        self.kept: list[int] = []

        class KeepsOpen:
            close = staticmethod(self.kept.append)

            def __getattr__(self, name: str) -> Any:
                return getattr(os, name)

        vars(serve)["os"] = KeepsOpen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.steps += 1
        return NOTHING, 0.0, False, False, {"attack": self._shrunk()}

    def _shrunk(self) -> str:
        if self.steps == 1:
            return "waits"
        try:
            for fd in self.kept:
                os.ftruncate(fd, 0)
        except OSError:
            return "denied: EPERM"
        return "succeeded" if self.kept else "failed: no file"
