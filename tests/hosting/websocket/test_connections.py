"""Our connections, blocking and async, against servers that others wrote: TCP, TLS, unix sockets, deadlines, ends."""

import asyncio
import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus

import numpy as np
import pytest

from paddock.hosting.websocket.asynchronous import AsyncConnection
from paddock.hosting.websocket.blocking import TICK_S, BlockingConnection
from paddock.hosting.websocket.endpoint import Endpoint
from paddock.hosting.websocket.events import Binary, Closed, Pong, Text, UpgradeRefused, WebSocketError
from tests.clocks import awake_s
from tests.hosting.websocket.servers import answering, certificate, picows_server, websockets_server

SIZES = [0, 1, 100, 125, 126, 65_535, 65_536, 100_000, 1 << 20]


def payloads():
    return [np.random.default_rng(size).bytes(size) for size in SIZES]


def whole(event):
    assert type(event) is Binary
    return bytes(event.data) + bytes(event.rest or b"")


def received(connection, within_s=30.0):
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        if (event := connection.recv(ends - time.monotonic())) is not None:
            return event
    raise AssertionError("nothing came")


class AsyncInbox:
    """Collects what an AsyncConnection tells."""

    def __init__(self):
        self.events, self.ended = asyncio.Queue(), asyncio.get_running_loop().create_future()

    async def connect(self, endpoint, **options):
        return await AsyncConnection.connect(endpoint, self.events.put_nowait, self.ended.set_result, **options)


@pytest.mark.parametrize("server", [websockets_server, picows_server])
@pytest.mark.parametrize("split", [None, lambda beginning: 50])
def test_messages_of_every_size_come_back(server, split):
    with server() as endpoint:
        connection = BlockingConnection(endpoint, split=split)
        for payload in payloads():
            connection.send(payload)
            assert whole(received(connection)) == payload
        connection.send_text("grüße")
        assert received(connection) == Text("grüße")
        assert connection.close(timeout_s=10.0).code == 1000


@pytest.mark.parametrize("server", [websockets_server, picows_server])
def test_messages_of_every_size_come_back_to_asyncio(server):
    async def talk(endpoint):
        inbox = AsyncInbox()
        connection = await inbox.connect(endpoint, split=lambda beginning: 50)
        for payload in payloads():
            connection.send(payload)
            await connection.drain()
            assert whole(await asyncio.wait_for(inbox.events.get(), 30)) == payload
        connection.send_text("grüße")
        assert await asyncio.wait_for(inbox.events.get(), 30) == Text("grüße")
        await connection.close(timeout_s=10.0)
        assert not inbox.ended.done()

    with server() as endpoint:
        asyncio.run(talk(endpoint))


def test_unix_socket_carries_both(tmp_path):
    async def talk(endpoint):
        inbox = AsyncInbox()
        connection = await inbox.connect(endpoint)
        connection.send(b"async")
        assert whole(await asyncio.wait_for(inbox.events.get(), 30)) == b"async"
        await connection.close()

    with websockets_server(unix=str(tmp_path / "s")) as endpoint:
        connection = BlockingConnection(endpoint)
        connection.send(b"blocking")
        assert whole(received(connection)) == b"blocking"
        connection.close()
        asyncio.run(talk(endpoint))


@pytest.mark.process
def test_tls_carries_both_and_a_certificate_that_nobody_vouches_for_is_refused(tmp_path):
    on_server, on_client = certificate(tmp_path)

    async def talk(endpoint):
        inbox = AsyncInbox()
        connection = await inbox.connect(endpoint, context=on_client)
        for payload in payloads():
            connection.send(payload)
            assert whole(await asyncio.wait_for(inbox.events.get(), 30)) == payload
        await connection.close()

    with websockets_server(ssl=on_server) as endpoint:
        connection = BlockingConnection(endpoint, context=on_client)
        for payload in payloads():
            connection.send(payload)
            assert whole(received(connection)) == payload
        assert connection.recv(0.01) is None
        connection.close()
        asyncio.run(talk(endpoint))
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            BlockingConnection(endpoint)


def test_chosen_subprotocol_is_known():
    with websockets_server() as endpoint:
        connection = BlockingConnection(endpoint)
        assert connection.subprotocol == "paddock.v1"
        connection.close()
    with websockets_server(subprotocols=None) as endpoint:
        connection = BlockingConnection(endpoint)
        assert connection.subprotocol is None
        connection.close()


def test_pings_are_answered_both_ways():
    answered = threading.Event()

    def handler(connection):
        waiter = connection.ping()
        connection.send(b"pinged")
        if waiter.wait(10):
            answered.set()
        list(connection)

    with websockets_server(handler) as endpoint:
        connection = BlockingConnection(endpoint)
        events = [received(connection), received(connection)]
        assert {type(event).__name__ for event in events} == {"Ping", "Binary"}
        connection.ping()
        assert received(connection) == Pong(b"")
        assert answered.wait(10)
        connection.close()


def test_close_of_the_server_tells_its_code_and_reason():
    with websockets_server(lambda connection: connection.close(4001, "SUPERSEDED: gone")) as endpoint:
        connection = BlockingConnection(endpoint)
        assert received(connection) == Closed(4001, "SUPERSEDED: gone")
        assert received(connection) == Closed(4001, "SUPERSEDED: gone")
        connection.close()
        connection.close()


def test_refused_upgrade_has_the_status():
    def refuse(connection, request):
        return connection.respond(HTTPStatus.UNAUTHORIZED, "no\n")

    async def talk(endpoint):
        await AsyncInbox().connect(endpoint)

    with websockets_server(process_request=refuse) as endpoint:
        for attempt in (lambda: BlockingConnection(endpoint), lambda: asyncio.run(talk(endpoint))):
            with pytest.raises(UpgradeRefused) as caught:
                attempt()
            assert (caught.value.status, caught.value.body) == (401, b"no\n")


@pytest.fixture
def mute():
    """A listener that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Endpoint("127.0.0.1", listener.getsockname()[1])


def test_handshake_without_an_answer_ends_at_its_deadline(mute):
    async def talk():
        await AsyncInbox().connect(mute, timeout_s=0.1)

    for attempt in (lambda: BlockingConnection(mute, timeout_s=0.1), lambda: asyncio.run(talk())):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            attempt()
        assert time.monotonic() - began < 2.0


def test_read_ends_at_its_deadline_or_at_the_tick():
    with websockets_server() as endpoint:
        connection = BlockingConnection(endpoint)
        for limit_s, at_least_s, at_most_s in ((0.0, 0.0, 0.3), (0.1, 0.09, 0.4), (None, TICK_S * 0.9, TICK_S + 1.0)):
            began, began_awake = time.monotonic(), awake_s()
            assert connection.recv(limit_s) is None
            assert at_least_s <= time.monotonic() - began and awake_s() - began_awake < at_most_s
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("in_handshake", [True, False])
def test_bytes_that_come_one_at_a_time_move_no_deadline(in_handshake):
    over = threading.Event()

    def drip(peer):
        ends = time.monotonic() + 15
        with suppress(OSError):
            while time.monotonic() < ends and not over.wait(TICK_S / 5):
                peer.sendall(b"a")

    endpoint, thread = answering(lambda head: head[:30] if in_handshake else head + b"\x82\x7e\xff\xff", drip)
    began = time.monotonic()
    if in_handshake:
        with pytest.raises(TimeoutError):
            BlockingConnection(endpoint, timeout_s=2 * TICK_S)
    else:
        connection = BlockingConnection(endpoint)
        began = time.monotonic()
        while time.monotonic() - began < 2 * TICK_S:
            assert connection.recv(2 * TICK_S - (time.monotonic() - began)) is None
        connection.abort()
    assert time.monotonic() - began < 10.0
    over.set()
    thread.join()


@pytest.mark.slow
def test_write_that_nobody_takes_ends_at_its_deadline():
    over = threading.Event()
    endpoint, thread = answering(lambda head: head, lambda peer: over.wait(30))
    connection = BlockingConnection(endpoint)
    with pytest.raises(TimeoutError, match="does not read"):
        connection.send(bytes(100 << 20), timeout_s=0.2)
    connection.abort()
    over.set()
    thread.join()


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (lambda head: head, Closed(1006)),
        (lambda head: head + b"\x82\x05ab", Closed(1006)),
        (lambda head: head + b"\x82\x02ab", Binary(b"ab")),
    ],
    ids=["nothing more", "half a message", "a message with the response"],
)
def test_connection_that_ends_without_a_close_is_told(reply, outcome):
    endpoint, thread = answering(reply)
    connection = BlockingConnection(endpoint)
    assert received(connection) == outcome
    connection.abort()
    thread.join()

    async def talk(endpoint):
        inbox = AsyncInbox()
        connection = await inbox.connect(endpoint)
        if type(outcome) is Binary:
            assert await asyncio.wait_for(inbox.events.get(), 10) == outcome
        assert await asyncio.wait_for(inbox.ended, 10) == Closed(1006)
        connection.abort()

    endpoint, thread = answering(reply)
    asyncio.run(talk(endpoint))
    thread.join()


def test_broken_protocol_is_raised_and_the_peer_told():
    endpoint, thread = answering(lambda head: head + b"\xff\x00")
    connection = BlockingConnection(endpoint)
    with pytest.raises(WebSocketError, match="reserved bits"):
        received(connection)
    connection.abort()
    thread.join()


def test_cut_handshake_is_a_reset_and_asks_whether_tls_was_meant():
    endpoint, thread = answering(lambda head: head[:30])
    with pytest.raises(ConnectionResetError, match="does it want https"):
        BlockingConnection(endpoint)
    thread.join()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_connection_that_the_server_closes_at_once_is_not_waited_for(secure):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint("127.0.0.1", listener.getsockname()[1], secure=secure)

        def drop_all():
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        async def connect():
            for _ in range(20):
                with pytest.raises(ConnectionResetError):
                    await AsyncConnection.connect(endpoint, print, print, timeout_s=10.0)

        thread = threading.Thread(target=drop_all)
        thread.start()
        asyncio.run(connect())
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_nobody_listening_is_an_error_of_the_system(mute):
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    with pytest.raises(ConnectionRefusedError):
        BlockingConnection(Endpoint("127.0.0.1", port))
