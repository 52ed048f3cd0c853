"""Wrappers: what changes the data between agent and environment. ``wrappers.vector`` has them for n lanes.

The names load when first used: most programs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.wrappers import vector
    from paddock.wrappers.array_conversion import ArrayConversion, JaxToNumpy, JaxToTorch, NumpyToTorch, TorchToNumpy
    from paddock.wrappers.atari import AtariPreprocessing
    from paddock.wrappers.autoreset import Autoreset
    from paddock.wrappers.delay import DelayObservation
    from paddock.wrappers.discretize import DiscretizeAction, DiscretizeObservation
    from paddock.wrappers.filter_observation import FilterObservation
    from paddock.wrappers.flatten_observation import FlattenObservation
    from paddock.wrappers.frame_stack import FrameStackObservation
    from paddock.wrappers.guard import Guard
    from paddock.wrappers.logic import ALL, Lanes, Logic, Wrapped
    from paddock.wrappers.many_lanes import ManyLanes, ManyLanesAction, ManyLanesObservation, ManyLanesReward
    from paddock.wrappers.noise import AddWhiteNoise, ObstructView
    from paddock.wrappers.normalize_observation import NormalizeObservation
    from paddock.wrappers.normalize_reward import NormalizeReward
    from paddock.wrappers.one_lane import OneLane, OneLaneAction, OneLaneObservation, OneLaneReward
    from paddock.wrappers.order_enforcing import OrderEnforcing
    from paddock.wrappers.passive_checker import PassiveEnvChecker
    from paddock.wrappers.pixels import GrayscaleObservation, ResizeObservation
    from paddock.wrappers.record_video import RecordVideo
    from paddock.wrappers.render_observation import AddRenderObservation
    from paddock.wrappers.rendering import HumanRendering, RenderCollection
    from paddock.wrappers.repeat import MaxAndSkipObservation, RepeatAction
    from paddock.wrappers.rescale import RescaleAction, RescaleObservation
    from paddock.wrappers.reshape_observation import DtypeObservation, ReshapeObservation
    from paddock.wrappers.reward import ClipReward, TransformReward
    from paddock.wrappers.statistics import RecordEpisodeStatistics
    from paddock.wrappers.sticky_action import StickyAction
    from paddock.wrappers.time_aware import TimeAwareObservation
    from paddock.wrappers.time_limit import TimeLimit
    from paddock.wrappers.transform_action import ClipAction, TransformAction
    from paddock.wrappers.transform_observation import TransformObservation

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
    "vector",
]

_NAMES = {
    "array_conversion": ("ArrayConversion", "JaxToNumpy", "JaxToTorch", "NumpyToTorch", "TorchToNumpy"),
    "atari": ("AtariPreprocessing",),
    "autoreset": ("Autoreset",),
    "delay": ("DelayObservation",),
    "discretize": ("DiscretizeAction", "DiscretizeObservation"),
    "filter_observation": ("FilterObservation",),
    "flatten_observation": ("FlattenObservation",),
    "frame_stack": ("FrameStackObservation",),
    "guard": ("Guard",),
    "logic": ("ALL", "Lanes", "Logic", "Wrapped"),
    "many_lanes": ("ManyLanes", "ManyLanesAction", "ManyLanesObservation", "ManyLanesReward"),
    "noise": ("AddWhiteNoise", "ObstructView"),
    "normalize_observation": ("NormalizeObservation",),
    "normalize_reward": ("NormalizeReward",),
    "one_lane": ("OneLane", "OneLaneAction", "OneLaneObservation", "OneLaneReward"),
    "order_enforcing": ("OrderEnforcing",),
    "passive_checker": ("PassiveEnvChecker",),
    "pixels": ("GrayscaleObservation", "ResizeObservation"),
    "record_video": ("RecordVideo",),
    "render_observation": ("AddRenderObservation",),
    "rendering": ("HumanRendering", "RenderCollection"),
    "repeat": ("MaxAndSkipObservation", "RepeatAction"),
    "rescale": ("RescaleAction", "RescaleObservation"),
    "reshape_observation": ("DtypeObservation", "ReshapeObservation"),
    "reward": ("ClipReward", "TransformReward"),
    "statistics": ("RecordEpisodeStatistics",),
    "sticky_action": ("StickyAction",),
    "time_aware": ("TimeAwareObservation",),
    "time_limit": ("TimeLimit",),
    "transform_action": ("ClipAction", "TransformAction"),
    "transform_observation": ("TransformObservation",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("vector",):
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
