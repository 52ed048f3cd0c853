"""Snapshots of functional environments: the arrays of their state, and the key. Never pickled."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.snapshot import opened, sealed
from paddock.errors import BadFrame, InvalidSnapshot, NotTransferable, SnapshotUnsupported
from paddock.hosting.values import from_wire, to_wire

_LAYER = "gymnax"


def saved(env: Any) -> bytes:
    """Where it is, as bytes. ``env`` is a FromGymnax."""
    import jax

    leaves = None if env.env_state is None else [np.asarray(leaf) for leaf in jax.tree.leaves(env.env_state)]
    key = None if env._key is None else np.asarray(env._key)
    pieces: list[Any] = []
    try:
        plain = to_wire({"who": _identity(env), "leaves": leaves, "key": key}, pieces, name="state")
    except NotTransferable as error:  # a dtype of JAX's own
        raise SnapshotUnsupported(f"{type(env.gymnax_env).__name__} can't be saved: {error}") from None
    return sealed(_LAYER, plain, b"".join(pieces))


def restored(env: Any, snapshot: bytes) -> tuple[Any, Any]:
    """State and key of a snapshot of such an environment; anything else is an InvalidSnapshot."""
    import jax

    plain, body = opened(_LAYER, snapshot, Any)
    try:
        value = from_wire(plain, bytearray(body))
    except BadFrame as error:
        raise InvalidSnapshot(f"This snapshot is malformed: {error}") from None
    forms, structure = jax.tree.flatten(env.state_form)
    key_form = jax.eval_shape(env._functions.key, 0)
    leaves, key = (value.get("leaves"), value.get("key")) if isinstance(value, dict) else (None, None)
    fits = (
        isinstance(value, dict)
        and value.get("who") == _identity(env)
        and (key is None or _alike(key, key_form))
        and (leaves is None or (isinstance(leaves, list) and len(leaves) == len(forms) and key is not None))
        and (leaves is None or all(map(_alike, leaves, forms)))
    )
    if not fits:
        raise InvalidSnapshot(f"This is no snapshot of {type(env.gymnax_env).__name__}.")
    key = None if key is None else jax.numpy.asarray(key)
    if leaves is None:
        return None, key
    return jax.tree.unflatten(structure, list(map(_array, leaves, forms))), key


def _array(leaf: Any, form: Any) -> Any:
    import jax.numpy as jnp

    # A number whose type JAX took from Python's stays such a one: else the step would be compiled again.
    return jnp.asarray(leaf.item() if form.weak_type and leaf.ndim == 0 else leaf)


def _alike(array: Any, form: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == form.dtype and array.shape == form.shape


def _identity(env: Any) -> str:
    return f"{type(env.gymnax_env).__module__}.{type(env.gymnax_env).__qualname__}"
