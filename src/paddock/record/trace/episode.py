"""An episode as a trace tells it. Observations and actions are members of the spaces that were recorded.

A Struct that was recorded has no class here: its members are dicts with the same fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from paddock.core.spec import EnvSpec
from paddock.record.trace.lines import Error
from paddock.spaces import Space


@dataclass(frozen=True)
class Forms:
    """Action and observation as they stand in the trace, arrays included; what a replay compares."""

    observation: Any
    action: Any = None


@dataclass(frozen=True)
class Step:
    """One action and what came of it."""

    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    forms: Forms = field(repr=False)


@dataclass(frozen=True)
class Episode:
    """``number`` is its own in the file. ``ended`` is False for one whose recording broke off.

    ``observation`` and ``info`` are those of the reset; both are None where that failed. ``env`` names the environment
    in the words of who recorded it, ``digest`` is that of its spec. ``error`` says why there is no return.
    """

    number: int
    env: str | None
    spec: EnvSpec | None
    digest: str | None
    seed: int | None
    options: dict[str, Any] | None
    task: Any
    about: dict[str, Any]
    observation_space: Space[Any] | None
    action_space: Space[Any] | None
    observation: Any
    info: dict[str, Any] | None
    steps: Sequence[Step]
    ended: bool
    error: Error | None
    forms: Forms | None = field(repr=False)

    @property
    def total_return(self) -> float | None:
        """The sum of the rewards; None if an error ended the episode, or its recording broke off."""
        if self.error is not None or not self.ended:
            return None
        return sum((step.reward for step in self.steps), 0.0)
