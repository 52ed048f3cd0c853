"""Ways out: paddock's environments in the form that other libraries expect. Each imports its library when called.

The functions here are also in ``paddock.adapters.gymnasium``, which registers paddock's ids in Gymnasium when imported;
this module imports no Gymnasium, so that looking at ``paddock.to_gymnasium`` costs nothing.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from paddock.core.env import Env
from paddock.core.vector_env import VectorEnv
from paddock.errors import DependencyNotInstalled
from paddock.spaces import Space

if TYPE_CHECKING:
    import gymnasium as theirs

# By module: its name for people, and what to install.
_PACKAGES = {
    "art": ("ART", "openpipe-art"),
    "gymnasium": ("Gymnasium", "gymnasium"),
    "inspect_ai": ("Inspect AI", "inspect-ai openai"),
    "lightning": ("Lightning", "lightning"),
    "ray.rllib": ("RLlib", "'ray[rllib]' torch"),
    "skyrl_gym": ("skyrl-gym", "skyrl-gym"),
    "stable_baselines3": ("Stable-Baselines3", "stable-baselines3 gymnasium"),
    "tianshou": ("Tianshou", "tianshou"),
    "torch": ("PyTorch", "torch"),
    "torchrl": ("TorchRL", "torchrl"),
    "verifiers": ("verifiers", "verifiers"),
    "verl": ("veRL", "verl"),
}


def to_gymnasium(env: Env[Any, Any]) -> theirs.Env[Any, Any]:
    """Return a ``gymnasium.Env`` with Gymnasium's own spaces that steps ``env``; ``.env`` is the environment inside.

    ``gymnasium.make`` can make its ``spec`` again. One of Gymnasium's own is returned as it is.
    """
    need("gymnasium")
    from paddock.adapters.gymnasium_env import adapt

    return adapt(env)


def to_gymnasium_vector(env: VectorEnv[Any, Any, Any]) -> theirs.vector.VectorEnv[Any, Any, Any]:
    """Return a ``gymnasium.vector.VectorEnv`` that steps these lanes, compiled ones too; ``.env`` are the lanes inside.

    Arrays are passed on as they are: with ``LaneOptions(copy=False)`` the next step writes into the same ones.
    """
    need("gymnasium")
    from paddock.adapters.gymnasium_env import adapt_lanes

    return adapt_lanes(env)


def to_gymnasium_space(space: Space[Any]) -> theirs.Space[Any]:
    """Return Gymnasium's space with the same members. It is not seeded, and shares no random stream with ``space``."""
    need("gymnasium")
    from paddock.sources.gymnasium_spaces import to_theirs

    return to_theirs(space)


def from_gymnasium_space(space: theirs.Space[Any]) -> Space[Any]:
    """Return our space with the same members. It is not seeded, and shares no random stream with ``space``."""
    need("gymnasium")
    from paddock.sources.gymnasium_spaces import to_ours

    return to_ours(space)


def tools_of(target: Any, **make_kwargs: Any) -> list[dict[str, Any]]:
    """Return the tools of an environment in the form of OpenAI's APIs, JSON Schemas inside; [] if it has none.

    ``target``: what ``make`` takes, an environment, or a class of ToolEnv. What is made for the question is closed.

    >>> [tool["function"]["name"] for tool in tools_of("paddock/Echo")]
    ['echo_message', 'echo_with_length']
    """
    from paddock.agentic.chat import openai_tools
    from paddock.hosting.messages import read_tools

    if hasattr(target, "step"):
        return openai_tools(read_tools(target.metadata) or [])
    from paddock.making import make

    with make(target, **make_kwargs) as env:
        return openai_tools(read_tools(env.metadata) or [])


def need(module: str) -> None:
    """Raise DependencyNotInstalled with the command that helps, if the module is missing. Imports nothing."""
    package, _, _ = module.partition(".")
    if find_spec(package) is None or find_spec(module) is None:
        name, packages = _PACKAGES[module]
        raise DependencyNotInstalled(f"{name} is not installed. To install: pip install {packages}")
