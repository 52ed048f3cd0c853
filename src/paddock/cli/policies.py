"""The policies that ``paddock run`` knows. Each is made for one environment and one seed, and maps observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from paddock.core.env import Env

Policy: TypeAlias = Callable[[Any], Any]
PolicyMaker: TypeAlias = "Callable[[Env[Any, Any], int], Policy]"


def random_policy(env: Env[Any, Any], seed: int) -> Policy:
    """Samples of the action space, whose stream starts at ``seed``."""
    actions = env.action_space
    actions.seed(seed)
    return lambda observation: actions.sample()


POLICIES: dict[str, PolicyMaker] = {"random": random_policy}
