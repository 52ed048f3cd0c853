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
    if first.render_mode == "human" or any(_settings(one) != settings for one in natives[1:]):
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
    return inner.gymnasium_env


def _array(native: Any, name: str) -> Array:
    """A flat view of one of the simulation's arrays: it shows what the simulation holds at any time."""
    if name == "main_body":
        return np.asarray(native.data.xpos)[native.data.body(native._main_body).id, :2]
    if name == "masses":
        return np.asarray(native.model.body_mass)
    return np.asarray(getattr(native.data, name)).reshape(-1)


def _settings(native: Any) -> tuple[Any, ...]:
    """All by which two environments of one class could differ in what they compute, apart from the model."""
    fields = {name: value for name, value in vars(native).items() if name != "_np_random_seed"}
    plain = sorted((name, repr(value)) for name, value in fields.items() if isinstance(value, (int, float, str, tuple)))
    shapes = native.model.nq, native.model.nv, native.model.nu, native.model.nbody, native.model.opt.timestep
    return type(native), native.init_qpos.tobytes(), shapes, tuple(plain)


def _is_true(task: Task, native: Any, settings: tuple[Any, ...], make_one: Callable[[], Env[Any, Any]]) -> bool:
    """Whether the table computes what the installed Gymnasium does, told once by trying both."""
    if settings not in _tried:
        spare = make_one()
        try:
            _tried[settings] = _agrees(task, _native(spare), native.action_space)
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
