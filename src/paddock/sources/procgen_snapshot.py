"""Snapshots of Procgen's games: the bytes of the library's own ``get_state``, and what they belong to.

The library ends the process when it can't read a state. So the digest keeps broken ones away from it, and a state of
another game or other options is refused before it is read; a state forged with care is not.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from paddock.core.snapshot import opened, sealed
from paddock.errors import InvalidSnapshot, SnapshotUnsupported
from paddock.sources.gym3 import innermost, is_procgen

_LAYER = "procgen"
# What a game is made with and its states do not depend on.
_FREE = frozenset(("rand_seed", "num_threads", "resource_root", "render_human"))


def saved(env: Any) -> bytes:
    """The game as bytes; SnapshotUnsupported for other environments of gym3."""
    (state,) = _required(env).get_state()
    return sealed(_LAYER, [_identity(env), sha256(state).hexdigest()], state)


def restore(env: Any, snapshot: bytes) -> None:
    """Go on from what ``saved`` returned for such a game; anything else is refused and changes nothing."""
    game = _required(env)
    (identity, digest), state = opened(_LAYER, snapshot, tuple[dict[str, Any], str])
    if identity != _identity(env) or digest != sha256(state).hexdigest():
        raise InvalidSnapshot(f"This is no snapshot of {game.options['env_name']!r} with the same options, or broken.")
    game.set_state([state])


def _required(env: Any) -> Any:
    game = innermost(env)
    if not is_procgen(env):
        raise SnapshotUnsupported(
            f"{type(game).__name__} can't save its state: among gym3's environments Procgen's can. Make it again with "
            f"the same seed and repeat the actions."
        )
    return game


def _identity(env: Any) -> dict[str, Any]:
    return {name: value for name, value in innermost(env).options.items() if name not in _FREE}
