"""A seeded simulator of a fleet: clients, gateways, servers and networks, with misfortunes, in simulated time.

``python -m tests.fleet.simulator SEED [SESSIONS]`` runs one schedule. The clients' sessions, the servers' and the
gateways are the real state machines; workers, disks and wires are models. A schedule is a function of its seed alone.
"""

import heapq
import random
import sys
import time
from collections import Counter
from io import BytesIO

from paddock.fleet import gateway as g
from paddock.hosting.codec import HANDSHAKE, decode_frame, number_of
from paddock.hosting.messages import Call, Failed, Make, Reset
from paddock.hosting.remote_session import RemoteSession, frame_of
from paddock.server import session as s
from paddock.server.journal import Header, Replay, digest, recover
from tests.server.driver import Driver
from tests.server.model import Disk, ModelWorker, Violation, code_of

SERVERS, GATEWAYS = 3, 2
ARRIVALS_S, THINK_S = 8.0, 3.0
CHECK_S, DIAL_S = 0.5, 2.0
LONGEST_S = 600.0


class FleetDriver(Driver):
    """Makes, resets and steps an environment, and thinks between two requests."""

    def __init__(self, world, name, planned, window):
        super().__init__(world, name, planned, window)
        self.thinks = self.finished = False

    def next_request(self):
        first = {0: Make(0, {}), 1: Reset(0, 42)}
        return first.get(self.submitted) or Call(0, f"s{self.name}.{self.submitted}")

    def go_on(self):
        self.finish()
        if not self.thinks and not self.finished:
            self.thinks = True
            self.world.push(THINK_S * self.world.rng.random() if self.submitted else 0.0, self.act)

    def act(self):
        self.thinks = False
        if not self.finished:
            super().go_on()

    def time_out(self, number):
        super().time_out(number)
        self.finish()

    def finish(self):
        settled = len(self.answers) + len(self.timed_out) >= self.planned
        if not self.finished and (settled or self.error is not None):
            self.finished = True
            self.world.finish(self)


class Flow:
    """A client's connection to a gateway, and the gateway's to a server."""

    def __init__(self, gateway, number, driver, attempt):
        self.gateway, self.number, self.driver, self.attempt = gateway, number, driver, attempt
        self.id = number
        self.at_client = self.at_gateway = True
        self.spliced = False
        self.far = None
        self.dials = 0  # only the newest counts
        self.down_at = self.up_at = 0.0


class Far:
    """A gateway's connection to a server."""

    def __init__(self, node, flow, id):
        self.node, self.flow, self.id, self.life = node, flow, id, node.life
        self.at_server = self.at_gateway = True
        self.reached = False
        self.broken = False  # nothing passes any more, although neither end has noticed
        self.hosted = None
        self.up_at = self.down_at = 0.0


class Hosted:
    """A session on a server, with its worker and its journal."""

    def __init__(self, world, node, session, deterministic):
        self.world, self.node, self.session = world, node, session
        self.secret = 7 if deterministic else world.rng.getrandbits(32)
        self.deterministic = deterministic
        self.worker = ModelWorker(1, self.secret)
        self.disk = Disk("reply") if node.journaled else None
        self.far = None

    def carry(self, commands):
        world = self.world
        for command in commands:
            kind = type(command)
            if kind is s.SendTo:
                self.send(command)
            elif kind is s.ToWorker:
                self.to_worker(command)
            elif kind is s.Journal:
                if self.disk is not None:
                    self.disk.append(command.entry)
            elif kind is s.CloseConnection:
                if (far := world.fars.get(command.connection)) is not None:
                    world.server_closes(far)
            elif kind is s.EndWorker:
                self.worker.alive = False
            elif kind is s.RebuildWorker:
                self.rebuild(command)
            else:
                self.node.sessions.pop(self.session.id, None)
        if (due := self.session.due_s) is not None:
            world.push(max(0.0, due - world.now), self.tick, self.session, due)

    def send(self, command):
        far = self.world.fars.get(command.connection)
        if far is not None and far.at_server:
            self.world.send_down(far, command.frame)

    def tick(self, session, due):
        if session is self.session and session.due_s == due and self.node.sessions.get(session.id) is self:
            self.carry(session.tick(self.world.now))

    def to_worker(self, command):
        worker, world = self.worker, self.world
        if worker.id != command.worker:
            raise Violation(f"request {command.number} went to worker {command.worker}, {worker.id} is there")
        worker.ready_at = max(worker.ready_at, world.now) + 0.002 * self.node.slow * world.rng.random()
        world.push(worker.ready_at - world.now, self.work, worker, command.frame)

    def work(self, worker, request):
        if worker.alive and self.worker is worker:
            reply = worker.apply(request)
            self.carry(self.session.worker_replied(worker.id, reply, self.world.now))

    def rebuild(self, command):
        worker = self.worker = ModelWorker(command.worker, self.secret)
        found = recover(BytesIO(bytes(self.disk.data)))
        frames = found.frames[: command.count]
        replay = Replay(found.header.origin, frames, window=self.session.limits.window)
        for request in frames:
            replay.add(worker.apply(request))
        self.world.push(0.05 * self.world.rng.random(), self.rebuilt, worker, replay)

    def rebuilt(self, worker, replay):
        if worker.alive and self.worker is worker:
            self.carry(self.session.rebuilt(worker.id, replay, self.world.now))


class Node:
    """A server. ``journaled``: it keeps its deterministic sessions, and its mark, when it starts again."""

    def __init__(self, world, at, journaled):
        self.world, self.at, self.journaled = world, at, journaled
        self.up, self.life, self.slow, self.cut_until = True, 0, 1.0, 0.0
        self.mark = f"{at:08x}"
        self.sessions, self.fars = {}, {}

    @property
    def reachable(self):
        return self.up and self.world.now >= self.cut_until

    def receive(self, far, data):
        if far.hosted is None:
            self.greet(far, decode_frame(data)[1])
            return
        session = far.hosted.session
        if self.sessions.get(session.id) is not far.hosted:
            return
        far.hosted.carry(session.request(far.id, number_of(data), digest(data), data, self.world.now))

    def greet(self, far, hello):
        world, name = self.world, far.flow.driver.name
        token = f"token{world.next()}"
        if hello.resume is None:
            if world.rng.random() < 0.02:
                self.refuse(far, "CAPACITY_REACHED")
                return
            id, deterministic = f"{world.next():024x}{self.mark}", world.rng.random() < 0.8
            limits = s.SessionLimits(deadline_s=60.0, journaled=self.journaled, deterministic=deterministic)
            header = Header(id, "model", {}, b"spec", deterministic)
            hosted = Hosted(world, self, s.Session(id, limits, origin=header.origin), deterministic)
            if hosted.disk is not None:
                hosted.disk.append(header)
            far.hosted = hosted
            self.sessions[id] = hosted
            world.lineages.setdefault(name, []).append(hosted)
            hosted.carry(hosted.session.attach(far.id, token))
        elif (hosted := self.sessions.get(hello.resume.session)) is None:
            self.refuse(far, "SESSION_GONE")
        else:
            far.hosted = hosted
            hosted.carry(hosted.session.resume(far.id, hello.resume, token, world.now))

    def refuse(self, far, code):
        self.world.send_down(far, frame_of(Failed(code, ""), HANDSHAKE))
        self.world.server_closes(far)

    def kill(self):
        self.up, self.life = False, self.life + 1
        for hosted in self.sessions.values():
            hosted.worker.alive = False
        for far in list(self.fars.values()):
            far.at_server = False
            self.world.push(self.world.latency(), self.world.gateway_notices, far)
        self.fars.clear()
        kept = {id: hosted for id, hosted in self.sessions.items() if hosted.disk is not None}
        for hosted in self.sessions.values():
            if hosted.disk is None or not hosted.deterministic:
                self.world.lost.add(hosted)
        self.sessions = {}
        self.world.push(0.3 + 4.0 * self.world.rng.random(), self.start, kept)

    def start(self, kept):
        self.up = True
        if not self.journaled:
            self.mark = f"{self.world.next():06x}{self.at:02x}"
        for id, hosted in kept.items():
            found = recover(BytesIO(bytes(hosted.disk.data)))
            if found is None or found.closed:
                continue
            del hosted.disk.data[found.length :]
            hosted.disk.crc = found.crc
            self.sessions[id] = hosted
            hosted.session = s.Session.from_journal(found, hosted.session.limits, self.world.now)
            hosted.carry([])


class GatewayNode:
    """One gateway of several; ``life`` counts how often it began."""

    def __init__(self, world, gateway_class):
        self.world, self.gateway_class, self.life, self.up = world, gateway_class, 0, True
        self.begin()

    def begin(self):
        self.machine = self.gateway_class([f"server{at}" for at in range(SERVERS)])
        self.flows = {}
        self.check(self.life, again=True)

    def check(self, life, *, again=False):
        if not self.up or life != self.life or self.world.over:
            return
        for at, node in enumerate(self.world.nodes):
            if node.reachable:
                self.machine.checked(at, ready=node.slow < 100, mark=node.mark)
            else:
                self.machine.checked(at, ready=False)
        if again:
            self.world.push(CHECK_S, self.recheck, life)

    def recheck(self, life):
        self.check(life, again=True)

    def ask(self, method, flow, *arguments, **words):
        """Report an event, and carry out what the gateway commands."""
        if not self.up or self.flows.get(flow.number) is not flow:
            return
        world, call = self.world, getattr(self.machine, method)
        if flow.driver.sampled:
            sys.setprofile(world.count_work)
            try:
                commands = call(flow.number, *arguments, **words)
            finally:
                sys.setprofile(None)
        else:
            commands = call(flow.number, *arguments, **words)
        world.events += 1
        world.commands += len(commands)
        for command in commands:
            self.carry(flow, command)

    def carry(self, flow, command):
        world, kind = self.world, type(command)
        if kind is g.ToServer:
            if flow.far is None or not flow.far.reached:
                raise Violation("a message is for a server that was not reached yet")
            world.send_up_far(flow.far, command.frame)
        elif kind is g.ToClient:
            world.send_to_client(flow, command.frame)
        elif kind is g.Dial:
            self.hang_up(flow)
            flow.dials += 1
            world.push(world.latency(), world.dial, flow, command.server, flow.dials)
        elif kind is g.Accept:
            world.push(world.latency(), world.accepted, flow)
        elif kind is g.Splice:
            flow.spliced = True
        else:
            self.flows.pop(flow.number, None)
            self.hang_up(flow)
            flow.at_gateway = False
            world.push(max(flow.down_at - world.now, 0.0) + world.latency(), world.client_notices, flow, kind)

    def hang_up(self, flow):
        far, flow.far = flow.far, None
        if far is not None:
            far.at_gateway = False
            self.world.push(self.world.latency(), self.world.server_notices_far, far, flow.driver.finished)

    def kill(self):
        self.up, self.life = False, self.life + 1
        flows, self.flows = self.flows, {}
        for flow in flows.values():
            flow.at_gateway = False
            self.hang_up(flow)
            self.world.push(self.world.latency(), self.world.client_notices, flow, None)
        self.world.push(0.2 + self.world.rng.random(), self.start)

    def start(self):
        self.up = True
        self.begin()


class World:
    """One schedule of so many sessions. The gateway's work is counted for one of ``sample`` sessions, for none if 0.

    ``gateway_class`` may be a broken one, for tests of the simulator itself.
    """

    def __init__(self, seed, sessions=1000, *, gateway_class=g.Gateway, sample=16):
        self.rng, self.sessions = random.Random(seed), sessions
        self.client_class = RemoteSession
        self.now, self.heap, self.pushed, self.counter = 0.0, [], 0, 0
        self.over = False
        self.befell, self.outcomes = Counter(), Counter()
        self.lineages, self.lost, self.fars = {}, set(), {}
        self.drivers, self.open, self.peak = set(), 0, 0
        self.events = self.commands = self.calls = self.sampled = 0
        self.sample = sample
        journaled = self.rng.random() < 0.7
        self.nodes = [Node(self, at, journaled) for at in range(SERVERS)]
        self.gateways = [GatewayNode(self, gateway_class) for _ in range(GATEWAYS)]

    def next(self):
        self.counter += 1
        return self.counter

    def count_work(self, frame, event, argument):
        self.calls += event in ("call", "c_call")

    def say(self, *words):
        pass

    def push(self, delay, function, *arguments):
        self.pushed += 1
        heapq.heappush(self.heap, (self.now + delay, self.pushed, function, arguments))

    def latency(self):
        return 0.0005 + 0.004 * self.rng.random()

    def run(self):
        rng = self.rng
        for number in range(self.sessions):
            self.push(ARRIVALS_S * rng.random(), self.arrive, number)
        for _ in range(rng.randint(4, 10)):
            self.push((ARRIVALS_S + 4 * THINK_S) * rng.random(), self.misfortune, rng.choice(MISFORTUNES))
        while self.heap and not self.over:
            at, _, function, arguments = heapq.heappop(self.heap)
            self.now = max(self.now, at)
            if self.now > LONGEST_S:
                raise Violation(f"{self.open} clients hang")
            function(*arguments)
        if sum(self.outcomes.values()) != self.sessions:
            raise Violation(f"{self.sessions - sum(self.outcomes.values())} clients are stuck")
        return self

    def misfortune(self, what):
        self.befell[what.__name__] += what(self)

    # Clients

    def arrive(self, number):
        rng = self.rng
        driver = FleetDriver(self, str(number), rng.randint(3, 8), 1 if rng.random() < 0.8 else 2)
        driver.sampled = bool(self.sample) and number % self.sample == 0
        self.sampled += driver.sampled
        self.drivers.add(driver)
        self.open += 1
        self.peak = max(self.peak, self.open)
        driver.start()

    def finish(self, driver):
        self.drivers.discard(driver)
        self.open -= 1
        hosted = self.lineages.pop(driver.name, [])
        self.check(driver, hosted)
        self.outcomes["whole" if driver.error is None else driver.error.code] += 1
        self.lost.difference_update(hosted)
        flow = driver.link
        if flow is not None and flow.at_client:
            driver.leave(flow.attempt)
        if self.open == 0 and sum(self.outcomes.values()) == self.sessions:
            self.over = True

    def check(self, driver, hosted):
        """No acknowledged step is missing from the one environment that took it, and none was taken by two."""
        lost = any(one in self.lost for one in hosted)
        excuses = {"ENV_LOST", "SESSION_GONE"} if lost or len(hosted) > 1 else set()
        driver.check_end(excuses)
        for number, reply in driver.answers.items():
            if code_of(reply) != "":
                continue
            frame = driver.requests[number]
            took = [
                one for one in hosted if any(request == frame for request, _ in one.worker.log[number - 1 : number])
            ]
            if not any(one.worker.log[number - 1][1] == reply for one in took):
                raise Violation(f"client {driver.name}: request {number} was answered, and no environment has it")
            if number > 2 and len(took) > 1:
                raise Violation(f"client {driver.name}: step {number} was taken by {len(took)} environments")

    def connect(self, driver, attempt):
        gateway = self.rng.choice(self.gateways)
        if not gateway.up:
            driver.disconnected(attempt, "")
            return
        flow = Flow(gateway, self.next(), driver, attempt)
        driver.link = gateway.flows[flow.number] = flow
        gateway.ask("arrive", flow, native=True)

    def accepted(self, flow):
        if flow.at_client:
            flow.driver.connected(flow.attempt)

    def send_up(self, flow, data):
        """From a client to its gateway."""
        flow.up_at = max(flow.up_at, self.now + self.latency())
        self.push(flow.up_at - self.now, self.at_gateway, flow, data)

    def at_gateway(self, flow, data):
        if not flow.at_gateway or not flow.gateway.up:
            return
        if flow.spliced:
            if flow.far is not None:
                self.send_up_far(flow.far, data)
        else:
            flow.gateway.ask("client_frame", flow, data)

    def server_notices(self, flow):
        """The client left: its gateway notices."""
        flow.gateway.ask("client_gone", flow)

    def client_notices(self, flow, why):
        if flow.at_client:
            flow.at_client = False
            flow.driver.disconnected(flow.attempt, "UNREACHABLE" if why is g.Refuse else "")

    def send_to_client(self, flow, data):
        flow.down_at = max(flow.down_at, self.now + self.latency())
        self.push(flow.down_at - self.now, self.at_client, flow, data)

    def at_client(self, flow, data):
        if flow.at_client:
            flow.driver.received(flow.attempt, data)

    # Servers

    def dial(self, flow, at, number):
        node = self.nodes[at]
        if not flow.at_gateway or number != flow.dials:
            return
        if not node.reachable:
            self.push(0.001 if not node.up else DIAL_S, self.unreached, flow, number)
            return
        far = flow.far = Far(node, flow, self.next())
        self.fars[far.id] = node.fars[far.id] = far
        self.push(self.latency() * node.slow, self.reached, far)

    def unreached(self, flow, number):
        if number == flow.dials:
            flow.gateway.ask("unreached", flow)

    def reached(self, far):
        if far.flow.far is far and far.at_gateway:
            far.reached = True
            far.flow.gateway.ask("reached", far.flow, 101)

    def send_up_far(self, far, data):
        far.up_at = max(far.up_at, self.now + self.latency() * far.node.slow)
        self.push(far.up_at - self.now, self.at_server, far, data)

    def at_server(self, far, data):
        if far.at_server and not far.broken and far.node.up and far.life == far.node.life:
            far.node.receive(far, data)

    def send_down(self, far, data):
        far.down_at = max(far.down_at, self.now + self.latency() * far.node.slow)
        self.push(far.down_at - self.now, self.down_at_gateway, far, data)

    def down_at_gateway(self, far, data):
        flow = far.flow
        if flow.far is not far or not far.at_gateway or far.broken:
            return
        if flow.spliced:
            self.send_to_client(flow, data)
        else:
            flow.gateway.ask("server_frame", flow, data)

    def server_closes(self, far):
        far.at_server = False
        far.node.fars.pop(far.id, None)
        self.push(max(far.down_at - self.now, 0.0) + self.latency(), self.gateway_notices, far)

    def gateway_notices(self, far):
        self.fars.pop(far.id, None)
        if far.flow.far is far and far.at_gateway:
            far.at_gateway, far.flow.far = False, None
            far.flow.gateway.ask("server_gone", far.flow)

    def server_notices_far(self, far, done=False):
        self.fars.pop(far.id, None)
        far.node.fars.pop(far.id, None)
        if far.at_server and far.life == far.node.life:
            far.at_server = False
            if far.hosted is not None:
                far.hosted.carry(far.hosted.session.connection_closed(far.id, self.now, done=done))


# What can go wrong. Each returns whether it met anything.


def kill_server(world):
    node = world.rng.choice(world.nodes)
    if node.up:
        node.kill()
        return True
    return False


def kill_gateway(world):
    gateway = world.rng.choice(world.gateways)
    if gateway.up:
        gateway.kill()
        return True
    return False


def partition(world):
    """A server is cut off from all gateways for a while. Each end of a connection notices sooner or later."""
    node = world.rng.choice(world.nodes)
    node.cut_until = world.now + 6.0 * world.rng.random()
    for far in list(node.fars.values()):
        far.broken = True
        world.push(world.rng.choice((0.01, 1.0, 5.0)), world.gateway_notices, far)
        world.push(world.rng.choice((0.05, 3.0, 20.0)), world.server_notices_far, far)
    return True


def slow_down(world):
    node, before = world.rng.choice(world.nodes), world.rng.choice((20.0, 50.0))
    node.slow = before

    def recover_speed():
        node.slow = 1.0

    world.push(5.0 * world.rng.random(), recover_speed)
    return True


def break_clients(world):
    """Some clients' own connections break."""
    met = [driver.link for driver in world.drivers if driver.link is not None and driver.link.at_client]
    met.sort(key=lambda flow: flow.number)
    for flow in met[:: max(1, len(met) // 50)]:
        flow.at_client = False
        world.push(world.rng.choice((0.001, 0.5)), flow.driver.disconnected, flow.attempt, "")
        world.push(world.rng.choice((0.001, 0.5, 10.0)), world.server_notices, flow)
    return bool(met)


MISFORTUNES = (kill_server, kill_server, kill_gateway, partition, partition, slow_down, break_clients)


def main():
    seed, sessions = int(sys.argv[1]), int([*sys.argv, "1000"][2])
    began = time.process_time()
    world = World(seed, sessions).run()
    print(dict(world.befell), dict(world.outcomes), f"at most {world.peak} at once")
    print(f"per session: {world.events / sessions:.2f} events, {world.commands / sessions:.2f} commands,", end=" ")
    print(f"{world.calls / world.sampled:.1f} calls; {time.process_time() - began:.1f} s of CPU")


if __name__ == "__main__":
    main()
