"""A client's frames: what the RFC says byte for byte, and a mask that takes itself off."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.hosting.websocket.connection import BINARY, PING, TEXT, FrameWriter, mask


def slowly_masked(payload, key):
    return bytes(byte ^ key[index % 4] for index, byte in enumerate(payload))


def taken_apart(frame):
    """First byte, length as it was written, key, masked payload."""
    frame = bytes(frame)
    size, at = frame[1] & 0x7F, 2
    if size == 126:
        size, at = int.from_bytes(frame[2:4], "big"), 4
    elif size == 127:
        size, at = int.from_bytes(frame[2:10], "big"), 10
    assert frame[1] & 0x80, "a client's frame is masked"
    return frame[0], size, frame[at : at + 4], frame[at + 4 :]


# Where the header grows, and where another way of masking begins.
@given(st.integers(0, 300) | st.integers(65_500, 65_600) | st.sampled_from([1023, 4097, 300_001]), st.randoms())
@example(125, None)
@example(126, None)
@example(256, None)
@example(257, None)
@example(65_535, None)
@example(65_536, None)
def test_frame_of_any_size_is_its_payload_under_its_key(size, random):
    payload = np.random.default_rng(size).bytes(size)
    first, length, key, hidden = taken_apart(FrameWriter().frame(BINARY, payload))
    assert (first, length, len(hidden)) == (0x82, size, size)
    assert slowly_masked(hidden, key) == payload


@given(st.binary(max_size=500), st.binary(min_size=4, max_size=4))
def test_mask_is_the_rfcs_and_takes_itself_off(payload, key):
    assert mask(payload, key) == slowly_masked(payload, key)
    assert mask(mask(payload, key), key) == payload


def test_keys_differ_from_frame_to_frame_past_the_first_supply():
    writer = FrameWriter()
    keys = {taken_apart(writer.frame(PING, b""))[2] for _ in range(3000)}
    assert len(keys) > 2990


def test_views_and_bytearrays_are_payloads_too():
    payload = bytearray(range(256)) * 9
    for form in (payload, memoryview(payload)[3:], bytes(payload)):
        _, _, key, hidden = taken_apart(FrameWriter().frame(BINARY, form))
        assert slowly_masked(hidden, key) == bytes(form)


def test_first_byte_says_the_kind_and_that_nothing_follows():
    writer = FrameWriter()
    assert bytes(writer.frame(TEXT, b"x"))[0] == 0x81
    assert bytes(writer.frame(0, b"x"))[0] == 0x80
