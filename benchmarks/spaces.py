"""Spaces against Gymnasium's in the same run: contains, sample and ==. Exits 1 when a ratio is below its bar.

Run: python benchmarks/spaces.py [rounds]
"""

import statistics
import sys
import time
import warnings

import gymnasium.spaces as theirs
import numpy as np

import paddock.spaces as ours

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 15
ROUND_S = 0.004


def cases():
    """(name, bar, maker of a call from a module of spaces)."""

    def contains(make, value=None):
        def prepare(spaces):
            space = make(spaces)
            space.seed(1)
            x = space.sample() if value is None else value
            assert space.contains(x)
            return lambda: space.contains(x)

        return prepare

    def sample(make):
        def prepare(spaces):
            space = make(spaces)
            space.seed(1)
            return space.sample

        return prepare

    def equal(make):
        def prepare(spaces):
            a, b = make(spaces), make(spaces)
            return lambda: a == b

        return prepare

    def differing(s):
        return s.Box(np.linspace(-2, -1, 348), np.linspace(1, 2, 348), dtype=np.float64)

    def both(s):
        return s.Dict({"position": s.Box(-1, 1, (3,)), "id": s.Discrete(5)})

    yield "Discrete(4).contains(int)", 5, contains(lambda s: s.Discrete(4), 2)
    yield "Discrete(4).contains(np.int64)", 5, contains(lambda s: s.Discrete(4), np.int64(2))
    yield "Discrete(4).sample()", 2, sample(lambda s: s.Discrete(4))
    yield "Box(-1, 1, (4,)).contains", 3, contains(lambda s: s.Box(-1, 1, (4,)))
    yield "Box(-inf, inf, (4,)).contains", 3, contains(lambda s: s.Box(-np.inf, np.inf, (4,)))
    yield "Box(0, 255, (84, 84, 3), uint8).contains", 3, contains(lambda s: s.Box(0, 255, (84, 84, 3), np.uint8))
    yield "Box(differing, (348,), float64).contains", 3, contains(differing)
    yield "Box(-1, 1, (4,)).sample()", 3, sample(lambda s: s.Box(-1, 1, (4,)))
    yield "Box(-inf, inf, (4,)).sample()", 3, sample(lambda s: s.Box(-np.inf, np.inf, (4,)))
    yield "Box(0, 255, (84, 84, 3), uint8).sample()", 3, sample(lambda s: s.Box(0, 255, (84, 84, 3), np.uint8))
    yield "Box(differing, (348,), float64).sample()", 3, sample(differing)
    yield "Dict(Box, Discrete).contains", 2, contains(both)
    yield "Graph(Box, Discrete).contains", 5, contains(lambda s: s.Graph(s.Box(-1, 1, (3,)), s.Discrete(5)))
    yield "Box(-1, 1, (4,)) ==", 5, equal(lambda s: s.Box(-1, 1, (4,)))
    yield "Box(0, 255, (84, 84, 3), uint8) ==", 5, equal(lambda s: s.Box(0, 255, (84, 84, 3), np.uint8))
    yield "Box(differing, (348,), float64) ==", 5, equal(differing)


def time_ns(call, times):
    loop = range(times)
    begin = time.perf_counter_ns()
    for _ in loop:
        call()
    return (time.perf_counter_ns() - begin) / times


def medians_ns(calls):
    """The median time of each call, from rounds that take turns so that noise hits all alike."""
    times = [max(1, int(ROUND_S * 1e9 / time_ns(call, 20))) for call in calls]
    rounds = [[time_ns(call, n) for call, n in zip(calls, times, strict=True)] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def main():
    warnings.filterwarnings("ignore", module="gymnasium")
    print(f"{'case':42} {'paddock':>10} {'gymnasium':>10} {'ratio':>7} {'bar':>4}")
    missed = 0
    for name, bar, prepare in cases():
        mine, peer = medians_ns([prepare(ours), prepare(theirs)])
        ratio = peer / mine
        missed += ratio < bar
        print(f"{name:42} {mine:7.0f} ns {peer:7.0f} ns {ratio:6.1f}x {bar:3}x{'' if ratio >= bar else '  MISSED'}")
    print(f"{missed} bars missed" if missed else "all bars held")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
