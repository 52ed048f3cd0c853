"""Schedules of misfortunes for a whole fleet: no acknowledged step is lost or taken twice, and no client hangs.

A failure names its seed; ``python -m tests.fleet.simulator SEED SESSIONS`` repeats it.
"""

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context

import pytest

from paddock.fleet import gateway as g
from tests.fleet.simulator import MISFORTUNES, World

FLAT = 1.2  # the gateway's work for one session of many, in that of one of few


def run(seed, sessions, **classes):
    try:
        return World(seed, sessions, **classes).run()
    except Exception as error:
        raise AssertionError(f"seed {seed}, {sessions} sessions: {type(error).__name__}: {error}") from error


def outcome(seed, sessions):
    world = run(seed, sessions, sample=0)
    return world.befell, world.outcomes


def run_many(seeds, sessions):
    """What befell, and what became of the clients; each core has its part of the schedules."""
    befell, outcomes = Counter(), Counter()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        for what, became in processes.map(outcome, seeds, repeat(sessions), chunksize=5):
            befell += what
            outcomes += became
    print(f"{len(seeds)} schedules of {sessions} sessions: {dict(outcomes)}; {dict(befell)}")
    assert outcomes.keys() <= {"whole", "ENV_LOST", "SESSION_GONE"}
    assert outcomes["whole"] > 0.7 * sum(outcomes.values())
    return befell


@pytest.mark.process
@pytest.mark.slow
def test_no_fleet_loses_or_doubles_a_step(seed):
    befell = run_many(range(seed * 1_000_000, seed * 1_000_000 + 30), 150)
    assert set(befell) == {what.__name__ for what in MISFORTUNES}


@pytest.mark.full
def test_many_fleets_of_a_thousand_sessions(seed):
    run_many(range(seed * 1_000_000, seed * 1_000_000 + 50), 1000)


@pytest.mark.soak(part="fleets")
def test_a_thousand_fleets_of_a_thousand_sessions(seed):
    run_many(range(seed * 1_000_000, seed * 1_000_000 + 1000), 1000)


def calm(seed, sessions):
    """A world without misfortunes, so that sessions differ in number alone."""
    world = World(seed, sessions)
    world.misfortune = lambda what: None
    return world.run()


@pytest.mark.slow
def test_the_gateways_work_for_a_session_does_not_grow_with_their_number(seed):
    few, many = calm(seed, 200), calm(seed, 4000)
    assert many.peak > 10 * few.peak
    assert many.calls / many.sampled < FLAT * few.calls / few.sampled
    assert (many.events + many.commands) / 4000 < FLAT * (few.events + few.commands) / 200


@pytest.mark.soak(part="fleets")
@pytest.mark.parametrize("number", range(3))
def test_a_fleet_of_a_hundred_thousand_sessions(seed, number):
    few, many = run(seed + number, 1000), run(seed + number, 100_000)
    work = (many.calls / many.sampled) / (few.calls / few.sampled)
    print(
        f"{dict(many.outcomes)}, at most {many.peak} at once, gateway's work per session {work:.2f} of that for 1,000"
    )
    calm_few, calm_many = calm(seed + number, 1000), calm(seed + number, 100_000)
    flat = (calm_many.calls / calm_many.sampled) / (calm_few.calls / calm_few.sampled)
    print(f"without misfortunes {flat:.2f}")
    assert many.peak > 30_000 and flat < FLAT


def test_a_schedule_is_a_function_of_its_seed():
    def facts(seed):
        world = World(seed, 60).run()
        return world.now, world.events, world.outcomes, world.befell

    assert facts(5) == facts(5) != facts(6)


class MovesAfterSteps(g.Gateway):
    """Takes a session for young after its first step."""

    def _first_step(self, flow, one, data):
        one.frames.append(data)
        return [g.ToServer(flow, data)]


class StepsInTwoPlaces(g.Gateway):
    """Lets a moved session step before its client knows the new name."""

    def _first_step(self, flow, one, data):
        return [g.ToServer(flow, data), *self.splice(flow)]


class BelievesAnyAnswer(g.Gateway):
    """Does not compare the answers of the second server with those that the client has."""

    def _reply(self, flow, one, data):
        one.replies.pop(g.number_of(data), None)
        return super()._reply(flow, one, data)

    def _settle(self, flow, one):
        one.unchecked = set()
        return super()._settle(flow, one)


class ForgetsWhere(g.Gateway):
    """Sends clients that resume to any server."""

    def holder(self, session):
        return None


class NeverDrops(g.Gateway):
    """Leaves a client alone whose server is gone."""

    def server_gone(self, flow):
        return [one for one in super().server_gone(flow) if not isinstance(one, g.Drop)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [MovesAfterSteps, StepsInTwoPlaces, BelievesAnyAnswer, ForgetsWhere, NeverDrops],
    ids=lambda cls: cls.__name__,
)
def test_the_simulator_catches_a_broken_gateway(broken, seed):
    for number in range(400):
        try:
            World(seed * 1_000_000 + number, 100, gateway_class=broken).run()
        except Exception:
            return
    pytest.fail("it was not noticed")
