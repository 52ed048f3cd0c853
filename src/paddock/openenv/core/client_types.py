"""The place of ``openenv.core.client_types``."""

from __future__ import annotations

from paddock.openenv.client import (
    StepResult,
)

__all__ = [
    "StepResult",
]
