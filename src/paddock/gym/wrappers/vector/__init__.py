"""``gymnasium.wrappers.vector``, and the wrappers that Gymnasium has for one environment only."""

from typing import TYPE_CHECKING

from paddock.aliases import add_aliases
from paddock.core.registry import suggestion
from paddock.wrappers.vector import *  # noqa: F403
from paddock.wrappers.vector import __all__ as _NAMES

if not TYPE_CHECKING:  # checkers read the star
    __all__ = _NAMES

ALIASES = {
    "array_conversion": {"paddock.wrappers.vector": "ArrayConversion"},
    "common": {"paddock.wrappers.vector": "RecordEpisodeStatistics"},
    "dict_info_to_list": {"paddock.wrappers.vector": "DictInfoToList"},
    "jax_to_numpy": {"paddock.wrappers.vector": "JaxToNumpy"},
    "jax_to_torch": {"paddock.wrappers.vector": "JaxToTorch"},
    "numpy_to_torch": {"paddock.wrappers.vector": "NumpyToTorch"},
    "rendering": {"paddock.wrappers.vector": "HumanRendering RecordVideo"},
    "stateful_observation": {"paddock.wrappers.vector": "NormalizeObservation"},
    "stateful_reward": {"paddock.wrappers.vector": "NormalizeReward"},
    "vectorize_action": {
        "paddock.wrappers.vector": "ClipAction RescaleAction TransformAction VectorizeTransformAction"
    },
    "vectorize_observation": {
        "paddock.wrappers.vector": "DtypeObservation FilterObservation FlattenObservation GrayscaleObservation "
        "RescaleObservation ReshapeObservation ResizeObservation TransformObservation VectorizeTransformObservation"
    },
    "vectorize_reward": {"paddock.wrappers.vector": "ClipReward TransformReward VectorizeTransformReward"},
}
add_aliases(__name__, ALIASES, at_once=ALIASES)


def __getattr__(name: str) -> object:
    meant = suggestion(name, _NAMES) or f" It has: {', '.join(_NAMES)}."
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{meant}")
