"""Train with Tianshou: paddock's lanes as one of its vector environments. Importing this imports none of it.

One environment needs no door of its own: Tianshou's DummyVectorEnv takes ``paddock.to_gymnasium(paddock.make(...))``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from paddock.adapters.lanes_to_reset import Lanes, Target, checked, lanes_to_reset
from paddock.errors import DependencyNotInstalled
from paddock.making import LaneOptions

if TYPE_CHECKING:
    from paddock.adapters.tianshou_lanes import LanesVectorEnv

__all__ = ["as_vector_env", "vector_env"]


def vector_env(
    target: Target, num_envs: int = 1, *, seed: int | None = None, lanes: LaneOptions | None = None, **make_kwargs: Any
) -> LanesVectorEnv:
    """``num_envs`` lanes of what ``make`` makes, as a vector environment for Tianshou's Collector.

    All other keywords are those of ``make``. ``seed``: lane i begins its first episode with seed + i.
    """
    need_tianshou()
    return as_vector_env(lanes_to_reset(target, num_envs, lanes=lanes, **make_kwargs), seed=seed)


def as_vector_env(lanes: Lanes, *, seed: int | None = None) -> LanesVectorEnv:
    """These lanes, made without autoreset, as a vector environment of Tianshou; ``.lanes`` are the lanes inside."""
    need_tianshou()
    from paddock.adapters.tianshou_lanes import LanesVectorEnv

    return LanesVectorEnv(checked(lanes, "as_vector_env"), seed=seed)


def need_tianshou() -> None:
    """Raise DependencyNotInstalled with the command that helps, if Tianshou is missing."""
    if find_spec("tianshou") is None:
        raise DependencyNotInstalled('Tianshou is not installed. To install: pip install "paddock[tianshou]"')
