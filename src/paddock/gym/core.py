"""``gymnasium.core``."""

from paddock.core.env import ActType, Env, ObsType, RenderFrame
from paddock.core.wrapper import (
    ActionWrapper,
    ObservationWrapper,
    RewardWrapper,
    Wrapper,
    WrapperActType,
    WrapperObsType,
)

__all__ = [
    "ActType",
    "ActionWrapper",
    "Env",
    "ObsType",
    "ObservationWrapper",
    "RenderFrame",
    "RewardWrapper",
    "Wrapper",
    "WrapperActType",
    "WrapperObsType",
]
