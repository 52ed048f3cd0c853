"""Images as observations: in grey, in another size, and rendered frames. All are uint8 from 0 to 255."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import DependencyNotInstalled, InvalidSpace, UnsupportedMode
from paddock.spaces import Box, Dict, Space
from paddock.wrappers.logic import ObservationMap, Wrapped, of_logic
from paddock.wrappers.observation import TransformObservation, check_sides

Array = np.ndarray[Any, Any]
RED, GREEN, BLUE = 0.2125, 0.7154, 0.0721  # the shares of a colour's brightness


@dataclass(frozen=True)
class Grayscale(ObservationMap):
    """[height, width, 3] to [height, width], or with ``keep_dim`` to [height, width, 1]."""

    keep_dim: bool
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        box = _pictures("GrayscaleObservation", space)
        if len(box.shape) != 3 or box.shape[-1] != 3:
            raise InvalidSpace(f"GrayscaleObservation requires an image with 3 channels, got shape {box.shape}")
        shape = (*box.shape[:2], 1) if self.keep_dim else box.shape[:2]
        self._set_spaces(box, Box(0, 255, shape, np.uint8))

    def one(self, value: Array) -> Array:
        # float64 and in this order: the bytes are Gymnasium's.
        grey = value[..., 0] * RED
        grey += value[..., 1] * GREEN
        grey += value[..., 2] * BLUE
        result: Array = grey.astype(np.uint8)
        return result[..., None] if self.keep_dim else result

    def rows(self, values: Array) -> Array:
        result = np.empty((len(values), *self.target.shape), np.uint8)  # type: ignore[misc]
        for row, value in enumerate(values):  # one picture at a time stays in the cache
            result[row] = self.one(value)
        return result


@dataclass(frozen=True)
class Resize(ObservationMap):
    """To ``shape`` = (height, width), each pixel the mean of the area that it covers."""

    shape: tuple[int, int]
    cv2_shape: tuple[int, int] = field(init=False, repr=False, compare=False)  # (width, height), as in OpenCV
    target_shape: tuple[int, ...] = field(init=False, repr=False, compare=False)
    space: InitVar[Space[Any]]

    def __post_init__(self, space: Space[Any]) -> None:
        box = _pictures("ResizeObservation", space)
        if len(box.shape) not in (2, 3):
            raise InvalidSpace(f"ResizeObservation requires a 2D or 3D image, got shape {box.shape}")
        if isinstance(self.shape, (tuple, list)) and len(self.shape) != 2:
            raise InvalidSpace(f"ResizeObservation requires shape tuple of length 2, got {self.shape}")
        height, width = check_sides("ResizeObservation", self.shape)
        opencv()
        vars(self).update(shape=(height, width))
        target = Box(0, 255, (height, width, *box.shape[2:]), np.uint8)
        self._set_spaces(box, target, cv2_shape=(width, height), target_shape=target.shape)

    def one(self, value: Array) -> Array:
        cv2 = sys.modules.get("cv2") or opencv()  # a lookup is faster than `import` in a function
        result: Array = cv2.resize(value, self.cv2_shape, interpolation=cv2.INTER_AREA)
        return result.reshape(self.target_shape)  # OpenCV drops an axis of one channel

    def rows(self, values: Array) -> Array:
        cv2, size, shape = opencv(), self.cv2_shape, self.target.shape
        result = np.empty((len(values), *shape), np.uint8)  # type: ignore[misc]
        for row, value in enumerate(values):
            result[row] = cv2.resize(value, size, interpolation=cv2.INTER_AREA).reshape(shape)
        return result


def opencv() -> Any:
    """The module cv2."""
    try:
        import cv2
    except ImportError as error:
        raise DependencyNotInstalled(
            "opencv (cv2) is not installed, run `pip install opencv-python-headless`"
        ) from error
    return cv2


def _pictures(wrapper: str, space: Space[Any]) -> Box:
    if not isinstance(space, Box):
        raise InvalidSpace(f"{wrapper} requires a Box observation space, got {type(space)}")
    if space.dtype != np.uint8 or np.any(space.low != 0) or np.any(space.high != 255):
        raise InvalidSpace(f"{wrapper} requires observation bounds 0 to 255 and dtype uint8, got {space}")
    return space


class GrayscaleObservation(TransformObservation):
    """Pictures in grey; ``keep_dim`` leaves an axis of one channel."""

    keep_dim: bool = of_logic()

    def __init__(self, env: Env[Any, Any], keep_dim: bool = False) -> None:
        self._use(env, Grayscale(keep_dim, env.observation_space))


class ResizeObservation(TransformObservation):
    """Pictures of ``shape`` = (height, width). Needs OpenCV."""

    shape: tuple[int, int] = of_logic()
    cv2_shape: tuple[int, int] = of_logic()

    def __init__(self, env: Env[Any, Any], shape: tuple[int, int]) -> None:
        self._use(env, Resize(shape, env.observation_space))


@dataclass(frozen=True)
class AddRender(ObservationMap):
    """The frame alone, or in a Dict under ``render_key`` with the observation under ``obs_key``.

    A Dict observation keeps its own keys and gets ``render_key`` as another one.
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
        if env.render_mode is None or env.render_mode == "human":
            raise UnsupportedMode(
                f"AddRenderObservation requires render_mode to be not None and not 'human', got {env.render_mode}. "
                "Make the environment with render_mode='rgb_array'."
            )
        env.reset()  # only a frame tells the size of a frame
        frame = env.render() if wrapped.lanes is None else (env.render() or [None])[0]
        if not isinstance(frame, np.ndarray):
            raise InvalidSpace(f"AddRenderObservation expects env.render() to return a numpy array, got {type(frame)}")
        target: Space[Any] = Box(0, 255, frame.shape, np.uint8)
        # Partials, not closures: a deep copy of the wrapper must render its own environment.
        render = env.render if wrapped.lanes is None else partial(_render_lanes, env)
        if self.render_only:
            add_frame = partial(_add_frame, render, None, None)
        elif isinstance(space, Dict):
            target = Dict({self.render_key: target, **space.spaces}, sort_keys=space.sort_keys)
            add_frame = partial(_add_frame, render, self.render_key, None)
        else:
            target = Dict({self.obs_key: space, self.render_key: target})
            add_frame = partial(_add_frame, render, self.render_key, self.obs_key)
        self._set_spaces(space, target, one=add_frame, rows=add_frame)


def _render_lanes(env: Any) -> Array:
    return np.stack(env.render())


def _add_frame(render: Callable[[], Array], render_key: str | None, obs_key: str | None, value: Any) -> Any:
    if render_key is None:
        return render()
    return {render_key: render(), **value} if obs_key is None else {obs_key: value, render_key: render()}


class AddRenderObservation(TransformObservation):
    """The agent sees what ``render`` gives, alone or beside the observation. Resets the environment once.

    Beside a Dict observation it is the part ``render_key``; otherwise both are parts of a Dict.
    """

    def __init__(
        self,
        env: Env[Any, Any],
        render_only: bool = True,
        render_key: str = "pixels",
        obs_key: str = "state",
    ) -> None:
        self._use(env, AddRender(render_only, render_key, obs_key, Wrapped.one(env)))
