"""A seeded simulator of sessions: clients, network, server, worker and disk, with misfortunes, in simulated time.

``python -m tests.server.simulator SEED`` runs one schedule and prints what happened. A schedule is a function of its
seed alone. Oracles look at every command when it is made, and at the histories when everything has come to rest.
"""

import heapq
import random
import sys
from collections import Counter
from io import BytesIO

from paddock.hosting.codec import number_of
from paddock.hosting.messages import Failed, Hello
from paddock.hosting.remote_session import RemoteSession, frame_of
from paddock.server.journal import Header, Replay, digest, recover
from paddock.server.session import (
    CloseConnection,
    EndWorker,
    Journal,
    RebuildWorker,
    SendTo,
    Session,
    SessionLimits,
    ToWorker,
)
from tests.server.driver import Driver
from tests.server.misfortunes import MISFORTUNES, crash_machine
from tests.server.model import Disk, History, Link, ModelWorker, Violation, code_of, decode_frame

MOST_EVENTS = 4000


class World:
    """One schedule. ``session_class`` and ``client_class`` may be broken ones, for tests of the simulator itself."""

    def __init__(self, seed, *, session_class=Session, client_class=RemoteSession, trace=None):
        self.rng, self.trace = random.Random(seed), trace
        self.now, self.heap, self.pushed = 0.0, [], 0
        self.session_class, self.client_class = session_class, client_class
        self.history = History()
        rng = self.rng
        kind = rng.choice(("deterministic", "deterministic", "random", "liar"))
        self.liar, declared = kind == "liar", kind != "random"
        self.alike = kind == "deterministic"  # two workers given the same requests give the same replies
        journaled = rng.random() < 0.75
        self.window = rng.choice((1, 1, 1, 2, 4, 8))
        self.limits = SessionLimits(
            window_bytes=rng.choice((60, 1 << 20)) if self.window == 1 else 1 << 20,
            deadline_s=30.0,
            journaled=journaled,
            deterministic=declared,
        )
        self.header = Header("5e55", "model", {}, b"spec", declared)
        self.disk = Disk(rng.choice(("never", "reply", "reply", "batch")))
        self.life, self.up, self.draining = 0, True, False
        self.session = self.worker = self.lineage = None
        self.links = {}
        self.tokens = 0
        self.noisy = rng.random() < 0.3  # frames come twice
        self.kills, self.lost_some = 0, False
        self.befell = Counter()  # misfortunes that met something, by name
        self.fatal = []  # how many requests were answered when a worker was lost at the next one
        self.fuse = None  # after how many commands the machine goes down

    # Time

    def push(self, delay, function, *arguments):
        self.pushed += 1
        heapq.heappush(self.heap, (self.now + delay, self.pushed, function, arguments))

    def say(self, *words):
        if self.trace is not None:
            self.trace(f"{self.now:9.4f}", *words)

    def run(self):
        rng = self.rng
        self.drivers = [Driver(self, "a", rng.randint(2, 9), self.window)]
        self.drivers[0].start()
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4))):
            self.push(rng.random() * 0.12, self.misfortune, rng.choice(MISFORTUNES))
        events = 0
        while self.heap:
            time, _, function, arguments = heapq.heappop(self.heap)
            self.now = max(self.now, time)
            function(*arguments)
            events += 1
            if events > MOST_EVENTS:
                raise Violation(f"no rest after {events} events")
        self.check_end()
        return self

    def misfortune(self, what):
        self.say("MISFORTUNE", what.__name__)
        self.befell[what.__name__] += what(self)

    # Network

    def latency(self):
        return 0.001 + 0.009 * self.rng.random()

    def connect(self, driver, attempt):
        if not self.up:
            driver.disconnected(attempt, "")
            return
        link = Link(len(self.links) + 1, driver, attempt, self.life)
        self.links[link.id] = driver.link = link
        driver.connected(attempt)

    def copies(self):
        """How often a frame comes."""
        twice = self.noisy and self.rng.random() < 0.2
        self.befell["frame_twice"] += twice
        return 1 + twice

    def send_up(self, link, data):
        link.up_at = max(link.up_at, self.now + self.latency())
        for _ in range(self.copies()):
            self.push(link.up_at - self.now, self.deliver_up, link, data, link.up_at)

    def deliver_up(self, link, data, sent_for):
        if link.lost_after is not None and sent_for > link.lost_after:
            return
        if link.late_s and link.lost_after is not None and sent_for <= self.now < sent_for + link.late_s:
            self.push(sent_for + link.late_s - self.now, self.deliver_up, link, data, sent_for)
        elif link.at_server and self.up and link.life == self.life:
            self.server_received(link, data)

    def send_down(self, link, data, code=None):
        link.down_at = max(link.down_at, self.now + self.latency())
        for _ in range(self.copies() if code is None else 1):
            self.push(link.down_at - self.now, self.deliver_down, link, data, code)

    def deliver_down(self, link, data, code):
        if not link.at_client:
            return
        if code is None:
            link.driver.received(link.attempt, data)
        else:
            link.at_client = False
            link.driver.disconnected(link.attempt, code)

    def cut(self, link, *, noticed_by_client_s, noticed_by_server_s, late_s=0.0):
        """Break a connection: of what is on its way up a part arrives, perhaps late; of what comes down some."""
        link.at_client = self.rng.random() < 0.5
        link.lost_after = self.now + (max(link.up_at, self.now) - self.now) * self.rng.random()
        link.late_s = late_s
        self.push(noticed_by_client_s, self.client_notices, link)
        self.push(max(noticed_by_server_s, late_s + 0.02), self.server_notices, link)

    def client_notices(self, link):
        link.at_client = False
        link.driver.disconnected(link.attempt, "")

    def server_notices(self, link, done=False):
        if link.at_server and link.life == self.life:
            link.at_server = False
            if self.session is not None:
                self.carry(self.session.connection_closed(link.id, self.now, done=done))

    # Server

    def server_received(self, link, data):
        session = self.session
        if not link.greeted:
            link.greeted = True
            self.greet(link, decode_frame(data)[1])
            return
        if session is None:
            return
        old = link.id != session.connection
        commands = session.request(link.id, number_of(data), digest(data), data, self.now)
        self.say("server", session.epoch, "<-", number_of(data), "of link", link.id, commands)
        if old and commands:
            raise Violation(f"a frame of an old connection had effects: {commands}")
        self.carry(commands)

    def greet(self, link, hello):
        assert isinstance(hello, Hello)
        self.tokens += 1
        token = f"token{self.tokens}"
        if self.draining:  # a session may have ended here already, and will be back in the next server
            self.send_down(link, frame_of(Failed("DRAINING", "draining"), 0))
        elif hello.resume is None:
            if self.session is None and not self.disk.data:  # else: a client that never got its first Welcome
                self.begin_session()
                self.carry(self.session.attach(link.id, token))
            elif self.session is not None and not any(driver.saved for driver in self.drivers):
                self.carry(self.session.close("SESSION_GONE", ""))
                self.begin_session()
                self.carry(self.session.attach(link.id, token))
            else:
                raise Violation("a client that had a session asks for a new one")
        elif self.session is None:
            self.send_down(link, frame_of(Failed("SESSION_GONE", "gone"), 0))
        else:
            self.carry(self.session.resume(link.id, hello.resume, token, self.now))

    def begin_session(self):
        self.disk.wipe()
        self.history.sent.clear()
        if self.limits.journaled:
            self.disk.append(self.header)
        self.session = self.session_class("5e55", self.limits, origin=self.header.origin)
        self.lineage = self.worker = self.new_worker(1)

    def new_worker(self, id):
        secret = 7 if self.alike else self.rng.getrandbits(32)
        return ModelWorker(id, secret)

    def carry(self, commands):
        """Do what the session asks for, in this order; the machine may go down in between."""
        for command in commands:
            if self.fuse is not None:
                self.fuse -= 1
                if self.fuse < 0:
                    self.fuse = None
                    self.misfortune(crash_machine)
                    return
            kind = type(command)
            if kind is SendTo:
                self.reply_leaves(command)
            elif kind is ToWorker:
                self.to_worker(command)
            elif kind is Journal:
                if not self.disk.append(command.entry):
                    self.disk.wipe()
                    self.session.journal_failed()
            elif kind is CloseConnection:
                link = self.links[command.connection]
                if link.at_server and not link.closing:
                    link.closing = True
                    self.send_down(link, b"", command.code)
            elif kind is EndWorker:
                if self.worker is not None and self.worker.id == command.worker:
                    self.worker.alive = False
            elif kind is RebuildWorker:
                self.rebuild(command)
            else:
                self.ended(command)
        self.arm()

    def arm(self):
        """Have tick called when it is due."""
        if self.session is not None and (due := self.session.due_s) is not None:
            self.push(max(0.0, due - self.now), self.tick, self.session, due)

    def tick(self, session, due):
        if session is self.session and session.due_s == due and self.up:
            self.carry(session.tick(self.now))

    def ended(self, command):
        self.session = None
        if not command.resumable:
            self.disk.wipe()

    def reply_leaves(self, command):
        link = self.links[command.connection]
        number = number_of(command.frame)
        if number and code_of(command.frame) not in ("OUT_OF_ORDER", "IDEMPOTENCY_CONFLICT"):
            first = self.history.sent.setdefault(number, command.frame)
            if first != command.frame:
                raise Violation(f"request {number} was answered with {first!r}, then with {command.frame!r}")
        if link.at_server and not link.closing:
            self.send_down(link, command.frame)

    # Workers

    def to_worker(self, command):
        worker = self.worker
        if worker.id != command.worker:
            raise Violation(f"request {command.number} went to worker {command.worker}, {worker.id} is there")
        worker.ready_at = max(worker.ready_at, self.now) + 0.001 + 0.004 * self.rng.random()
        self.push(worker.ready_at - self.now, self.work, worker, command.frame)

    def work(self, worker, request):
        if not worker.alive or worker.hangs:
            return
        reply = worker.apply(request)
        received = max(driver.replies for driver in self.drivers)
        if len(self.drivers) == 1 and len(worker.log) - received > self.window:
            raise Violation(f"{len(worker.log) - received} requests were carried out without an answer")
        self.push(0.0005 * self.rng.random(), self.worker_replies, worker, reply)

    def worker_replies(self, worker, reply, late=False):
        if (worker.alive or late) and self.session is not None and self.up:
            commands = self.session.worker_replied(worker.id, reply, self.now)
            if late and commands:
                raise Violation("a worker that was lost still had a say")
            self.carry(commands)

    def lose_worker(self, cause):
        """The worker's process is gone; what it sent before may be read late."""
        worker, session = self.worker, self.session
        if worker is None or not worker.alive or session is None:
            return False
        worker.alive = False
        self.kills += 1
        if session._phase.name == "LIVE" and session._pending:
            self.fatal.append(session._last)
        rebuilds = self.limits.journaled and self.limits.deterministic
        repeated = len(self.fatal) > len(set(self.fatal))  # a request that ends two workers is given up
        if self.liar or self.disk.full or not rebuilds or self.kills > 2 or repeated:
            self.history.excuse("ENV_LOST")
        late = worker.log[-1][1] if worker.log else None
        self.carry(session.worker_lost(worker.id, cause, self.now))
        if late is not None:
            self.push(0.01 * self.rng.random(), self.worker_replies, worker, late, True)
        return True

    def rebuild(self, command):
        worker = self.worker = self.new_worker(command.worker)
        found = recover(BytesIO(bytes(self.disk.data)))
        if found is None:  # the disk became full a moment ago
            self.push(0.0, self.lose_worker, "ended")
            return
        frames = found.frames[: command.count]
        replay = Replay(self.header.origin, frames, window=self.limits.window)
        for request in frames:
            replay.add(worker.apply(request))
        self.push(0.05 * self.rng.random(), self.rebuilt, worker, replay)

    def rebuilt(self, worker, replay):
        if worker.alive and self.session is not None and self.up:
            commands = self.session.rebuilt(worker.id, replay, self.now)
            self.say("rebuilt", worker.id, replay.done, commands)
            if EndWorker(worker.id) not in commands:
                self.lineage = worker
            self.carry(commands)

    # The server's own end

    def stop_server(self, *, machine):
        """The server is gone from one moment to the next, and its workers with it."""
        self.up = False
        self.life += 1
        if self.worker is not None:
            self.worker.alive = False
        self.session = None
        self.history.sent.clear()
        if machine:
            self.disk.lose_unsynced(self.rng)
        for link in self.links.values():
            link.at_server = False
            if link.at_client:
                self.cut(link, noticed_by_client_s=self.latency(), noticed_by_server_s=0.0)

    def start_server(self):
        self.up, self.draining = True, False
        found = recover(BytesIO(bytes(self.disk.data))) if self.disk.data else None
        if found is None or found.closed:
            self.disk.wipe()
            return
        del self.disk.data[found.length :]
        self.disk.crc, self.disk.synced = found.crc, found.length
        self.worker = None
        self.session = self.session_class.from_journal(found, self.limits, self.now)
        self.arm()

    # The end

    def check_end(self):
        if len(self.drivers) > 1 and self.life:
            # The first client's last request may go down with a server after the second one was told that it was taken.
            self.history.excuse("ENV_LOST")
        answered = {}
        for driver in self.drivers:
            driver.check_end(self.history.excuses)
            for number, reply in driver.answers.items():
                if code_of(reply) == "":
                    if answered.setdefault(number, reply) != reply:
                        raise Violation(f"request {number} has two answers")
                    request, made = self.lineage.log[number - 1] if number <= len(self.lineage.log) else (b"", b"")
                    if made != reply:
                        raise Violation(f"request {number} was answered, but the environment knows nothing of it")
                    if request != driver.requests[number]:
                        raise Violation(f"request {number} was answered, but another one was carried out")


def main():
    seed = int(sys.argv[1])
    World(seed, trace=print).run()
    print(f"seed {seed}: nothing lost, duplicated or reordered")


if __name__ == "__main__":
    main()
