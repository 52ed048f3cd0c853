"""However a stream is torn apart, its frames come out whole, once and in their order."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paddock.hosting.codec import encode
from paddock.hosting.frames import FrameCutter
from paddock.hosting.messages import LIMITS, Done

FRAMES = st.lists(st.binary(max_size=300).map(lambda data: b"".join(encode(Done(data), len(data)))), max_size=6)


def pieces(stream, cuts):
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in pairwise(places)]


@given(FRAMES, st.lists(st.integers(0, 5000), max_size=20))
def test_frames_come_out_as_they_went_in(frames, cuts):
    cutter = FrameCutter(LIMITS)
    found = [frame for piece in pieces(b"".join(frames), cuts) for frame in cutter.cut(memoryview(piece))]
    assert found == frames and not cutter.bad


@given(FRAMES, st.lists(st.integers(0, 5000), max_size=20))
def test_what_came_before_bytes_that_are_no_frame_counts(frames, cuts):
    cutter, found = FrameCutter(LIMITS), []
    for piece in pieces(b"".join(frames) + b"no frame" * 4, cuts):
        found += cutter.cut(memoryview(piece))
        if cutter.bad:
            break
    assert found == frames and cutter.bad


def test_the_memory_of_a_piece_can_be_used_again():
    frame = b"".join(encode(Done(b"some bytes"), 3))
    cutter, room = FrameCutter(LIMITS), memoryview(bytearray(len(frame)))
    room[:30] = frame[:30]
    assert cutter.cut(room[:30]) == []
    room[: len(frame) - 30] = frame[30:]
    (found,) = cutter.cut(room[: len(frame) - 30])
    room[:] = bytes(len(frame))
    assert found == frame
