"""Noise on the frames of n lanes, each from its own lane's random stream. Gymnasium has it for one environment only."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.vector_env import VectorEnv
from paddock.core.vector_wrapper import VectorWrapper
from paddock.wrappers.lane_random import draw_in_lanes
from paddock.wrappers.noise import Noise, Obstructions, WhiteNoise
from paddock.wrappers.shown import of_logic


class _Disturbed(VectorWrapper[Any, Any, Any, Any, np.ndarray[Any, Any]]):
    def __init__(self, env: VectorEnv[Any, Any, Any], noise: Noise) -> None:
        super().__init__(env)
        self._logic = noise

    def render(self) -> tuple[Any, ...] | None:
        rendered = self.env.render()
        if rendered is None:
            return None
        frames = iter(rendered)  # lane by lane, in the order in which the streams come
        lanes = list(range(self.num_envs))
        return tuple(draw_in_lanes(self.env, lanes, lambda random: self._logic.disturbed(next(frames), random)))


class AddWhiteNoise(_Disturbed):
    """Replaces each pixel of what is rendered by noise, with a probability."""

    probability_of_noise_per_pixel: float = of_logic()
    is_noise_grayscale: bool = of_logic()

    def __init__(
        self, env: VectorEnv[Any, Any, Any], probability_of_noise_per_pixel: float, is_noise_grayscale: bool = False
    ) -> None:
        super().__init__(env, WhiteNoise(probability_of_noise_per_pixel, is_noise_grayscale))


class ObstructView(_Disturbed):
    """Hides patches of what is rendered behind noise: ``obstructed_pixels_ratio`` of it, in squares of a width."""

    obstruction_centers_ratio: float = of_logic()
    obstruction_width: int = of_logic()
    is_noise_grayscale: bool = of_logic()

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        obstructed_pixels_ratio: float,
        obstruction_width: int,
        is_noise_grayscale: bool = False,
    ) -> None:
        super().__init__(env, Obstructions(obstructed_pixels_ratio, obstruction_width, is_noise_grayscale))
