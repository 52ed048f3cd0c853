"""A kernel whose Python and machine code would differ is refused, with the line and what to write."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import paddock
from paddock.errors import InvalidKernel, KernelNotCompiled
from paddock.kernels import Kernel, LaneRng
from paddock.kernels.env import env_class
from paddock.kernels.vector import vector_class
from paddock.spaces import Discrete


class NoParams(NamedTuple):
    unused: float = 0.0


class Loose(NamedTuple):
    n: int
    x: float
    b: bool


LOOSE = Loose(0, 0.0, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda s, a, r, p: (s._replace(n=s.n + 0.5), 0.0, False), "n=0.5, a float; the state declares int"),
        (lambda s, a, r, p: (s._replace(x=s.n + 1), 0.0, False), "x=1, a int; the state declares float"),
        (lambda s, a, r, p: (s._replace(b=s.b + 1), 0.0, False), "b=1, a int; the state declares bool"),
        (lambda s, a, r, p: (s, 0.0, False, {}), r"expected \(state, reward, terminated\)"),
        (lambda s, a, r, p: ((0, 0.0, False), 0.0, False), r"expected \(state, reward, terminated\)"),
        (lambda s, a, r, p: (s, "1", False), "the reward '1'"),
        (lambda s, a, r, p: (s, 0.0, 1), "terminated=1"),
    ],
)
def test_a_step_that_compiled_lanes_would_change_is_refused_alike_in_one_and_in_lanes(step, words, in_python):
    kernel = Kernel(lambda r, p: LOOSE, step, lambda s, p: s.n, NoParams(), Discrete(9), Discrete(2))
    with pytest.raises(InvalidKernel, match=words):
        env_class(kernel)().reset(seed=0)
    with pytest.raises((InvalidKernel, KernelNotCompiled)):
        vector_class(kernel)()
    in_python()
    with pytest.raises(InvalidKernel, match=words):
        vector_class(kernel)()


def test_an_int_that_comes_some_steps_later_is_refused_too():
    def step(state, action, rng, params):
        return Loose(state.n + 1, 0.5 if state.n < 5 else 7, False), 0.0, False

    kernel = Kernel(lambda r, p: LOOSE, step, lambda s, p: s.n, NoParams(), Discrete(9), Discrete(2))
    words = rf"{__file__}:\d+: step\(\) returned x=7, a int"
    with pytest.raises(InvalidKernel, match=words):
        env_class(kernel)().reset(seed=0)
    with pytest.raises(InvalidKernel, match=words):
        vector_class(kernel)()


def test_what_fails_in_python_alone_is_no_fault_of_the_kernels_types(in_python):
    def step(state, action, rng, params):
        return Loose(state.n + 1, 1.0 / state.n, False), 0.0, False

    kernel = Kernel(lambda r, p: LOOSE, step, lambda s, p: s.n, NoParams(), Discrete(9), Discrete(2))
    lanes = vector_class(kernel)(2)
    lanes.reset(seed=0)
    lanes.step(np.zeros(2, int))  # inf, as documented
    in_python()
    env = env_class(kernel)()
    env.reset(seed=0)
    with pytest.raises(ZeroDivisionError):
        env.step(0)


TEMPLATE = np.zeros(3)


class Grid(NamedTuple):
    g: Any


@pytest.mark.parametrize(
    ("initial", "observe", "words"),
    [
        (lambda r, p: Loose(0, 3, False), lambda s, p: s.n, "x=3, a int; the state declares float"),
        (lambda r, p: Grid(TEMPLATE), lambda s, p: 0, "the same array g twice"),
        (lambda r, p: Grid(np.zeros(3, np.float32)), lambda s, p: 0, "array of float32"),
        (lambda r, p: LOOSE, lambda s, p: (0, 1), "2 numbers; the observation space has 1"),
    ],
)
def test_a_beginning_that_compiled_lanes_would_change_is_refused(initial, observe, words):
    kernel = Kernel(initial, lambda s, a, r, p: (s, 0.0, False), observe, NoParams(), Discrete(9), Discrete(2))
    for make in (env_class(kernel), vector_class(kernel)):
        with pytest.raises(InvalidKernel, match=words):
            make()


def test_params_are_a_named_tuple():
    with pytest.raises(InvalidKernel, match="expected a NamedTuple"):
        Kernel(lambda r, p: LOOSE, print, print, {"g": 1}, Discrete(9), Discrete(2))


def test_a_state_from_outside_is_of_the_kernels_own_type():
    env = paddock.make("CartPole-v1").unwrapped
    with pytest.raises(InvalidKernel, match="expected a State"):
        env.kernel_state = (1, 2)


def test_an_unknown_draw_names_those_that_exist():
    with pytest.raises(AttributeError, match="rng has no normal"):
        LaneRng(np.random.default_rng(0)).normal()
