"""State: which episode, how far into it, and what the environment chose to publish.

Nothing of the environment is shown unless it says so: hidden state may hold answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from paddock.errors import InvalidState

if TYPE_CHECKING:
    from paddock.core.env import Env


@dataclass(frozen=True)
class State:
    """What ``env.state()`` answers.

    episode_id: a random name for the episode; None before the first reset, or when nobody counts.
    step_count: steps since reset; None when nobody counts (an environment that did not come from ``make``).
    public: what the environment's ``public_state()`` returned, or an empty dict; its fields read as attributes too.
    """

    episode_id: str | None
    step_count: int | None
    public: Any = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        public = self.__dict__.get("public")  # by __dict__: while unpickling, `public` does not exist yet
        if isinstance(public, dict) and name in public:
            return public[name]
        if public is not None and not isinstance(public, dict) and not name.startswith("__"):
            return getattr(public, name)
        raise AttributeError(f"State has no field {name!r}; the environment published {_names(public)}")


@runtime_checkable
class EpisodeCounter(Protocol):
    """What a layer offers that counts steps; the outermost one in a stack answers for the episode."""

    def episode(self) -> tuple[str | None, int]:
        """The episode's id and the steps taken in it."""


def state(env: Env[Any, Any]) -> State:
    """The state of any environment, wrapped or not.

    >>> import paddock
    >>> env = paddock.make("CartPole-v1")
    >>> _ = env.reset(seed=1); _ = env.step(0)
    >>> paddock.state(env).step_count
    1
    """
    episode_id, step_count = _count(env)
    return State(episode_id, step_count, published(env.unwrapped))


def _count(env: Any) -> tuple[str | None, int | None]:
    while env is not None:
        if isinstance(env, EpisodeCounter):
            return env.episode()
        env = getattr(env, "env", None)
    return None, None


def published(env: Env[Any, Any]) -> Any:
    """What the environment itself chose to show."""
    publish = getattr(env, "public_state", None)
    if publish is None:
        return {}
    public = publish()
    space = getattr(env, "state_space", None)
    if space is not None and not space.contains(public):
        raise InvalidState(f"{type(env).__name__}.public_state() returned {public!r}, which is not in {space!r}.")
    return public


def _names(public: Any) -> str:
    return ", ".join(map(repr, public)) or "nothing" if isinstance(public, dict) else repr(public)
