"""Snapshots and copies of Gymnasium's environments: the simulator, the fields of each layer, the random stream.

Gymnasium's own ``deepcopy`` and ``pickle`` make many environments anew, at their beginning; these go on from where the
environment is, or say that it can't be done.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from paddock.errors import InvalidSnapshot, SnapshotUnsupported
from paddock.sources.simulators import Simulator, prepare_snapshots, simulator_of
from paddock.sources.snapshot_value import class_of, fields_fit, opened_value, sealed_value

_LAYER = "gymnasium"
# Set when it is made, and not by what happens in an episode.
_CONSTANTS = frozenset(("env", "spec", "metadata", "render_mode", "_cached_spec", "_saved_kwargs", "_np_random"))


def saved(env: Any) -> bytes:
    """All that an episode changes, as bytes; SnapshotUnsupported if some of it has no form as data."""
    simulator = _required(env)
    value = {
        "who": _identity(env),
        "state": simulator.state(),
        "fields": [_fields(layer, simulator) for layer in _layers(env)],
        "random": env.unwrapped._np_random,
    }
    return sealed_value(_LAYER, value, name=_name(env))


def restore(env: Any, snapshot: bytes) -> None:
    """Go on from what ``saved`` returned for such an environment; anything else is refused and changes nothing."""
    simulator = _required(env)
    value = opened_value(_LAYER, snapshot)
    layers = list(_layers(env))
    _check(value, env, layers, simulator)
    checked = simulator.check(value["state"])
    simulator.enter(checked)
    for layer, fields in zip(layers, value["fields"], strict=True):
        vars(layer).update(fields)
    env.unwrapped._np_random = value["random"]


def copied(env: Any) -> Any:
    """Another environment that goes on from where this one is, and shares nothing with it."""
    if simulator_of(env.unwrapped) is not None:
        other = copy.deepcopy(env)  # made anew, with the same arguments
        other.unwrapped.spec = copy.deepcopy(env.unwrapped.spec)
        prepare_snapshots(other.unwrapped)
        restore(other, saved(env))
        return other
    try:
        return _by_fields(env)
    except Exception as error:  # of code inside: a C library's object says so by a TypeError, if at all
        raise SnapshotUnsupported(
            f"{_name(env)} can't be copied: {type(error).__name__}: {error}. Its library can't copy the state of a "
            f"simulation; make another environment and repeat the actions."
        ) from error


def _by_fields(env: Any) -> Any:
    """By what is in it, and not by ``EzPickle``, which would begin anew."""
    made: dict[int, Any] = {}
    for layer in reversed(list(_layers(env))):  # the innermost first: the others hold it
        other = object.__new__(type(layer))
        made[id(layer)] = other
        vars(other).update({name: copy.deepcopy(value, made) for name, value in vars(layer).items()})
    return made[id(env)]


def _required(env: Any) -> Simulator:
    simulator = simulator_of(env.unwrapped)
    if simulator is None:
        raise SnapshotUnsupported(
            f"{_name(env)} can't save its state: among Gymnasium's environments, those of MuJoCo and of the ALE can, "
            f"and this is neither. Repeat the actions from the seed instead."
        )
    return simulator


def _layers(env: Any) -> Iterator[Any]:
    """The environment with all wrappers of Gymnasium's around it, outermost first."""
    while True:
        yield env
        if env is env.unwrapped:
            return
        env = env.env


def _fields(layer: Any, simulator: Simulator) -> dict[str, Any]:
    return {name: value for name, value in vars(layer).items() if _kept(name, value, simulator)}


def _kept(name: Any, value: Any, simulator: Simulator) -> bool:
    if not isinstance(name, str) or name in _CONSTANTS or name in simulator.constants or name.startswith("_ezpickle"):
        return False
    if isinstance(value, (FunctionType, MethodType, ModuleType, type)):
        return False
    # A space: told by what it can do, so that Gymnasium need not be imported here.
    return not (hasattr(value, "sample") and hasattr(value, "contains"))


def _check(value: Any, env: Any, layers: list[Any], simulator: Simulator) -> None:
    fields = value.get("fields") if isinstance(value, dict) else None
    fits = (
        isinstance(fields, list)
        and len(fields) == len(layers)
        and all(map(_may_enter, fields, layers, [simulator] * len(layers)))
        and isinstance(value.get("state"), dict)
        and isinstance(value.get("random"), (np.random.Generator, type(None)))
    )
    if not fits or value.get("who") != _identity(env):
        raise InvalidSnapshot(f"This is no snapshot of {_name(env)} with the same wrappers and settings.")


def _may_enter(fields: Any, layer: Any, simulator: Simulator) -> bool:
    if not isinstance(fields, dict) or not all(_kept(name, value, simulator) for name, value in fields.items()):
        return False
    return fields_fit(fields, layer, _fields(layer, simulator), simulator.settings)


def _identity(env: Any) -> list[str]:
    return [class_of(layer) for layer in _layers(env)]


def _name(env: Any) -> str:
    spec = env.unwrapped.spec
    return type(env.unwrapped).__name__ if spec is None else str(spec.id)
