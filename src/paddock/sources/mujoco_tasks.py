"""What Gymnasium's MuJoCo tasks compute of a simulation after a step, for many lanes at once.

Every number must be the one that the environment itself computes, to the last bit: the same operations in the same
order and precision, over rows in place of one lane. ``mujoco_lanes`` tries each entry against the installed Gymnasium.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]  # of each array of the simulation that was asked for, one row a lane
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
    return _seen(env, 1, after["qpos"], after["qvel"]), forward - effort, _nowhere(speed), infos


def _swimmer(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    place = after["qpos"][:, :2]
    speed = (place - before["qpos"][:, :2]) / env.dt
    forward = env._forward_reward_weight * speed[:, 0]
    effort = env._ctrl_cost_weight * _squares(actions)
    infos = {**_travelled(place, speed), "reward_forward": forward, "reward_ctrl": -effort}
    return _seen(env, 2, after["qpos"], after["qvel"]), forward - effort, _nowhere(forward), infos


def _upright(env: Any, before: Columns, after: Columns, actions: Array, healthy: Array) -> Result:
    """Hopper and Walker2d."""
    qpos = after["qpos"]
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
    seen = _seen(env, 1, qpos, np.clip(after["qvel"], -10, 10))
    return seen, forward + survived - effort, _ends(env, healthy), infos


def _hopper(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    low, high = env._healthy_state_range
    state = np.concatenate((after["qpos"], after["qvel"]), axis=1)[:, 2:]
    sane = ((low < state) & (state < high)).all(axis=1)
    return _upright(env, before, after, actions, sane & _stands(env, after["qpos"]))


def _walker(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    return _upright(env, before, after, actions, _stands(env, after["qpos"]))


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
        **_travelled(qpos[:, :2], speed),
        "reward_forward": forward,
        "reward_ctrl": -effort,
        "reward_contact": -contact,
        "reward_survive": survived,
    }
    felt = (forces[:, 6:],) if env._include_cfrc_ext_in_observation else ()
    seen = _seen(env, 2, qpos, qvel, *felt)
    return seen, forward + survived - (effort + contact), _ends(env, healthy), infos


def _humanoid(env: Any, before: Columns, after: Columns, actions: Array) -> Result:
    qpos = after["qpos"]
    speed = (_mass_centre(after) - _mass_centre(before)) / env.dt
    low, high = env._healthy_z_range
    healthy = (low < qpos[:, 2]) & (qpos[:, 2] < high)
    forward, survived = env._forward_reward_weight * speed[:, 0], healthy * env._healthy_reward
    effort = env._ctrl_cost_weight * _squares(after["ctrl"])
    contact = np.clip(env._contact_cost_weight * _squares(after["cfrc_ext"]), *env._contact_cost_range)
    infos = {
        **_travelled(qpos[:, :2], speed),
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
    seen = _seen(env, 2, qpos, after["qvel"], *(part for wanted, part in felt if wanted is True))
    return seen, forward + survived - (effort + contact), _ends(env, healthy), infos


def _inverted_pendulum(_env: Any, _before: Columns, after: Columns, _actions: Array) -> Result:
    seen = np.concatenate((after["qpos"], after["qvel"]), axis=1)
    fell = ~np.isfinite(seen).all(axis=1) | (np.abs(seen[:, 1]) > 0.2)
    reward = (~fell).astype(np.int64)
    return seen, reward, fell, {"reward_survive": reward}


def _seen(env: Any, skipped: int, qpos: Array, *others: Array) -> Array:
    if env._exclude_current_positions_from_observation:
        qpos = qpos[:, skipped:]
    return np.concatenate((qpos, *others), axis=1)


def _squares(rows: Array) -> Array:
    sums: Array = np.add.reduce(np.square(rows), axis=1)
    return sums


def _nowhere(like: Array) -> Array:
    return np.zeros(len(like), np.bool_)


def _ends(env: Any, healthy: Array) -> Array:
    return ~healthy if env._terminate_when_unhealthy else _nowhere(healthy)


def _stands(env: Any, qpos: Array) -> Array:
    (low, high), (least, most) = env._healthy_z_range, env._healthy_angle_range
    z, angle = qpos[:, 1], qpos[:, 2]
    stands: Array = (low < z) & (z < high) & (least < angle) & (angle < most)
    return stands


def _travelled(place: Array, speed: Array) -> Columns:
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
    ("gymnasium.envs.mujoco.hopper_v5", "HopperEnv"): Task(("qpos",), _PHYSICS, _hopper),
    ("gymnasium.envs.mujoco.walker2d_v5", "Walker2dEnv"): Task(("qpos",), _PHYSICS, _walker),
    ("gymnasium.envs.mujoco.ant_v5", "AntEnv"): Task(("main_body",), (*_PHYSICS, "main_body", "cfrc_ext"), _ant),
    ("gymnasium.envs.mujoco.humanoid_v5", "HumanoidEnv"): Task(
        ("xipos", "masses"), (*_PHYSICS, "xipos", "masses", *_FELT), _humanoid
    ),
    ("gymnasium.envs.mujoco.inverted_pendulum_v5", "InvertedPendulumEnv"): Task((), _PHYSICS, _inverted_pendulum),
}
