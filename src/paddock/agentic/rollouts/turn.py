"""Turn: all that a policy may look at before it acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.spaces import Space


@dataclass(frozen=True)
class Turn:
    """``messages`` and ``tools`` are in the form of chat-completions APIs, and empty for other environments.

    ``number`` counts the policy's turns and ``step`` the environment's steps, both from 0. ``reward`` is that of the
    last turn, None in the first. ``np_random`` and the stream behind ``action_space.sample()`` are of this rollout
    alone and begin with its seed, so a random policy repeats itself however many rollouts run at once.
    """

    observation: Any
    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]]
    task: dict[str, Any]
    number: int
    step: int
    info: Info
    reward: float | None
    attempt: int
    action_space: Space[Any] = field(repr=False)
    np_random: np.random.Generator = field(repr=False)
