"""Snapshots of functional environments: the arrays of their state, and the key."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.errors import InvalidSnapshot
from paddock.sources.snapshot_value import class_of, fits_in, opened_value, sealed_value

_LAYER = "gymnax"


def saved(env: Any) -> bytes:
    """Where it is, as bytes. ``env`` is a FromGymnax."""
    import jax

    leaves = None if env.env_state is None else [np.asarray(leaf) for leaf in jax.tree.leaves(env.env_state)]
    key = None if env._key is None else np.asarray(env._key)
    value = {"who": class_of(env.gymnax_env), "leaves": leaves, "key": key}
    return sealed_value(_LAYER, value, name=type(env.gymnax_env).__name__)


def restored(env: Any, snapshot: bytes) -> tuple[Any, Any]:
    """State and key of a snapshot of such an environment; anything else is an InvalidSnapshot."""
    import jax

    value = opened_value(_LAYER, snapshot)
    forms, structure = jax.tree.flatten(env.state_form)
    key_form = jax.eval_shape(env._functions.key, 0)
    leaves, key = (value.get("leaves"), value.get("key")) if isinstance(value, dict) else (None, None)
    fits = (
        isinstance(value, dict)
        and value.get("who") == class_of(env.gymnax_env)
        and (key is None or fits_in(key, key_form))
        and (leaves is None or (isinstance(leaves, list) and len(leaves) == len(forms) and key is not None))
        and (leaves is None or all(map(fits_in, leaves, forms)))
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
