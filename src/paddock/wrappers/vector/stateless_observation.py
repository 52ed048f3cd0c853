"""Observation wrappers of n lanes that remember nothing: the single ones, over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import paddock.wrappers.discretize as discretize
import paddock.wrappers.filter_observation as filter_observation
import paddock.wrappers.flatten_observation as flatten_observation
import paddock.wrappers.pixels as pixels
import paddock.wrappers.rescale as rescale
import paddock.wrappers.reshape_observation as reshape_observation
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidLanes
from paddock.wrappers.logic import Wrapped
from paddock.wrappers.render_observation import AddRender
from paddock.wrappers.vector.stateless import StatelessObservation
from paddock.wrappers.vector.vectorize import VectorizeTransformObservation

AnyLanes = VectorEnv[Any, Any, Any]


class FilterObservation(VectorizeTransformObservation):
    """The agent sees only the parts ``filter_keys``: keys of a Dict, places in a Tuple."""

    def __init__(self, env: AnyLanes, filter_keys: Sequence[str | int]) -> None:
        super().__init__(env, filter_observation.FilterObservation, filter_keys=filter_keys)


class FlattenObservation(VectorizeTransformObservation):
    """The agent sees one flat row a lane; a Discrete part is one-hot in it."""

    def __init__(self, env: AnyLanes) -> None:
        super().__init__(env, flatten_observation.FlattenObservation)


class GrayscaleObservation(VectorizeTransformObservation):
    """Pictures in grey; ``keep_dim`` leaves an axis of one channel."""

    def __init__(self, env: AnyLanes, keep_dim: bool = False) -> None:
        super().__init__(env, pixels.GrayscaleObservation, keep_dim=keep_dim)


class ResizeObservation(VectorizeTransformObservation):
    """Pictures of ``shape`` = (height, width). Needs OpenCV."""

    def __init__(self, env: AnyLanes, shape: tuple[int, ...]) -> None:
        super().__init__(env, pixels.ResizeObservation, shape=shape)


class ReshapeObservation(VectorizeTransformObservation):
    """Each lane's array in ``shape``, with as many numbers as before."""

    def __init__(self, env: AnyLanes, shape: int | tuple[int, ...]) -> None:
        super().__init__(env, reshape_observation.ReshapeObservation, shape=shape)


class RescaleObservation(VectorizeTransformObservation):
    """Observations stretched from the Box's bounds to ``min_obs`` and ``max_obs``."""

    def __init__(self, env: AnyLanes, min_obs: rescale.Limit, max_obs: rescale.Limit) -> None:
        super().__init__(env, rescale.RescaleObservation, min_obs=min_obs, max_obs=max_obs)


class DtypeObservation(VectorizeTransformObservation):
    """Numbers of another ``dtype``; a Discrete or MultiBinary space becomes a Box."""

    def __init__(self, env: AnyLanes, dtype: Any) -> None:
        super().__init__(env, reshape_observation.DtypeObservation, dtype=dtype)


class DiscretizeObservation(VectorizeTransformObservation):
    """Box observations as the numbers of their bins."""

    def __init__(self, env: AnyLanes, bins: discretize.Bins, multidiscrete: bool = False) -> None:
        super().__init__(env, discretize.DiscretizeObservation, bins=bins, multidiscrete=multidiscrete)


class AddRenderObservation(StatelessObservation):
    """The agent sees what each lane renders, alone or beside the observation. Resets the lanes once.

    Not under SAME_STEP: when such a step returns, the last frame of an episode that ended is gone.
    """

    def __init__(
        self,
        env: AnyLanes,
        render_only: bool = True,
        render_key: str = "pixels",
        obs_key: str = "state",
    ) -> None:
        if env.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP:
            raise InvalidLanes(
                "AddRenderObservation can't show an episode's last frame under SAME_STEP: the lane has begun anew. "
                "Use NEXT_STEP, or wrap each lane: make_vec(..., wrappers=[AddRenderObservation])."
            )
        super().__init__(env, AddRender(render_only, render_key, obs_key, Wrapped.many(env)))
