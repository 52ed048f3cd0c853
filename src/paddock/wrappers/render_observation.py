"""AddRenderObservation: what the environment renders, as the observation or beside it.

The size of a frame shows only in a frame, so the environment is reset once when it is wrapped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import InvalidSpace, UnsupportedMode
from paddock.spaces import Box, Dict, Space
from paddock.wrappers.fitted import FittedObservation
from paddock.wrappers.logic import Wrapped
from paddock.wrappers.transform_observation import TransformObservation

Array = np.ndarray[Any, Any]
Render = Callable[[], Array]  # one lane's frame, or a row for each lane


def _frames(env: Any) -> Array:
    return np.stack(env.render())


def _alone(render: Render, value: Any) -> Any:
    return render()


def _among(render: Render, render_key: str, value: dict[str, Any]) -> Any:
    return {render_key: render(), **value}


def _beside(render: Render, obs_key: str, render_key: str, value: Any) -> Any:
    return {obs_key: value, render_key: render()}


@dataclass(frozen=True)
class AddRender(FittedObservation):
    """The frame alone, or in a Dict under ``render_key`` with the observation under ``obs_key``.

    A Dict observation keeps its own keys, and ``render_key`` comes to them.
    """

    render_only: bool
    render_key: str
    obs_key: str
    wrapped: InitVar[Wrapped]

    def __post_init__(self, wrapped: Wrapped) -> None:
        space, env = wrapped.observation_space, wrapped.env
        if isinstance(space, Dict) and not self.render_only and self.render_key in space.spaces:
            raise InvalidSpace(
                f"AddRenderObservation render_key '{self.render_key}' already exists in the observation space"
            )
        pixels = Box(0, 255, _first_frame(wrapped).shape, np.uint8)
        render = env.render if wrapped.lanes is None else partial(_frames, env)
        seen: Space[Any] = pixels
        if self.render_only:
            way = partial(_alone, render)
        elif isinstance(space, Dict):
            seen = Dict({self.render_key: pixels, **space.spaces}, sort_keys=space.sort_keys)
            way = partial(_among, render, self.render_key)
        else:
            seen = Dict({self.obs_key: space, self.render_key: pixels})
            way = partial(_beside, render, self.obs_key, self.render_key)
        self._fit(space, seen, one=way, rows=way)


def _first_frame(wrapped: Wrapped) -> Array:
    env = wrapped.env
    if env.render_mode is None or env.render_mode == "human":
        raise UnsupportedMode(
            f"AddRenderObservation requires render_mode to be not None and not 'human', got {env.render_mode}. "
            "Make the environment with render_mode='rgb_array'."
        )
    env.reset()
    frame = env.render() if wrapped.lanes is None else (env.render() or [None])[0]
    if not isinstance(frame, np.ndarray):
        raise InvalidSpace(f"AddRenderObservation expects env.render() to return a numpy array, got {type(frame)}")
    return frame


class AddRenderObservation(TransformObservation):
    """The agent sees what ``render`` gives, alone or beside the observation. Resets the environment once.

    Beside a Dict observation it is the part ``render_key``; else both are parts of a Dict.
    """

    def __init__(
        self,
        env: Env[Any, Any],
        render_only: bool = True,
        render_key: str = "pixels",
        obs_key: str = "state",
    ) -> None:
        self._look_through(env, AddRender(render_only, render_key, obs_key, Wrapped.one(env)))
