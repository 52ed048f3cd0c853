"""paddock: one environment, every distance.

Where everything is, bottom layer first (a module imports only from layers below its own):

    errors, seeding     every error in one tree; random streams (and aliases: modules that only re-export names)
    spaces              what a value may be: checks, samples, batches, JSON
    sandbox             a program behind a wall, with the permissions of a Policy
    core                Env, VectorEnv, Wrapper, EnvSpec, the registry, State
    record              digests of trajectories and environments; traces, episodes as files
    kernels             dynamics as plain functions, run as they are and compiled into lanes
    wrappers, envs      what changes data on the way; the environments that come with paddock
    hosting, package    environments at the far end of a channel; folders with a manifest
    vector, testing     lanes; check_env
    sources, agentic    environments written for other libraries; tools, tasks and rubrics for language models
    making              make(): locate, plan, build
    server, adapters    environments as a service; environments out to other libraries: to_gymnasium
    bench               the catalogue of attacks on the walls
    gym, openenv        Gymnasium's and OpenEnv's module names over all this: `import paddock.gym as gym`
    cli                 the `paddock` command

The names below load when first used, so `import paddock` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    name: home
    for home, names in {
        "paddock": "errors spaces kernels wrappers vector envs testing gym sandbox agentic sources",  # modules
        "paddock.core.env": "Env",
        "paddock.core.wrapper": "Wrapper ObservationWrapper ActionWrapper RewardWrapper",
        "paddock.core.vector_env": "VectorEnv AutoresetMode",
        "paddock.core.spec": "EnvSpec WrapperSpec",
        "paddock.core.state": "State state",
        "paddock.spaces": "Space",
        "paddock.making": "make make_vec make_async OpenEnv LaneOptions RemoteOptions permissions warm",
        "paddock.sandbox": "Policy",
        "paddock.core.registry": "register registry pprint_registry",
        "paddock.sources.families": "spec",
        "paddock.testing": "check_env",
        "paddock.server": "seat",
        "paddock.adapters": "to_gymnasium",
    }.items()
    for name in names.split()
}
_NEEDS_CATALOG = ("make", "make_vec", "OpenEnv", "warm", "register", "registry", "spec", "pprint_registry", "EnvSpec")

__all__ = [*_HOMES, "PaddockError", "__version__"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home == "paddock":
        value: Any = importlib.import_module(f"paddock.{name}")
    elif home is not None:
        if name in _NEEDS_CATALOG:
            importlib.import_module("paddock.envs.catalog")
        value = getattr(importlib.import_module(home), name)
    else:
        errors = importlib.import_module("paddock.errors")
        value = getattr(errors, name, None)
        if not (isinstance(value, type) and issubclass(value, errors.PaddockError)):
            raise AttributeError(f"module 'paddock' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    errors = importlib.import_module("paddock.errors")
    return sorted({*__all__, *(row[0].__name__ for row in errors.table())})


if TYPE_CHECKING:  # for type checkers and editors, which do not run __getattr__
    from paddock import agentic as agentic
    from paddock import envs as envs
    from paddock import errors as errors
    from paddock import gym as gym
    from paddock import kernels as kernels
    from paddock import sandbox as sandbox
    from paddock import sources as sources
    from paddock import spaces as spaces
    from paddock import testing as testing
    from paddock import vector as vector
    from paddock import wrappers as wrappers
    from paddock.adapters import to_gymnasium as to_gymnasium
    from paddock.core.env import Env as Env
    from paddock.core.registry import pprint_registry as pprint_registry
    from paddock.core.registry import register as register
    from paddock.core.registry import registry as registry
    from paddock.core.spec import EnvSpec as EnvSpec
    from paddock.core.spec import WrapperSpec as WrapperSpec
    from paddock.core.state import State as State
    from paddock.core.state import state as state
    from paddock.core.vector_env import AutoresetMode as AutoresetMode
    from paddock.core.vector_env import VectorEnv as VectorEnv
    from paddock.core.wrapper import ActionWrapper as ActionWrapper
    from paddock.core.wrapper import ObservationWrapper as ObservationWrapper
    from paddock.core.wrapper import RewardWrapper as RewardWrapper
    from paddock.core.wrapper import Wrapper as Wrapper
    from paddock.errors import PaddockError as PaddockError
    from paddock.making import LaneOptions as LaneOptions
    from paddock.making import OpenEnv as OpenEnv
    from paddock.making import RemoteOptions as RemoteOptions
    from paddock.making import make as make
    from paddock.making import make_async as make_async
    from paddock.making import make_vec as make_vec
    from paddock.making import permissions as permissions
    from paddock.making.make_env import warm as warm
    from paddock.sandbox import Policy as Policy
    from paddock.server import seat as seat
    from paddock.sources.families import spec as spec
    from paddock.spaces import Space as Space
    from paddock.testing import check_env as check_env
