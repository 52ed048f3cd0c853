"""Train with Tianshou: paddock's lanes as one of its vector environments. Importing this imports none of it.

One environment needs none of this: Tianshou's DummyVectorEnv takes ``paddock.to_gymnasium(paddock.make(...))``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from paddock.adapters import need
from paddock.adapters.trainers import Lanes, Target, check_lanes, hand_over, make_lanes
from paddock.making import LaneOptions

if TYPE_CHECKING:
    from paddock.adapters.tianshou_lanes import LanesVectorEnv

__all__ = ["as_vector_env", "vector_env"]


def vector_env(
    target: Target, num_envs: int = 1, *, seed: int | None = None, lanes: LaneOptions | None = None, **make_kwargs: Any
) -> LanesVectorEnv:
    """Return ``num_envs`` lanes of what ``make`` makes, as a vector environment for Tianshou's Collector.

    All other keywords are those of ``make``. ``seed``: lane i begins its first episode with seed + i.
    """
    need("tianshou")
    made = make_lanes(target, num_envs, lanes=lanes, **make_kwargs)
    return hand_over(made, partial(as_vector_env, seed=seed))


def as_vector_env(lanes: Lanes, *, seed: int | None = None) -> LanesVectorEnv:
    """Return these lanes, made without autoreset, as a vector environment of Tianshou; ``.lanes`` are those inside."""
    need("tianshou")
    from paddock.adapters.tianshou_lanes import LanesVectorEnv

    return LanesVectorEnv(check_lanes(lanes, "as_vector_env"), seed=seed)
