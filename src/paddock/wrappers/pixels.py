"""Images in grey and in another size. Both ask for what they can do right: uint8 from 0 to 255."""

from __future__ import annotations

import sys
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.errors import DependencyNotInstalled, InvalidSpace
from paddock.spaces import Box, Space
from paddock.wrappers.fitted import FittedObservation
from paddock.wrappers.shown import of_logic
from paddock.wrappers.transform_observation import TransformObservation

Array = np.ndarray[Any, Any]
RED, GREEN, BLUE = 0.2125, 0.7154, 0.0721  # the shares of a colour's brightness


@dataclass(frozen=True)
class Grayscale(FittedObservation):
    """[height, width, 3] to [height, width], or with ``keep_dim`` to [height, width, 1]."""

    keep_dim: bool
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        box = _pictures("GrayscaleObservation", around)
        if len(box.shape) != 3 or box.shape[-1] != 3:
            raise InvalidSpace(f"GrayscaleObservation requires an image with 3 channels, got shape {box.shape}")
        shape = (*box.shape[:2], 1) if self.keep_dim else box.shape[:2]
        self._fit(box, Box(0, 255, shape, np.uint8))

    def one(self, value: Array) -> Array:
        # float64 and in this order: the bytes are Gymnasium's.
        grey = value[..., 0] * RED
        grey += value[..., 1] * GREEN
        grey += value[..., 2] * BLUE
        seen: Array = grey.astype(np.uint8)
        return seen[..., None] if self.keep_dim else seen

    def rows(self, values: Array) -> Array:
        seen = np.empty((len(values), *self.wanted.shape), np.uint8)  # type: ignore[misc]
        for row, value in enumerate(values):  # a picture at a time stays in the cache
            seen[row] = self.one(value)
        return seen


class _Sized(FittedObservation):
    cv2_shape: tuple[int, int]  # (width, height), as OpenCV has it
    seen_shape: tuple[int, ...]


@dataclass(frozen=True)
class Resize(_Sized):
    """To ``shape`` = (height, width), each pixel the mean of the area that it covers."""

    shape: tuple[int, int]
    around: InitVar[Space[Any]]

    def __post_init__(self, around: Space[Any]) -> None:
        box = _pictures("ResizeObservation", around)
        if len(box.shape) not in (2, 3):
            raise InvalidSpace(f"ResizeObservation requires a 2D or 3D image, got shape {box.shape}")
        height, width = _height_and_width(self.shape)
        opencv()
        vars(self).update(shape=(height, width))
        seen = Box(0, 255, (height, width, *box.shape[2:]), np.uint8)
        self._fit(box, seen, cv2_shape=(width, height), seen_shape=seen.shape)

    def one(self, value: Array) -> Array:
        cv2 = sys.modules.get("cv2") or opencv()  # `import` in a function takes longer than to look it up
        seen: Array = cv2.resize(value, self.cv2_shape, interpolation=cv2.INTER_AREA)
        return seen.reshape(self.seen_shape)  # OpenCV drops an axis of one channel

    def rows(self, values: Array) -> Array:
        cv2, size, shape = opencv(), self.cv2_shape, self.wanted.shape
        seen = np.empty((len(values), *shape), np.uint8)  # type: ignore[misc]
        for row, value in enumerate(values):
            seen[row] = cv2.resize(value, size, interpolation=cv2.INTER_AREA).reshape(shape)
        return seen


def opencv() -> Any:
    """The module cv2."""
    try:
        import cv2
    except ImportError as error:
        raise DependencyNotInstalled('opencv (cv2) is not installed, run `pip install "paddock[resize]"`') from error
    return cv2


def _pictures(wrapper: str, space: Space[Any]) -> Box:
    if not isinstance(space, Box):
        raise InvalidSpace(f"{wrapper} requires a Box observation space, got {type(space)}")
    if space.dtype != np.uint8 or np.any(space.low != 0) or np.any(space.high != 255):
        raise InvalidSpace(f"{wrapper} requires observation bounds 0 to 255 and dtype uint8, got {space}")
    return space


def _height_and_width(shape: Any) -> tuple[int, int]:
    if not isinstance(shape, (tuple, list)):  # a list is a tuple that has been through JSON
        raise InvalidSpace(f"ResizeObservation requires shape to be a tuple, got {type(shape)}")
    if len(shape) != 2:
        raise InvalidSpace(f"ResizeObservation requires shape tuple of length 2, got {shape}")
    if not all(isinstance(side, (int, np.integer)) and not isinstance(side, bool) for side in shape):
        raise InvalidSpace(f"ResizeObservation requires shape elements to be integers, got {shape}")
    if min(shape) < 1:
        raise InvalidSpace(f"ResizeObservation requires shape elements to be greater than 0, got {shape}")
    return int(shape[0]), int(shape[1])


class GrayscaleObservation(TransformObservation):
    """Pictures in grey; ``keep_dim`` leaves an axis of one channel."""

    keep_dim: bool = of_logic()

    def __init__(self, env: Env[Any, Any], keep_dim: bool = False) -> None:
        self._look_through(env, Grayscale(keep_dim, env.observation_space))


class ResizeObservation(TransformObservation):
    """Pictures of ``shape`` = (height, width). Needs OpenCV."""

    shape: tuple[int, int] = of_logic()
    cv2_shape: tuple[int, int] = of_logic()

    def __init__(self, env: Env[Any, Any], shape: tuple[int, int]) -> None:
        self._look_through(env, Resize(shape, env.observation_space))
