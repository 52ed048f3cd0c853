"""Hand environments to a library that insists on ``gymnasium.Env``, and take such environments in.

Only the outside is Gymnasium's: numbers, validation and the random stream stay the environment's own.
Importing this module, where Gymnasium is installed, also registers paddock's ids there, as ``paddock/CartPole-v1``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import paddock.envs.catalog  # noqa: F401 - the built-in ids
from paddock.adapters import from_gymnasium_space, need, to_gymnasium, to_gymnasium_space, to_gymnasium_vector
from paddock.core.env import Env
from paddock.core.registry import registry
from paddock.core.spec import EnvSpec
from paddock.core.vector_env import AutoresetMode
from paddock.errors import MissingArgument, WrongClass
from paddock.making import LaneOptions, make
from paddock.sources.gymnasium import from_gymnasium

if TYPE_CHECKING:
    import gymnasium

__all__ = [
    "from_gymnasium",
    "from_gymnasium_space",
    "register_in_gymnasium",
    "remake",
    "remake_lanes",
    "to_gymnasium",
    "to_gymnasium_space",
    "to_gymnasium_vector",
]


def remake(
    paddock_spec: str | EnvSpec | None = None,
    *,
    paddock_id: str | None = None,
    render_mode: str | None = None,
    **kwargs: Any,
) -> gymnasium.Env[Any, Any]:
    """Make an environment for ``gymnasium.make``, by its spec or by its id: this is the entry point there.

    Without the time limit: ``gymnasium.make`` adds its own, which may be another one.
    """
    target = _target(paddock_spec, paddock_id)
    env = make(target, render_mode=render_mode, max_episode_steps=-1, env_kwargs=kwargs)
    if not isinstance(env, Env):
        raise WrongClass(f"{target} made a {type(env).__name__}, which is not a paddock.Env.")
    return to_gymnasium(env)


def remake_lanes(
    num_envs: int,
    paddock_spec: str | EnvSpec | None = None,
    *,
    paddock_id: str | None = None,
    render_mode: str | None = None,
    max_episode_steps: int | None = None,
    autoreset_mode: Any = None,
    **kwargs: Any,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Make lanes for ``gymnasium.make_vec``: this is the entry point there."""
    # By value: Gymnasium's enum of modes is another class.
    mode = AutoresetMode.NEXT_STEP if autoreset_mode is None else AutoresetMode(autoreset_mode.value)
    lanes = make(
        _target(paddock_spec, paddock_id),
        num_envs=num_envs,
        render_mode=render_mode,
        max_episode_steps=max_episode_steps,
        lanes=LaneOptions(autoreset=mode),
        env_kwargs=kwargs,
    )
    return to_gymnasium_vector(lanes)


def register_in_gymnasium() -> list[str]:
    """Register paddock's ids in Gymnasium, your own too, and return their names there.

    The namespace is ``paddock``; an id that has one of its own keeps it in the name, as ``paddock/phys2d.CartPole-v1``.
    Importing this module does it; call it again for ids that you registered since.
    """
    need("gymnasium")
    import gymnasium

    names = []
    for id, spec in registry.items():
        name = id if spec.namespace == "paddock" else f"paddock/{id.replace('/', '.')}"
        names.append(name)
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="paddock.adapters.gymnasium:remake",
                vector_entry_point="paddock.adapters.gymnasium:remake_lanes",
                reward_threshold=spec.reward_threshold,
                nondeterministic=spec.nondeterministic,
                max_episode_steps=spec.max_episode_steps,
                order_enforce=False,  # the guard inside does it
                disable_env_checker=True,
                kwargs={"paddock_id": id},
            )
    return names


def _target(spec: str | EnvSpec | None, id: str | None) -> str | EnvSpec:
    if isinstance(spec, str):
        return EnvSpec.from_json(spec)
    if spec is None and id is None:
        raise MissingArgument("Pass paddock_spec or paddock_id, to say which environment to make.")
    return spec if spec is not None else str(id)


if find_spec("gymnasium") is not None:
    register_in_gymnasium()
