"""What becomes of lanes that fail: raise, restart or mask. The other lanes never notice.

A caller's mistake (an action outside its space, a step before reset) is not a fault of the lane and always raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

import numpy as np

from paddock.core.env import Info
from paddock.core.vector_env import OnFault
from paddock.errors import (
    DependencyNotInstalled,
    EnvFailed,
    InvalidAction,
    InvalidLanes,
    InvalidSeed,
    InvalidSnapshot,
    NotTransferable,
    PaddockError,
    ResetNeeded,
    SnapshotUnsupported,
    UnsupportedMode,
    WorkerLost,
)
from paddock.seeding import derived_seed

_BEGINNINGS = 5  # a lane that fails to begin this often in a row will not begin the next time either

# Errors that an environment, or the layer around it, raises because of what the caller asked for.
_CALLERS = (
    DependencyNotInstalled,
    InvalidAction,
    InvalidLanes,
    InvalidSeed,
    InvalidSnapshot,
    NotTransferable,
    ResetNeeded,
    SnapshotUnsupported,
    UnsupportedMode,
)


class Faults:
    """The record of ``num_envs`` lanes.

    ``restarting``: lanes whose next step begins an episode in a new environment. ``frozen``: lanes that no longer step.
    """

    def __init__(self, on_fault: OnFault, num_envs: int) -> None:
        if on_fault not in get_args(OnFault):
            raise InvalidLanes(f"on_fault={on_fault!r}; expected 'raise', 'restart' or 'mask'.")
        self.on_fault = on_fault
        self.restarting: set[int] = set()
        self.frozen: set[int] = set()
        self._seeds: list[int | None] = [None] * num_envs
        self._count = [0] * num_envs
        self._beginnings = [0] * num_envs
        self._raised: dict[int, Exception] = {}  # by lane

    def choose_seed(self, lane: int, seed: int | None, *, lost: bool = False) -> int | None:
        """Choose the seed for a reset by the caller; a frozen lane is live again.

        A lane that was lost or has failed gets its next seed if the caller gives none: its own random stream is gone.
        """
        self.frozen.discard(lane)
        if lost:
            self._count[lane] += 1
            self.restarting.add(lane)
        if seed is not None:
            self._seeds[lane], self._count[lane] = seed, 0
            return seed
        return self.next_seed(lane) if lane in self.restarting else None

    def next_seed(self, lane: int) -> int | None:
        """The seed for a restart: derived from the lane's last one, so that a run with faults repeats too."""
        seed = self._seeds[lane]
        return None if seed is None else derived_seed(seed, self._count[lane])

    def mark_begun(self, lane: int) -> None:
        """Note that the lane has an episode again."""
        self.restarting.discard(lane)
        self.frozen.discard(lane)
        self._beginnings[lane] = 0

    def report(
        self, lane: int, error: PaddockError, *, beginning: bool = False, raised: Exception | None = None
    ) -> Info:
        """Note a fault, ``beginning`` if it was in a reset. Returns what the lane's info says about it.

        Where the policy is to raise, it raises ``raised``, or else ``error``.
        """
        self._count[lane] += 1
        self._beginnings[lane] += beginning or lane in self.restarting
        self.restarting.add(lane)
        if self.on_fault == "mask":
            self.frozen.add(lane)
        if self.on_fault == "raise" or self._beginnings[lane] >= _BEGINNINGS:
            self._raised.setdefault(lane, raised or error)
        kind = f" ({error.error_type})" if isinstance(error, EnvFailed) and error.error_type else ""
        return {"lane_error": f"{error.code}{kind}: {error}"}

    def tries_again(self, lane: int) -> bool:
        """Whether to retry a failed reset at once."""
        return self.on_fault == "restart" and self._beginnings[lane] < _BEGINNINGS

    def take_back(self, lane: int) -> None:
        """Undo a report that no caller has seen; it will be reported again."""
        self.restarting.discard(lane)
        self.frozen.discard(lane)
        self._raised.pop(lane, None)

    def mistake(self, lane: int, error: Exception) -> None:
        """Note a mistake of the caller: it is raised, and the lane goes on as before."""
        self._raised.setdefault(lane, error)

    def to_raise(self, lanes: Iterable[int]) -> tuple[int, Exception] | None:
        """The first of these lanes that has an error to raise, and that error; None if there is none."""
        if not self._raised:
            return None
        return next(((lane, self._raised.pop(lane)) for lane in lanes if lane in self._raised), None)

    def raise_reported(self) -> None:
        """Raise the first error to raise. Call it once every lane has its result."""
        if self._raised:
            first = min(self._raised, key=lambda lane: (is_collateral(self._raised[lane]), lane))
            error = self._raised[first]
            self._raised.clear()
            raise error

    def add_live(self, infos: Info, lanes: Sequence[int] | None = None) -> Info:
        """Put bool[n] into the infos of these lanes, or of all: which are not frozen. Only "mask" freezes any."""
        if self.on_fault == "mask":
            live = np.ones(len(self._seeds), dtype=np.bool_)
            live[list(self.frozen)] = False
            infos["_live"] = live if lanes is None else live[list(lanes)]
        return infos


def is_collateral(error: BaseException) -> bool:
    """Whether the lane was only lost together with another that shares its worker: that one's error says more."""
    return isinstance(error, WorkerLost) and error.cause == "ended"


def is_fault(error: BaseException) -> bool:
    """Whether the lane is to blame, rather than its caller."""
    return not isinstance(error, _CALLERS)
