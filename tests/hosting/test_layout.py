"""StepLayout: what goes into rows comes out as the very same, and what would not does not go in."""

import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paddock.errors import BadFrame
from paddock.hosting.codec import decode_frame, encode, is_step_rows
from paddock.hosting.layout import Block, StepLayout
from paddock.hosting.messages import Done, Rows, Step, StepRows
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from paddock.spaces.batch import batch_space
from paddock.spaces.rows import layout
from tests.hosting.exactness import assert_same

SPACES = [
    Discrete(5),
    Discrete(3, start=-7),
    Box(-1, 1, (4,), np.float32),
    Box(0, 255, (3, 5), np.uint8),
    Box(0, 1, (3,), np.bool_),
    Box(-9, 9, (0, 2), np.int16),
    MultiBinary(3),
    MultiDiscrete([2, 3]),
    Dict({"a": Box(-1, 1, (3,), np.float32), "b": Discrete(2), "c": Tuple([MultiBinary(5), Box(0, 9, (1,), np.int8)])}),
]
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
ARRAYS = hnp.arrays(
    hnp.integer_dtypes() | hnp.floating_dtypes() | hnp.unsigned_integer_dtypes() | st.just(np.dtype(bool)),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)
SCALARS = st.sampled_from(
    [np.int64(-3), np.float32(1.5), np.float64(0.5), np.uint8(7), np.bool_(True), np.complex128(1j)]
)
VALUES = PLAIN | ARRAYS | SCALARS | st.tuples(PLAIN, SCALARS) | st.dictionaries(st.sampled_from("abc"), SCALARS)


def layout_of(space, count=None, actions=None):
    return StepLayout(layout(space), layout(actions or space), count)


def crossed(message):
    return decode_frame(b"".join(encode(message, 7)))[1]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_members_come_out_as_they_went_in(space):
    space.seed(3)
    one = layout_of(space)
    for _ in range(20):
        value = space.sample()
        request = crossed(StepRows(rows=one.actions.pack(value)))
        assert_same(one.take_action(request.rows, plain=request.plain), value)
        reply = crossed(Rows([[0, {"near": np.arange(3)}]], rows=one.pack_result(value, -0.0, True, False)))
        assert_same(list(one.take_result(reply.rows, plain=False)), [value, -0.0, True, False])
        assert_same(reply.notes, [[0, {"near": np.arange(3)}]])


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_batches_come_out_as_they_went_in(space):
    lanes = layout_of(space, 3)
    batch = batch_space(space, 3)
    batch.seed(1)
    for _ in range(5):
        value = batch.sample()
        assert_same(lanes.take_action(bytearray(lanes.actions.pack(value)), plain=False), value)
        numbers = np.array([1.5, -0.0, np.nan]), np.array([True, False, True]), np.array([False, False, True])
        reply = crossed(Rows(rows=lanes.pack_result(value, *numbers)))
        assert_same(list(lanes.take_result(reply.rows, plain=False)), [value, *numbers])


@given(st.sampled_from(SPACES), VALUES)
def test_a_value_goes_into_a_row_only_if_it_comes_out_as_the_very_same(space, value):
    one = layout_of(space)
    rows = one.actions.pack(value)
    if rows is not None:
        assert len(rows) == one.actions.size
        assert_same(one.take_action(bytearray(rows), plain=type(value) is int), value)


@given(VALUES, VALUES, VALUES)
def test_so_do_a_reward_and_the_flags(reward, terminated, truncated):
    one, value = layout_of(Discrete(5)), np.int64(2)
    rows = one.pack_result(value, reward, terminated, truncated)
    if rows is not None:
        assert_same(list(one.take_result(bytearray(rows), plain=False)), [value, reward, terminated, truncated])


def test_an_int_of_pythons_stays_one():
    one = layout_of(Discrete(5))
    assert_same(one.take_action(bytearray(one.actions.pack(3)), plain=True), 3)
    assert_same(one.take_result(bytearray(one.pack_result(4, 1.0, False, False)), plain=True)[0], 4)
    assert one.actions.pack(2**63) is None
    with pytest.raises(BadFrame, match="which its space does not have"):
        layout_of(Box(0, 1, (1,))).take_action(bytearray(8), plain=True)


@pytest.mark.parametrize(
    "value", [{"b": np.int64(1), "a": np.zeros(2)}, {"a": np.zeros(2)}, {"a": np.zeros(2), "b": np.int64(1), "c": 0}]
)
def test_a_dict_with_other_keys_or_another_order_does_not_go_in(value):
    space = Dict({"a": Box(0, 1, (2,), np.float64), "b": Discrete(2)})
    assert layout_of(space).actions.pack(value) is None


def test_a_number_and_an_array_without_axes_are_not_the_same():
    one = layout_of(Box(0, 1, (), np.float64))
    assert one.actions.pack(np.array(0.5)) is None
    assert_same(one.take_action(bytearray(one.actions.pack(np.float64(0.5))), plain=False), np.float64(0.5))


def test_a_space_without_a_fixed_size_has_no_rows():
    one = layout_of(Text(3))
    assert one.actions.pack("ab") is None
    assert one.pack_result("ab", 1.0, False, False) is None
    with pytest.raises(BadFrame):
        one.take_result(bytearray(one.result_bytes), plain=False)


@pytest.mark.parametrize("change", [-8, 8])
def test_rows_of_another_size_are_refused(change):
    one = layout_of(Box(0, 1, (4,)))
    with pytest.raises(BadFrame, match="expected 32"):
        one.take_result(bytearray(one.result_bytes + change), plain=False)
    with pytest.raises(BadFrame, match="expected 16"):
        one.take_action(bytearray(one.actions.size + change), plain=False)


def test_a_flag_that_is_neither_0_nor_1_stays_a_number():
    one = layout_of(Discrete(2))
    rows = bytearray(one.pack_result(1, 0.0, False, False))
    rows[8], rows[9] = 1, 7
    assert_same(list(one.take_result(rows, plain=True)), [1, 0.0, True, 7])


def test_bools_that_are_neither_0_nor_1_become_bools():
    one = layout_of(Box(0, 1, (3,), np.bool_))
    assert one.take_action(bytearray([0, 1, 77, 0, 0, 0, 0, 0]), plain=False).tobytes() == b"\0\1\1"


def test_arrays_of_two_messages_share_no_memory():
    one = layout_of(Box(0, 1, (3,), np.float64))
    frame = b"".join(encode(StepRows(rows=one.actions.pack(np.zeros(3)))))
    first, second = (one.take_action(decode_frame(frame)[1].rows, plain=False) for _ in range(2))
    first[0] = 5.0
    assert second[0] == 0.0


@given(st.binary(max_size=120), st.booleans())
def test_a_frame_that_passes_unread_is_read_as_rows(data, plain):
    rows = data[: len(data) & -8]
    frame = b"".join(encode(StepRows([], None, plain, rows), 9))
    assert is_step_rows(frame)
    assert_same(decode_frame(frame), (9, StepRows([], None, plain, bytearray(rows))))
    for other in (
        StepRows([1], None, plain),
        StepRows([], [1], plain, rows),
        Step([0], [1]),
        Done(rows),
        Rows(rows=rows),
    ):
        assert not is_step_rows(b"".join(encode(other)))
    assert not is_step_rows(data)


@given(st.integers(0, 100), st.integers(0, 255))
def test_a_frame_that_was_tampered_with_passes_unread_only_if_it_is_sound(place, byte):
    frame = bytearray(b"".join(encode(StepRows(rows=bytes(16)), 7)))
    frame[place % len(frame)] = byte
    if is_step_rows(bytes(frame)):
        message = decode_frame(bytes(frame))[1]
        assert type(message) is StepRows and message.actions is None and not message.envs and len(message.rows) == 16


@pytest.mark.parametrize("size", [-8, 4, 24, 1 << 40, True, "8", [8]])
def test_a_head_that_lies_about_its_rows_is_refused(size):
    head = msgspec.msgpack.encode({"type": "rows", "rows": size})
    with pytest.raises(BadFrame, match="can't be rows"):
        decode_frame(struct.pack("<4sIIQ", b"PDK1", len(head), 1, 16) + head + bytes(16))


def test_a_block_holds_each_rows_action_and_results():
    space = Dict({"a": Box(0, 9, (2,), np.float32), "b": Discrete(9)})
    block, copy = (Block(layout_of(space, 3, Discrete(4))) for _ in range(2))
    block.actions[:] = [1, 2, 3]
    assert_same(block.action(1), np.int64(2))
    for row in range(3):
        block.put(row, {"a": np.full(2, row, np.float32), "b": row}, row / 2, row == 1, row == 2)
    copy.copy_results(block)
    assert copy.rewards.tolist() == [0.0, 0.5, 1.0]
    assert copy.flags.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert copy.observations["a"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert copy.observations["b"].tolist() == [0, 1, 2]
    assert copy.running() == (None, 0.0)
