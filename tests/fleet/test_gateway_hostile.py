"""What servers and clients may do to a gateway: lie, stall, flood."""

import asyncio
import contextlib
import json

import pytest

from paddock.fleet import proxy
from paddock.hosting.remote_address import parse_address
from paddock.server import http_connection
from paddock.server.listener import Acceptor, bind
from paddock.server.settings import Settings

GOOD, BAD = "the-token-that-is-valid", "a-token-that-nobody-has"
WEBSOCKET = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
WEBSOCKET += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]


class Far:
    """A server in this loop: ``answer`` maps a path to an HTTP answer, or to what is done with the connection."""

    def __init__(self, **answers):
        self.answers, self.asked, self.tasks = answers, [], set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.address = parse_address(f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}", environ={})
        return self

    async def __aexit__(self, *problem):
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def serve(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        try:
            await self.reply(reader, writer)
        finally:
            writer.close()

    async def reply(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split()[1]
        if path == "/health/ready":
            answer = http(200, {"ready": True})
        else:
            self.asked.append(head)
            answer = self.answers[path.strip("/")]
        if callable(answer):
            answer = await answer(reader, writer, head)
        if answer:
            writer.write(answer)


def http(status, body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


class Front:
    """A gateway in this loop."""

    def __init__(self, *servers):
        self.servers = [one.address for one in servers]

    async def __aenter__(self):
        settings = Settings(port=0, failures_per_s=0.1)  # one at once, then one in ten seconds
        self.api = proxy.GatewayApi(self.servers, settings)
        await self.api.check()
        self.acceptor = Acceptor(self.api, settings, bind(settings), proxy.ClientConnection)
        self.port = self.acceptor.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *problem):
        self.acceptor.close()
        for flow in list(self.api.flows.values()):
            flow.drop()
        await self.acceptor.end()

    async def send(self, path, token, *lines):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Authorization: Bearer {token}",
            *lines,
            "",
            "",
        ]
        writer.write("\r\n".join(head).encode())
        return reader, writer

    async def ask(self, path, token=GOOD):
        """(status, JSON)"""
        reader, writer = await self.send(path, token, "Connection: close")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), json.loads(body)


def play(scenario):
    asyncio.run(asyncio.wait_for(scenario(), 60))


LIES = {
    "no JSON": http(200, b"<html>"),
    "another shape": http(200, {"sessions": [{"session": "x"}]}),
    "no list": http(200, {"sessions": 3}),
    "deep": http(200, b"[" * 100_000),
    "no answer": b"",
    "garbage": b"\x00" * 100 + b"\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 X\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}}",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_about_its_sessions_hides_no_other_servers(lie):
    async def scenario():
        honest = Far(sessions=http(200, {"sessions": [{"session": "a", "age_s": 3.0}]}))
        async with honest, Far(sessions=LIES[lie]) as liar, Front(honest, liar) as front:
            status, found = await front.ask("/sessions")
            assert (status, [row["session"] for row in found["sessions"]]) == (200, ["a"])
            assert found["missing"] == [str(liar.address)]

    play(scenario)


def test_a_server_that_hangs_delays_the_list_of_sessions_but_little(monkeypatch):
    monkeypatch.setattr(proxy, "_ALL_S", 0.2)

    async def hang(reader, writer, head):
        await asyncio.Event().wait()

    async def scenario():
        honest = Far(sessions=http(200, {"sessions": []}))
        async with honest, Far(sessions=hang) as silent, Front(honest, silent) as front:
            assert await front.ask("/sessions") == (200, {"sessions": [], "missing": [str(silent.address)]})

    play(scenario)


def test_a_server_that_ends_its_refusal_of_a_websocket_halfway_keeps_no_client_waiting(monkeypatch):
    monkeypatch.setattr(proxy, "_DIAL_S", 0.2)

    async def stall(reader, writer, head):
        writer.write(b"HTTP/1.1 503 X\r\ncontent-length: 100\r\n\r\nhalf")
        await asyncio.Event().wait()

    async def scenario():
        async with Far(ws=stall) as staller, Front(staller) as front:
            reader, writer = await front.send("/ws", GOOD, *WEBSOCKET)
            assert (await asyncio.wait_for(reader.readline(), 10)).split()[1] == b"503"
            writer.close()

    play(scenario)


def test_strangers_with_made_up_tokens_reach_no_server_for_long_and_known_tokens_always():
    async def check(reader, writer, head):
        return http(200, {}) if GOOD in head else http(401, {"detail": "no"})

    async def scenario():
        async with Far(schema=check, ws=check) as far, Front(far) as front:
            assert await front.ask("/schema") == (200, {})
            assert [(await front.ask("/schema", BAD))[0] for _ in range(3)] == [401, 429, 429]
            before = len(far.asked)
            assert (await front.ask("/schema", BAD + "2"))[0] == 429
            reader, writer = await front.send("/ws", BAD, *WEBSOCKET)
            assert b" 429 " in (await reader.read()).splitlines()[0]
            writer.close()
            assert len(far.asked) == before
            assert await front.ask("/schema") == (200, {})

    play(scenario)


def test_a_client_that_takes_nothing_is_let_go_when_its_server_has_left(monkeypatch):
    monkeypatch.setattr(http_connection, "STALLED_S", 0.2)

    async def flood(reader, writer, head):
        writer.write(b"HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
        for _ in range(256):
            writer.write(b"\x82\x7e\xff\xff" + bytes(0xFFFF))
            if writer.transport.get_write_buffer_size() > 1 << 20:
                break
            await asyncio.sleep(0)
        writer.transport.abort()

    async def scenario():
        async with Far(ws=flood) as far, Front(far) as front:
            reader, writer = await front.send("/ws", GOOD, *WEBSOCKET)
            writer.transport.pause_reading()
            while not front.api.flows:
                await asyncio.sleep(0)
            while front.api.flows:
                await asyncio.sleep(0.01)
            writer.transport.abort()

    play(scenario)


def test_a_message_in_pieces_is_not_taken_for_a_whole_one():
    cutter, pieces = proxy.Cutter(), b"\x02\x01a\x80\x01b"
    assert list(cutter.feed(b"\x89\x00" + pieces)) == [(0x9, b"", b"\x89\x00")]
    assert cutter.blind and cutter.rest() == pieces


HIDDEN = b"GET /evil HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % GOOD.encode()
SMUGGLED = {
    "both lengths": (b"Content-Length: 6\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + HIDDEN),
    "two lengths": (b"Content-Length: 0\r\nContent-Length: %d" % len(HIDDEN), HIDDEN),
    "a list of lengths": (b"Content-Length: 0, %d" % len(HIDDEN), HIDDEN),
    "a signed length": (b"Content-Length: +0", HIDDEN),
    "a coding with a tab": (b"Transfer-Encoding:\tchunked\r\nContent-Length: 4", b"0\r\n\r\n" + HIDDEN),
    "a coding before another": (b"Transfer-Encoding: identity, chunked", b"0\r\n\r\n" + HIDDEN),
    "a space before the colon": (b"Transfer-Encoding : chunked", b"0\r\n\r\n" + HIDDEN),
    "a folded header": (b"X-A: b\r\n Transfer-Encoding: chunked", b"0\r\n\r\n" + HIDDEN),
    "a bare line feed": (b"X-A: b\nTransfer-Encoding: chunked\nAccept: x\n\n" + HIDDEN[:-4], b""),
    "a bare line feed in a header that passes": (b"Accept: b\nX-B: c", b""),
    "a return in a header that passes": (b"Accept: b\rX-B: c", b""),
    "a zero in a header that passes": (b"Accept: b\x00X-B: c", b""),
    "a chunk with an extension and a bare line feed": (
        b"Transfer-Encoding: chunked",
        b"2;\n" + HIDDEN + b"\r\nxx\r\n0\r\n\r\n",
    ),
    "a huge header": (b"X-A: " + b"b" * (1 << 20), b""),
    "many headers": (b"\r\n".join(b"X-%d: b" % number for number in range(10_000)), b""),
    "an upgrade with a body": (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: %d" % len(HIDDEN),
        HIDDEN,
    ),
}


@pytest.mark.parametrize("how", SMUGGLED)
def test_no_request_is_hidden_in_another(how):
    """Whatever a client sends, a server sees requests that the gateway wrote, and none of the client's own lines."""

    async def scenario():
        async with Far(schema=http(200, {}), evil=http(200, {})) as far, Front(far) as front:
            lines, rest = SMUGGLED[how]
            reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
            head = f"POST /schema HTTP/1.1\r\nHost: 127.0.0.1:{front.port}\r\nAuthorization: Bearer {GOOD}\r\n"
            writer.write(head.encode() + lines + b"\r\n\r\n" + rest)
            writer.write_eof()
            with contextlib.suppress(OSError):
                await reader.read()
            writer.close()
            assert not any("evil" in one.split("\r\n", 1)[0] for one in far.asked)
            for one in far.asked:
                names = [line.partition(":")[0].lower() for line in one.split("\r\n")[1:] if line]
                assert len(names) == len(set(names)) and "transfer-encoding" not in names
                assert not {"x-a", "x-b"} & set(names) and "\n" not in one.replace("\r\n", "")

    play(scenario)
