"""Waiting awake: only where it was allowed, and only while it pays off."""

import socket
import time

import pytest

from paddock.hosting import frames
from paddock.hosting.frames import SpinWait


@pytest.fixture
def ends():
    near, far = socket.socketpair()
    with near, far:
        yield near, far


@pytest.fixture
def looks(monkeypatch):
    """How often it has waited awake, on a clock that lets it look twice each time."""
    clock, begun = iter(range(1_000_000)), []
    came = SpinWait._spin
    monkeypatch.setattr(frames.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(SpinWait, "_spin", lambda self: begun.append(1) or came(self))
    return begun


def test_nobody_waits_awake_unasked(ends, looks):
    near, far = ends
    far.send(b"x")
    assert not SpinWait(near).spin_until_readable()
    SpinWait(near).wait()
    assert looks == []


def test_what_is_there_or_comes_is_seen(ends, looks):
    near, far = ends
    one = SpinWait(near, awake_s=3.0)
    assert not one.spin_until_readable()
    far.send(b"x")
    assert one.spin_until_readable() and one.spin_until_readable()
    assert len(looks) == 3


def test_three_misses_in_a_row_are_enough_until_later(ends, looks):
    near, far = ends
    one = SpinWait(near, awake_s=3.0)
    assert not any(one.spin_until_readable() for _ in range(190))
    assert len(looks) == 3
    far.send(b"x")
    assert [one.spin_until_readable() for _ in range(30)].index(True) > 0, "it tries again some time"
    near.recv(1)
    assert not one.spin_until_readable() and len(looks) < 30, "one that paid off counts"


def test_one_thread_of_a_process_waits_awake_and_the_others_sleep(ends, looks):
    near, far = ends
    far.send(b"x")
    one, other = SpinWait(near, awake_s=3.0), []

    class Meanwhile(SpinWait):
        def _spin(self):
            other.append(one.spin_until_readable())
            return super()._spin()

    assert Meanwhile(near, awake_s=3.0).spin_until_readable() and other == [False]
    assert one.spin_until_readable(), "it is free again"


def test_without_another_core_nobody_waits_awake(ends, looks, monkeypatch):
    near, far = ends
    far.send(b"x")
    monkeypatch.setattr(frames, "count_cores", lambda: 1)
    assert not SpinWait(near, awake_s=3.0).spin_until_readable() and looks == []


def test_one_that_loses_its_core_while_it_waits_awake_sleeps_from_then_on(monkeypatch):
    near, far = socket.socketpair()
    with near, far:
        monkeypatch.setattr("paddock.hosting.frames.count_cores", lambda: 2)
        waiting = SpinWait(near, 1e-3)
        monkeypatch.setattr("os.sched_yield", lambda: time.sleep(0.01))  # as if a neighbour took the core
        waiting.spin_until_readable()
        far.send(b"x")
        assert not waiting.spin_until_readable()  # asleep: the next waits are not awake
