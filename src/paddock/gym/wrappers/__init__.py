"""``gymnasium.wrappers``, and ``TorchToNumpy``, which Gymnasium's own check_env looks for in vain."""

from importlib import import_module
from types import ModuleType
from typing import Any

from paddock.aliases import add_aliases
from paddock.core.registry import suggestion
from paddock.gym.wrappers import vector
from paddock.wrappers import (
    AddRenderObservation,
    AddWhiteNoise,
    ArrayConversion,
    AtariPreprocessing,
    Autoreset,
    ClipAction,
    ClipReward,
    DelayObservation,
    DiscretizeAction,
    DiscretizeObservation,
    DtypeObservation,
    FilterObservation,
    FlattenObservation,
    FrameStackObservation,
    GrayscaleObservation,
    HumanRendering,
    JaxToNumpy,
    JaxToTorch,
    MaxAndSkipObservation,
    NormalizeObservation,
    NormalizeReward,
    NumpyToTorch,
    ObstructView,
    OrderEnforcing,
    PassiveEnvChecker,
    RecordEpisodeStatistics,
    RecordVideo,
    RenderCollection,
    RepeatAction,
    RescaleAction,
    RescaleObservation,
    ReshapeObservation,
    ResizeObservation,
    StickyAction,
    TimeAwareObservation,
    TimeLimit,
    TorchToNumpy,
    TransformAction,
    TransformObservation,
    TransformReward,
)
from paddock.wrappers.arrays import Device, load_library, module_namespace

__all__ = [
    "AddRenderObservation",
    "AddWhiteNoise",
    "ArrayConversion",
    "AtariPreprocessing",
    "Autoreset",
    "ClipAction",
    "ClipReward",
    "DelayObservation",
    "DiscretizeAction",
    "DiscretizeObservation",
    "DtypeObservation",
    "FilterObservation",
    "FlattenObservation",
    "FrameStackObservation",
    "GrayscaleObservation",
    "HumanRendering",
    "JaxToNumpy",
    "JaxToTorch",
    "MaxAndSkipObservation",
    "NormalizeObservation",
    "NormalizeReward",
    "NumpyToTorch",
    "ObstructView",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "RenderCollection",
    "RepeatAction",
    "RescaleAction",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "StickyAction",
    "TimeAwareObservation",
    "TimeLimit",
    "TorchToNumpy",
    "TransformAction",
    "TransformObservation",
    "TransformReward",
    "vector",
]

Array = Any


def module_name_to_namespace(name: str) -> ModuleType:
    return module_namespace(load_library(name))


ALIASES = {
    "array_conversion": {
        "paddock.wrappers.arrays": "ArrayConversion array_conversion",
        "paddock.gym.wrappers": "Array Device module_name_to_namespace module_namespace",
    },
    "atari_preprocessing": {"paddock.wrappers": "AtariPreprocessing"},
    "common": {"paddock.wrappers": "Autoreset OrderEnforcing PassiveEnvChecker RecordEpisodeStatistics TimeLimit"},
    "jax_to_numpy": {"paddock.wrappers.arrays": "JaxToNumpy jax_to_numpy numpy_to_jax"},
    "jax_to_torch": {
        "paddock.wrappers.arrays": "JaxToTorch jax_to_torch torch_to_jax",
        "paddock.gym.wrappers": "Device",
    },
    "numpy_to_torch": {
        "paddock.wrappers.arrays": "NumpyToTorch numpy_to_torch torch_to_numpy",
        "paddock.gym.wrappers": "Device",
    },
    "rendering": {"paddock.wrappers": "AddWhiteNoise HumanRendering ObstructView RecordVideo RenderCollection"},
    "stateful_action": {"paddock.wrappers": "RepeatAction StickyAction"},
    "stateful_observation": {
        "paddock.wrappers": "DelayObservation FrameStackObservation MaxAndSkipObservation NormalizeObservation "
        "TimeAwareObservation"
    },
    "stateful_reward": {"paddock.wrappers": "NormalizeReward"},
    "transform_action": {"paddock.wrappers": "ClipAction DiscretizeAction RescaleAction TransformAction"},
    "transform_observation": {
        "paddock.wrappers": "AddRenderObservation DiscretizeObservation DtypeObservation FilterObservation "
        "FlattenObservation GrayscaleObservation RescaleObservation ReshapeObservation ResizeObservation "
        "TransformObservation"
    },
    "transform_reward": {"paddock.wrappers": "ClipReward TransformReward"},
    "utils": {
        "paddock.wrappers.normalize": "RunningMeanStd update_mean_var_count_from_moments",
        "paddock.spaces.batch": "create_zero_array",
        "paddock.wrappers.rescale": "rescale_box",
    },
}
add_aliases(__name__, ALIASES)
for _name in ALIASES:  # attributes from the first import on, as in Gymnasium
    import_module(f"{__name__}.{_name}")

_RENAMED = {
    "AutoResetWrapper": "Autoreset",
    "FrameStack": "FrameStackObservation",
    "PixelObservationWrapper": "AddRenderObservation",
    "VectorListInfo": "vector.DictInfoToList",
}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise AttributeError(f"{name!r} has been renamed with `wrappers.{_RENAMED[name]}`")
    meant = suggestion(name, [one for one in __all__ if one != "vector"]) or f" It has: {', '.join(__all__)}."
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{meant}")
