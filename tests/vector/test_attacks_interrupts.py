"""Ctrl-C at every line of a step and of a reset, put there by a trace function: the next call must not need to know."""

import os
import socket
import time

import numpy as np
import pytest

from paddock.hosting import messages as m
from paddock.hosting.process_channel import Arrivals, ProcessChannel
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


def interrupt(*_args, **_options):
    raise KeyboardInterrupt


@pytest.mark.process
def test_the_descriptors_of_a_worker_that_an_interrupt_has_ended_may_become_anything(monkeypatch):
    with limited(30.0), processes(2, workers=2) as envs:
        envs.reset(seed=0)
        monkeypatch.setattr(envs._lanes.workers[0].channel._reader, "next", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.zeros(2, np.int64))
        idle = [end for _ in range(8) for end in socket.socketpair()]
        assert envs.reset(seed=0)[0].tolist() == [0, 0]
        for end in idle:
            end.close()


@pytest.mark.process
def test_an_environment_whose_making_was_interrupted_is_made_again(monkeypatch):
    send = ProcessChannel.send

    def send_all_but_make(channel, request, **options):
        interrupt() if type(request) is m.Make else send(channel, request, **options)

    with limited(30.0), processes(2, workers=2) as envs:
        envs.reset(seed=0)
        monkeypatch.setattr(envs._lanes.workers[0].channel._reader, "next", interrupt)
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.zeros(2, np.int64))
        monkeypatch.setattr(ProcessChannel, "send", send_all_but_make)
        with pytest.raises(KeyboardInterrupt):
            envs.reset(seed=0)
        monkeypatch.setattr(ProcessChannel, "send", send)
        assert envs.reset(seed=0)[0].tolist() == [0, 0]


class Printer:
    """A process that has printed; reading that for the first time is interrupted."""

    fd = None

    def __init__(self):
        self.output_fd, self._out = os.pipe()
        os.write(self._out, b"x")
        self.drains = 0

    def drain(self):
        self.drains += 1
        if self.drains == 1:
            raise KeyboardInterrupt
        os.read(self.output_fd, 1)

    def close(self):
        os.close(self.output_fd)
        os.close(self._out)


def test_what_a_worker_prints_is_read_after_an_interrupt_too():
    near, far = socket.socketpair()
    arrivals, printer, ends_s = Arrivals(), Printer(), time.monotonic() + 5
    with near, far:
        arrivals.watch(near.fileno(), printer)
        with pytest.raises(KeyboardInterrupt):
            arrivals.wait(1.0)
        while printer.drains < 2 and time.monotonic() < ends_s:
            arrivals.wait(0.1)
        arrivals.unwatch(near.fileno(), printer)
        printer.close()
        assert printer.drains == 2 and arrivals.wait(0.0) == {}
