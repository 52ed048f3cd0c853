"""The doors to Gymnasium's world. Importing this imports no Gymnasium; calling does.

Users find them in ``paddock.adapters.gymnasium``; ``paddock.to_gymnasium`` is here so that looking at it costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock.adapters.needed import need
from paddock.core.env import Env
from paddock.core.vector_env import VectorEnv
from paddock.spaces import Space

if TYPE_CHECKING:
    import gymnasium


def to_gymnasium(env: Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """A ``gymnasium.Env`` with Gymnasium's own spaces that steps ``env``; ``.env`` is the environment inside.

    Its ``spec`` can be made again by ``gymnasium.make``. One of Gymnasium's own is returned as it is.
    """
    need("gymnasium")
    from paddock.adapters.gymnasium_env import adapted

    return adapted(env)


def to_gymnasium_vector(env: VectorEnv[Any, Any, Any]) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """A ``gymnasium.vector.VectorEnv`` that steps these lanes, compiled ones too; ``.env`` are the lanes inside.

    Arrays are passed on as they are: with ``LaneOptions(copy=False)`` the next step writes into the same ones.
    """
    need("gymnasium")
    from paddock.adapters.gymnasium_vector import adapted_lanes

    return adapted_lanes(env)


def to_gymnasium_space(space: Space[Any]) -> gymnasium.Space[Any]:
    """Gymnasium's space with the same members. It is not seeded, and shares no random stream with ``space``."""
    need("gymnasium")
    from paddock.sources.gymnasium_spaces import to_theirs

    return to_theirs(space)


def from_gymnasium_space(space: gymnasium.Space[Any]) -> Space[Any]:
    """Our space with the same members. It is not seeded, and shares no random stream with ``space``."""
    need("gymnasium")
    from paddock.sources.gymnasium_spaces import to_ours

    return to_ours(space)
