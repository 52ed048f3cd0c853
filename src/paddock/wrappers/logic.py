"""Logic: what a wrapper does, written once for one lane and for n lanes. It knows nothing of autoreset or infos' masks.

``lanes`` is None for one environment with plain values; else it is ``ALL`` or an array of lane numbers, and every value
has a row for each of these lanes and no others: a logic must not assume that row i is lane i.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.vector_env import VectorEnv
from paddock.spaces import Space

ALL: Final = slice(None)  # as an index it gives a view of the memory's arrays, not a copy
Lanes: TypeAlias = "slice | np.ndarray[Any, Any] | None"
First: TypeAlias = tuple[Any, Info]  # what a reset returns
Step: TypeAlias = tuple[Any, Any, Any, Any, Info]  # what a step returns


@dataclass(frozen=True)
class Wrapped:
    """What a wrapper is put around: the spaces of one lane, how many lanes (None: one Env), the environment itself."""

    observation_space: Space[Any]
    action_space: Space[Any]
    lanes: int | None
    env: Any  # an Env or a VectorEnv, as `lanes` says

    @staticmethod
    def one(env: Env[Any, Any]) -> Wrapped:
        """Around a single environment."""
        return Wrapped(env.observation_space, env.action_space, None, env)

    @staticmethod
    def many(env: VectorEnv[Any, Any, Any]) -> Wrapped:
        """Around lanes."""
        return Wrapped(env.single_observation_space, env.single_action_space, env.num_envs, env)


class Logic:
    """Subclass it as a frozen dataclass: its fields are the wrapper's arguments in a spec. Write what you need:

    * ``act`` for actions, ``observe`` for observations, ``reward`` for rewards, each on its own, or
    * ``begin`` and ``advance`` (and ``act``) where one depends on the other, or on where an episode begins and ends.

    What ``begin`` and ``advance`` return belongs to the caller: new values, or those that were given, never the
    memory's own. To tell something, add to the info that was given: ``info[key] = value`` for one lane, and
    ``info.tell(numbers, {key: rows})`` for n lanes, with the numbers of those that it is about. Flags are there to be
    read, not to be changed.
    """

    # False: `begin` and `advance` get None for observations, and the agent sees those of the environment. Saves the
    # lanes' shell from taking rows of what may be images.
    looks: ClassVar[bool] = True
    # True: `advance` leaves rewards alone, and `begin` overwrites all that it remembers of a lane. Then lanes that are
    # about to begin may be advanced with the others, for nothing, which is faster than leaving them out.
    forgets: ClassVar[bool] = False

    def observation_space(self, wrapped: Wrapped) -> Space[Any]:
        """One lane's observation space, as the agent sees it."""
        return wrapped.observation_space

    def action_space(self, wrapped: Wrapped) -> Space[Any]:
        """One lane's action space, as the agent sees it."""
        return wrapped.action_space

    def batched(self, wrapped: Wrapped) -> bool:
        """Whether the functions have a form for n lanes; without it each lane goes through the one for one lane."""
        return True

    def memory(self, wrapped: Wrapped) -> Any:
        """What is remembered of one lane, or of n: a Memory of your own subclass; None if there is nothing."""
        return None

    def act(self, memory: Any, lanes: Lanes, action: Any) -> Any:
        """The action that the environment gets."""
        return action

    def observe(self, memory: Any, lanes: Lanes, observation: Any) -> Any:
        """The observation that the agent sees, be it the first of an episode or a later one."""
        return observation

    def reward(self, memory: Any, lanes: Lanes, reward: Any) -> Any:
        """The reward that the agent sees."""
        return reward

    def begin(self, memory: Any, lanes: Lanes, first: First) -> First:
        """Episodes begin in these lanes."""
        return first

    def advance(self, memory: Any, lanes: Lanes, step: Step) -> Step:
        """These lanes have moved by one step; an observation that ends an episode is its last, in every mode."""
        return step


def writes(logic: Logic, *parts: str) -> bool:
    """Whether the logic has one of these functions of its own."""
    return any(getattr(type(logic), part) is not getattr(Logic, part) for part in parts)


def arguments(logic: Logic) -> dict[str, Any] | None:
    """The fields, for the wrapper's entry in a spec; None if the logic is no dataclass."""
    if not is_dataclass(logic):
        return None
    return {field.name: getattr(logic, field.name) for field in fields(logic)}
