"""Frames of one step: the fast way writes the codec's bytes and reads what the codec reads, or leaves it to that."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paddock.errors import BadFrame
from paddock.hosting import codec
from paddock.hosting.codec import decode_frame, decode_step_frame, encode, is_step_frame, result_frame, step_frame
from paddock.hosting.messages import Done, Step

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats()
ARRAYS = hnp.arrays(
    hnp.integer_dtypes() | hnp.floating_dtypes() | hnp.unsigned_integer_dtypes() | st.just(np.dtype(bool)),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)
SCALARS = st.sampled_from([np.int64(-3), np.float32(1.5), np.uint8(7), np.bool_(True), np.complex128(1j), np.str_("a")])
ODD = st.sampled_from(["text", b"bytes", 2**70, (1, 2), {"a": np.zeros(2)}, [1], np.zeros(3000)])
VALUES = PLAIN | ARRAYS | SCALARS | ODD
NUMBERS = st.integers(0, 2**32 - 1)


def frame_of(message, number):
    """As the codec writes any message."""
    with mock.patch.multiple(codec, step_frame=lambda *_: None, result_frame=lambda *_: None):
        return b"".join(encode(message, number))


def same_frame(one, other):
    """Equal as the codec means it: types and bits."""
    return frame_of(one, 0) == frame_of(other, 0) and repr(one) == repr(other)


@given(VALUES, NUMBERS)
def test_a_step_has_the_codecs_bytes_and_message(action, number):
    expected = frame_of(Step([0], [action]), number)
    assert step_frame(action, number) in (None, expected)
    assert b"".join(encode(Step([0], [action]), number)) == expected
    for _ in range(2):  # arrays are read here from the second time on
        found = decode_step_frame(expected)
        assert found is None or (found[0] == number and same_frame(found[1], decode_frame(expected)[1]))


@given(VALUES, st.floats() | st.just(1), st.booleans(), st.booleans(), st.sampled_from([{}, {"a": 1}]), NUMBERS)
def test_a_result_has_the_codecs_bytes_and_message(observation, reward, terminated, truncated, info, number):
    result = [observation, reward, terminated, truncated, info]
    expected = frame_of(Done([result]), number)
    assert result_frame(result, number) in (None, expected)
    assert b"".join(encode(Done([result]), number)) == expected
    for _ in range(2):
        found = decode_step_frame(expected)
        assert found is None or (found[0] == number and same_frame(found[1], decode_frame(expected)[1]))


@given(VALUES.flatmap(lambda value: st.tuples(st.just(value), st.integers(0, 200), st.integers(0, 255))))
def test_a_frame_that_was_tampered_with_is_read_as_the_codec_reads_it_or_not_at_all(case):
    value, place, byte = case
    for message in (Step([0], [value]), Done([[value, 1.0, False, True, {}]])):
        sound = frame_of(message, 7)
        decode_step_frame(sound), decode_step_frame(sound)
        frame = bytearray(sound)
        frame[place % len(frame)] = byte
        found = decode_step_frame(bytes(frame))
        if found is not None:
            number, expected = decode_frame(bytes(frame))
            assert found[0] == number
            assert same_frame(found[1], expected)
        if is_step_frame(bytes(frame)):
            assert type(found[1]) is Step


@given(VALUES, NUMBERS)
def test_only_a_step_that_is_read_here_is_taken_for_one_unread(value, number):
    for message in (Step([0], [value]), Step([1], [value]), Step([0, 0], [value, value]), Done([value])):
        frame = frame_of(message, number)
        decode_step_frame(frame)
        if is_step_frame(frame):
            assert decode_step_frame(frame)[1].envs == [0]


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frame_are_left_to_the_codec(data):
    found = decode_step_frame(data)
    if found is not None:
        assert same_frame(found[1], decode_frame(data)[1])


@pytest.mark.parametrize("value", [0, 1.5, None, np.int64(3), np.float32(1.5), np.zeros(4, np.float32)])
def test_the_usual_does_take_the_short_way(value):
    request, reply = step_frame(value, 1), result_frame([value, 1.0, False, False, {}], 1)
    assert request is not None
    assert reply is not None
    decode_step_frame(request), decode_step_frame(reply)
    assert is_step_frame(request) == (type(value) is not float)
    assert not is_step_frame(reply)
    assert decode_step_frame(request) is not None
    assert decode_step_frame(reply) is not None


def test_an_array_that_was_read_is_nobody_elses():
    frame = step_frame(np.zeros(3), 1)
    decode_step_frame(frame)
    first, second = decode_step_frame(frame)[1].actions[0], decode_step_frame(frame)[1].actions[0]
    first[0] = 5.0
    assert second[0] == 0.0


def test_many_kinds_of_arrays_do_not_pile_up():
    for size in range(1, 300):
        decode_step_frame(step_frame(np.zeros(size, np.int8), 1))
    assert len(codec._array_of) <= 64
    assert len(codec._marker_of) <= 64


def test_a_body_of_another_size_than_announced_is_the_codecs_to_refuse():
    frame = bytearray(step_frame(np.zeros(4), 1))
    decode_step_frame(bytes(frame))
    frame[12] = 40
    assert decode_step_frame(bytes(frame) + b"\0" * 8) is None
    with pytest.raises(BadFrame):
        decode_frame(bytes(frame) + b"\0" * 8)
