"""``gymnasium.wrappers``."""

from paddock.gym.wrappers import common, rendering
from paddock.wrappers import HumanRendering, OrderEnforcing, PassiveEnvChecker, RenderCollection, TimeLimit

__all__ = [
    "HumanRendering",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "RenderCollection",
    "TimeLimit",
    "common",
    "rendering",
]


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"paddock.gym.wrappers has no {name!r}. The wrappers that exist so far: {', '.join(__all__)}. Others work on "
        f"gymnasium.wrappers.{name}(paddock.to_gymnasium(env), ...); see docs/differences.md."
    )
