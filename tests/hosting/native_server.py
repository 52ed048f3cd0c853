"""A small server of the native wire for tests of clients: the package websockets, server.session, a Host."""

import contextlib
import dataclasses
import itertools
import secrets
import threading
import time

import numpy as np
from websockets.exceptions import ConnectionClosed

from paddock import Env, spaces
from paddock.errors import SessionGone
from paddock.hosting.codec import decode_frame, encode, number_of
from paddock.hosting.failures import close_number, close_reason
from paddock.hosting.host import Host
from paddock.hosting.messages import Close, Failed, Hello
from paddock.hosting.remote_address import RemoteAddress
from paddock.hosting.remote_session import Patience
from paddock.server.journal import digest
from paddock.server.session import CloseConnection, SendTo, Session, SessionLimits, ToWorker
from tests.hosting.websocket.servers import websockets_server


class Diary(Env):
    """Writes down every action that it is given, and shows the last one and how many there were."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(1 << 20)

    def __init__(self, applied, size=0):
        self.applied, self.size, self.closed = applied, size, False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2), {}

    def step(self, action):
        self.applied.append(int(action))
        info = {"large": np.full(self.size, action % 251, np.uint8)} if self.size else {}
        return np.array([action, len(self.applied)], np.float64), float(action), False, False, info

    def render(self):
        raise ValueError("no picture")

    def close(self):
        self.closed = True


class NativeServer:
    """Sessions, each with a Host of its own. ``applied``: the actions of each session, in order."""

    def __init__(self, terms=None, size=0):
        self.terms = terms or SessionLimits()
        self.size = size
        self.lock = threading.Lock()
        self.sessions, self.hosts, self.applied, self.envs = {}, {}, {}, {}
        self.connections = {}
        self.counter = itertools.count(1)
        self.go_on = threading.Event()  # cleared, the worker waits
        self.go_on.set()
        self.welcomes = 0

    def handle(self, connection):
        number = next(self.counter)
        with contextlib.suppress(ConnectionClosed):
            zero, hello = decode_frame(connection.recv())
            assert (zero, type(hello)) == (0, Hello)
            with self.lock:
                self.connections[number] = connection
                session = self.begin(number, connection, hello)
            if session is not None:
                for data in connection:
                    with self.lock:
                        message = decode_frame(data)[1]
                        final = isinstance(message, Close) and message.env is None
                        now = time.monotonic()
                        self.run(
                            session, session.request(number, number_of(data), digest(data), data, now, final=final)
                        )
                with self.lock:  # the loop ends without an error only if the client took leave
                    self.run(session, session.connection_closed(number, time.monotonic(), done=True))
        with self.lock:
            for session in self.sessions.values():
                self.run(session, session.connection_closed(number, time.monotonic()))

    def begin(self, number, connection, hello):
        token, now = secrets.token_hex(16), time.monotonic()
        if hello.resume is None:
            session = Session(secrets.token_hex(16), self.terms)
            applied = self.applied[session.id] = []
            self.sessions[session.id] = session
            self.hosts[session.id] = Host(lambda what: self.envs.setdefault(session.id, Diary(applied, self.size)))
            self.run(session, session.attach(number, token))
        else:
            session = self.sessions.get(hello.resume.session)
            if session is None:
                connection.send(b"".join(encode(Failed(SessionGone.code, "There is no such session."), 0)))
                return None
            self.run(session, session.resume(number, hello.resume, token, now))
        self.welcomes += 1
        return session

    def run(self, session, effects):
        effects = list(effects)
        while effects:
            effect = effects.pop(0)
            if type(effect) is SendTo:
                with contextlib.suppress(ConnectionClosed):
                    self.connections[effect.connection].send(effect.frame)
            elif type(effect) is ToWorker:
                self.go_on.wait(30)
                reply = self.hosts[session.id].handle(decode_frame(effect.frame)[1])
                frame = b"".join(encode(reply, effect.number))
                effects += session.worker_replied(effect.worker, frame, time.monotonic())
            elif type(effect) is CloseConnection:
                connection = self.connections[effect.connection]
                reason = close_reason(effect.code, effect.reason)
                threading.Thread(target=connection.close, args=(close_number(effect.code), reason)).start()

    def lose_worker(self):
        """What happens when every worker dies."""
        with self.lock:
            for session in self.sessions.values():
                self.run(session, session.worker_lost(session.worker, "signal", time.monotonic()))

    def drop_all(self):
        """Cut every connection, as a network does."""
        with self.lock:
            for connection in self.connections.values():
                connection.socket.close()

    @property
    def one(self):
        """The actions of the only session."""
        (applied,) = self.applied.values()
        return applied


@contextlib.contextmanager
def native_server(terms=None, size=0, **options):
    """A server, and its address."""
    server = NativeServer(terms, size)
    with websockets_server(server.handle, compression=None, **options) as endpoint:
        server.address = RemoteAddress(endpoint.host, endpoint.port, endpoint.secure, "/Diary-v0", endpoint.unix)
        server.port = endpoint.port
        yield server


QUICK = Patience(first_s=0.001, longest_s=0.01, begin_s=2.0, resume_s=5.0, handshake_s=2.0)


def through(proxy, server):
    return dataclasses.replace(server.address, port=proxy.port)


def refusing(status, body=""):
    def refuse(connection, request):
        return connection.respond(status, body)

    return refuse
