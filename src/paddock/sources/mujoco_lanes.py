"""MujocoLanes: lanes of a known MuJoCo task, stepped together: simulated in any thread, read from their own arrays.

A reader would trust the table of tasks. Gymnasium's next version may compute something else under the same name, so
before lanes are stepped this way, one environment of their kind is stepped both ways and the results are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from paddock.core.env import Env
from paddock.sources.gymnasium import FromGymnasium

Array = np.ndarray[Any, Any]

# Fields that two environments may differ in and still compute the same.
_NO_SETTINGS = {
    *("model", "data", "mujoco_renderer", "spec", "metadata", "action_space", "observation_space"),
    *("_np_random", "_np_random_seed", "_ezpickle_args", "_ezpickle_kwargs"),
}
_TRIED_STEPS = 3
_tried: dict[tuple[Any, ...], bool] = {}


def mujoco_lanes(envs: Sequence[Env[Any, Any]], make_one: Callable[[], Env[Any, Any]]) -> MujocoLanes | None:
    """Return how to step these environments' simulators together; None unless all are one known task, set up alike."""
    natives = [_native(env) for env in envs]
    first = natives[0]
    task = TASKS.get((type(first).__module__, type(first).__qualname__))
    if task is None or any(type(one) is not type(first) for one in natives):
        return None
    settings = _settings(first)
    if settings is None or first.render_mode == "human" or any(_settings(one) != settings for one in natives[1:]):
        return None
    return MujocoLanes(task, natives) if _is_still_right(task, first, settings, make_one) else None


class MujocoLanes:
    """``natives`` are Gymnasium's environments without a wrapper; a step leaves each as its own ``step`` would."""

    def __init__(self, task: Task, natives: Sequence[Any]) -> None:
        import mujoco

        self._task, self._first = task, natives[0]
        self._step, self._finish = mujoco.mj_step, mujoco.mj_rnePostConstraint
        self._simulators = [(one.model, one.data, one.data.ctrl, one.frame_skip) for one in natives]
        self._arrays = {name: [_array(one, name) for one in natives] for name in {*task.before, *task.after}}

    def begin(self, lanes: Sequence[int], actions: Array) -> None:
        """Prepare to simulate these lanes. actions: one row for each lane there is."""
        self._lanes, self._actions = lanes, actions
        self._before = self._columns(self._task.before, lanes)

    def simulate(self, lane: int) -> None:
        """Hot: all that runs in the threads. MuJoCo releases the interpreter's lock in both calls."""
        model, data, control, frames = self._simulators[lane]
        control[:] = self._actions[lane]
        self._step(model, data, frames)
        self._finish(model, data)

    def outcome(self, lanes: Sequence[int]) -> Result:
        """Return observations, rewards, terminations and infos of these lanes, which ``begin`` must have named."""
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
    """Return Gymnasium's environment, if nothing but FromGymnasium stands between it and the guard."""
    inner = getattr(env, "env", env)
    if type(inner) is not FromGymnasium or inner.gymnasium_env is not inner.gymnasium_env.unwrapped:
        return None
    for layer in (env, inner, inner.gymnasium_env):
        if any(callable(getattr(type(layer), name, None)) for name in vars(layer)):
            return None  # a method was replaced in this one object, as set_attr can
    return inner.gymnasium_env


def _array(native: Any, name: str) -> Array:
    """Return a flat view of one of the simulation's arrays, which always shows its current values."""
    if name == "main_body":
        return np.asarray(native.data.xpos)[native.data.body(native._main_body).id, :2]
    if name == "masses":
        return np.asarray(native.model.body_mass)
    return np.asarray(getattr(native.data, name)).reshape(-1)


def _settings(native: Any) -> tuple[Any, ...] | None:
    """Return all by which two environments of one class could differ in what they compute, apart from the model.

    None if one of their fields can't be compared.
    """
    shapes = native.model.nq, native.model.nv, native.model.nu, native.model.nbody, native.model.opt.timestep
    try:
        return type(native), shapes, _canonical(_fields(native))
    except (TypeError, RecursionError):
        return None


def _fields(native: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(native).items() if name not in _NO_SETTINGS}


def _canonical(value: Any) -> tuple[Any, ...]:
    """Return equal tuples for values that compute the same; TypeError for what is not plain data."""
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
    raise TypeError(f"{kind.__name__} is not plain data")


def _is_still_right(task: Task, native: Any, settings: tuple[Any, ...], make_one: Callable[[], Env[Any, Any]]) -> bool:
    """Whether the table computes what the installed Gymnasium does. Both are tried once."""
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
    for action, (observation, reward, terminated, _, info) in zip(draws, own, strict=True):
        lanes.begin([0, 1], np.stack((action, action)))
        lanes.simulate(0)
        observations, rewards, terminations, infos = lanes.outcome([0, 1])
        columns = [observations, rewards, terminations, *(infos[key] for key in sorted(infos))]
        expected = [observation, reward, terminated, *(info[key] for key in sorted(info))]
        if sorted(info) != sorted(infos):
            return False
        for column, value in zip(columns, expected, strict=True):
            one, row = np.asarray(value), column[1]
            if row.dtype != one.dtype and not isinstance(value, (bool, int, float)):
                return False
            if row.shape != one.shape or row.tobytes() != one.astype(row.dtype).tobytes():
                return False
    return True


# The tasks. Every number must be the one that the environment itself computes, to the last bit: the same operations in
# the same order and precision, over rows instead of one lane.

Columns = dict[str, Array]  # by the name of an array of the simulation: one row per lane
Result = tuple[Array, Array, Array, Columns]  # observations, rewards, terminations, infos


class Task(NamedTuple):
    """One environment class. ``before`` and ``after`` name the arrays that are read before and after a step.

    An array is one of MjData's, flattened; "main_body" is where that body is, and "masses" is the model's.
    ``result`` gets the environment for its settings, the columns of both and the actions.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    result: Callable[[Any, Columns, Columns, Array], Result]


def _half_cheetah(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    speed = (after["qpos"][:, 0] - before["qpos"][:, 0]) / env.dt
    forward = env._forward_reward_weight * speed
    effort = env._ctrl_cost_weight * _squares(actions)
    infos = {"x_position": after["qpos"][:, 0], "x_velocity": speed, "reward_forward": forward, "reward_ctrl": -effort}
    return _observe(env, 1, after["qpos"], after["qvel"]), forward - effort, _no_lanes(speed), infos


def _swimmer(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    place = after["qpos"][:, :2]
    speed = (place - before["qpos"][:, :2]) / env.dt
    forward = env._forward_reward_weight * speed[:, 0]
    effort = env._ctrl_cost_weight * _squares(actions)
    infos = {**_distance_info(place, speed), "reward_forward": forward, "reward_ctrl": -effort}
    return _observe(env, 2, after["qpos"], after["qvel"]), forward - effort, _no_lanes(forward), infos


def _upright(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    """Hopper and Walker2d."""
    qpos = after["qpos"]
    (low, high), (least, most) = env._healthy_z_range, env._healthy_angle_range
    z, angle = qpos[:, 1], qpos[:, 2]
    healthy: Array = (low < z) & (z < high) & (least < angle) & (angle < most)
    if hasattr(env, "_healthy_state_range"):  # Hopper's
        low, high = env._healthy_state_range
        state = np.concatenate((qpos, after["qvel"]), axis=1)[:, 2:]
        healthy = healthy & ((low < state) & (state < high)).all(axis=1)
    speed = (qpos[:, 0] - before["qpos"][:, 0]) / env.dt
    forward = env._forward_reward_weight * speed
    survived = healthy * env._healthy_reward
    effort = env._ctrl_cost_weight * _squares(actions)
    infos = {
        "x_position": qpos[:, 0],
        "z_distance_from_origin": qpos[:, 1] - env.init_qpos[1],
        "x_velocity": speed,
        "reward_forward": forward,
        "reward_ctrl": -effort,
        "reward_survive": survived,
    }
    observations = _observe(env, 1, qpos, np.clip(after["qvel"], -10, 10))
    return observations, forward + survived - effort, _ends(env, healthy), infos


def _ant(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    qpos, qvel = after["qpos"], after["qvel"]
    speed = (after["main_body"] - before["main_body"]) / env.dt
    low, high = env._healthy_z_range
    finite = np.isfinite(qpos).all(axis=1) & np.isfinite(qvel).all(axis=1)
    healthy = finite & (low <= qpos[:, 2]) & (qpos[:, 2] <= high)
    forces = np.clip(after["cfrc_ext"], *env._contact_force_range)
    forward, survived = speed[:, 0] * env._forward_reward_weight, healthy * env._healthy_reward
    effort, contact = env._ctrl_cost_weight * _squares(actions), env._contact_cost_weight * _squares(forces)
    infos = {
        **_distance_info(qpos[:, :2], speed),
        "reward_forward": forward,
        "reward_ctrl": -effort,
        "reward_contact": -contact,
        "reward_survive": survived,
    }
    felt = (forces[:, 6:],) if env._include_cfrc_ext_in_observation else ()
    observations = _observe(env, 2, qpos, qvel, *felt)
    return observations, forward + survived - (effort + contact), _ends(env, healthy), infos


def _humanoid(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    qpos = after["qpos"]
    speed = (_mass_centre(after) - _mass_centre(before)) / env.dt
    low, high = env._healthy_z_range
    healthy = (low < qpos[:, 2]) & (qpos[:, 2] < high)
    forward, survived = env._forward_reward_weight * speed[:, 0], healthy * env._healthy_reward
    effort = env._ctrl_cost_weight * _squares(after["ctrl"])
    contact = np.clip(env._contact_cost_weight * _squares(after["cfrc_ext"]), *env._contact_cost_range)
    infos = {
        **_distance_info(qpos[:, :2], speed),
        "tendon_length": after["ten_length"],
        "tendon_velocity": after["ten_velocity"],
        "reward_survive": survived,
        "reward_forward": forward,
        "reward_ctrl": -effort,
        "reward_contact": -contact,
    }
    felt = (
        (env._include_cinert_in_observation, after["cinert"][:, 10:]),
        (env._include_cvel_in_observation, after["cvel"][:, 6:]),
        (env._include_qfrc_actuator_in_observation, after["qfrc_actuator"][:, 6:]),
        (env._include_cfrc_ext_in_observation, after["cfrc_ext"][:, 6:]),
    )
    observations = _observe(env, 2, qpos, after["qvel"], *(part for wanted, part in felt if wanted is True))
    return observations, forward + survived - (effort + contact), _ends(env, healthy), infos


def _inverted_pendulum(_env: Any, _before: Columns, after: Columns, _actions: Array) -> Result:
    observations = np.concatenate((after["qpos"], after["qvel"]), axis=1)
    fell = ~np.isfinite(observations).all(axis=1) | (np.abs(observations[:, 1]) > 0.2)
    reward = (~fell).astype(np.int64)
    return observations, reward, fell, {"reward_survive": reward}


def _observe(env: Any, skipped: int, qpos: Array, *others: Array) -> Array:
    if env._exclude_current_positions_from_observation:
        qpos = qpos[:, skipped:]
    return np.concatenate((qpos, *others), axis=1)


def _squares(rows: Array) -> Array:
    sums: Array = np.add.reduce(np.square(rows), axis=1)
    return sums


def _no_lanes(like: Array) -> Array:
    return np.zeros(len(like), np.bool_)


def _ends(env: Any, healthy: Array) -> Array:
    return ~healthy if env._terminate_when_unhealthy else _no_lanes(healthy)


def _distance_info(place: Array, speed: Array) -> Columns:
    # One by one: the product of two vectors rounds otherwise than the sum of their squares does.
    distance = np.sqrt([one.dot(one) for one in place])
    return {
        "x_position": place[:, 0],
        "y_position": place[:, 1],
        "distance_from_origin": distance,
        "x_velocity": speed[:, 0],
        "y_velocity": speed[:, 1],
    }


def _mass_centre(columns: Columns) -> Array:
    masses = columns["masses"]
    places = columns["xipos"].reshape(*masses.shape, 3)
    each = [np.sum(mass[:, None] * place, axis=0) / np.sum(mass) for mass, place in zip(masses, places, strict=True)]
    return np.array(each)[:, :2]


_PHYSICS = ("qpos", "qvel")
_FELT = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext", "ctrl", "ten_length", "ten_velocity")

# By module and name of the class, which must be this very one and no subclass.
TASKS = {
    ("gymnasium.envs.mujoco.half_cheetah_v5", "HalfCheetahEnv"): Task(("qpos",), _PHYSICS, _half_cheetah),
    ("gymnasium.envs.mujoco.swimmer_v5", "SwimmerEnv"): Task(("qpos",), _PHYSICS, _swimmer),
    ("gymnasium.envs.mujoco.hopper_v5", "HopperEnv"): Task(("qpos",), _PHYSICS, _upright),
    ("gymnasium.envs.mujoco.walker2d_v5", "Walker2dEnv"): Task(("qpos",), _PHYSICS, _upright),
    ("gymnasium.envs.mujoco.ant_v5", "AntEnv"): Task(("main_body",), (*_PHYSICS, "main_body", "cfrc_ext"), _ant),
    ("gymnasium.envs.mujoco.humanoid_v5", "HumanoidEnv"): Task(
        ("xipos", "masses"), (*_PHYSICS, "xipos", "masses", *_FELT), _humanoid
    ),
    ("gymnasium.envs.mujoco.inverted_pendulum_v5", "InvertedPendulumEnv"): Task((), _PHYSICS, _inverted_pendulum),
}
