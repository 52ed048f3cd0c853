"""The random streams of lanes, for a logic that draws what its single environment would draw.

Lanes in this process lend the streams themselves. Elsewhere (compiled, in processes) a stream is a copy: it is fetched,
drawn from and given back, so that the lane goes on where the draw ended. Right everywhere, fast only here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddock.core.vector_env import VectorEnv
from paddock.errors import InvalidLanes


def draw_in_lanes(
    env: VectorEnv[Any, Any, Any], lanes: list[int], draw: Callable[[np.random.Generator], Any]
) -> list[Any]:
    """``draw(generator)`` of each of these lanes, with the generator that the lane's environment draws from."""
    ask = getattr(env, "get_attr", None)
    try:
        streams = None if ask is None else ask("np_random")
    except AttributeError:
        streams = None
    if streams is None:
        raise InvalidLanes(f"{env!r} does not lend the random streams of its lanes (get_attr('np_random')).")
    drawn = [draw(streams[lane]) for lane in lanes]
    if not hasattr(env.unwrapped, "envs"):
        env.set_attr("np_random", list(streams))  # type: ignore[attr-defined]
    return drawn
