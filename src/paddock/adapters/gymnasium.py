"""Hand an environment to a library that insists on ``gymnasium.Env``. Gymnasium is imported when a function is called.

Only the outside is Gymnasium's: the numbers, the validation and the random stream stay those of the environment.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.errors import DependencyNotInstalled, WrongClass
from paddock.making import make
from paddock.spaces import Space

if TYPE_CHECKING:
    import gymnasium


def to_gymnasium(env: Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """A ``gymnasium.Env`` with Gymnasium's own spaces that steps ``env``; ``.env`` is the environment inside.

    Its ``spec`` can be made again by ``gymnasium.make``. One that is a ``gymnasium.Env`` already is returned as it is.
    """
    _need_gymnasium()
    from paddock.adapters.gymnasium_env import adapted

    return adapted(env)


def to_gymnasium_space(space: Space[Any]) -> gymnasium.Space[Any]:
    """Gymnasium's space with the same members. It is not seeded, and shares no random stream with ``space``."""
    _need_gymnasium()
    from paddock.adapters.gymnasium_spaces import to_theirs

    return to_theirs(space)


def from_gymnasium_space(space: gymnasium.Space[Any]) -> Space[Any]:
    """Our space with the same members. It is not seeded, and shares no random stream with ``space``."""
    _need_gymnasium()
    from paddock.adapters.gymnasium_spaces import to_ours

    return to_ours(space)


def remake(paddock_spec: str | EnvSpec, *, render_mode: str | None = None, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """The entry point of an adapted environment's spec: what ``gymnasium.make(adapted.spec)`` calls.

    Without the time limit: ``gymnasium.make`` puts its own around, and may have been asked for another one.
    """
    spec = EnvSpec.from_json(paddock_spec) if isinstance(paddock_spec, str) else paddock_spec
    env = make(spec, render_mode=render_mode, max_episode_steps=-1, env_kwargs=kwargs)
    if not isinstance(env, Env):
        raise WrongClass(f"{spec.id} made a {type(env).__name__}, which is no paddock.Env.")
    return to_gymnasium(env)


def _need_gymnasium() -> None:
    if find_spec("gymnasium") is None:
        raise DependencyNotInstalled('Gymnasium is not installed. To install: pip install "paddock[gymnasium]"')
