"""MujocoLanes: lanes of a known MuJoCo task, stepped together: simulated in any thread, read from their own arrays.

A reader would trust the table of tasks. Gymnasium's next version may compute something else under the same name, so
before lanes are stepped this way, an environment of their kind is stepped both ways, and the results are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from paddock.core.env import Env
from paddock.sources.gymnasium import FromGymnasium
from paddock.sources.mujoco_tasks import TASKS, Columns, Result, Task

Array = np.ndarray[Any, Any]

# What each environment has for itself, and what is for show: by none of it two could differ in what they compute.
_NO_SETTINGS = {
    *("model", "data", "mujoco_renderer", "spec", "metadata", "action_space", "observation_space"),
    *("_np_random", "_np_random_seed", "_ezpickle_args", "_ezpickle_kwargs"),
}
_TRIED_STEPS = 3
_tried: dict[tuple[Any, ...], bool] = {}


def mujoco_lanes(envs: Sequence[Env[Any, Any]], make_one: Callable[[], Env[Any, Any]]) -> MujocoLanes | None:
    """How to step these environments' simulators together; None unless all are of one known task, set up alike."""
    natives = [_native(env) for env in envs]
    first = natives[0]
    task = TASKS.get((type(first).__module__, type(first).__qualname__))
    if task is None or any(type(one) is not type(first) for one in natives):
        return None
    settings = _settings(first)
    if settings is None or first.render_mode == "human" or any(_settings(one) != settings for one in natives[1:]):
        return None
    return MujocoLanes(task, natives) if _is_true(task, first, settings, make_one) else None


class MujocoLanes:
    """``natives`` are Gymnasium's environments, without a wrapper; after a step each is as its own would leave it."""

    def __init__(self, task: Task, natives: Sequence[Any]) -> None:
        import mujoco

        self._task, self._first = task, natives[0]
        self._step, self._finish = mujoco.mj_step, mujoco.mj_rnePostConstraint
        self._simulators = [(one.model, one.data, one.data.ctrl, one.frame_skip) for one in natives]
        self._arrays = {name: [_array(one, name) for one in natives] for name in {*task.before, *task.after}}

    def begin(self, lanes: Sequence[int], actions: Array) -> None:
        """Before these lanes are simulated. actions: one row for each lane there is."""
        self._lanes, self._actions = lanes, actions
        self._before = self._columns(self._task.before, lanes)

    def simulate(self, lane: int) -> None:
        """Hot: all that runs in the threads. MuJoCo lets go of the interpreter's lock in both calls."""
        model, data, control, frames = self._simulators[lane]
        control[:] = self._actions[lane]
        self._step(model, data, frames)
        self._finish(model, data)

    def outcome(self, lanes: Sequence[int]) -> Result:
        """Observations, rewards, terminations and infos of these lanes, which are among those that ``begin`` named."""
        actions = self._actions if len(lanes) == len(self._actions) else self._actions[lanes]
        before = self._before
        if len(lanes) != len(self._lanes):
            rows = [self._lanes.index(lane) for lane in lanes]
            before = {name: column[rows] for name, column in before.items()}
        return self._task.result(self._first, before, self._columns(self._task.after, lanes), actions)

    def _columns(self, names: Sequence[str], lanes: Sequence[int]) -> Columns:
        every = len(lanes) == len(self._simulators)
        columns = {}
        for name in names:
            arrays = self._arrays[name]
            columns[name] = np.concatenate(arrays if every else [arrays[lane] for lane in lanes])
        return {name: column.reshape(len(lanes), -1) for name, column in columns.items()}


def _native(env: Env[Any, Any]) -> Any:
    """Gymnasium's environment, if nothing but FromGymnasium stands between it and the guard."""
    inner = getattr(env, "env", env)
    if type(inner) is not FromGymnasium or inner.gymnasium_env is not inner.gymnasium_env.unwrapped:
        return None
    return None if any(map(_has_own_methods, (env, inner, inner.gymnasium_env))) else inner.gymnasium_env


def _has_own_methods(layer: Any) -> bool:
    """Whether a method was replaced in this one object, as ``set_attr`` can."""
    return any(callable(getattr(type(layer), name, None)) for name in vars(layer))


def _array(native: Any, name: str) -> Array:
    """A flat view of one of the simulation's arrays: it shows what the simulation holds at any time."""
    if name == "main_body":
        return np.asarray(native.data.xpos)[native.data.body(native._main_body).id, :2]
    if name == "masses":
        return np.asarray(native.model.body_mass)
    return np.asarray(getattr(native.data, name)).reshape(-1)


def _settings(native: Any) -> tuple[Any, ...] | None:
    """All by which two environments of one class could differ in what they compute, apart from the model.

    None where one of their fields is of a kind that can't be compared.
    """
    shapes = native.model.nq, native.model.nv, native.model.nu, native.model.nbody, native.model.opt.timestep
    try:
        return type(native), shapes, _canonical(_fields(native))
    except (TypeError, RecursionError):
        return None


def _fields(native: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(native).items() if name not in _NO_SETTINGS}


def _canonical(value: Any) -> tuple[Any, ...]:
    """Equal for two values that compute the same; TypeError for what is no plain data."""
    kind = type(value)
    if kind in (float, int, bool, str, type(None)):
        return kind, repr(value)  # not the value: 1 == 1.0 == True, and nan is not nan
    if kind in (tuple, list):
        return kind, *map(_canonical, value)
    if kind is dict:
        return kind, *sorted((repr(key), _canonical(one)) for key, one in value.items())
    if isinstance(value, np.generic) or kind is np.ndarray:
        if value.dtype.hasobject:
            raise TypeError("an array of objects")
        return kind, value.dtype.str, value.shape, value.tobytes()
    raise TypeError(f"{kind.__name__} is no plain data")


def _is_true(task: Task, native: Any, settings: tuple[Any, ...], make_one: Callable[[], Env[Any, Any]]) -> bool:
    """Whether the table computes what the installed Gymnasium does, told once by trying both."""
    if settings not in _tried:
        spare = make_one()
        try:
            other = _native(spare)
            if alike := type(other) is type(native):
                vars(other).update(_fields(native))  # what was set since the lanes were made
                alike = _settings(other) == settings
            _tried[settings] = alike and _agrees(task, other, native.action_space)
        except Exception:  # settings that nothing can be computed with: the lanes' own steps will say so
            _tried[settings] = False
        finally:
            spare.close()
    return _tried[settings]


def _agrees(task: Task, native: Any, space: Any) -> bool:
    draws = np.random.default_rng(0).uniform(space.low, space.high, (_TRIED_STEPS, *space.shape)).astype(space.dtype)
    native.reset(seed=0)
    own = [native.step(action) for action in draws]
    native.reset(seed=0)
    lanes = MujocoLanes(task, [native, native])  # two rows, as a batch has, of which only one is simulated
    for action, (seen, reward, terminated, _, info) in zip(draws, own, strict=True):
        lanes.begin([0, 1], np.stack((action, action)))
        lanes.simulate(0)
        observations, rewards, terminations, infos = lanes.outcome([0, 1])
        columns = [observations, rewards, terminations, *(infos[key] for key in sorted(infos))]
        expected = [seen, reward, terminated, *(info[key] for key in sorted(info))]
        if sorted(info) != sorted(infos) or not all(map(_same_row, columns, expected)):
            return False
    return True


def _same_row(column: Array, value: Any) -> bool:
    one = np.asarray(value)
    same_type = column.dtype == one.dtype or isinstance(value, (bool, int, float))
    return same_type and column[1].shape == one.shape and column[1].tobytes() == one.astype(column.dtype).tobytes()
