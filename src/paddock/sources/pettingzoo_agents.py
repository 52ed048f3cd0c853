"""OneAgent: a game of several agents as the Env of one of them; others play by a policy, by chance if there is none."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np

from paddock.core.env import Info
from paddock.errors import InvalidState, MissingArgument
from paddock.sources.borrowed import Borrowed
from paddock.sources.pettingzoo_faces import numbers, spaces_of, told_at_turn

# (observation, info) -> action; the info has "agent", and "action_mask" where there is one.
Policy: TypeAlias = "Callable[[Any, Info], Any]"

_MOST_BEGINNINGS = 100


class OneAgent(Borrowed):
    """``agent`` of an AEC environment. A step is its move, and then all moves of others until its next turn.

    The reward is all that it got in the meantime; the flags are its own. ``info["action_mask"]`` says what it may
    choose, where the game says so. A game that ends before its first turn is begun again.
    """

    def __init__(self, env: Any, agent: str, opponents: Policy | None = None) -> None:
        super().__init__(env)
        if agent not in env.possible_agents:
            raise MissingArgument(f"agent={agent!r} is none of the agents of {env}: {', '.join(env.possible_agents)}.")
        self.metadata, self.render_mode = env.metadata, getattr(env, "render_mode", None)
        seen, chosen = spaces_of(env)
        self.agent = agent
        self.observation_space, self.action_space = seen[agent], chosen[agent]
        self._drawn_from = deepcopy(chosen)  # apart from the one that the caller may seed and sample
        self._opponents = opponents or self._by_chance

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        seed = self._seed_now(seed)
        if seed is not None:  # those who play by chance draw from it too
            for number, space in enumerate(self._drawn_from.values()):
                space.seed(seed + number)
        for _ in range(_MOST_BEGINNINGS):
            self.inner.reset(seed=seed, options=options)
            seen, _, terminated, truncated, info = self._until_my_turn()
            if not (terminated or truncated):
                return seen, info
            seed = None  # it goes on in its stream
        raise InvalidState(f"{self.inner} ended {_MOST_BEGINNINGS} times before the first turn of {self.agent!r}.")

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.inner.step(action)
        return self._until_my_turn()

    def _until_my_turn(self) -> tuple[Any, float, bool, bool, Info]:
        env, me = self.inner, self.agent
        while True:
            agent = env.agent_selection
            seen, reward, terminated, truncated, info = env.last()
            info = told_at_turn(agent, seen, info)
            if agent == me:
                return numbers(self.observation_space, seen), float(reward), bool(terminated), bool(truncated), info
            env.step(None if terminated or truncated else self._opponents(seen, info))

    def _by_chance(self, seen: Any, info: Info) -> Any:
        mask, space = info.get("action_mask"), self._drawn_from[info["agent"]]
        return space.sample() if mask is None else space.sample(np.asarray(mask, np.int8))
