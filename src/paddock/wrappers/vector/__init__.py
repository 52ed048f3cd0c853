"""The wrappers for vector environments: ``gymnasium.wrappers.vector``, and those that Gymnasium has for one env only.

A class here does for n lanes what the single wrapper of the same name in ``paddock.wrappers`` does for one.

Names load when first used: most programs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    from paddock.wrappers.vector.arrays import ArrayConversion as ArrayConversion
    from paddock.wrappers.vector.arrays import JaxToNumpy as JaxToNumpy
    from paddock.wrappers.vector.arrays import JaxToTorch as JaxToTorch
    from paddock.wrappers.vector.arrays import NumpyToTorch as NumpyToTorch
    from paddock.wrappers.vector.arrays import TorchToNumpy as TorchToNumpy
    from paddock.wrappers.vector.rendering import AddWhiteNoise as AddWhiteNoise
    from paddock.wrappers.vector.rendering import HumanRendering as HumanRendering
    from paddock.wrappers.vector.rendering import ObstructView as ObstructView
    from paddock.wrappers.vector.rendering import RecordVideo as RecordVideo
    from paddock.wrappers.vector.stateful import DelayObservation as DelayObservation
    from paddock.wrappers.vector.stateful import FrameStackObservation as FrameStackObservation
    from paddock.wrappers.vector.stateful import MaxAndSkipObservation as MaxAndSkipObservation
    from paddock.wrappers.vector.stateful import NormalizeObservation as NormalizeObservation
    from paddock.wrappers.vector.stateful import NormalizeReward as NormalizeReward
    from paddock.wrappers.vector.stateful import RecordEpisodeStatistics as RecordEpisodeStatistics
    from paddock.wrappers.vector.stateful import RepeatAction as RepeatAction
    from paddock.wrappers.vector.stateful import StickyAction as StickyAction
    from paddock.wrappers.vector.stateful import TimeAwareObservation as TimeAwareObservation
    from paddock.wrappers.vector.transform import AddRenderObservation as AddRenderObservation
    from paddock.wrappers.vector.transform import ClipAction as ClipAction
    from paddock.wrappers.vector.transform import ClipReward as ClipReward
    from paddock.wrappers.vector.transform import DictInfoToList as DictInfoToList
    from paddock.wrappers.vector.transform import DiscretizeAction as DiscretizeAction
    from paddock.wrappers.vector.transform import DiscretizeObservation as DiscretizeObservation
    from paddock.wrappers.vector.transform import DtypeObservation as DtypeObservation
    from paddock.wrappers.vector.transform import FilterObservation as FilterObservation
    from paddock.wrappers.vector.transform import FlattenObservation as FlattenObservation
    from paddock.wrappers.vector.transform import GrayscaleObservation as GrayscaleObservation
    from paddock.wrappers.vector.transform import RescaleAction as RescaleAction
    from paddock.wrappers.vector.transform import RescaleObservation as RescaleObservation
    from paddock.wrappers.vector.transform import ReshapeObservation as ReshapeObservation
    from paddock.wrappers.vector.transform import ResizeObservation as ResizeObservation
    from paddock.wrappers.vector.transform import TransformAction as TransformAction
    from paddock.wrappers.vector.transform import TransformObservation as TransformObservation
    from paddock.wrappers.vector.transform import TransformReward as TransformReward
    from paddock.wrappers.vector.transform import VectorizeTransformAction as VectorizeTransformAction
    from paddock.wrappers.vector.transform import VectorizeTransformObservation as VectorizeTransformObservation
    from paddock.wrappers.vector.transform import VectorizeTransformReward as VectorizeTransformReward
