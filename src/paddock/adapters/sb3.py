"""Train with Stable-Baselines3: lanes as its VecEnv. Importing this imports none of it; calling does.

One environment needs none of this: ``paddock.to_gymnasium(paddock.make(...))`` is what its algorithms take.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.adapters import need
from paddock.adapters.trainers import Lanes, Target, hand_over
from paddock.core.vector_env import AutoresetMode
from paddock.making import LaneOptions, make_vec

if TYPE_CHECKING:
    from paddock.adapters.evaluation import Evaluations
    from paddock.adapters.sb3_vec_env import LanesVecEnv


def vec_env(target: Target, num_envs: int = 1, *, lanes: LaneOptions | None = None, **make_kwargs: Any) -> LanesVecEnv:
    """Return ``make_vec(target, num_envs, ...)`` as a VecEnv of Stable-Baselines3; compiled lanes stay compiled.

    Lanes restart in the step that ends an episode, as Stable-Baselines3 wants it, unless ``lanes`` says "Disabled".
    """
    need("stable_baselines3")
    given = LaneOptions() if lanes is None else lanes
    if given.autoreset is AutoresetMode.NEXT_STEP:
        given = replace(given, autoreset=AutoresetMode.SAME_STEP)
    return hand_over(make_vec(target, num_envs, lanes=given, **make_kwargs), as_vec_env)


def as_vec_env(lanes: Lanes) -> LanesVecEnv:
    """Return a VecEnv of Stable-Baselines3 that steps these lanes and owns them: its ``close`` closes them.

    Their autoreset mode must be SAME_STEP, or DISABLED, with which the VecEnv restarts ended lanes itself.
    ``infos[i]`` of a lane that ended has ``terminal_observation``, ``TimeLimit.truncated`` and Monitor's ``episode``.
    """
    need("stable_baselines3")
    from paddock.adapters.sb3_vec_env import adapt

    return adapt(lanes)


def evaluation_callback(evaluations: Evaluations, every: int) -> Any:
    """Return a callback for ``model.learn``: it evaluates at the start and whenever ``every`` more steps were made.

    The model chooses deterministically. Close the evaluations after the training.
    """
    need("stable_baselines3")
    from paddock.adapters.sb3_vec_env import EvaluationCallback

    return EvaluationCallback(evaluations, every)
