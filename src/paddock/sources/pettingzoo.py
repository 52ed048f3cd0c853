"""Environments of PettingZoo as one Env: all agents at once (Parallel), the agent whose turn it is (AEC), or one agent.

An Env has one reward and one pair of flags. A reader would look for a dict of rewards in place of the reward: it is in
``info["rewards"]``, and each of the three classes says what it returns. Agents come and go during an episode and spaces
do not: an agent that is out keeps its last observation and its action is ignored; ``info["live"]`` says who is in.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from paddock.core.env import Env, Info
from paddock.core.spec import EnvSpec
from paddock.errors import (
    CustomSpaceError,
    DependencyNotInstalled,
    InvalidState,
    MissingArgument,
    NameNotFound,
    PlanError,
    ResetNeeded,
    WrongClass,
)
from paddock.sources.families import installed_family
from paddock.sources.foreign import ForeignEnv, install_hint, to_ours
from paddock.spaces import Dict, Discrete, Space
from paddock.spaces.batch import create_empty_array, row
from paddock.wrappers.guard import Guard

Api = Literal["parallel", "aec"]

_ENTRY_POINT = "paddock.sources.pettingzoo:FromPettingZoo"
_VERSION = re.compile(r"[-_]v(\d+)$", re.ASCII)
_MODES = ["human", "rgb_array", "ansi"]  # of an environment made by a function, which does not say
_MOST_BEGINNINGS = 100


def from_pettingzoo(
    env: Any, *, agent: str | None = None, opponents: Policy | None = None, validate: bool = True
) -> Env[Any, Any]:
    """Return a Parallel or AEC environment as an Env in its guard.

    Parallel: all agents at once, ``AllAgents``. AEC: the agent whose turn it is, ``Turns``. With ``agent``: that one
    alone, ``OneAgent``, and ``opponents`` plays the others: a function of (observation, info) with the info's "agent"
    and "action_mask"; without it they draw among the allowed actions. Actions are checked unless ``validate`` is
    False. For lanes, a wall or a server, name it instead: ``paddock.make("pettingzoo:classic/tictactoe_v3")``.
    """
    return Guard(_face(env, agent, opponents), validate=validate)


def spec_of(id: str) -> EnvSpec:
    """Return the spec of ``classic/tictactoe_v3``, as PettingZoo's modules or registry name it, or ``module:name``."""
    ByName(id).factories()
    return EnvSpec(id, entry_point=_ENTRY_POINT)


class FromPettingZoo:
    """The entry point of all of them; the spec's id tells which."""

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> ByName:
        """Return what makes the environment that this spec's id names."""
        return ByName(spec.id)


@dataclass(frozen=True)
class ByName:
    """Makes what an id of PettingZoo's names."""

    id: str

    @property
    def metadata(self) -> Info:
        """Return what the environment's class declares: its render modes, say."""
        said = getattr(self.factories().get("raw"), "metadata", None)
        return cast("Info", said) if isinstance(said, dict) else {"render_modes": _MODES}

    def __call__(
        self, *, api: Api | None = None, agent: str | None = None, opponents: Policy | None = None, **kwargs: Any
    ) -> ForeignEnv:
        """``api``: which of its two forms; by default parallel if it has that one, unless you ask for one ``agent``."""
        made = self.factories()
        if api is None:
            api = "parallel" if "parallel" in made and (agent is None or "aec" not in made) else "aec"
        if api not in made:
            forms = " and ".join(name for name in made if name != "raw")
            raise PlanError(f"{self.id!r} has no api={api!r}. It has {forms}.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return _face(made[api](**kwargs), agent, opponents)

    def factories(self) -> dict[str, Any]:
        """Return what makes its forms, by their names; DependencyNotInstalled or NameNotFound if there is none."""
        installed_family("pettingzoo", self.id)
        try:
            with warnings.catch_warnings():
                # Since 1.27 each module says that the registry is the newer way to it; both lead to the same code.
                warnings.simplefilter("ignore", DeprecationWarning)
                return self._registry_makers() or self._of_module()
        except ImportError as error:
            module, _, name = self.id.rpartition(":")
            said = str(error).rstrip(".")
            if module or "pip install" in said:  # someone's own, or PettingZoo says it better than its extras would
                hint = install_hint(error) or ""
            else:
                hint = f" To install what it needs: pip install 'pettingzoo[{name.partition('/')[0]}]'"
            raise DependencyNotInstalled(f"{self.id!r} can't be imported: {said}.{hint}") from error

    def _registry_makers(self) -> dict[str, Any]:
        """Return its makers from PettingZoo's registry, if there is one and it knows the id."""
        import pettingzoo

        module, _, _ = self.id.rpartition(":")
        if module:
            importlib.import_module(module)
        id = _VERSION.sub(r"-v\1", self.id.rpartition(":")[2])
        found: dict[str, Any] = {
            api: partial(pettingzoo.make, api, id)
            for api in ("parallel", "aec")
            if id in getattr(pettingzoo, f"{api}_registry", {})
        }
        if found:
            creator = pettingzoo.spec(next(iter(found)), id).entry_point
            home = importlib.import_module(creator.partition(":")[0]) if isinstance(creator, str) else None
            found["raw"] = getattr(home, "raw_env", None)  # the class, by its name in all of PettingZoo's modules
        return found

    def _of_module(self) -> dict[str, Any]:
        """Return its makers from the module that its author put it into."""
        module, _, name = self.id.rpartition(":")
        last = _VERSION.sub(r"_v\1", name).replace("/", ".")
        place = f"{module or 'pettingzoo'}.{last}"
        try:
            found = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise
            raise NameNotFound(
                f"PettingZoo has no {self.id!r}: there is no module {place}. Expected a name like "
                f"classic/tictactoe_v3, or module:name."
            ) from None
        names = {"parallel": "parallel_env", "aec": "env", "raw": "raw_env"}
        made = {api: getattr(found, attribute) for api, attribute in names.items() if hasattr(found, attribute)}
        if made.keys() <= {"raw"}:
            above, _, last = place.rpartition(".")
            beside = vars(importlib.import_module(above)).get("__path__", ())
            versions = re.compile(rf"{re.escape(last)}_v\d+", re.ASCII)
            known = sorted(name for _, name, _ in pkgutil.iter_modules(beside) if versions.fullmatch(name))
            hint = f" Did you mean {self.id.removesuffix(last)}{known[-1]}?" if known else ""
            raise NameNotFound(f"PettingZoo has no {self.id!r}: the module {place} makes no environment.{hint}")
        return made


def _face(env: Any, agent: str | None, opponents: Policy | None) -> ForeignEnv:
    parallel = not hasattr(env, "agent_iter") and hasattr(env, "possible_agents")
    if not (parallel or hasattr(env, "agent_iter")):
        raise WrongClass(f"from_pettingzoo() takes a Parallel or AEC environment, got {type(env).__name__}.")
    if agent is None and opponents is not None:
        raise MissingArgument("opponents= plays against one agent. Name it: agent='player_0'.")
    if agent is None:
        return AllAgents(env) if parallel else Turns(env)
    if parallel:
        from pettingzoo.utils.conversions import parallel_to_aec

        env = parallel_to_aec(env)
    return OneAgent(env, agent, opponents)


class _Agents(ForeignEnv):
    """What the three have in common: the spaces of each agent."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.metadata, self.render_mode = env.metadata, getattr(env, "render_mode", None)
        self._spaces = {agent: to_ours(env.observation_space(agent)) for agent in env.possible_agents}
        self._action_spaces = {agent: to_ours(env.action_space(agent)) for agent in env.possible_agents}


class AllAgents(_Agents):
    """A Parallel environment: observations and actions are dicts with an entry for each possible agent.

    One caller chooses for all. The reward is the sum over all agents. The episode ends when no agent is left:
    terminated if each of the last ones was, truncated if one of them was. ``info`` has, by agent, "rewards",
    "terminations", "truncations", "live", the environment's own infos in "agents", and "action_mask" if there are any.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = Dict(self._spaces, sort_keys=False)
        self.action_space = Dict(self._action_spaces, sort_keys=False)
        # Zeros, for an agent that was never there.
        self._zeros = {agent: row(space, create_empty_array(space, 1), 0) for agent, space in self._spaces.items()}
        self._observations: dict[str, Any] = self._zeros
        self._numbered = any(isinstance(space, Discrete) for space in self._spaces.values())

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[dict[str, Any], Info]:
        observations, infos = self.inner.reset(seed=self._seed_now(seed), options=options)
        self._observations = self._zeros | self._with_numbers(observations)
        return self._observations, self._info(observations, infos)

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, Info]:
        live = self.inner.agents
        observations, rewards, terminations, truncations, infos = self.inner.step(
            {agent: action[agent] for agent in live}
        )
        observations = self._with_numbers(observations)
        # All of them, as almost always, or those that are still in.
        complete = len(observations) == len(self._zeros)
        self._observations = observations if complete else self._observations | observations
        info = self._info(observations, infos)
        info.update(rewards=dict(rewards), terminations=dict(terminations), truncations=dict(truncations))
        terminated, truncated = (False, False) if self.inner.agents else _combine_flags(terminations, truncations)
        return self._observations, float(sum(rewards.values())), terminated, truncated, info

    def _with_numbers(self, observations: dict[str, Any]) -> dict[str, Any]:
        if not self._numbered:
            return observations
        return {agent: as_number(self._spaces[agent], one) for agent, one in observations.items()}

    def _info(self, observations: dict[str, Any], infos: dict[str, Info]) -> Info:
        live = self.inner.agents
        info: Info = {"live": {agent: agent in live for agent in self._zeros}}
        if any(infos.values()):
            info["agents"] = infos
        masks = {agent: action_mask(observations[agent], infos.get(agent, {})) for agent in observations}
        if any(mask is not None for mask in masks.values()):
            info["action_mask"] = {agent: mask for agent, mask in masks.items() if mask is not None}
        return info


class Turns(_Agents):
    """An AEC environment whose agents all have the same spaces: each step is the move of the agent whose turn it is.

    The reward is what that agent got for its move; ``info["rewards"]`` has what all got. The episode ends when no agent
    is left to move. ``info["agent"]`` says whose turn it is now, ``info["action_mask"]`` what it may choose.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        both = list(zip(self._spaces.values(), self._action_spaces.values(), strict=True))
        self.observation_space, self.action_space = both[0]
        if any(pair != both[0] for pair in both):
            raise CustomSpaceError(
                f"The agents of {env} have different spaces, so they can't take turns in one Env. Pass agent=, one of "
                f"{', '.join(self._spaces)}, or api='parallel' if it has that form."
            )

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        self.inner.reset(seed=self._seed_now(seed), options=options)
        agent = self.inner.agent_selection
        observation = self._observe(agent)
        return observation, turn_info(agent, observation, self.inner.infos[agent])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        env = self.inner
        if not env.agents:
            raise ResetNeeded("The episode has ended: call env.reset() before the next env.step().")
        mover = env.agent_selection
        env.step(action)
        rewards, terminations, truncations = dict(env.rewards), dict(env.terminations), dict(env.truncations)
        observation, info = None, Info()
        while env.agents:
            agent = env.agent_selection
            observation = self._observe(agent)
            info = turn_info(agent, observation, env.infos[agent])
            if not (env.terminations[agent] or env.truncations[agent]):
                break
            env.step(None)  # how one leaves
        info.update(rewards=rewards, terminations=terminations, truncations=truncations)
        terminated, truncated = (False, False) if env.agents else _combine_flags(terminations, truncations)
        return observation, float(rewards.get(mover, 0.0)), terminated, truncated, info

    def _observe(self, agent: str) -> Any:
        return as_number(self.observation_space, self.inner.observe(agent))


def _combine_flags(terminations: dict[str, bool], truncations: dict[str, bool]) -> tuple[bool, bool]:
    """Return how a game ended, by the flags of those who were in it last."""
    truncated = any(truncations.values())
    return all(terminations.values()) or not truncated, truncated


def as_number(space: Space[Any], observation: Any) -> Any:
    """Return the observation; for a Discrete, a number instead of an array without dimensions."""
    return observation[()] if isinstance(observation, np.ndarray) and isinstance(space, Discrete) else observation


def action_mask(observation: Any, info: Info) -> Any:
    """Return which actions are allowed, if an observation or an info says so; else None."""
    if isinstance(observation, dict) and "action_mask" in observation:
        return observation["action_mask"]
    return info.get("action_mask")


def turn_info(agent: str, observation: Any, info: Info) -> Info:
    """Return the agent's info, with who it is and, if the game says so, what it may choose."""
    mask = action_mask(observation, info)
    return {**info, "agent": agent, **({} if mask is None else {"action_mask": mask})}


# (observation, info) -> action; the info has "agent", and "action_mask" where there is one.
Policy: TypeAlias = "Callable[[Any, Info], Any]"


class OneAgent(_Agents):
    """``agent`` of an AEC environment; a policy plays the others, or chance if there is none.

    A step is its move and then all moves of others until its next turn. The reward is all that it got meanwhile; the
    flags are its own. ``info["action_mask"]`` is what it may choose, if the game says so. A game that ends before its
    first turn is begun again.
    """

    def __init__(self, env: Any, agent: str, opponents: Policy | None = None) -> None:
        super().__init__(env)
        if agent not in env.possible_agents:
            raise MissingArgument(f"{env} has no agent={agent!r}. It has {', '.join(env.possible_agents)}.")
        self.agent = agent
        self.observation_space, self.action_space = self._spaces[agent], self._action_spaces[agent]
        self._drawn_from = deepcopy(self._action_spaces)  # apart from the one that the caller may seed and sample
        self._opponents = opponents or self._by_chance

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        seed = self._seed_now(seed)
        if seed is not None:  # opponents by chance draw from it too
            for number, space in enumerate(self._drawn_from.values()):
                space.seed(seed + number)
        for _ in range(_MOST_BEGINNINGS):
            self.inner.reset(seed=seed, options=options)
            observation, _, terminated, truncated, info = self._until_my_turn()
            if not (terminated or truncated):
                return observation, info
            seed = None  # it goes on in its stream
        raise InvalidState(f"{self.inner} ended {_MOST_BEGINNINGS} times before the first turn of {self.agent!r}.")

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.inner.step(action)
        return self._until_my_turn()

    def _until_my_turn(self) -> tuple[Any, float, bool, bool, Info]:
        env, me = self.inner, self.agent
        while True:
            agent = env.agent_selection
            observation, reward, terminated, truncated, info = env.last()
            info = turn_info(agent, observation, info)
            if agent == me:
                number = as_number(self.observation_space, observation)
                return number, float(reward), bool(terminated), bool(truncated), info
            env.step(None if terminated or truncated else self._opponents(observation, info))

    def _by_chance(self, observation: Any, info: Info) -> Any:
        mask, space = info.get("action_mask"), self._drawn_from[info["agent"]]
        return space.sample() if mask is None else space.sample(np.asarray(mask, np.int8))
