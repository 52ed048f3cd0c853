"""What can go wrong in the simulator. Each says which errors it excuses; any other error is a violation.

Each returns whether it met anything: a cut where there is no connection does not count.
"""

from paddock.hosting.codec import number_of
from paddock.server.journal import digest
from paddock.server.session import SendTo
from tests.server.driver import Driver
from tests.server.model import Violation, code_of, frame


def cut(world):
    """A connection breaks, at any moment of any frame; either end may take long to notice."""
    connected = [driver for driver in world.drivers if driver.link is not None and driver.link.at_client]
    for driver in connected:
        rng = world.rng
        by_client, by_server = rng.choice((0.001, 0.01, 15.0)), rng.choice((0.001, 0.05, 40.0))
        world.cut(
            driver.link,
            noticed_by_client_s=by_client,
            noticed_by_server_s=by_server,
            late_s=rng.choice((0.0, 0.0, 0.2, 3.0)),
        )
    return bool(connected)


def cut_twice(world):
    """The next connection does not live long either: its Welcome may be lost."""
    met = cut(world)
    for _ in range(world.rng.randint(1, 3)):
        world.push(0.3 * world.rng.random(), cut, world)
    return met


def lose_worker(world):
    return world.lose_worker("signal")


def lose_worker_again(world):
    met = world.lose_worker("signal")
    world.push(0.05 * world.rng.random(), lose_worker, world)
    return met


def crash_server(world):
    return _stop(world, machine=False)


def crash_machine(world):
    synced = world.disk.sync == "reply"
    if not synced and len(world.drivers) == 1:
        world.lost_some = True
        world.history.excuse("ENV_LOST", "SESSION_GONE")
    # A second client does not know which replies the first one had: nobody could tell that one is lost.
    return _stop(world, machine=synced or len(world.drivers) == 1)


def crash_between_commands(world):
    """Between any two things that the server does."""
    world.fuse = world.rng.randint(0, 8)
    return True


def _stop(world, *, machine):
    if not world.up:
        return False
    if not (world.limits.journaled and world.limits.deterministic) or world.liar:
        world.history.excuse("ENV_LOST", "SESSION_GONE")
    if world.disk.full:
        world.history.excuse("ENV_LOST", "SESSION_GONE")
    world.stop_server(machine=machine)
    world.push(0.5 * world.rng.random(), world.start_server)
    return True


def drain(world):
    """The server stops in good order, and another takes its place."""
    session = world.session
    if session is None or not world.up:
        return False
    if not (world.limits.journaled and world.limits.deterministic) or world.liar or world.disk.full:
        world.history.excuse("ENV_LOST", "SESSION_GONE")
    world.draining = True
    world.carry(session.drain(world.now, 0.02))
    world.push(0.03, _stop_drained, world, session, world.life)
    return True


def _stop_drained(world, session, life):
    if world.up and world.life == life:
        if not session.ended:
            raise Violation("a session outlived its drain")
        world.stop_server(machine=False)
        world.push(0.2 * world.rng.random(), world.start_server)


def hang(world):
    if world.worker is None or not world.worker.alive or world.session is None:
        return False
    world.worker.hangs = True
    world.history.excuse("ENV_LOST", "DEADLINE")
    return True


def fill_disk(world):
    """From now on nothing can be written: the session lives on, but its journal does not."""
    world.disk.full = True
    if world.draining:
        world.history.excuse("ENV_LOST", "SESSION_GONE")
    return True


def jump(world):
    """Everybody is stopped for a while: a suspended machine."""
    world.now += world.rng.choice((5.0, 70.0))
    world.history.excuse("SESSION_GONE", "ENV_LOST", "DEADLINE", "UNREACHABLE", "DRAINING")
    return True


def take_over(world):
    """Another process takes the session with its token; the first one does not know and goes on sending."""
    first = world.drivers[0]
    if len(world.drivers) > 1 or first.saved is None or world.liar or world.lost_some:
        return False
    world.history.excuse("SUPERSEDED", "SESSION_GONE")
    second = Driver(world, "b", world.rng.randint(1, 4), world.window, saved=first.saved)
    world.drivers.append(second)
    second.start()
    return True


def send_again(world):
    """A request that has its reply is sent again: the same bytes again, and nothing is carried out."""
    return _rogue(world, lambda number, request: request, "")


def send_other_bytes(world):
    """A number that was used is sent with another request."""
    return _rogue(world, lambda number, request: frame(number, b"rother"), "IDEMPOTENCY_CONFLICT")


def _rogue(world, changed, expected):
    driver, session = world.drivers[-1], world.session
    sent = [number for number in world.history.sent if code_of(world.history.sent[number]) == ""]
    if session is None or session.connection is None or not sent or session._drained_by_s is not None:
        return False
    number = max(sent)
    if number not in driver.requests or session._phase.name != "LIVE":
        return False
    data = changed(number, driver.requests[number])
    for _ in range(3):
        commands = session.request(session.connection, number, digest(data), data, world.now)
        frames = [command.frame for command in commands if type(command) is SendTo]
        if len(commands) != 1 or len(frames) != 1 or code_of(frames[0]) != expected:
            raise Violation(f"request {number} again: {commands}, expected one answer {expected!r}")
        if not expected and frames[0] != world.history.sent[number]:
            raise Violation(f"request {number} again: {frames[0]!r}, it was {world.history.sent[number]!r}")
    return True


def skip_number(world):
    """A number that is not the next one."""
    session = world.session
    if session is None or session.connection is None or session._drained_by_s is not None:
        return False
    if session._phase.name != "LIVE":
        return False
    data = frame(session._last + len(session._pending) + world.rng.randint(2, 9), b"rgap")
    commands = session.request(session.connection, number_of(data), digest(data), data, world.now)
    if [type(command) for command in commands] != [SendTo] or code_of(commands[0].frame) != "OUT_OF_ORDER":
        raise Violation(f"a gap: {commands}")
    return True


MISFORTUNES = (
    cut,
    cut,
    cut_twice,
    lose_worker,
    lose_worker_again,
    crash_server,
    crash_machine,
    crash_between_commands,
    drain,
    hang,
    fill_disk,
    jump,
    take_over,
    send_again,
    send_other_bytes,
    skip_number,
)
