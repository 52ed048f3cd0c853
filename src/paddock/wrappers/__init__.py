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
    "logic": "ALL Lanes Logic Memory OneLane OneLaneAction OneLaneObservation OneLaneReward Wrapped",
    "many_lanes": "ManyLanes ManyLanesAction ManyLanesObservation ManyLanesReward draw_in_lanes",
    "noise": "AddWhiteNoise ObstructView",
    "normalize": "NormalizeObservation NormalizeReward",
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


if TYPE_CHECKING:  # a star is a re-export to type checkers
    from paddock.wrappers import vector as vector
    from paddock.wrappers.arrays import *  # noqa: F403
    from paddock.wrappers.atari import *  # noqa: F403
    from paddock.wrappers.discretize import *  # noqa: F403
    from paddock.wrappers.episode import *  # noqa: F403
    from paddock.wrappers.guard import *  # noqa: F403
    from paddock.wrappers.history import *  # noqa: F403
    from paddock.wrappers.logic import *  # noqa: F403
    from paddock.wrappers.many_lanes import *  # noqa: F403
    from paddock.wrappers.noise import *  # noqa: F403
    from paddock.wrappers.normalize import *  # noqa: F403
    from paddock.wrappers.pixels import *  # noqa: F403
    from paddock.wrappers.rendering import *  # noqa: F403
    from paddock.wrappers.repeat import *  # noqa: F403
    from paddock.wrappers.rescale import *  # noqa: F403
    from paddock.wrappers.transform import *  # noqa: F403
    from paddock.wrappers.video import *  # noqa: F403
