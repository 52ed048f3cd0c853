"""The doors to Stable-Baselines3. Importing this imports none of it; calling does.

One environment needs no door of its own: ``paddock.to_gymnasium(paddock.make(...))`` is what its algorithms take.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.adapters.needed import need
from paddock.adapters.trainer_lanes import Lanes, Target, handed_over
from paddock.core.vector_env import AutoresetMode
from paddock.making import LaneOptions, make_vec

if TYPE_CHECKING:
    from paddock.adapters.sb3_vec_env import LanesVecEnv


def vec_env(target: Target, num_envs: int = 1, *, lanes: LaneOptions | None = None, **make_kwargs: Any) -> LanesVecEnv:
    """``make_vec(target, num_envs, ...)`` as a VecEnv of Stable-Baselines3; compiled lanes stay compiled.

    Lanes begin anew in the step that ends an episode, as Stable-Baselines3 wants it, whatever ``lanes`` says of that.
    """
    need("stable_baselines3")
    given = LaneOptions() if lanes is None else lanes
    if given.autoreset is AutoresetMode.NEXT_STEP:
        given = replace(given, autoreset=AutoresetMode.SAME_STEP)
    return handed_over(make_vec(target, num_envs, lanes=given, **make_kwargs), as_vec_env)


def as_vec_env(lanes: Lanes) -> LanesVecEnv:
    """A VecEnv of Stable-Baselines3 that steps these lanes, which it owns from then on: its ``close`` closes them.

    Their autoreset mode must be SAME_STEP, or DISABLED: then the VecEnv begins ended lanes anew itself.
    ``infos[i]`` of a lane that ended has ``terminal_observation``, ``TimeLimit.truncated`` and Monitor's ``episode``.
    """
    need("stable_baselines3")
    from paddock.adapters.sb3_vec_env import adapted

    return adapted(lanes)
