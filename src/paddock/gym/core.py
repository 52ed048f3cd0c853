"""``gymnasium.core``."""

from paddock.core.env import ActType as ActType
from paddock.core.env import Env as Env
from paddock.core.env import ObsType as ObsType
from paddock.core.env import RenderFrame as RenderFrame
from paddock.core.wrapper import ActionWrapper as ActionWrapper
from paddock.core.wrapper import ObservationWrapper as ObservationWrapper
from paddock.core.wrapper import RewardWrapper as RewardWrapper
from paddock.core.wrapper import Wrapper as Wrapper
from paddock.core.wrapper import WrapperActType as WrapperActType
from paddock.core.wrapper import WrapperObsType as WrapperObsType
