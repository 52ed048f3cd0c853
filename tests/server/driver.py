"""A client of the simulator: drives a ResumingClient and keeps what it saw."""

from paddock.errors import PaddockError
from paddock.hosting import remote_session
from paddock.hosting.codec import number_of
from tests.server.model import Violation, code_of, frame


class Driver:
    """Sends ``planned`` requests, up to ``window`` ahead, and waits for the reply to each."""

    def __init__(self, world, name, planned, window, saved=None):
        self.world, self.name, self.planned, self.window = world, name, planned, window
        self.client = world.client_class(name, window=window, saved=saved)
        self.link = None
        self.requests, self.answers, self.raw = {}, {}, {}
        self.timed_out = set()
        self.error = None
        self.submitted = self.replies = 0
        self.takes_over = saved is not None

    @property
    def saved(self):
        return self.client.saved

    def start(self):
        self.carry(self.client.start(self.world.now))

    def carry(self, actions):
        world = self.world
        for action in actions:
            kind = type(action)
            if kind is remote_session.Send:
                if self.link is not None and self.link.attempt == action.attempt and self.link.at_client:
                    world.send_up(self.link, action.frame)
            elif kind is remote_session.Answer:
                self.answered(action)
            elif kind is remote_session.Connect:
                world.push(max(0.0, action.at_s - world.now) + world.latency(), world.connect, self, action.attempt)
            elif kind is remote_session.TimedOut:
                self.timed_out.add(action.number)
            elif kind is remote_session.Disconnect:
                self.leave(action.attempt)
            else:
                world.say(self.name, "gives up:", repr(action.error))
                self.error = action.error
        self.go_on()
        if (due := self.client.due_s) is not None:
            world.push(max(0.0, due - world.now), self.tick, due)

    def go_on(self):
        client, world = self.client, self.world
        while self.error is None and self.submitted < self.planned and client.has_room:
            number = client.next_number
            request = frame(number, b"r%s%d" % (self.name.encode(), self.submitted))
            self.requests[number] = request
            self.submitted += 1
            deadline_s = world.now + 0.02 if world.rng.random() < 0.03 else None
            for action in client.submit(request, deadline_s=deadline_s):
                world.say(self.name, "asks", number)
                if self.link.at_client:
                    world.send_up(self.link, action.frame)

    def answered(self, action):
        number, data = action.number, action.frame
        self.world.say(self.name, "has", number, data[20:])
        if number_of(data) != number or number in self.answers or number in self.timed_out:
            raise Violation(f"the reply to {number} came as {number_of(data)}, twice or too late")
        if self.answers and number < max(self.answers):
            raise Violation(f"the reply to {number} came after that to {max(self.answers)}")
        self.answers[number] = data

    def leave(self, attempt):
        link = self.link
        if link is not None and link.attempt == attempt and link.at_client:
            link.at_client = False
            self.world.push(self.world.latency(), self.world.server_notices, link)

    def connected(self, attempt):
        self.carry(self.client.connected(attempt))

    def received(self, attempt, data):
        number = number_of(data)
        if number in self.requests:
            code = code_of(data)
            if code not in ("OUT_OF_ORDER", "IDEMPOTENCY_CONFLICT"):
                if self.raw.setdefault(number, data) != data:
                    raise Violation(f"two different replies to {number} arrived: {self.raw[number]!r}, {data!r}")
                self.replies = max(self.replies, number)
        self.carry(self.client.received(attempt, data, self.world.now, self.world.rng.random()))

    def disconnected(self, attempt, code):
        world = self.world
        if code:
            world.say(self.name, "is closed with", code)
        self.carry(self.client.disconnected(attempt, world.now, world.rng.random(), code=code))

    def tick(self, due):
        if self.client.due_s == due:
            self.carry(self.client.tick(self.world.now, self.world.rng.random()))

    def check_end(self, excuses):
        """All planned requests were settled, or an error that something excuses says why not."""
        codes = {code_of(reply) for reply in self.answers.values()} - {""}
        if self.error is not None:
            assert isinstance(self.error, PaddockError)
            codes.add(self.error.code)
        elif len(self.answers) + len(self.timed_out) < self.planned:
            raise Violation(f"client {self.name} is stuck: {sorted(self.answers)} of {self.planned} have answers")
        if codes - excuses:
            raise Violation(f"client {self.name} got {sorted(codes - excuses)} with no reason")
        good = [number for number, reply in self.answers.items() if code_of(reply) == ""]
        bad = [number for number, reply in self.answers.items() if code_of(reply) != ""]
        if good and bad and max(good) > min(bad):
            raise Violation(f"client {self.name}: request {max(good)} was carried out after {min(bad)} was not")
