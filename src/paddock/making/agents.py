"""Agents from a file: code that chooses actions, in this process or behind its own wall, apart from the environment.

The file defines ``policy(observation)``, or ``make_policy(observation_space, action_space, seed)``, which returns one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paddock.core.env import Env, Info
from paddock.errors import PaddockError, PlanError
from paddock.making.plan import Isolation, choose_wall
from paddock.making.target import Target
from paddock.sandbox.policy import Policy
from paddock.spaces import Space

Choose = Callable[[Any], Any]


class Agent(Env[Any, Any]):
    """An agent as a Host holds it: it has spaces and answers ``act``, but has no episodes."""

    def __init__(self, module: str, observation_space: Space[Any], action_space: Space[Any], seed: int) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._choose = load_policy(module, observation_space, action_space, seed)

    def act(self, observation: Any) -> Any:
        """Return the agent's action."""
        return self._choose(observation)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        raise PaddockError("An agent has no episodes. Call act(observation).")

    def step(self, action: Any) -> Any:
        raise PaddockError("An agent takes no actions. Call act(observation).")


def load_policy(module: str, observation_space: Space[Any], action_space: Space[Any], seed: int) -> Choose:
    """Import ``module`` and return its policy."""
    found = importlib.import_module(module)
    if callable(make := getattr(found, "make_policy", None)):
        chosen = make(observation_space, action_space, seed)
    else:
        chosen = getattr(found, "policy", None)
    if not callable(chosen):
        raise PlanError(
            f"{module}.py has no policy. Define policy(observation), or make_policy(observation_space, action_space, "
            f"seed), which returns one."
        )
    return chosen  # type: ignore[no-any-return]


class WalledAgent:
    """The agent of a file, behind a wall. Call it with an observation for the agent's action.

    An agent whose action is not in the action space is stopped: EnvironmentViolation.
    """

    def __init__(
        self, file: str, observation_space: Space[Any], action_space: Space[Any], seed: int, policy: Policy
    ) -> None:
        from paddock.making.payload import Payload
        from paddock.making.walls import walled_env

        what = {
            "kind": "agent",
            "module": agent_module(file),
            "observation_space": observation_space,
            "action_space": action_space,
            "seed": seed,
        }
        self._space = action_space
        self._env = walled_env(Payload(what, {agent_module(file): str(Path(file).resolve())}), policy)

    def __call__(self, observation: Any) -> Any:
        action = self._env.call("act", observation)
        if not self._space.contains(action):
            from paddock.hosting.untrusted import not_a_member

            self.close()
            raise not_a_member(self._space, action, "action")
        return action

    def close(self) -> None:
        """End the agent; safe to call twice."""
        self._env.close()


def agent_module(file: str) -> str:
    """Return the module name of an agent's file."""
    path = Path(file)
    if path.suffix != ".py" or not path.stem.isidentifier() or not path.is_file():
        raise PlanError(f"{file!r} is not an agent: expected a Python file whose name is an identifier, as ./agent.py.")
    return path.stem


def make_agent(
    file: str, observation_space: Space[Any], action_space: Space[Any], *, seed: int = 0, isolation: Isolation = None
) -> WalledAgent | Choose:
    """Make the agent of a file. It may be anyone's code, so it goes behind a wall unless ``isolation="none"``."""
    wall = choose_wall(Target(file, "module"), "sandbox" if isolation is None else isolation)
    if wall is not None:
        return WalledAgent(file, observation_space, action_space, seed, wall)
    if isolation != "none":
        raise PlanError(f"isolation={isolation!r} is not for agents. Use 'sandbox', 'landlock', 'auto' or 'none'.")
    folder = str(Path(file).resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return load_policy(agent_module(file), observation_space, action_space, seed)
