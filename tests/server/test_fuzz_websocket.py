"""Websocket frames that are none: who sends them is let go, and finds its session as it was."""

import pytest

from paddock.hosting import messages as m
from paddock.hosting.codec import decode_frame, encode
from paddock.server import websocket
from tests.server.clients import Native
from tests.server.in_process import vault_server
from tests.server.native_episode import Episode
from tests.server.raw_peers import BINARY, CLOSE
from tests.serving import shared

pytestmark = pytest.mark.process


server = shared(vault_server)


@pytest.fixture(scope="module")
def episode(server):
    episode = Episode(server)
    yield episode
    episode.peer.sock.close()


WEBSOCKET_ABUSE = {
    "reserved opcode": (1002, [(3, b"x", {})]),
    "reserved control": (1002, [(11, b"", {})]),
    "unmasked": (1002, [(BINARY, b"x", {"masked": False})]),
    "compressed": (1002, [(BINARY, b"\x78\x9c" * 10, {"rsv": 4})]),
    "reserved bit": (1002, [(BINARY, b"x", {"rsv": 1})]),
    "continuation of nothing": (1002, [(0, b"x", {})]),
    "a message in a message": (1002, [(BINARY, b"x", {"fin": False}), (BINARY, b"y", {})]),
    "fragmented ping": (1002, [(9, b"x", {"fin": False})]),
    "long ping": (1002, [(9, b"x" * 126, {})]),
    "close of one byte": (1002, [(8, b"x", {})]),
    "close without a meaning": (1002, [(8, (1005).to_bytes(2, "big"), {})]),
    "close with a reason that is no text": (1007, [(8, b"\x03\xe8\xff\xff", {})]),
}


@pytest.mark.parametrize("name", WEBSOCKET_ABUSE)
def test_who_breaks_the_websocket_is_let_go_and_can_resume(episode, name):
    code, frames = WEBSOCKET_ABUSE[name]
    for opcode, payload, how in frames:
        episode.peer.frame(opcode, payload, **how)
    opcode, payload = episode.peer.message()
    assert (opcode, int.from_bytes(payload[:2], "big")) == (CLOSE, code)
    assert episode.peer.is_closed()
    episode.connect()
    episode.check()


def test_a_frame_or_a_message_that_is_too_long(tmp_path):
    with vault_server(tmp_path, max_message=1 << 20) as server:
        for pieces in (1, 8):
            episode = Episode(server)
            size = (1 << 20) // pieces + 8
            for piece in range(pieces):
                episode.peer.frame(0 if piece else BINARY, bytes(size), fin=piece == pieces - 1)
            opcode, payload = episode.peer.message()
            assert (opcode, int.from_bytes(payload[:2], "big")) == (CLOSE, 1009)
            episode.connect()
            episode.check()
            episode.peer.sock.close()


def test_compression_is_not_agreed_to(server):
    with server.peer() as peer:
        answer = peer.upgrade(headers={"sec-websocket-extensions": "permessage-deflate"}, path="/Vault-v0/ws")
        assert answer.status == 101 and "sec-websocket-extensions" not in answer.headers


def test_who_pings_and_does_not_read_is_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr(websocket, "_SLOW_READER_BYTES", 1 << 18)
    # A server of its own, with a rate that does not end it first.
    with vault_server(tmp_path, rate_per_s=1e9) as server:
        with server.peer() as peer:
            assert isinstance(Native(peer).welcome, m.Welcome)
            ping = b"\x89\xfd" + bytes(4) + bytes(125)
            with pytest.raises(ConnectionError):
                for _ in range(10_000):
                    peer.send(ping * 100)
        with server.peer() as peer:
            assert peer.ask("GET", "/health").status == 200


def test_frames_before_the_welcome(server):
    for first in (b"", b"PDK1", b"".join(encode(m.Make(0, {}), 1)), b"".join(encode(m.Hello(), 1)), b"\x00" * 1000):
        with server.peer() as peer:
            assert peer.upgrade("/Vault-v0/ws", native=True).status == 101
            started = server.workers_started
            peer.frame(BINARY, first)
            opcode, payload = peer.message()
            assert opcode == BINARY and isinstance(decode_frame(payload)[1], m.Failed)
            assert server.workers_started == started
