"""A stand-in for JAX made of NumPy, as far as the functional environments use it. Keys are tuples of integers.

It lets the logic of lanes be tested where JAX, 150 MB, is not installed; the tests marked `full` use JAX itself.
"""

import sys
import types

import numpy as np


def _key(*path):
    return np.array([*path, *[0] * (12 - len(path))], dtype=np.int64)


def _child(key, which):
    sequence = np.random.SeedSequence([int(word) for word in key] + [which])
    return sequence.generate_state(12, np.uint32).astype(np.int64)


def split(key, num=2):
    return np.stack([_child(key, which) for which in range(num)])


def uniform(key, low=0.0, high=1.0):
    return np.random.default_rng([int(word) for word in key]).uniform(low, high)


def vmap(function, in_axes=0):
    def over_lanes(*args, **kwargs):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        fixed = [axis is None for axis in axes]
        batched = [arg for arg, is_fixed in zip(args, fixed, strict=True) if not is_fixed] + list(kwargs.values())
        lanes = []
        for lane in range(len(_leaves(batched[0])[0])):
            own = [arg if is_fixed else _row(arg, lane) for arg, is_fixed in zip(args, fixed, strict=True)]
            lanes.append(function(*own, **{name: _row(value, lane) for name, value in kwargs.items()}))
        return tree_map(lambda *parts: np.stack([np.asarray(part) for part in parts]), *lanes)

    return over_lanes


def _row(tree, lane):
    return tree_map(lambda part: part[lane], tree)


def _leaves(tree):
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in _leaves(part)]
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def tree_map(function, tree, *rest):
    if isinstance(tree, dict):
        return {key: tree_map(function, part, *(other[key] for other in rest)) for key, part in tree.items()}
    if isinstance(tree, tuple):
        parts = [tree_map(function, *group) for group in zip(tree, *rest, strict=True)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return function(tree, *rest)


def install(monkeypatch):
    """`import jax` finds this module until the test ends."""
    jax = types.ModuleType("jax")
    jax.numpy, jax.vmap = np, vmap
    jax.random = types.SimpleNamespace(PRNGKey=lambda seed: _key(int(seed)), split=split, fold_in=_child)
    jax.tree_util = types.SimpleNamespace(tree_map=tree_map)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax.numpy", np)
    monkeypatch.setitem(sys.modules, "jax.random", jax.random)
    return jax
