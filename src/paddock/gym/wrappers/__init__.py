"""``gymnasium.wrappers``, and ``TorchToNumpy``, which Gymnasium's own check_env looks for in vain."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

import paddock.wrappers
from paddock.aliases import add_aliases
from paddock.core.registry import suggestion
from paddock.gym.wrappers import vector as vector
from paddock.wrappers import AddRenderObservation as AddRenderObservation
from paddock.wrappers import AddWhiteNoise as AddWhiteNoise
from paddock.wrappers import ArrayConversion as ArrayConversion
from paddock.wrappers import AtariPreprocessing as AtariPreprocessing
from paddock.wrappers import Autoreset as Autoreset
from paddock.wrappers import ClipAction as ClipAction
from paddock.wrappers import ClipReward as ClipReward
from paddock.wrappers import DelayObservation as DelayObservation
from paddock.wrappers import DiscretizeAction as DiscretizeAction
from paddock.wrappers import DiscretizeObservation as DiscretizeObservation
from paddock.wrappers import DtypeObservation as DtypeObservation
from paddock.wrappers import FilterObservation as FilterObservation
from paddock.wrappers import FlattenObservation as FlattenObservation
from paddock.wrappers import FrameStackObservation as FrameStackObservation
from paddock.wrappers import GrayscaleObservation as GrayscaleObservation
from paddock.wrappers import HumanRendering as HumanRendering
from paddock.wrappers import JaxToNumpy as JaxToNumpy
from paddock.wrappers import JaxToTorch as JaxToTorch
from paddock.wrappers import MaxAndSkipObservation as MaxAndSkipObservation
from paddock.wrappers import NormalizeObservation as NormalizeObservation
from paddock.wrappers import NormalizeReward as NormalizeReward
from paddock.wrappers import NumpyToTorch as NumpyToTorch
from paddock.wrappers import ObstructView as ObstructView
from paddock.wrappers import OrderEnforcing as OrderEnforcing
from paddock.wrappers import PassiveEnvChecker as PassiveEnvChecker
from paddock.wrappers import RecordEpisodeStatistics as RecordEpisodeStatistics
from paddock.wrappers import RecordVideo as RecordVideo
from paddock.wrappers import RenderCollection as RenderCollection
from paddock.wrappers import RepeatAction as RepeatAction
from paddock.wrappers import RescaleAction as RescaleAction
from paddock.wrappers import RescaleObservation as RescaleObservation
from paddock.wrappers import ReshapeObservation as ReshapeObservation
from paddock.wrappers import ResizeObservation as ResizeObservation
from paddock.wrappers import StickyAction as StickyAction
from paddock.wrappers import TimeAwareObservation as TimeAwareObservation
from paddock.wrappers import TimeLimit as TimeLimit
from paddock.wrappers import TorchToNumpy as TorchToNumpy
from paddock.wrappers import TransformAction as TransformAction
from paddock.wrappers import TransformObservation as TransformObservation
from paddock.wrappers import TransformReward as TransformReward
from paddock.wrappers.arrays import Device, load_library, module_namespace

_NAMES = sorted(set(dir()) & set(paddock.wrappers.__all__))
if not TYPE_CHECKING:  # checkers read the imports
    __all__ = _NAMES

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
add_aliases(__name__, ALIASES, at_once=ALIASES)

_RENAMED = {
    "AutoResetWrapper": "Autoreset",
    "FrameStack": "FrameStackObservation",
    "PixelObservationWrapper": "AddRenderObservation",
    "VectorListInfo": "vector.DictInfoToList",
}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise AttributeError(f"{name!r} has been renamed with `wrappers.{_RENAMED[name]}`")
    meant = suggestion(name, [one for one in _NAMES if one != "vector"]) or f" It has: {', '.join(_NAMES)}."
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{meant}")
