"""Names of episodes: random, or from a key the same ones again, for an environment that must be repeatable."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any


def random_name() -> str:
    """A name that no other episode has."""
    from uuid import uuid4  # here: few programs ask for names, and importing it takes a millisecond

    return str(uuid4())


def names_from(key: object) -> Callable[[], str]:
    """Names that look as random, but the first, second, … are the same for the same key."""
    from hashlib import sha256
    from uuid import UUID

    numbers = count()

    def name() -> str:
        digest = sha256(f"paddock-episode-v1 {key!r} {next(numbers)}".encode()).digest()
        return str(UUID(bytes=digest[:16], version=4))

    return name


def name_episodes(env: Any, key: object) -> None:
    """Let every layer of ``env`` that names episodes take the names of this key."""
    while env is not None:
        if hasattr(type(env), "name_episodes"):
            env.name_episodes(names_from(key))
        env = getattr(env, "env", None)
