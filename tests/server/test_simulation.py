"""Thousands of schedules of misfortunes: nothing is lost, duplicated or reordered, and nobody waits for ever.

A failure names its seed; ``python -m tests.server.simulator SEED`` shows what happened.
"""

from collections import Counter

import pytest

from tests.server import mutants
from tests.server.model import code_of
from tests.server.simulator import World

SCHEDULES = 10_000
FULL_SCHEDULES = 200_000
# Misfortunes that met something, at least so many of each kind.
INJECTED = {
    ("cut", "cut_twice"): 1_000,
    ("frame_twice", "send_again"): 1_000,
    ("drain", "hang"): 1_000,
    ("lose_worker", "lose_worker_again"): 300,
    ("crash_server", "crash_machine"): 100,
    ("fill_disk",): 100,
    ("jump",): 1_000,
}
ENOUGH_FOR_A_MUTANT = 6_000


def run(seed, **classes):
    world = World(seed, **classes)
    try:
        return world.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


def seen(world):
    """What a schedule led to, so that a simulator in which nothing happens would be noticed."""
    for driver in world.drivers:
        whole = driver.error is None and len(driver.answers) == driver.planned
        yield "all answered" if whole else "gave up" if driver.error is not None else "some timed out"
        yield from {code for reply in driver.answers.values() if (code := code_of(reply))}
        if driver.error is not None:
            yield driver.error.code
    if world.drivers[0].client._attempt > 1:
        yield "resumed"
    if world.life:
        yield "another server"
    if world.lineage is not None and world.lineage.id > 1:
        yield "rebuilt"
    if len(world.drivers) > 1:
        yield "taken over"


@pytest.mark.slow
def test_ten_thousand_schedules_keep_every_promise(seed):
    found, befell = Counter(), Counter()
    for number in range(SCHEDULES):
        world = run(seed * 1_000_000 + number)
        found.update(seen(world))
        befell += world.befell
    print(", ".join(f"{name}: {count:,}" for name, count in befell.most_common()))
    met = {kinds: sum(befell[kind] for kind in kinds) for kinds in INJECTED}
    assert {kinds: count for kinds, count in met.items() if count < INJECTED[kinds]} == {}, befell
    often = ["all answered", "gave up", "resumed", "another server", "rebuilt", "taken over"]
    often += ["ENV_LOST", "SESSION_GONE", "SUPERSEDED", "DEADLINE"]
    assert {what: found[what] for what in often if found[what] < SCHEDULES / 100} == {}, found
    assert found["all answered"] > SCHEDULES / 2


@pytest.mark.full
def test_many_more_schedules_keep_every_promise(seed):
    for number in range(SCHEDULES, FULL_SCHEDULES):
        run(seed * 1_000_000 + number)


def test_a_schedule_is_a_function_of_its_seed():
    def lines(seed):
        told = []
        World(seed, trace=lambda *words: told.append(words)).run()
        return [str(words) for words in told]

    assert lines(11) == lines(11)
    assert lines(11) != lines(12)


def is_caught(seed, **classes):
    for number in range(ENOUGH_FOR_A_MUTANT):
        try:
            World(seed * 1_000_000 + number, **classes).run()
        except Exception:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("mutant", mutants.SESSIONS, ids=lambda cls: cls.__name__)
def test_the_simulator_catches_a_broken_session(mutant, seed):
    assert is_caught(seed, session_class=mutant)


@pytest.mark.parametrize("mutant", mutants.CLIENTS, ids=lambda cls: cls.__name__)
def test_the_simulator_catches_a_broken_client(mutant, seed):
    assert is_caught(seed, client_class=mutant)
