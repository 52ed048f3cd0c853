"""Acrobot: swing a two-link arm up by a motor in its elbow. Gymnasium's state is float32 until the first step.

So the first observation takes NumPy's single-precision cosines and sines. Compiled, those are exact for angles up to
pi/4; episodes that reset options may begin farther out are first observed in Python, lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from paddock.core.env import Info
from paddock.envs.classic_control.classic_env import Array, ClassicControlEnv, clip, continuable
from paddock.errors import InvalidBound
from paddock.kernels import Kernel, KernelEnv, KernelVectorEnv, cos32, f32, power, sin32
from paddock.spaces import Box, Discrete

GRAVITY = 9.8
QUARTER_TURN = math.pi / 2.0
ACTIONS = 3


class Params(NamedTuple):
    """Gymnasium's constants; ``low`` and ``high`` bound each number of the first state, and are reset options."""

    AVAIL_TORQUE: Array  # float64[3], one per action
    dt: float = 0.2
    LINK_LENGTH_1: float = 1.0
    LINK_LENGTH_2: float = 1.0
    LINK_MASS_1: float = 1.0
    LINK_MASS_2: float = 1.0
    LINK_COM_POS_1: float = 0.5
    LINK_COM_POS_2: float = 0.5
    LINK_MOI: float = 1.0
    MAX_VEL_1: float = 4 * math.pi
    MAX_VEL_2: float = 9 * math.pi
    torque_noise_max: float = 0.0
    nips: bool = False
    low: float = -0.1
    high: float = 0.1


class State(NamedTuple):
    """Angle of the first link from straight down, of the second from the first, and how fast they change."""

    theta1: float
    theta2: float
    speed1: float
    speed2: float
    single: bool  # before the first step


class Arm(NamedTuple):
    """What the equations of motion need of the params, multiplied out in the order in which Gymnasium multiplies."""

    inertia: float
    squares: float
    cross: float
    square2: float
    pull1: float
    pull2: float
    rest: float


def initial(rng: Any, params: Params) -> State:
    """Hanging almost still, in single precision."""
    low, high = params.low, params.high
    theta1, theta2 = f32(rng.uniform(low, high)), f32(rng.uniform(low, high))
    return State(theta1, theta2, f32(rng.uniform(low, high)), f32(rng.uniform(low, high)), True)


def step(state: State, action: int, rng: Any, params: Params) -> tuple[State, float, bool]:
    """Integrate the equations of motion over ``dt``, then keep angles and speeds in range."""
    torque = params.AVAIL_TORQUE[action]
    if params.torque_noise_max > 0.0:
        torque = torque + rng.uniform(-params.torque_noise_max, params.torque_noise_max)
    theta1, theta2, speed1, speed2 = integrate(state, torque, arm_of(params), params)
    theta1, theta2 = wrap(theta1), wrap(theta2)
    speed1 = clip(speed1, -params.MAX_VEL_1, params.MAX_VEL_1)
    speed2 = clip(speed2, -params.MAX_VEL_2, params.MAX_VEL_2)
    upright = -math.cos(theta1) - math.cos(theta2 + theta1) > 1.0
    return State(theta1, theta2, speed1, speed2, False), 0.0 if upright else -1.0, upright


def integrate(state: State, torque: float, arm: Arm, params: Params) -> tuple[float, float, float, float]:
    """One step of Runge and Kutta's fourth-order method."""
    a, b, u, v = state.theta1, state.theta2, state.speed1, state.speed2
    dt, half = params.dt, params.dt / 2.0
    u1, v1 = u, v
    p1, q1 = accelerations(a, b, u, v, torque, arm, params)
    u2, v2 = u + half * p1, v + half * q1
    p2, q2 = accelerations(a + half * u1, b + half * v1, u2, v2, torque, arm, params)
    u3, v3 = u + half * p2, v + half * q2
    p3, q3 = accelerations(a + half * u2, b + half * v2, u3, v3, torque, arm, params)
    u4, v4 = u + dt * p3, v + dt * q3
    p4, q4 = accelerations(a + dt * u3, b + dt * v3, u4, v4, torque, arm, params)
    sixth = dt / 6.0
    return (
        a + sixth * (u1 + 2.0 * u2 + 2.0 * u3 + u4),
        b + sixth * (v1 + 2.0 * v2 + 2.0 * v3 + v4),
        u + sixth * (p1 + 2.0 * p2 + 2.0 * p3 + p4),
        v + sixth * (q1 + 2.0 * q2 + 2.0 * q3 + q4),
    )


def arm_of(params: Params) -> Arm:
    """Computed once per step, for four evaluations of the equations."""
    mass1, mass2, length = params.LINK_MASS_1, params.LINK_MASS_2, params.LINK_LENGTH_1
    centre1, centre2 = params.LINK_COM_POS_1, params.LINK_COM_POS_2
    square2 = power(centre2, 2.0)
    return Arm(
        inertia=mass1 * power(centre1, 2.0),
        squares=power(length, 2.0) + square2,
        cross=length * centre2,
        square2=square2,
        pull1=(mass1 * centre1 + mass2 * length) * GRAVITY,
        pull2=mass2 * centre2 * GRAVITY,
        rest=mass2 * square2 + params.LINK_MOI,
    )


def accelerations(
    theta1: float, theta2: float, speed1: float, speed2: float, torque: float, arm: Arm, params: Params
) -> tuple[float, float]:
    """How both speeds change: Sutton and Barto's equations."""
    mass, moment = params.LINK_MASS_2, params.LINK_MOI
    sin, cos = math.sin(theta2), math.cos(theta2)
    coupling = mass * params.LINK_LENGTH_1 * params.LINK_COM_POS_2
    d1 = arm.inertia + mass * (arm.squares + 2.0 * arm.cross * cos) + moment + moment
    d2 = mass * (arm.square2 + arm.cross * cos) + moment
    phi2 = arm.pull2 * math.cos(theta1 + theta2 - QUARTER_TURN)
    swing = -coupling * power(speed2, 2.0) * sin - 2.0 * coupling * speed2 * speed1 * sin
    phi1 = swing + arm.pull1 * math.cos(theta1 - QUARTER_TURN) + phi2
    drive = torque + d2 / d1 * phi1
    if not params.nips:  # the paper lacks this term, the book has it
        drive = drive - coupling * power(speed1, 2.0) * sin
    acceleration2 = (drive - phi2) / (arm.rest - power(d2, 2.0) / d1)
    return -(d2 * acceleration2 + phi1) / d1, acceleration2


def wrap(angle: float) -> float:
    """The same angle in [-pi, pi], by whole turns one after another, whose rounding is part of the result."""
    turn = 2.0 * math.pi
    if abs(angle) > 1e6:  # one after another would take for ever
        angle = angle % turn
    while angle > math.pi:
        angle = angle - turn
    while angle < -math.pi:
        angle = angle + turn
    return angle


def observe(state: State, params: Params) -> tuple[float, float, float, float, float, float]:
    a, b = state.theta1, state.theta2
    if state.single:
        return cos32(a), sin32(a), cos32(b), sin32(b), state.speed1, state.speed2
    return math.cos(a), math.sin(a), math.cos(b), math.sin(b), state.speed1, state.speed2


def observation_space(params: Params) -> Box:
    high = np.array([1.0, 1.0, 1.0, 1.0, params.MAX_VEL_1, params.MAX_VEL_2], dtype=np.float32)
    return Box(-high, high, dtype=np.float32)


def torques(values: Any) -> Array:
    """A copy, long enough for every action: compiled code reads it without looking."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or len(array) < ACTIONS:
        raise InvalidBound(f"AVAIL_TORQUE is {values!r}; expected {ACTIONS} numbers, one per action.")
    return array


def configure(**constants: Any) -> Params:
    """Params from the constants of a class; each environment has torques of its own."""
    nips = constants.pop("book_or_nips", "book") == "nips"
    available = torques(constants.pop("AVAIL_TORQUE", DEFAULT_TORQUES))
    params: Params = KERNEL.replace_params(Params(available, nips=nips), constants)
    return params


DEFAULT_TORQUES = (-1.0, 0.0, 1.0)
KERNEL = Kernel(
    initial,
    step,
    observe,
    params=Params(torques(DEFAULT_TORQUES)),
    observation_space=observation_space,
    action_space=Discrete(ACTIONS),
    configure=configure,
    valid=continuable,
)


class Constant:
    """A kernel's parameter that is an attribute of the class as well; its default is in the class's ``constants``.

    Read on the class it is the default; on an environment, that environment's own value. A subclass that defines the
    name again changes the default of its environments.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: KernelEnv | None, owner: Any = None) -> Any:
        return owner.constants[self.name] if env is None else self.read(env._params)

    def __set__(self, env: KernelEnv, value: Any) -> None:
        env.set_params(env.kernel.replace_params(env._params, self.to_params(value)))

    def read(self, params: Any) -> Any:
        """The attribute's value, from the params."""
        return getattr(params, self.name)

    def to_params(self, value: Any) -> dict[str, Any]:
        """The params that change when the attribute is set."""
        return {self.name: value}


class Torques(Constant):
    """The array itself is the parameter: writing an element takes effect, as in Gymnasium's list."""

    def to_params(self, value: Any) -> dict[str, Any]:
        return {self.name: torques(value)}


class Equations(Constant):
    """``nips`` for the paper's equations of motion, anything else for the book's."""

    def read(self, params: Any) -> str:
        return "nips" if params.nips else "book"

    def to_params(self, value: Any) -> dict[str, Any]:
        return {"nips": value == "nips"}


class AcrobotEnv(ClassicControlEnv):
    """Torque -1 (0), none (1) or +1 (2) on the elbow; reward -1 per step until the tip is high above the base."""

    kernel = KERNEL
    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 15}
    constants: ClassVar[dict[str, Any]] = {
        **{name: value for name, value in KERNEL.params._asdict().items() if name not in ("low", "high", "nips")},
        "AVAIL_TORQUE": list(DEFAULT_TORQUES),
        "book_or_nips": "book",
    }
    dt, torque_noise_max = Constant(), Constant()
    LINK_LENGTH_1, LINK_LENGTH_2 = Constant(), Constant()
    LINK_MASS_1, LINK_MASS_2 = Constant(), Constant()
    LINK_COM_POS_1, LINK_COM_POS_2, LINK_MOI = Constant(), Constant(), Constant()
    MAX_VEL_1, MAX_VEL_2 = Constant(), Constant()
    AVAIL_TORQUE, book_or_nips = Torques(), Equations()
    state_size = 4
    SCREEN_DIM = 500
    actions_num = ACTIONS
    action_arrow: Any = None
    domain_fig: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: vars(cls)[name] for name in cls.constants if name in vars(cls)}
        own = {name: value for name, value in own.items() if not hasattr(value, "__get__")}
        for name in own:
            delattr(cls, name)  # it would hide the Constant
        cls.constants = {**cls.constants, **own}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode, **self.constants)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observation, info = super().reset(seed=seed, options=options)
        return (self._get_ob() if options else observation), info

    def _state_dtype(self, state: Any) -> Any:
        return np.float32 if state.single else np.float64

    def _state_of(self, values: Any) -> State:
        theta1, theta2, speed1, speed2 = map(float, values)
        return State(theta1, theta2, speed1, speed2, getattr(values, "dtype", None) == np.float32)

    def _get_ob(self) -> Any:
        return self._to_observation(observe(self.kernel_state, self._params))

    def _terminal(self) -> bool:
        theta1, theta2 = self.kernel_state[:2]
        return -math.cos(theta1) - math.cos(theta2 + theta1) > 1.0

    def paint(self) -> Any:
        from paddock.envs.drawing.classic_control import paint_acrobot

        state, params = self.kernel_state, self._params
        return paint_acrobot(state.theta1, state.theta2, length_1=params.LINK_LENGTH_1, length_2=params.LINK_LENGTH_2)


class AcrobotVectorEnv(KernelVectorEnv):
    env_type = AcrobotEnv

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        observations, infos = super().reset(seed=seed, options=options)
        if options and not {"low", "high"}.isdisjoint(options):
            lanes = self._lanes
            for lane in range(self.num_envs):
                lanes.columns["obs_0"][lane] = observe(lanes.get_state(lane), lanes.params)
            observations = self._observations()
        return observations, infos
