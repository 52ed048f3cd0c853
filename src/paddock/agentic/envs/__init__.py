"""The agentic environments that come with paddock: ``paddock/Echo``, ``paddock/Wordle`` and ``paddock/PythonCode``.

echo                say a word back: one step, for first tries of a trainer
wordle              the game of words, with its words
python_code         write programs; coding/ has the problems and the workspaces
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Echo": "paddock.agentic.envs.echo",
    "PythonCode": "paddock.agentic.envs.python_code",
    "Wordle": "paddock.agentic.envs.wordle",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paddock.agentic.envs' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
