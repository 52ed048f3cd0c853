"""The wrappers for vector environments: ``gymnasium.wrappers.vector``, and those that Gymnasium has for one env only.

A class here is a shell; what it does is the logic of the single wrapper of the same name, in ``paddock.wrappers``.

The names load when first used: most programs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.wrappers.vector.action import RepeatAction, StickyAction
    from paddock.wrappers.vector.array_conversion import (
        ArrayConversion,
        JaxToNumpy,
        JaxToTorch,
        NumpyToTorch,
        TorchToNumpy,
    )
    from paddock.wrappers.vector.human_rendering import HumanRendering
    from paddock.wrappers.vector.info_list import DictInfoToList
    from paddock.wrappers.vector.noise import AddWhiteNoise, ObstructView
    from paddock.wrappers.vector.observation import FrameStackObservation, MaxAndSkipObservation
    from paddock.wrappers.vector.record_video import RecordVideo
    from paddock.wrappers.vector.reward import ClipReward, TransformReward
    from paddock.wrappers.vector.stateful import (
        DelayObservation,
        NormalizeObservation,
        NormalizeReward,
        TimeAwareObservation,
    )
    from paddock.wrappers.vector.stateless_action import ClipAction, DiscretizeAction, RescaleAction
    from paddock.wrappers.vector.stateless_observation import (
        AddRenderObservation,
        DiscretizeObservation,
        DtypeObservation,
        FilterObservation,
        FlattenObservation,
        GrayscaleObservation,
        RescaleObservation,
        ReshapeObservation,
        ResizeObservation,
    )
    from paddock.wrappers.vector.statistics import RecordEpisodeStatistics
    from paddock.wrappers.vector.transform import TransformAction, TransformObservation
    from paddock.wrappers.vector.vectorize import (
        VectorizeTransformAction,
        VectorizeTransformObservation,
        VectorizeTransformReward,
    )

__all__ = [
    "AddRenderObservation",
    "AddWhiteNoise",
    "ArrayConversion",
    "ClipAction",
    "ClipReward",
    "DelayObservation",
    "DictInfoToList",
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
    "RecordEpisodeStatistics",
    "RecordVideo",
    "RepeatAction",
    "RescaleAction",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "StickyAction",
    "TimeAwareObservation",
    "TorchToNumpy",
    "TransformAction",
    "TransformObservation",
    "TransformReward",
    "VectorizeTransformAction",
    "VectorizeTransformObservation",
    "VectorizeTransformReward",
]

_NAMES = {
    "action": ("RepeatAction", "StickyAction"),
    "array_conversion": ("ArrayConversion", "JaxToNumpy", "JaxToTorch", "NumpyToTorch", "TorchToNumpy"),
    "human_rendering": ("HumanRendering",),
    "info_list": ("DictInfoToList",),
    "noise": ("AddWhiteNoise", "ObstructView"),
    "observation": ("FrameStackObservation", "MaxAndSkipObservation"),
    "record_video": ("RecordVideo",),
    "reward": ("ClipReward", "TransformReward"),
    "stateful": ("DelayObservation", "NormalizeObservation", "NormalizeReward", "TimeAwareObservation"),
    "stateless_action": ("ClipAction", "DiscretizeAction", "RescaleAction"),
    "stateless_observation": (
        "AddRenderObservation",
        "DiscretizeObservation",
        "DtypeObservation",
        "FilterObservation",
        "FlattenObservation",
        "GrayscaleObservation",
        "RescaleObservation",
        "ReshapeObservation",
        "ResizeObservation",
    ),
    "statistics": ("RecordEpisodeStatistics",),
    "transform": ("TransformAction", "TransformObservation"),
    "vectorize": ("VectorizeTransformAction", "VectorizeTransformObservation", "VectorizeTransformReward"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
