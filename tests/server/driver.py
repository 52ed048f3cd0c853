"""A client of the simulator: drives a RemoteSession and keeps what it saw."""

from math import inf

from paddock.errors import PaddockError
from paddock.hosting import remote_session
from paddock.hosting.codec import number_of
from paddock.hosting.failures import close_number, close_reason
from paddock.hosting.messages import Call
from paddock.hosting.remote_address import SUBPROTOCOLS, RemoteAddress
from paddock.hosting.websocket.events import Binary, Closed
from tests.server.model import Violation, code_of

ADDRESS = RemoteAddress("model", 1, False)
REFUSALS = ("OUT_OF_ORDER", "IDEMPOTENCY_CONFLICT")


class Driver:
    """Sends ``planned`` requests, up to ``window`` ahead, and waits for the reply to each."""

    def __init__(self, world, name, planned, window, saved=None):
        self.world, self.name, self.planned, self.window = world, name, planned, window
        self.client = world.client_class(ADDRESS, saved=saved, heartbeat_s=None, holder=name, jitter=world.rng.random)
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

    def carry(self, commands):
        world, client = self.world, self.client
        for command in commands:
            kind = type(command)
            if kind is remote_session.Send:
                if self.link is not None and self.link.attempt == command.attempt and self.link.at_client:
                    world.send_up(self.link, command.frame)
            elif kind is remote_session.Connect:
                world.push(max(0.0, command.at_s - world.now) + world.latency(), world.connect, self, command.attempt)
            else:
                assert kind is remote_session.Disconnect
                self.leave(command.attempt)
        for number in [*self.requests]:
            if number in client.replies:
                self.answered(number, client.reply(number))
        if client.over is not None and self.error is None:
            world.say(self.name, "gives up:", repr(client.over))
            self.error = client.over
        self.go_on()
        if (due := client.due_s) != inf:
            world.push(max(0.0, due - world.now), self.tick, due)

    def go_on(self):
        client, world = self.client, self.world
        while self.error is None and self.submitted < self.planned and client.has_room:
            if len(client._waiting) >= self.window:
                break
            request = self.next_request()
            number, commands = client.submit(request)
            if number in self.requests:
                raise Violation(f"two requests of client {self.name} have the number {number}")
            self.requests[number] = remote_session.frame_of(request, number)
            self.submitted += 1
            if world.rng.random() < 0.03:
                world.push(0.02, self.time_out, number)
            for command in commands:
                world.say(self.name, "asks", number)
                if self.link.at_client:
                    world.send_up(self.link, command.frame)

    def next_request(self):
        return Call(0, f"r{self.name}{self.submitted}")

    def time_out(self, number):
        """The reply to this request is no longer wanted, unless it is here."""
        if self.error is None and number not in self.answers:
            self.client.forget(number)
            self.timed_out.add(number)

    def answered(self, number, reply):
        data = remote_session.frame_of(reply, number)
        self.world.say(self.name, "has", number, data[20:])
        if data != self.raw.get(number) and code_of(data) not in REFUSALS:
            raise Violation(f"the reply to {number} is {data!r}, but {self.raw.get(number)!r} came")
        if number in self.answers or number in self.timed_out:
            raise Violation(f"the reply to {number} came twice or too late")
        if self.answers and number < max(self.answers):
            raise Violation(f"the reply to {number} came after that to {max(self.answers)}")
        self.answers[number] = data

    def leave(self, attempt):
        link = self.link
        if link is not None and link.attempt == attempt and link.at_client:
            link.at_client = False
            self.world.push(self.world.latency(), self.world.server_notices, link)

    def connected(self, attempt):
        self.carry(self.client.connected(attempt, SUBPROTOCOLS[0]))

    def received(self, attempt, data):
        number = number_of(data)
        if number in self.requests:
            code = code_of(data)
            if code not in REFUSALS:
                if self.raw.setdefault(number, data) != data:
                    raise Violation(f"two different replies to {number} arrived: {self.raw[number]!r}, {data!r}")
                self.replies = max(self.replies, number)
        self.carry(self.client.handle_event(attempt, Binary(data), self.world.now))

    def disconnected(self, attempt, code):
        why = ConnectionResetError()
        if code:
            self.world.say(self.name, "is closed with", code)
            why = Closed(close_number(code), close_reason(code))
        self.carry(self.client.handle_break(attempt, why, self.world.now))

    def tick(self, due):
        if self.client.due_s == due:
            self.carry(self.client.tick(self.world.now))

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
