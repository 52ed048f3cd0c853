"""LaneOptions: how n lanes behave. Which options mean something depends on where the lanes step; others are refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import get_args

from paddock.core.vector_env import AutoresetMode, OnFault
from paddock.errors import PlanError

# Options that only some kinds of lanes have.
_ONLY_FOR: dict[str, tuple[str, ...]] = {
    "threads": ("compiled", "threads", "ale"),
    "statistics": ("compiled",),
    "workers": ("processes",),
    "deadline_s": ("processes",),
    "max_concurrency": ("processes",),
    "batch_size": ("processes",),
}
_WAY_OUT = {
    ("compiled", "threads", "ale"): "are for compiled lanes, lanes in threads and the ALE's own; pass "
    "backend='threads', or drop them",
    ("compiled",): "are for compiled lanes; drop them",
    ("processes",): "are for lanes in worker processes; pass isolation='process', or drop them",
}
_STEPPED = {
    "loop": "stepped in a loop",
    "threads": "stepped by threads",
    "ale": "stepped by the ALE itself",
    "compiled": "compiled",
    "processes": "in worker processes",
    "remote": "at a server",
}


@dataclass(frozen=True)
class LaneOptions:
    """How n lanes behave: when they begin anew, and whether results are copies or reused buffers.

    ``on_fault``: what becomes of a lane that raises, dies or hangs: "restart" (begun anew), "mask" (frozen), "raise".
    Compiled lanes have no faults of their own: an error in a kernel is raised.
    In worker processes: ``workers`` (as many as cores), ``deadline_s`` for a lane's step, ``max_concurrency`` of
    workers, and ``batch_size`` < n to receive the lanes that are ready first.
    Compiled: ``threads`` (one), and ``statistics`` (return and length of ended episodes in the info).
    In threads, and the ALE's own: ``threads`` (as many as cores).
    At a server: ``autoreset`` and ``on_fault``.
    """

    autoreset: AutoresetMode = AutoresetMode.NEXT_STEP
    copy: bool = True
    on_fault: OnFault = "restart"
    workers: int | None = None
    deadline_s: float | None = None
    max_concurrency: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    statistics: bool = False

    def check(self, backend: str) -> None:
        """PlanError if an option was given that lanes of this backend do not have."""
        self._check_values()
        for option in fields(self):
            places = _ONLY_FOR.get(option.name, (backend,))
            if backend not in places and getattr(self, option.name) != option.default:
                same = ", ".join(f"{name}=…" for name, where in _ONLY_FOR.items() if where == places)
                raise PlanError(f"LaneOptions({same}) {_WAY_OUT[places]}. These lanes are {_STEPPED[backend]}.")
        if backend in ("compiled", "ale") and self.on_fault == "mask":
            raise PlanError(
                "LaneOptions(on_fault='mask') freezes lanes that fail; these lanes run in one call and do not fail "
                "singly. Drop it, or pass backend='loop' or isolation='process'."
            )

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "autoreset", AutoresetMode(self.autoreset))
        except ValueError:
            names = ", ".join(f"{mode.value!r}" for mode in AutoresetMode)
            raise PlanError(f"LaneOptions(autoreset={self.autoreset!r}): expected one of {names}.") from None

    def _check_values(self) -> None:
        if self.on_fault not in get_args(OnFault):
            raise PlanError(f"LaneOptions(on_fault={self.on_fault!r}): expected 'raise', 'restart' or 'mask'.")
        for name in ("workers", "max_concurrency", "batch_size", "threads"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 1):
                raise PlanError(f"LaneOptions({name}={count!r}): expected a count, at least 1.")
        if self.deadline_s is not None and not (isinstance(self.deadline_s, (int, float)) and self.deadline_s > 0):
            raise PlanError(f"LaneOptions(deadline_s={self.deadline_s!r}): expected a positive number of seconds.")
