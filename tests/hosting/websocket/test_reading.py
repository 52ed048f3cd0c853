"""A server's bytes: however they are cut the same events, and for any bytes either events or a WebSocketError."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.hosting.websocket.connection import BUFFER_BYTES, MessageReader
from paddock.hosting.websocket.events import Binary, Closed, Ping, Pong, Text, WebSocketError

LARGE = bytes(range(256)) * 400  # more than the small buffer


class FedReader(MessageReader):
    def feed(self, data):
        """All events in these bytes, which come as a socket would bring them."""
        events, rest = [], memoryview(data)
        while True:
            while (event := self.next()) is not None:
                events.append(event)
            if not rest:
                return events
            buffer = self.buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            if (alone := self.received(count)) is not None:
                events.append(alone)
            rest = rest[count:]


def frame(opcode, payload=b"", *, fin=True, long_form=None):
    size = len(payload)
    form = long_form or (size if size < 126 else 126 if size < 1 << 16 else 127)
    length = b"" if form < 126 else size.to_bytes(2 if form == 126 else 8, "big")
    return bytes([opcode | (0x80 if fin else 0), form]) + length + payload


def plain(events):
    """Events with the two parts of a large message joined."""
    return [Binary(bytes(one.data) + bytes(one.rest or b"")) if isinstance(one, Binary) else one for one in events]


messages = st.lists(
    st.one_of(
        st.binary(max_size=300).map(lambda data: (frame(2, data), Binary(data))),
        st.text(max_size=60).map(lambda text: (frame(1, text.encode()), Text(text))),
        st.binary(max_size=125).map(lambda data: (frame(9, data), Ping(data))),
        st.binary(max_size=125).map(lambda data: (frame(10, data), Pong(data))),
        st.binary(min_size=2, max_size=99).map(
            lambda data: (
                frame(2, data[:1], fin=False) + frame(9, b"!") + frame(0, data[1:]),
                [Ping(b"!"), Binary(data)],
            )
        ),
        st.sampled_from([BUFFER_BYTES - 4, BUFFER_BYTES, len(LARGE)]).map(
            lambda size: (frame(2, LARGE[:size]), Binary(LARGE[:size]))
        ),
    ),
    max_size=6,
)


@given(messages, st.data())
def test_events_do_not_depend_on_how_the_bytes_are_cut(messages, data):
    stream = b"".join(sent for sent, _ in messages)
    expected = [one for _, events in messages for one in (events if isinstance(events, list) else [events])]
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    split = data.draw(st.sampled_from([None, lambda beginning: 20, lambda beginning: 1 << 40]))
    reader = FedReader(split=split)
    events = []
    for begin, end in zip([0, *places], [*places, len(stream)], strict=True):
        events += reader.feed(stream[begin:end])
    assert plain(events) == expected


def test_byte_by_byte_is_the_same_too():
    reader = FedReader(split=lambda beginning: 24)
    stream = frame(2, b"small") + frame(2, LARGE) + frame(8, b"\x03\xe8bye")
    events = [event for place in range(len(stream)) for event in reader.feed(stream[place : place + 1])]
    assert plain(events) == [Binary(b"small"), Binary(LARGE), Closed(1000, "bye")]


def test_large_message_comes_in_two_parts_where_asked():
    (event,) = FedReader(split=lambda beginning: 20 + beginning[0]).feed(frame(2, LARGE))
    assert (event.data, event.rest) == (LARGE[:20], LARGE[20:])
    assert not event.rest.readonly


def test_small_message_comes_whole():
    (event,) = FedReader(split=lambda beginning: 2).feed(frame(2, b"abcd"))
    assert (event.data, event.rest) == (b"abcd", None)


def test_fragments_are_one_message_and_may_be_large():
    stream = frame(2, LARGE, fin=False) + frame(0, b"", fin=False) + frame(0, LARGE)
    assert plain(FedReader(split=lambda beginning: 20).feed(stream)) == [Binary(LARGE + LARGE)]


@pytest.mark.parametrize(
    ("stream", "code"),
    {
        "reserved bit": (bytes([0xC2, 0]), 1002),
        "masked": (bytes([0x82, 0x80, 0, 0, 0, 0]), 1002),
        "unknown data opcode": (bytes([0x83, 0]), 1002),
        "unknown control opcode": (bytes([0x8B, 0]), 1002),
        "ping in fragments": (bytes([0x09, 0]), 1002),
        "long ping": (frame(9, bytes(126)), 1002),
        "continuation of nothing": (frame(0, b"x"), 1002),
        "message within a message": (frame(2, b"x", fin=False) + frame(2, b"y"), 1002),
        "length of 125 in two bytes": (frame(2, bytes(125), long_form=126), 1002),
        "length of 65,535 in eight bytes": (frame(2, bytes(65_535), long_form=127), 1002),
        "length past 63 bits": (bytes([0x82, 127, 0xFF]) + bytes(7), 1009),
        "text that is not UTF-8": (frame(1, b"\xff"), 1007),
        "text cut within a letter": (frame(1, "ä".encode()[:1], fin=False) + frame(0), 1007),
        "close with half a code": (frame(8, b"\x03"), 1002),
        "close with a code that is never sent": (frame(8, b"\x03\xed"), 1002),
        "close with a reason that is not UTF-8": (frame(8, b"\x03\xe8\xff"), 1007),
        "too large": (frame(2, bytes(1001)), 1009),
        "too large in fragments": (frame(2, bytes(600), fin=False) + frame(0, bytes(600)), 1009),
    }.values(),
)
def test_broken_protocol_is_an_error_with_the_code_for_the_peer(stream, code):
    limit = 1000 if code == 1009 else 1 << 20
    with pytest.raises(WebSocketError) as caught:
        FedReader(max_bytes=limit).feed(stream)
    assert caught.value.close_code == code


def test_nothing_is_read_after_a_close():
    assert FedReader().feed(frame(8) + frame(2, b"late")) == [Closed(1005)]


@given(st.binary(max_size=400))
def test_any_bytes_are_events_or_a_websocket_error(data):
    reader = FedReader(max_bytes=1 << 16, split=lambda beginning: 20)
    with contextlib.suppress(WebSocketError):
        reader.feed(data)


def test_announced_gigabytes_take_no_memory():
    with pytest.raises(WebSocketError):
        FedReader().feed(bytes([0x82, 127]) + (1 << 40).to_bytes(8, "big") + bytes(40))
