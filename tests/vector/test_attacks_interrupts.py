"""Ctrl-C at every line of a step and of a reset, put there by a trace function: the next call must not need to know."""

import numpy as np
import pytest

from tests.vector.attack_envs import limited, processes
from tests.vector.interrupts import interrupted


@pytest.mark.process
@pytest.mark.parametrize("what", ["step", "reset"])
@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.full)])
def test_after_an_interrupt_at_any_line_the_next_step_neither_hangs_nor_fails(what, stride):
    with limited(120.0), processes(4, workers=2, on_fault="restart", deadline_s=3.0) as envs:
        envs.reset(seed=0)
        do = {"step": lambda: envs.step(np.zeros(4, np.int64)), "reset": lambda: envs.reset(seed=0)}[what]
        for line in range(0, 10_000, stride):
            place = interrupted(do, line)
            if place is None:
                break
            *_, infos = envs.step(np.zeros(4, np.int64))
            told = [error for error in infos.get("lane_error", []) if error is not None]
            assert all("interrupted while" in error for error in told), (place, told)
            assert envs.reset(seed=1)[0].tolist() == [0, 0, 0, 0], place
            observations, *_, infos = envs.step(np.zeros(4, np.int64))
            assert observations.tolist() == [1, 1, 1, 1] and "lane_error" not in infos, place
        assert line > 100
