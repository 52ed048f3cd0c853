"""``dm_control:domain/task``, the control suite, and ``dm_control:manipulation/name`` as Envs, with snapshots.

Its seed is the task's ``random``. A reader would make a new environment for each seed, as the library does: that takes
up to seconds and gives the same numbers as seeding the task's stream, except for LQR, whose model is drawn too.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

import numpy as np

from paddock.core.spec import EnvSpec
from paddock.errors import InvalidSnapshot, NameNotFound, SnapshotUnsupported
from paddock.sources.dm_env import FromDmEnv
from paddock.sources.families import installed_family
from paddock.sources.foreign import Maker, class_of, fields_fit, fits_in, importing, is_finite, open_value, seal_value
from paddock.sources.mujoco import MuJoCo, import_mujoco

_LAYER = "dm_control"  # of a snapshot
_CONSTANTS = frozenset(("_task", "_physics", "_random"))
_SETTINGS = frozenset(("_n_sub_steps", "_step_limit", "_flat_observation"))
# Megabytes of shapes and pictures, which no task changes.
_SHAPES = ("bvh_", "flex_", "mesh_", "oct_", "skin_", "tex_")


class FromDmControl(FromDmEnv):
    """A FromDmEnv that is made by the names of a domain and a task."""

    @classmethod
    def for_spec(cls, spec: EnvSpec) -> Maker:
        """Return what makes the environment that this spec's id names."""
        return Maker(partial(_make, spec.id), {"render_modes": ["rgb_array"]})


def spec_of(id: str) -> EnvSpec:
    """Return the spec of ``domain/task`` of the suite, or of ``manipulation/name``."""
    with importing(installed_family("dm_control", id), id):
        manipulation, suite = _import_collections()
    known = ["/".join(one) for one in suite.ALL_TASKS] + [f"manipulation/{one}" for one in manipulation.ALL]
    if id not in known:
        domain = id.partition("/")[0]
        tasks = [one for one in known if one.startswith(f"{domain}/")]
        domains = sorted({one.partition("/")[0] for one in known})
        which = f"of {', '.join(tasks)}" if tasks else f"with a domain of {', '.join(domains)}"
        raise NameNotFound(f"dm_control has no {id!r}. Expected 'domain/task', one {which}.")
    return EnvSpec(id, entry_point="paddock.sources.dm_control:FromDmControl")


def _make(
    id: str,
    /,
    *,
    task_kwargs: dict[str, Any] | None = None,
    environment_kwargs: dict[str, Any] | None = None,
    visualize_reward: bool = False,
    render_mode: str | None = None,
    render_kwargs: dict[str, Any] | None = None,
    **unknown: Any,
) -> FromDmControl:
    """Make the environment with this name. ``task_kwargs`` are the task's own, as ``time_limit``."""
    spec_of(id)
    domain, _, task = id.partition("/")
    for name, value in unknown.items():
        hint = "" if domain == "manipulation" else f" (for the task: task_kwargs={{{name!r}: {value!r}}})"
        raise TypeError(f"dm_control got an unexpected keyword argument {name!r}{hint}")

    def load(seed: int | None = None) -> Any:
        if domain == "manipulation":
            from dm_control import manipulation

            return manipulation.load(task, seed=seed)
        from dm_control import suite

        given = {**(task_kwargs or {}), **({} if seed is None else {"random": seed})}
        return suite.load(domain, task, given, environment_kwargs, visualize_reward)

    remake = load if domain == "lqr" else None
    return FromDmControl(load(), remake=remake, render_mode=render_mode, render_kwargs=render_kwargs)


def _import_collections() -> tuple[Any, Any]:
    """Import both. If MuJoCo was told to draw by EGL and that has no device, tell dm_control not to draw."""
    chosen = "MUJOCO_GL" in os.environ
    import_mujoco()
    try:
        from dm_control import manipulation, suite
    except ImportError:
        if chosen or "MUJOCO_GL" not in os.environ:
            raise
        os.environ["MUJOCO_GL"] = "disable"
        for name in [name for name in sys.modules if name.partition(".")[0] == "dm_control"]:
            del sys.modules[name]
        from dm_control import manipulation, suite
    return manipulation, suite


def save_snapshot(env: Any) -> bytes:
    """Return all that an episode changes; SnapshotUnsupported for what is not of the suite.

    MuJoCo's state, the task's fields and its random stream, and the model too: tasks write into it when an episode
    begins, where the target is, how large a joint's damping, how high the ground.
    """
    return seal_value(_LAYER, _value(env, _require_suite(env)), name=type(env.task).__name__)


def _value(env: Any, simulator: MuJoCo) -> dict[str, Any]:
    return {
        "who": _identity(env),
        "state": simulator.state(),
        "model": {name: np.array(array) for name, array in _model_arrays(env).items()},
        "fields": [_fields(layer) for layer in (env, env.task)],
        "random": list(env.task.random.get_state(legacy=True)),
    }


def restore_snapshot(env: Any, snapshot: bytes) -> None:
    """Go on from what ``save_snapshot`` returned for such an environment; refuse anything else and change nothing."""
    simulator = _require_suite(env)
    value = open_value(_LAYER, snapshot)
    _check(value, env, _model_arrays(env))
    simulator.check(value["state"])
    before = _value(env, simulator)
    try:
        _enter(env, simulator, value)
    except Exception:  # MuJoCo's, about such a model: see MuJoCo.enter
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


def _require_suite(env: Any) -> MuJoCo:
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
        and _is_random_state(value.get("random"))
    )
    if not fits or value.get("who") != _identity(env):
        raise InvalidSnapshot(f"This is not a snapshot of {type(env.task).__name__} with this model and settings.")


def _is_random_state(state: Any) -> bool:
    """Whether NumPy may take it as a stream. It does not check: a place past the end would read foreign memory."""
    match state:
        case ["MT19937", np.ndarray() as key, int(place), int(has_gauss), float()]:
            return key.dtype == np.uint32 and key.shape == (624,) and 0 <= place <= 624 and has_gauss in (0, 1)
    return False


def _identity(env: Any) -> list[str]:
    return [class_of(one) for one in (env, env.task, env.physics)]
