"""Spaces of OpenAI's Gym, of any version, as ours. Gym is not imported: a space is known by the name of its class.

The versions differ in what a space has (``start``, for one), so what may be missing is asked for with care.
"""

from __future__ import annotations

from typing import Any

import paddock.spaces as ours
from paddock.errors import CustomSpaceError


def to_ours(space: Any) -> ours.Space[Any]:
    """Our space with the same members and dtype."""
    if _kind(space, "gymnasium") is not None:  # of a package that has moved on with its spaces alone
        from paddock.sources.gymnasium_spaces import to_ours as newer_to_ours

        return newer_to_ours(space)
    match _kind(space, "gym"):
        case "Box":
            return ours.Box(space.low, space.high, space.shape, space.dtype)
        case "Discrete":
            return ours.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
        case "MultiDiscrete":
            return ours.MultiDiscrete(space.nvec, dtype=space.dtype)
        case "MultiBinary":
            return ours.MultiBinary(space.n)
        case "Tuple":
            return ours.Tuple([to_ours(part) for part in space.spaces])
        case "Dict":
            return ours.Dict({key: to_ours(part) for key, part in space.spaces.items()}, sort_keys=False)
        case "Text":
            charset = "".join(space.character_list)
            return ours.Text(space.max_length, min_length=space.min_length, charset=charset)
        case "Sequence":
            return ours.Sequence(to_ours(space.feature_space))
    raise CustomSpaceError(
        f"{type(space).__module__}.{type(space).__name__} has no counterpart in paddock. Build it from gym.spaces."
    )


def _kind(space: Any, library: str) -> str | None:
    """The name of the library's own class that this is, or is derived from."""
    found = (one for one in type(space).__mro__ if one.__module__.partition(".")[0] == library)
    return next((one.__name__ for one in found), None)
