"""Who acts in ``paddock run``: a policy by name, or the agent of a Python file, which runs behind a wall of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from paddock.cli.failures import mistake

if TYPE_CHECKING:
    from paddock.core.env import Env

Choose: TypeAlias = Callable[[Any, Any], Any]  # an action for an observation and its info; not the wall's Policy
PolicyMaker: TypeAlias = "Callable[[Env[Any, Any], int], Choose]"


def random_policy(env: Env[Any, Any], seed: int) -> Choose:
    """Samples of the action space, whose stream starts at ``seed``; where the info has a mask, of what it allows."""
    from paddock.core.allowed_actions import sample_allowed

    actions = env.action_space
    actions.seed(seed)
    return lambda observation, info: sample_allowed(actions, info)


POLICIES: dict[str, PolicyMaker] = {"random": random_policy}


@contextmanager
def chosen(name: str, isolation: str | None) -> Iterator[PolicyMaker]:
    """The policy of this name or file; an agent that was started is ended at the end of the block."""
    if name in POLICIES:
        if isolation is not None:
            raise mistake(f"--policy-isolation is for agents of a file, and {name!r} is paddock's own. Drop it.")
        yield POLICIES[name]
        return
    if not name.endswith(".py"):
        raise mistake(f"--policy {name}: expected one of {', '.join(sorted(POLICIES))}, or a file such as ./agent.py.")
    agents: list[Any] = []

    def agent(env: Env[Any, Any], seed: int) -> Choose:
        from paddock.making.agents import make_agent

        one = make_agent(name, env.observation_space, env.action_space, seed=seed, isolation=isolation)
        agents.append(one)
        return lambda observation, info: one(observation)

    try:
        yield agent
    finally:
        for one in agents:
            if hasattr(one, "close"):
                one.close()
