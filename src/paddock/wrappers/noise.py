"""White noise on rendered frames, pixel by pixel or in patches.

The draws come from the environment's own random stream, as in Gymnasium: a seed decides them, but rendering advances
the stream.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from paddock.core.env import ActType, Env, ObsType
from paddock.core.wrapper import Wrapper, forwarded
from paddock.errors import CheckFailed, InvalidBound, InvalidProbability

Array = np.ndarray[Any, Any]
_COLOURS = 3
_MANY_PATCHES = 500  # beyond this painting them one by one takes longer
_GREY = 255 * np.array([0.2989, 0.5870, 0.1140])  # what each colour adds to a grey


@dataclass(frozen=True)
class WhiteNoise:
    """Each pixel is replaced with this probability."""

    probability_of_noise_per_pixel: float
    is_noise_grayscale: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.probability_of_noise_per_pixel < 1:
            raise InvalidProbability(
                "probability_of_noise_per_pixel should be in the interval [0,1). "
                f"Received {self.probability_of_noise_per_pixel}"
            )

    def disturb(self, frame: Any, random: np.random.Generator) -> Array:
        """A copy of the frame with noise, uint8[height, width, 3]."""
        shape = _check_frame(frame).shape
        noise = _noise(shape, random, self.is_noise_grayscale)
        return _replace(frame, random.random(shape[:2]) < self.probability_of_noise_per_pixel, noise)


@dataclass(frozen=True)
class Obstructions:
    """As many square patches as would cover this part of the frame if none overlapped."""

    obstructed_pixels_ratio: float
    obstruction_width: int
    is_noise_grayscale: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.obstructed_pixels_ratio < 1:
            raise InvalidBound(
                f"obstructed_pixels_ratio should be in the interval [0,1). Received {self.obstructed_pixels_ratio}"
            )
        if self.obstruction_width < 1:
            raise InvalidBound(f"obstruction_width should be larger or equal than 1. Received {self.obstruction_width}")

    @property
    def obstruction_centers_ratio(self) -> float:
        """Patches per pixel."""
        return self.obstructed_pixels_ratio / self.obstruction_width**2

    def disturb(self, frame: Any, random: np.random.Generator) -> Array:
        """A copy of the frame with patches of noise, uint8[height, width, 3]."""
        height, width, _ = shape = _check_frame(frame).shape
        pixels = height * width
        centres = random.integers(0, pixels, int(pixels * self.obstruction_centers_ratio))
        covered = self._patch_mask(centres, height, width)
        return _replace(frame, covered, _noise(shape, random, self.is_noise_grayscale))

    def _patch_mask(self, centres: Array, height: int, width: int) -> Array:
        """bool[height, width]: the pixels under a patch."""
        before = self.obstruction_width // 2
        after = self.obstruction_width - before
        rows, columns = np.divmod(centres, width)
        top, bottom = np.maximum(rows - before, 0), np.minimum(rows + after, height)
        left, right = np.maximum(columns - before, 0), np.minimum(columns + after, width)
        if len(centres) > _MANY_PATCHES:
            return _fill((top, bottom), (left, right), height, width)
        covered = np.zeros((height, width), np.bool_)
        for t, b, l, r in zip(top.tolist(), bottom.tolist(), left.tolist(), right.tolist(), strict=True):
            covered[t:b, l:r] = True
        return covered


def _fill(rows: tuple[Array, Array], columns: tuple[Array, Array], height: int, width: int) -> Array:
    """The same in one pass over the frame, however many patches there are.

    A patch adds 1 from its top left on and takes it back past its edges; sums along both axes fill it in.
    """
    (top, bottom), (left, right) = rows, columns
    edges = np.zeros((height + 1, width + 1), np.int32)
    for at, change in (((top, left), 1), ((bottom, right), 1), ((top, right), -1), ((bottom, left), -1)):
        np.add.at(edges, at, change)
    np.cumsum(edges, axis=0, out=edges)
    np.cumsum(edges, axis=1, out=edges)
    return edges[:height, :width] > 0


def _check_frame(frame: Any) -> Array:
    if isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == _COLOURS:
        return frame
    what = f"{frame.dtype}{list(frame.shape)}" if isinstance(frame, np.ndarray) else type(frame)
    raise CheckFailed(
        f"Noise needs frames uint8[height, width, 3], `env.render()` returned {what}. Use render_mode='rgb_array'."
    )


def _noise(shape: tuple[int, ...], random: np.random.Generator, grey: bool) -> Array:
    if not grey:
        return random.integers(0, 255, size=shape, dtype=np.uint8)
    parts = random.integers((0, 0, 0), _GREY, size=shape, dtype=np.uint8)
    greys: Array = parts.sum(-1, keepdims=True, dtype=np.uint8)  # 252 at most: a sum of bytes that stays one
    return greys


def _replace(frame: Array, where: Array, noise: Array) -> Array:
    wide = np.repeat(where, _COLOURS, axis=1).reshape(frame.shape)  # NumPy chooses faster along an axis that is there
    return np.where(wide, noise, frame)


Noise = WhiteNoise | Obstructions


class _NoisyRender(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Adds noise to what ``render`` returns; a list of frames gets it frame by frame."""

    def __init__(self, env: Env[ObsType, ActType], noise: Noise) -> None:
        super().__init__(env)
        self._record_arguments(**asdict(noise))
        self._logic = noise

    def render(self) -> Any:
        frame = self.env.render()
        if isinstance(frame, list):
            return [self._logic.disturb(one, self.np_random) for one in frame]
        return self._logic.disturb(frame, self.np_random)


class AddWhiteNoise(_NoisyRender[ObsType, ActType]):
    """Replaces each pixel of what is rendered by noise, with a probability; grey noise with ``is_noise_grayscale``.

    Observations have it too where AddRenderObservation makes them.
    """

    probability_of_noise_per_pixel: float = forwarded("_logic", "probability_of_noise_per_pixel")
    is_noise_grayscale: bool = forwarded("_logic", "is_noise_grayscale")

    def __init__(
        self, env: Env[ObsType, ActType], probability_of_noise_per_pixel: float, is_noise_grayscale: bool = False
    ) -> None:
        super().__init__(env, WhiteNoise(probability_of_noise_per_pixel, is_noise_grayscale))


class ObstructView(_NoisyRender[ObsType, ActType]):
    """Hides patches of what is rendered behind noise: ``obstructed_pixels_ratio`` of it, in squares of a width."""

    obstruction_centers_ratio: float = forwarded("_logic", "obstruction_centers_ratio")
    obstruction_width: int = forwarded("_logic", "obstruction_width")
    is_noise_grayscale: bool = forwarded("_logic", "is_noise_grayscale")

    def __init__(
        self,
        env: Env[ObsType, ActType],
        obstructed_pixels_ratio: float,
        obstruction_width: int,
        is_noise_grayscale: bool = False,
    ) -> None:
        super().__init__(env, Obstructions(obstructed_pixels_ratio, obstruction_width, is_noise_grayscale))
