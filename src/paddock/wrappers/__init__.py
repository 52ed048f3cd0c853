"""Wrappers: what changes the data between agent and environment. ``wrappers.vector`` has them for n lanes.

Names load when first used: most programs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paddock.aliases import add_aliases

if TYPE_CHECKING:
    from paddock.wrappers import vector
    from paddock.wrappers.arrays import ArrayConversion, JaxToNumpy, JaxToTorch, NumpyToTorch, TorchToNumpy
    from paddock.wrappers.atari import AtariPreprocessing
    from paddock.wrappers.discretize import DiscretizeAction, DiscretizeObservation
    from paddock.wrappers.episode import Autoreset, RecordEpisodeStatistics
    from paddock.wrappers.guard import Guard, OrderEnforcing, PassiveEnvChecker, TimeLimit
    from paddock.wrappers.history import DelayObservation, FrameStackObservation, TimeAwareObservation
    from paddock.wrappers.lanes import ALL, Lanes, draw_in_lanes
    from paddock.wrappers.logic import Logic, Memory, Wrapped
    from paddock.wrappers.many_lanes import ManyLanes, ManyLanesAction, ManyLanesObservation, ManyLanesReward
    from paddock.wrappers.noise import AddWhiteNoise, ObstructView
    from paddock.wrappers.normalize import NormalizeObservation, NormalizeReward
    from paddock.wrappers.one_lane import OneLane, OneLaneAction, OneLaneObservation, OneLaneReward
    from paddock.wrappers.pixels import AddRenderObservation, GrayscaleObservation, ResizeObservation
    from paddock.wrappers.rendering import HumanRendering, RenderCollection
    from paddock.wrappers.repeat import MaxAndSkipObservation, RepeatAction, StickyAction
    from paddock.wrappers.rescale import RescaleAction, RescaleObservation
    from paddock.wrappers.transform import (
        ClipAction,
        ClipReward,
        DtypeObservation,
        FilterObservation,
        FlattenObservation,
        ReshapeObservation,
        TransformAction,
        TransformObservation,
        TransformReward,
    )
    from paddock.wrappers.video import RecordVideo

ALIASES = {"memory": {"paddock.wrappers.logic": "Memory"}}
add_aliases(__name__, ALIASES)

__all__ = [
    "ALL",
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
    "Guard",
    "HumanRendering",
    "JaxToNumpy",
    "JaxToTorch",
    "Lanes",
    "Logic",
    "ManyLanes",
    "ManyLanesAction",
    "ManyLanesObservation",
    "ManyLanesReward",
    "MaxAndSkipObservation",
    "Memory",
    "NormalizeObservation",
    "NormalizeReward",
    "NumpyToTorch",
    "ObstructView",
    "OneLane",
    "OneLaneAction",
    "OneLaneObservation",
    "OneLaneReward",
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
    "Wrapped",
    "draw_in_lanes",
    "vector",
]

_NAMES = {
    "arrays": "ArrayConversion JaxToNumpy JaxToTorch NumpyToTorch TorchToNumpy",
    "atari": "AtariPreprocessing",
    "discretize": "DiscretizeAction DiscretizeObservation",
    "episode": "Autoreset RecordEpisodeStatistics",
    "guard": "Guard OrderEnforcing PassiveEnvChecker TimeLimit",
    "history": "DelayObservation FrameStackObservation TimeAwareObservation",
    "lanes": "ALL Lanes draw_in_lanes",
    "logic": "Logic Memory Wrapped",
    "many_lanes": "ManyLanes ManyLanesAction ManyLanesObservation ManyLanesReward",
    "noise": "AddWhiteNoise ObstructView",
    "normalize": "NormalizeObservation NormalizeReward",
    "one_lane": "OneLane OneLaneAction OneLaneObservation OneLaneReward",
    "pixels": "AddRenderObservation GrayscaleObservation ResizeObservation",
    "rendering": "HumanRendering RenderCollection",
    "repeat": "MaxAndSkipObservation RepeatAction StickyAction",
    "rescale": "RescaleAction RescaleObservation",
    "transform": (
        "ClipAction ClipReward DtypeObservation FilterObservation FlattenObservation ReshapeObservation "
        "TransformAction TransformObservation TransformReward"
    ),
    "video": "RecordVideo",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "vector":
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
