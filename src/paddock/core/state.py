"""State: which episode, how far into it, and what the environment chose to publish; and snapshots of all of it.

Nothing of the environment is published unless it says so: hidden state may hold answers. Snapshots are never pickled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from paddock.errors import InvalidSnapshot, InvalidState

if TYPE_CHECKING:
    from paddock.core.env import Env

MAX_SNAPSHOT_BYTES = 1 << 28


@dataclass(frozen=True)
class State:
    """What ``env.state()`` returns.

    episode_id: a random name for the episode; None before the first reset, or when no layer counts.
    step_count: steps since reset; None when no layer counts (an environment that did not come from ``make``).
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
        names = ", ".join(map(repr, public)) or "nothing" if isinstance(public, dict) else repr(public)
        raise AttributeError(f"State has no field {name!r}; the environment published {names}")


@runtime_checkable
class EpisodeCounter(Protocol):
    """A layer that counts steps; the outermost one in a stack answers for the episode."""

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
    episode_id, step_count = None, None
    layer: Any = env
    while layer is not None and not isinstance(layer, EpisodeCounter):
        layer = getattr(layer, "env", None)
    if layer is not None:
        episode_id, step_count = layer.episode()
    return State(episode_id, step_count, read_public_state(env.unwrapped))


def read_public_state(env: Env[Any, Any]) -> Any:
    """What the environment itself publishes, checked against its ``state_space`` if it has one."""
    publish = getattr(env, "public_state", None)
    if publish is None:
        return {}
    public = publish()
    space = getattr(env, "state_space", None)
    if space is not None and not space.contains(public):
        raise InvalidState(f"{type(env).__name__}.public_state() returned {public!r}, which is not in {space!r}.")
    return public


def random_name() -> str:
    """A name that no other episode has."""
    from uuid import uuid4  # here: few programs use names, and the import takes a millisecond

    return str(uuid4())


def names_from(key: object) -> Callable[[], str]:
    """A source of names that look random, but come in the same order for the same key: for repeatable episodes."""
    from hashlib import sha256
    from uuid import UUID

    numbers = count()

    def name() -> str:
        digest = sha256(f"paddock-episode-v1 {key!r} {next(numbers)}".encode()).digest()
        return str(UUID(bytes=digest[:16], version=4))

    return name


def name_episodes(env: Any, key: object) -> None:
    """Make every layer of ``env`` that names episodes take the names of this key."""
    while env is not None:
        if hasattr(type(env), "name_episodes"):
            env.name_episodes(names_from(key))
        env = getattr(env, "env", None)


def seal_snapshot(layer: str, memory: Any, inner: bytes) -> bytes:
    """Put a layer's memory (plain data) around the snapshot of what it wraps."""
    import msgspec

    return msgspec.msgpack.encode([f"paddock.{layer}.1", memory, inner])


def open_snapshot(layer: str, snapshot: bytes, kind: Any) -> tuple[Any, bytes]:
    """Take a layer's memory, as ``kind``, and the inner snapshot apart. Anything else is an InvalidSnapshot."""
    import msgspec

    if not isinstance(snapshot, (bytes, bytearray, memoryview)) or len(snapshot) > MAX_SNAPSHOT_BYTES:
        raise InvalidSnapshot(f"A snapshot is at most {MAX_SNAPSHOT_BYTES} bytes, got {type(snapshot).__name__}.")
    try:
        name, memory, inner = msgspec.msgpack.decode(snapshot, type=tuple[str, msgspec.Raw, bytes])
        if name != f"paddock.{layer}.1":
            raise InvalidSnapshot(f"This is a snapshot of {ascii(name)[:60]}, expected one of {layer}.")
        return msgspec.msgpack.decode(memory, type=kind), inner
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidSnapshot(f"Not a snapshot of a {layer}: {error}.") from None
