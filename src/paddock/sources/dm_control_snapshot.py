"""Snapshots of dm_control's suite: MuJoCo's state and model, the task's fields, and its random stream.

A reader would leave the model out. But tasks write into it when an episode begins: where the target is, how large a
joint's damping is, how high the ground.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.errors import InvalidSnapshot, SnapshotUnsupported
from paddock.sources.simulators import MuJoCo
from paddock.sources.snapshot_value import class_of, fields_fit, fits_in, is_finite, opened_value, sealed_value

_LAYER = "dm_control"
_CONSTANTS = frozenset(("_task", "_physics", "_random"))
_SETTINGS = frozenset(("_n_sub_steps", "_step_limit", "_flat_observation"))
# Megabytes of shapes and pictures, which no task changes.
_SHAPES = ("bvh_", "flex_", "mesh_", "oct_", "skin_", "tex_")


def saved(env: Any) -> bytes:
    """All that an episode changes, as bytes; SnapshotUnsupported for what is not of the suite."""
    return sealed_value(_LAYER, _value(env, _required(env)), name=type(env.task).__name__)


def _value(env: Any, simulator: MuJoCo) -> dict[str, Any]:
    return {
        "who": _identity(env),
        "state": simulator.state(),
        "model": {name: np.array(array) for name, array in _model_arrays(env).items()},
        "fields": [_fields(layer) for layer in (env, env.task)],
        "random": list(env.task.random.get_state(legacy=True)),
    }


def restore(env: Any, snapshot: bytes) -> None:
    """Go on from what ``saved`` returned for such an environment; anything else is refused and changes nothing."""
    simulator = _required(env)
    value = opened_value(_LAYER, snapshot)
    _check(value, env, _model_arrays(env))
    simulator.check(value["state"])
    before = _value(env, simulator)
    try:
        _enter(env, simulator, value)
    except Exception:  # of MuJoCo, about such a model: see MuJoCo.enter
        _enter(env, simulator, before)
        raise


def _enter(env: Any, simulator: MuJoCo, value: dict[str, Any]) -> None:
    model = _model_arrays(env)
    for name, array in value["model"].items():
        model[name][...] = array
    simulator.enter((value["state"]["numbers"], value["state"]["arrays"]))
    env.task.random.set_state(tuple(value["random"]))
    for layer, fields in zip((env, env.task), value["fields"], strict=True):
        vars(layer).update(fields)


def _required(env: Any) -> MuJoCo:
    try:
        import mujoco
        from dm_control.rl.control import Environment
    except ImportError:
        mujoco, Environment = None, None  # noqa: N806 - a class, where it is
    if Environment is None or not isinstance(env, Environment) or not hasattr(env.task, "random"):
        raise SnapshotUnsupported(
            f"{type(env).__name__} can't save its state: among dm_env's environments those of dm_control's suite can. "
            f"Repeat the actions from the seed instead."
        )
    return MuJoCo(mujoco, env.physics.model.ptr, env.physics.data.ptr)


def _model_arrays(env: Any) -> dict[str, Any]:
    model = env.physics.model.ptr
    names = [name for name in dir(model) if not name.startswith(("_", *_SHAPES))]
    found = {name: getattr(model, name, None) for name in names}
    return {name: one for name, one in found.items() if isinstance(one, np.ndarray) and one.dtype.kind == "f"}


def _fields(layer: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(layer).items() if name not in _CONSTANTS}


def _check(value: Any, env: Any, model: dict[str, Any]) -> None:
    arrays, fields = (value.get("model"), value.get("fields")) if isinstance(value, dict) else (None, None)
    layers = (env, env.task)
    fits = (
        isinstance(arrays, dict)
        and arrays.keys() == model.keys()
        and all(fits_in(arrays[name], like) and is_finite(arrays[name]) for name, like in model.items())
        and isinstance(fields, list)
        and len(fields) == 2
        and all(fields_fit(one, layer, _fields(layer), _SETTINGS) for one, layer in zip(fields, layers, strict=True))
        and isinstance(value.get("state"), dict)
        and _is_stream(value.get("random"))
    )
    if not fits or value.get("who") != _identity(env):
        raise InvalidSnapshot(f"This is no snapshot of {type(env.task).__name__} with this model and these settings.")


def _is_stream(state: Any) -> bool:
    """NumPy does not check: a place past the end would let it read memory that is not its own."""
    match state:
        case ["MT19937", np.ndarray() as key, int(place), int(has_gauss), float()]:
            return key.dtype == np.uint32 and key.shape == (624,) and 0 <= place <= 624 and has_gauss in (0, 1)
    return False


def _identity(env: Any) -> list[str]:
    return [class_of(one) for one in (env, env.task, env.physics)]
