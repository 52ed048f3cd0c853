"""The wrappers for vector environments: ``gymnasium.wrappers.vector``, and those that Gymnasium has for one env only.

A class here is a shell around the logic of the single wrapper of the same name in ``paddock.wrappers``.

Names load when first used: most programs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.wrappers.vector.arrays import ArrayConversion, JaxToNumpy, JaxToTorch, NumpyToTorch, TorchToNumpy
    from paddock.wrappers.vector.rendering import AddWhiteNoise, HumanRendering, ObstructView, RecordVideo
    from paddock.wrappers.vector.stateful import (
        DelayObservation,
        FrameStackObservation,
        MaxAndSkipObservation,
        NormalizeObservation,
        NormalizeReward,
        RecordEpisodeStatistics,
        RepeatAction,
        StickyAction,
        TimeAwareObservation,
    )
    from paddock.wrappers.vector.transform import (
        AddRenderObservation,
        ClipAction,
        ClipReward,
        DictInfoToList,
        DiscretizeAction,
        DiscretizeObservation,
        DtypeObservation,
        FilterObservation,
        FlattenObservation,
        GrayscaleObservation,
        RescaleAction,
        RescaleObservation,
        ReshapeObservation,
        ResizeObservation,
        TransformAction,
        TransformObservation,
        TransformReward,
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
    "arrays": "ArrayConversion JaxToNumpy JaxToTorch NumpyToTorch TorchToNumpy",
    "rendering": "AddWhiteNoise HumanRendering ObstructView RecordVideo",
    "stateful": (
        "DelayObservation FrameStackObservation MaxAndSkipObservation NormalizeObservation NormalizeReward "
        "RecordEpisodeStatistics RepeatAction StickyAction TimeAwareObservation"
    ),
    "transform": (
        "AddRenderObservation ClipAction ClipReward DictInfoToList DiscretizeAction DiscretizeObservation "
        "DtypeObservation FilterObservation FlattenObservation GrayscaleObservation RescaleAction RescaleObservation "
        "ReshapeObservation ResizeObservation TransformAction TransformObservation TransformReward "
        "VectorizeTransformAction VectorizeTransformObservation VectorizeTransformReward"
    ),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
