"""The place of ``openenv.core.env_server``."""

from __future__ import annotations

from typing import Any

import paddock.openenv as _home


def __getattr__(name: str) -> Any:
    return getattr(_home, name)
