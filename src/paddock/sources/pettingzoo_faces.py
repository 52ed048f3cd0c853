"""AllAgents and Turns: a game of several agents as one Env, in which one caller chooses for all of them.

Agents come and go while an episode runs, and spaces do not: an agent that is out keeps its last observation, and what
is chosen for it is ignored. ``info["live"]`` says who is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.env import Info
from paddock.errors import CustomSpaceError, ResetNeeded
from paddock.sources.borrowed import Borrowed
from paddock.spaces import Dict, Discrete, Space
from paddock.spaces.batch import create_empty_array, row


class AllAgents(Borrowed):
    """A Parallel environment: observations and actions are dicts with an entry for each possible agent.

    The reward is the sum over all agents. The episode ends when no agent is left: terminated if each that went last
    was, truncated if one of them was. ``info``: "rewards", "terminations", "truncations", "live" by agent, what the
    environment told in "agents" by agent, and "action_mask" by agent where there are such.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.metadata, self.render_mode = env.metadata, getattr(env, "render_mode", None)
        seen, chosen = spaces_of(env)
        self.observation_space, self.action_space = Dict(seen, sort_keys=False), Dict(chosen, sort_keys=False)
        self._nothing = {agent: _empty(space) for agent, space in seen.items()}
        self._seen: dict[str, Any] = self._nothing
        self._spaces = seen
        self._numbered = any(isinstance(space, Discrete) for space in seen.values())

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[dict[str, Any], Info]:
        seen, infos = self.inner.reset(seed=self._seed_now(seed), options=options)
        self._seen = self._nothing | self._with_numbers(seen)
        return self._seen, self._told(seen, infos)

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, Info]:
        live = self.inner.agents
        seen, rewards, terminations, truncations, infos = self.inner.step({agent: action[agent] for agent in live})
        seen = self._with_numbers(seen)
        self._seen = seen if len(seen) == len(self._nothing) else self._seen | seen
        info = self._told(seen, infos)
        info.update(rewards=dict(rewards), terminations=dict(terminations), truncations=dict(truncations))
        terminated, truncated = (False, False) if self.inner.agents else _ended(terminations, truncations)
        return self._seen, float(sum(rewards.values())), terminated, truncated, info

    def _with_numbers(self, seen: dict[str, Any]) -> dict[str, Any]:
        if not self._numbered:
            return seen
        return {agent: numbers(self._spaces[agent], one) for agent, one in seen.items()}

    def _told(self, seen: dict[str, Any], infos: dict[str, Info]) -> Info:
        live = self.inner.agents
        info: Info = {"live": {agent: agent in live for agent in self._nothing}}
        if any(infos.values()):
            info["agents"] = infos
        masks = {agent: action_mask(seen[agent], infos.get(agent, {})) for agent in seen}
        if any(mask is not None for mask in masks.values()):
            info["action_mask"] = {agent: mask for agent, mask in masks.items() if mask is not None}
        return info


class Turns(Borrowed):
    """An AEC environment, of which all agents have the same spaces: each step is the move of the one whose turn it is.

    The reward is what that agent got by its move; ``info["rewards"]`` says what all got by it. The episode ends when no
    agent is left to move. ``info["agent"]`` is whose turn it is now, ``info["action_mask"]`` what it may choose.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.metadata, self.render_mode = env.metadata, getattr(env, "render_mode", None)
        seen, chosen = spaces_of(env)
        self.observation_space, self.action_space = next(iter(seen.values())), next(iter(chosen.values()))
        if any(space != self.observation_space for space in seen.values()) or any(
            space != self.action_space for space in chosen.values()
        ):
            raise CustomSpaceError(
                f"The agents of {env} have different spaces, so they can't take turns in one Env. Pass agent=, one of "
                f"{', '.join(seen)}, or api='parallel' where it has that form."
            )

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self.inner.reset(seed=self._seed_now(seed), options=options)
        agent = self.inner.agent_selection
        seen = self._seen_by(agent)
        return seen, told_at_turn(agent, seen, self.inner.infos[agent])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        env = self.inner
        if not env.agents:
            raise ResetNeeded("The episode has ended: call env.reset() before the next env.step().")
        mover = env.agent_selection
        env.step(action)
        rewards, terminations, truncations = dict(env.rewards), dict(env.terminations), dict(env.truncations)
        seen, info = None, Info()
        while env.agents:
            agent = env.agent_selection
            seen = self._seen_by(agent)
            info = told_at_turn(agent, seen, env.infos[agent])
            if not (env.terminations[agent] or env.truncations[agent]):
                break
            env.step(None)  # how one leaves
        info.update(rewards=rewards, terminations=terminations, truncations=truncations)
        terminated, truncated = (False, False) if env.agents else _ended(terminations, truncations)
        return seen, float(rewards.get(mover, 0.0)), terminated, truncated, info

    def _seen_by(self, agent: str) -> Any:
        return numbers(self.observation_space, self.inner.observe(agent))


def spaces_of(env: Any) -> tuple[dict[str, Space[Any]], dict[str, Space[Any]]]:
    """What each agent sees and may do, in our spaces."""
    from paddock.sources.gymnasium_spaces import to_ours

    agents = env.possible_agents
    return (
        {agent: to_ours(env.observation_space(agent)) for agent in agents},
        {agent: to_ours(env.action_space(agent)) for agent in agents},
    )


def _empty(space: Space[Any]) -> Any:
    """For an agent that was never there: zeros."""
    return row(space, create_empty_array(space, 1), 0)


def _ended(terminations: dict[str, bool], truncations: dict[str, bool]) -> tuple[bool, bool]:
    """How a game ended, by the flags of those who were in it last."""
    truncated = any(truncations.values())
    return all(terminations.values()) or not truncated, truncated


def numbers(space: Space[Any], seen: Any) -> Any:
    """What was seen; a number that comes as an array of no dimension, which is in no Discrete, as a number."""
    return seen[()] if isinstance(seen, np.ndarray) and isinstance(space, Discrete) else seen


def action_mask(seen: Any, info: Info) -> Any:
    """Which actions are allowed, where an observation or an info says it; else None."""
    if isinstance(seen, dict) and "action_mask" in seen:
        return seen["action_mask"]
    return info.get("action_mask")


def told_at_turn(agent: str, seen: Any, info: Info) -> Info:
    """The agent's info, with who it is and, where that is said, what it may choose."""
    mask = action_mask(seen, info)
    return {**info, "agent": agent, **({} if mask is None else {"action_mask": mask})}
