"""The doors to Stable-Baselines3. Importing this imports none of it; calling does.

One environment needs no door of its own: ``paddock.to_gymnasium(paddock.make(...))`` is what its algorithms take.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from paddock.core.spec import EnvSpec
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import DependencyNotInstalled
from paddock.making import LaneOptions, make_vec

if TYPE_CHECKING:
    from paddock.adapters.sb3_vec_env import LanesVecEnv


def vec_env(
    target: str | os.PathLike[str] | EnvSpec, num_envs: int = 1, *, lanes: LaneOptions | None = None, **options: Any
) -> LanesVecEnv:
    """``make_vec(target, num_envs, ...)`` as a VecEnv of Stable-Baselines3; compiled lanes stay compiled.

    Lanes begin anew in the step that ends an episode, as Stable-Baselines3 wants it, whatever ``lanes`` says of that.
    """
    _need_sb3()
    given = LaneOptions() if lanes is None else lanes
    if given.autoreset is AutoresetMode.NEXT_STEP:
        given = replace(given, autoreset=AutoresetMode.SAME_STEP)
    made = make_vec(target, num_envs, lanes=given, **options)
    try:
        return as_vec_env(made)
    except BaseException:
        made.close()
        raise


def as_vec_env(lanes: VectorEnv[Any, Any, Any]) -> LanesVecEnv:
    """A VecEnv of Stable-Baselines3 that steps these lanes, which it owns from then on: its ``close`` closes them.

    Their autoreset mode must be SAME_STEP, or DISABLED: then the VecEnv begins ended lanes anew itself.
    ``infos[i]`` of a lane that ended has ``terminal_observation``, ``TimeLimit.truncated`` and Monitor's ``episode``.
    """
    _need_sb3()
    from paddock.adapters.sb3_vec_env import adapted

    return adapted(lanes)


def _need_sb3() -> None:
    if find_spec("stable_baselines3") is None:
        raise DependencyNotInstalled('Stable-Baselines3 is not installed. To install: pip install "paddock[sb3]"')
