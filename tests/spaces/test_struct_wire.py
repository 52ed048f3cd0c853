"""Records on the hosting wire: they cross as their fields, with arrays as bytes, and a Struct makes records of them."""

import dataclasses
import datetime

import msgspec
import numpy as np
import pytest
from pydantic import BaseModel

from paddock.errors import BadFrame, NotTransferable
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.messages import Done
from paddock.hosting.values import from_wire, to_wire
from paddock.spaces import Space, Struct
from paddock.spaces.records.fields import difference
from tests.spaces.records import KINDS, Color, Step

kinds = pytest.mark.parametrize("kind", KINDS)


def crossed(value, **options):
    return decode_frame(b"".join(encode(Done(value), 1, **options)))[1].value


@kinds
def test_a_record_arrives_as_a_dict_that_both_ends_space_take(kind):
    space = Struct(KINDS[kind], seed=2)
    far = crossed(space)
    assert far == Space.from_json(space.to_json())
    for _ in range(30):
        value = space.sample()
        arrived = crossed({"nested": [value]})["nested"][0]
        assert type(arrived) is dict and isinstance(arrived["corner"], np.ndarray)
        assert difference(space.validate(arrived), value) is None
        assert far.to_plain(arrived) == space.to_plain(value)
        # And back: an action that the far side drew.
        assert space.validate(crossed(far.sample())) in space


def test_numbers_and_arrays_in_a_record_cross_bit_for_bit():
    numbers = np.array([np.nan, -0.0, np.inf], np.float32)
    arrived = crossed(Numbers(numbers, -0.0, float("nan"), 2**100, (1, np.int8(2))))
    assert arrived["array"].tobytes() == numbers.tobytes()
    assert str(arrived["zero"]) == "-0.0" and arrived["nan"] != arrived["nan"] and arrived["large"] == 2**100
    assert arrived["pair"] == (1, 2) and type(arrived["pair"][1]) is np.int8


@dataclasses.dataclass
class Numbers:
    array: np.ndarray
    zero: float
    nan: float
    large: int
    pair: tuple


def test_a_large_array_in_a_record_takes_its_own_size():
    image = np.zeros((512, 512), np.uint8)
    pieces = encode(Done(msgspec.defstruct("Seen", [("image", np.ndarray)])(image)), 1)
    assert sum(map(len, pieces)) < 1.05 * image.nbytes


def test_the_bytes_of_a_struct_are_a_contract():
    buffers = []
    plain = to_wire([Step(3, "run"), Odd(1)], buffers)
    assert plain == [
        {"$": "struct", "fields": {"to": 3, "how": "run"}},
        {"$": "struct", "fields": {"$": "dict", "pairs": [["$", 1]]}},
    ]
    assert buffers == []
    assert msgspec.msgpack.encode(plain[0]).hex() == ("82a124a6737472756374a66669656c647382a2746f03a3686f77a372756e")
    assert from_wire(plain, bytearray()) == [{"to": 3, "how": "run"}, {"$": 1}]


class Odd(msgspec.Struct, rename={"dollar": "$"}):
    dollar: int


@pytest.mark.parametrize(
    "fields",
    [None, 3, [], {"$": "tuple", "items": []}, {"$": "struct", "fields": {}}, {"$": "dict"}, {"$": 1}, {"$": []}],
    ids=str,
)
def test_fields_that_are_no_dict_are_a_bad_frame(fields):
    with pytest.raises(BadFrame):
        from_wire({"$": "struct", "fields": fields}, bytearray())
    with pytest.raises(BadFrame, match="no field 'fields'"):
        from_wire({"$": "struct"}, bytearray())


def test_records_are_bounded_like_everything_else():
    value = 0
    for _ in range(200):
        value = Odd(value)
    with pytest.raises(NotTransferable, match="nested deeper"):
        crossed(value)
    with pytest.raises(
        NotTransferable, match=r"^value\['a'\] is a tests\.spaces\.test_struct_wire\.Odd whose \['\$'\] is a object"
    ):
        crossed({"a": Odd(object())})


def test_a_record_is_pickled_where_code_may_cross():
    plain = to_wire(Step(3), [], pickler=lambda value: b"pickled")
    assert plain["$"] == "pickled"


def test_leaves_cross_in_the_plain_form_of_their_kind():
    class Model(BaseModel):
        data: bytes
        when: datetime.datetime

    value = Model(data=b"ab", when=datetime.datetime(2020, 1, 2))
    assert crossed(value) == {"data": "ab", "when": "2020-01-02T00:00:00"}
    assert Struct(Model).validate(crossed(value)) == value
    record = dataclasses.make_dataclass("Record", [("data", bytes), ("color", Color)])
    assert crossed(record(b"ab", Color.RED)) == {"data": "YWI=", "color": "red"}
    assert Struct(record).validate(crossed(record(b"ab", Color.RED))) == record(b"ab", Color.RED)
