"""Wrappers: what changes the data between agent and environment. ``wrappers.vector`` has them for n lanes.

Names load when first used: most programs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paddock.aliases import add_aliases

ALIASES = {"memory": {"paddock.wrappers.logic": "Memory"}}
add_aliases(__name__, ALIASES)

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
__all__ = sorted([*_HOMES, "vector"])


def __getattr__(name: str) -> Any:
    if name == "vector":
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    from paddock.wrappers import vector as vector
    from paddock.wrappers.arrays import ArrayConversion as ArrayConversion
    from paddock.wrappers.arrays import JaxToNumpy as JaxToNumpy
    from paddock.wrappers.arrays import JaxToTorch as JaxToTorch
    from paddock.wrappers.arrays import NumpyToTorch as NumpyToTorch
    from paddock.wrappers.arrays import TorchToNumpy as TorchToNumpy
    from paddock.wrappers.atari import AtariPreprocessing as AtariPreprocessing
    from paddock.wrappers.discretize import DiscretizeAction as DiscretizeAction
    from paddock.wrappers.discretize import DiscretizeObservation as DiscretizeObservation
    from paddock.wrappers.episode import Autoreset as Autoreset
    from paddock.wrappers.episode import RecordEpisodeStatistics as RecordEpisodeStatistics
    from paddock.wrappers.guard import Guard as Guard
    from paddock.wrappers.guard import OrderEnforcing as OrderEnforcing
    from paddock.wrappers.guard import PassiveEnvChecker as PassiveEnvChecker
    from paddock.wrappers.guard import TimeLimit as TimeLimit
    from paddock.wrappers.history import DelayObservation as DelayObservation
    from paddock.wrappers.history import FrameStackObservation as FrameStackObservation
    from paddock.wrappers.history import TimeAwareObservation as TimeAwareObservation
    from paddock.wrappers.lanes import ALL as ALL
    from paddock.wrappers.lanes import Lanes as Lanes
    from paddock.wrappers.lanes import draw_in_lanes as draw_in_lanes
    from paddock.wrappers.logic import Logic as Logic
    from paddock.wrappers.logic import Memory as Memory
    from paddock.wrappers.logic import Wrapped as Wrapped
    from paddock.wrappers.many_lanes import ManyLanes as ManyLanes
    from paddock.wrappers.many_lanes import ManyLanesAction as ManyLanesAction
    from paddock.wrappers.many_lanes import ManyLanesObservation as ManyLanesObservation
    from paddock.wrappers.many_lanes import ManyLanesReward as ManyLanesReward
    from paddock.wrappers.noise import AddWhiteNoise as AddWhiteNoise
    from paddock.wrappers.noise import ObstructView as ObstructView
    from paddock.wrappers.normalize import NormalizeObservation as NormalizeObservation
    from paddock.wrappers.normalize import NormalizeReward as NormalizeReward
    from paddock.wrappers.one_lane import OneLane as OneLane
    from paddock.wrappers.one_lane import OneLaneAction as OneLaneAction
    from paddock.wrappers.one_lane import OneLaneObservation as OneLaneObservation
    from paddock.wrappers.one_lane import OneLaneReward as OneLaneReward
    from paddock.wrappers.pixels import AddRenderObservation as AddRenderObservation
    from paddock.wrappers.pixels import GrayscaleObservation as GrayscaleObservation
    from paddock.wrappers.pixels import ResizeObservation as ResizeObservation
    from paddock.wrappers.rendering import HumanRendering as HumanRendering
    from paddock.wrappers.rendering import RenderCollection as RenderCollection
    from paddock.wrappers.repeat import MaxAndSkipObservation as MaxAndSkipObservation
    from paddock.wrappers.repeat import RepeatAction as RepeatAction
    from paddock.wrappers.repeat import StickyAction as StickyAction
    from paddock.wrappers.rescale import RescaleAction as RescaleAction
    from paddock.wrappers.rescale import RescaleObservation as RescaleObservation
    from paddock.wrappers.transform import ClipAction as ClipAction
    from paddock.wrappers.transform import ClipReward as ClipReward
    from paddock.wrappers.transform import DtypeObservation as DtypeObservation
    from paddock.wrappers.transform import FilterObservation as FilterObservation
    from paddock.wrappers.transform import FlattenObservation as FlattenObservation
    from paddock.wrappers.transform import ReshapeObservation as ReshapeObservation
    from paddock.wrappers.transform import TransformAction as TransformAction
    from paddock.wrappers.transform import TransformObservation as TransformObservation
    from paddock.wrappers.transform import TransformReward as TransformReward
    from paddock.wrappers.video import RecordVideo as RecordVideo
