"""Images as observations: in grey, in another size, and rendered frames. All are uint8 from 0 to 255."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import DependencyNotInstalled, InvalidSpace, UnsupportedMode
from paddock.spaces import Box, Dict, Space
from paddock.wrappers.transform import TransformObservation, check_sides

Array = np.ndarray[Any, Any]
RED, GREEN, BLUE = 0.2125, 0.7154, 0.0721  # the shares of a colour's brightness


class GrayscaleObservation(TransformObservation):
    """Pictures in grey, [height, width]; ``keep_dim`` leaves an axis of one channel."""

    def __init__(self, env: Env[Any, Any], keep_dim: bool = False) -> None:
        self._record_arguments(keep_dim=keep_dim)
        box = _pictures("GrayscaleObservation", env.observation_space)
        if len(box.shape) != 3 or box.shape[-1] != 3:
            raise InvalidSpace(f"GrayscaleObservation requires an image with 3 channels, got shape {box.shape}")
        self.keep_dim = keep_dim
        self._shape = (*box.shape[:2], 1) if keep_dim else box.shape[:2]
        super().__init__(env, self._one, Box(0, 255, self._shape, np.uint8))

    def _one(self, value: Array) -> Array:
        # float64 and in this order: the bytes are Gymnasium's.
        grey = value[..., 0] * RED
        grey += value[..., 1] * GREEN
        grey += value[..., 2] * BLUE
        result: Array = grey.astype(np.uint8)
        return result[..., None] if self.keep_dim else result

    def _rows(self, values: Array) -> Array:
        return _pictures_one_by_one(self._one, values, self._shape)


class ResizeObservation(TransformObservation):
    """Pictures of ``shape`` = (height, width), each pixel the mean of the area that it covers. Needs OpenCV."""

    def __init__(self, env: Env[Any, Any], shape: tuple[int, int]) -> None:
        box = _pictures("ResizeObservation", env.observation_space)
        if len(box.shape) not in (2, 3):
            raise InvalidSpace(f"ResizeObservation requires a 2D or 3D image, got shape {box.shape}")
        if isinstance(shape, (tuple, list)) and len(shape) != 2:
            raise InvalidSpace(f"ResizeObservation requires shape tuple of length 2, got {shape}")
        height, width = check_sides("ResizeObservation", shape)
        opencv()
        self.shape, self.cv2_shape = (height, width), (width, height)
        self._record_arguments(shape=self.shape)
        self._shape = (height, width, *box.shape[2:])
        super().__init__(env, self._one, Box(0, 255, self._shape, np.uint8))

    def _one(self, value: Array) -> Array:
        cv2 = sys.modules.get("cv2") or opencv()  # a lookup is faster than `import` in a function
        result: Array = cv2.resize(value, self.cv2_shape, interpolation=cv2.INTER_AREA)
        return result.reshape(self._shape)  # OpenCV drops an axis of one channel

    def _rows(self, values: Array) -> Array:
        return _pictures_one_by_one(self._one, values, self._shape)


def _pictures_one_by_one(one: Callable[[Array], Array], values: Array, shape: tuple[int, ...]) -> Array:
    result = np.empty((len(values), *shape), np.uint8)
    for row, value in enumerate(values):  # one picture at a time stays in the cache
        result[row] = one(value)
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


class AddRenderObservation(TransformObservation):
    """The agent sees what ``render`` gives, alone or beside the observation. Resets the environment once.

    Beside a Dict observation it is the part ``render_key``; otherwise both are parts of a Dict.
    """

    def __init__(
        self, env: Env[Any, Any], render_only: bool = True, render_key: str = "pixels", obs_key: str = "state"
    ) -> None:
        self._record_arguments(render_only=render_only, render_key=render_key, obs_key=obs_key)
        keys = (None, None) if render_only else (render_key, obs_key)
        super().__init__(env, *frame_adder(env, env.observation_space, env.render, *keys))


def frame_adder(
    env: Any, space: Space[Any], render: Callable[[], Any], render_key: str | None, obs_key: str | None
) -> tuple[Callable[[Any], Any], Space[Any]]:
    """The function that adds what ``render`` gives to an observation, and the space of its results.

    Without a ``render_key`` the frame takes the observation's place. ``env`` is one environment or n lanes.
    """
    if isinstance(space, Dict) and render_key in space.spaces:
        raise InvalidSpace(f"AddRenderObservation render_key '{render_key}' already exists in the observation space")
    if env.render_mode is None or env.render_mode == "human":
        raise UnsupportedMode(
            f"AddRenderObservation requires render_mode to be not None and not 'human', got {env.render_mode}. "
            "Make the environment with render_mode='rgb_array'."
        )
    env.reset()  # only a frame tells the size of a frame
    frame = env.render() if isinstance(env, Env) else (env.render() or [None])[0]
    if not isinstance(frame, np.ndarray):
        raise InvalidSpace(f"AddRenderObservation expects env.render() to return a numpy array, got {type(frame)}")
    target: Space[Any] = Box(0, 255, frame.shape, np.uint8)
    if render_key is not None and isinstance(space, Dict):
        target, obs_key = Dict({render_key: target, **space.spaces}, sort_keys=space.sort_keys), None
    elif render_key is not None:
        target = Dict({obs_key: space, render_key: target})  # type: ignore[dict-item]
    # A partial, not a closure: a deep copy of the wrapper must render its own environment.
    return partial(_add_frame, render, render_key, obs_key), target


def _add_frame(render: Callable[[], Any], render_key: str | None, obs_key: str | None, value: Any) -> Any:
    if render_key is None:
        return render()
    return {render_key: render(), **value} if obs_key is None else {obs_key: value, render_key: render()}
