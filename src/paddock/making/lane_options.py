"""LaneOptions: how n lanes behave. Which options mean something depends on where the lanes step; others are refused."""

from __future__ import annotations

from dataclasses import dataclass, fields

from paddock.core.vector_env import AutoresetMode
from paddock.errors import PlanError
from paddock.vector.faults import OnFault

_FOR = {
    "threads": "compiled",
    "statistics": "compiled",
    "workers": "processes",
    "deadline_s": "processes",
    "max_concurrency": "processes",
    "batch_size": "processes",
}
_WAY_OUT = {
    "compiled": "are for compiled lanes; drop them",
    "processes": "are for lanes in worker processes; pass isolation='process', or drop them",
}


@dataclass(frozen=True)
class LaneOptions:
    """How n lanes behave: when they begin anew, and whether results are copies or reused buffers.

    ``on_fault``: what becomes of a lane that raises, dies or hangs: "restart" (begun anew), "mask" (frozen), "raise".
    Compiled lanes have no faults of their own: an error in a kernel is raised.
    In worker processes: ``workers`` (as many as cores), ``deadline_s`` for a lane's step, ``max_concurrency`` of
    workers, and ``batch_size`` < n to receive the lanes that are ready first.
    Compiled: ``threads``, and ``statistics`` (return and length of ended episodes in the info).
    """

    autoreset: AutoresetMode = AutoresetMode.NEXT_STEP
    copy: bool = True
    on_fault: OnFault = "restart"
    workers: int | None = None
    deadline_s: float | None = None
    max_concurrency: int | None = None
    batch_size: int | None = None
    threads: int = 1
    statistics: bool = False

    def check(self, backend: str) -> None:
        """PlanError if an option was given that lanes of this backend do not have."""
        for option in fields(self):
            place = _FOR.get(option.name, backend)
            if place != backend and getattr(self, option.name) != option.default:
                same = ", ".join(f"{name}=…" for name, where in _FOR.items() if where == place)
                raise PlanError(f"LaneOptions({same}) {_WAY_OUT[place]}. These lanes are {_STEPPED[backend]}.")
        if backend == "compiled" and self.on_fault == "mask":
            raise PlanError(
                "LaneOptions(on_fault='mask') freezes lanes that fail; compiled lanes run in one call and do not fail "
                "singly. Drop it, or pass backend='loop' or isolation='process'."
            )


_STEPPED = {"loop": "stepped in a loop", "compiled": "compiled", "processes": "in worker processes"}
