"""Ctrl-C at every line of a step and of a reset, put there by a trace function: the next call must not need to know."""

import sys
from pathlib import Path

import numpy as np
import pytest

import paddock
from tests.vector.attack_envs import limited, processes

PACKAGE = str(Path(paddock.__file__).parent)


class InterruptAt:
    """A trace function that raises KeyboardInterrupt before the given line that this process runs of paddock."""

    def __init__(self, line):
        self.left, self.place = line, None

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE) or "interruptible" in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def _interrupted(do, line):
    """Where it was interrupted; None if it was over before that line."""
    interrupt, before = InterruptAt(line), sys.gettrace()
    try:
        sys.settrace(interrupt)
        next(_apart(do))
    except KeyboardInterrupt:
        return interrupt.place
    finally:
        sys.settrace(before)
    return None


def _apart(do):
    """A generator has an exception state of its own: CPython 3.11 forgets to end the handling of an exception when a
    trace function raises before an ``except`` clause's ``return``, and every later test would be run "during" it."""
    yield do()


@pytest.mark.parametrize("what", ["step", "reset"])
@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.full)])
def test_after_an_interrupt_at_any_line_the_next_step_neither_hangs_nor_fails(what, stride):
    with limited(120.0), processes(4, workers=2, on_fault="restart", deadline_s=3.0) as envs:
        envs.reset(seed=0)
        do = {"step": lambda: envs.step(np.zeros(4, np.int64)), "reset": lambda: envs.reset(seed=0)}[what]
        for line in range(0, 10_000, stride):
            place = _interrupted(do, line)
            if place is None:
                break
            *_, infos = envs.step(np.zeros(4, np.int64))
            told = [error for error in infos.get("lane_error", []) if error is not None]
            assert all("interrupted while" in error for error in told), (place, told)
            assert envs.reset(seed=1)[0].tolist() == [0, 0, 0, 0], place
            observations, *_, infos = envs.step(np.zeros(4, np.int64))
            assert observations.tolist() == [1, 1, 1, 1] and "lane_error" not in infos, place
        assert line > 100
