"""The wrappers for vector environments: ``gymnasium.wrappers.vector``, and those that Gymnasium has for one env only.

A class here is a shell; what it does is the logic of the single wrapper of the same name, in ``paddock.wrappers``.
"""

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
