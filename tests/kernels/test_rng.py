"""The draws of compiled lanes are NumPy's own, bit for bit, whatever kinds follow each other."""

from typing import NamedTuple

import numpy as np

from paddock.kernels import Kernel
from paddock.kernels.vector import vector_class
from paddock.spaces import Box, Discrete

OPTIONS = (2.5, -1.0, 7.25)
KINDS = 9
DRAWS = 45_000
LANES = 3


class Params(NamedTuple):
    low: float = -2.0
    high: float = 3.5


class State(NamedTuple):
    drawn: float


def initial(rng, params):
    return State(rng.random())


def step(state, action, rng, params):
    if action == 0:
        drawn = rng.random()
    elif action == 1:
        drawn = rng.uniform(params.low, params.high)
    elif action == 2:
        drawn = float(rng.integers(0, 7))
    elif action == 3:
        drawn = float(rng.integers(-5, 1 << 20))
    elif action == 4:
        drawn = rng.choice(OPTIONS)
    elif action == 5:
        drawn = float(rng.integers(3, 4))  # one possible answer: nothing is drawn
    elif action == 6:
        drawn = float(rng.integers(0, 1 << 32))
    elif action == 7:
        drawn = float(rng.integers(0, 3 << 30))  # a quarter of the draws is rejected
    else:
        drawn = float(rng.integers(-(1 << 40), -(1 << 40) + 11))
    return State(drawn), 0.0, False


def observe(state, params):
    return state.drawn


KERNEL = Kernel(
    initial,
    step,
    observe,
    params=Params(),
    observation_space=Box(-np.inf, np.inf, (1,), np.float64),
    action_space=Discrete(KINDS),
)


def numpys(generator, kind):
    """The same draw by NumPy's own methods."""
    ranges = {
        2: (0, 7),
        3: (-5, 1 << 20),
        5: (3, 4),
        6: (0, 1 << 32),
        7: (0, 3 << 30),
        8: (-(1 << 40), -(1 << 40) + 11),
    }
    if kind == 0:
        return generator.random()
    if kind == 1:
        return generator.uniform(-2.0, 3.5)
    if kind == 4:
        return OPTIONS[generator.integers(0, len(OPTIONS))]
    return float(generator.integers(*ranges[kind]))


def test_45000_mixed_draws_equal_numpys(seed):
    env = vector_class(KERNEL)(LANES)
    assert env._lanes.compiled
    first, _ = env.reset(seed=seed)
    generators = [np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed + lane))) for lane in range(LANES)]
    assert first[:, 0].tolist() == [generator.random() for generator in generators]
    kinds = np.random.default_rng(seed).integers(0, KINDS, (DRAWS // LANES, LANES))
    drawn = np.array([env.step(row)[0][:, 0] for row in kinds])
    for lane, generator in enumerate(generators):
        expected = [numpys(generator, kind) for kind in kinds[:, lane].tolist()]
        assert drawn[:, lane].tolist() == expected
        assert env._lanes.generator(lane).bit_generator.state == generator.bit_generator.state


def test_python_lanes_draw_the_same(seed, in_python):
    compiled = vector_class(KERNEL)(LANES)
    in_python()
    python = vector_class(KERNEL)(LANES)
    assert not python._lanes.compiled
    kinds = np.random.default_rng(seed).integers(0, KINDS, (2_000, LANES))
    assert compiled.reset(seed=seed)[0].tobytes() == python.reset(seed=seed)[0].tobytes()
    for row in kinds:
        assert compiled.step(row)[0].tobytes() == python.step(row)[0].tobytes()


def test_single_lane_shares_the_environments_generator(seed):
    """What the environment draws by itself, between compiled steps, and what its kernel draws are one stream."""
    env = vector_class(KERNEL).env_type()
    env.reset(seed=seed)
    assert env.compile()
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    expected.random()
    for kind in np.random.default_rng(seed).integers(0, KINDS, 500).tolist():
        assert float(env.step(kind)[0][0]) == numpys(expected, kind)
        assert env.np_random.integers(0, 100) == expected.integers(0, 100)
    assert env.np_random.bit_generator.state == expected.bit_generator.state
