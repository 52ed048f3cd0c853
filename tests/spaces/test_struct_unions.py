"""Struct of several classes: everything that a Struct of one does, and plain data that says by itself what it is."""

import dataclasses
import json
import pickle
from copy import deepcopy
from typing import Annotated, Any, Literal, Union

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import InvalidSpace, InvalidValue
from paddock.spaces import Box, Dict, Nonconforming, Space, Struct, conform
from paddock.spaces.json_schema import json_schema
from paddock.spaces.records.fields import difference

CORNER = Annotated[np.ndarray, Box(-1, 1, (2,))]


class Go(msgspec.Struct, tag=True):
    to: CORNER
    speed: float = 1.0


class Wait(msgspec.Struct, tag=True):
    steps: int


class Call(msgspec.Struct, tag_field="op", tag="call"):
    name: str


class Hang(msgspec.Struct, tag_field="op", tag="hang"):
    pass


@dataclasses.dataclass
class Paint:
    color: str
    thick: bool = False


@dataclasses.dataclass
class Erase:
    area: CORNER


@dataclasses.dataclass
class Up:
    kind: Literal["up"] = "up"
    by: int = 1


@dataclasses.dataclass
class Side:
    kind: Literal["left", "right"]
    by: int = 1


class Buy(BaseModel):
    kind: Literal["buy"] = "buy"
    what: str
    child: "Buy | None" = None


class Sell(BaseModel):
    kind: Literal["sell"] = "sell"
    price: Annotated[int, Field(ge=0)]
    at: CORNER


class Look(BaseModel):
    model_config = ConfigDict(extra="forbid")
    where: str


UNIONS = {
    "msgspec": Go | Wait,
    "tag-field": Call | Hang,
    "fields": Paint | Erase,
    "literals": Up | Side,
    "pydantic": Buy | Sell,
    "discriminator": Annotated[Buy | Sell, Field(discriminator="kind")],
    "mixed-fields": Union[Paint, Look, Erase],  # noqa: UP007
    "mixed-tags": Up | Buy,
}
every_union = pytest.mark.parametrize("name", UNIONS)


@every_union
def test_members_are_instances_of_each_class(name):
    space = Struct(UNIONS[name], seed=3)
    seen = {type(space.sample()) for _ in range(50)}
    assert seen == set(space.records) and space.record is None
    for _ in range(30):
        value = space.sample()
        assert value in space and space.validate(value) is value


@pytest.mark.slow
@every_union
def test_plain_data_goes_there_and_back(name):
    space = Struct(UNIONS[name], seed=4)
    for _ in range(30):
        value = space.sample()
        plain = json.loads(json.dumps(space.to_plain(value)))
        made = space.validate(plain)
        assert type(made) is type(value) and difference(made, value) is None
        jsonschema.validate(plain, json_schema(space))
        jsonschema.validate(plain, space.schema)
        assert difference(space.from_jsonable(space.to_jsonable([value]))[0], value) is None


@every_union
def test_a_space_read_from_json_has_the_same_members_as_dicts(name):
    space = Struct(UNIONS[name], seed=5)
    far = Space.from_json(space.to_json())
    assert far.to_json() == space.to_json() and far.records == () and far.name == space.name
    far.seed(6)
    for _ in range(20):
        assert far.to_plain(space.to_plain(space.sample())) is not None
        drawn = far.sample()
        assert drawn in far and space.validate(drawn) in space


@every_union
def test_copies_and_pickles_are_the_same_space(name):
    space = Struct(UNIONS[name], seed=7)
    for other in (deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert other == space and hash(other) == hash(space)
        assert difference(other.sample(), deepcopy(space).sample()) is None
    assert Struct(Go | Wait) != Struct(Wait | Go) != Struct(Go)


def test_the_form_of_a_union_is_a_contract():
    space = Struct(Call | Hang)
    assert repr(space) == "Struct(Call | Hang)"
    assert space.schema == {
        "anyOf": [{"$ref": "#/$defs/Call"}, {"$ref": "#/$defs/Hang"}],
        "$defs": {
            "Call": {
                "title": "Call",
                "type": "object",
                "properties": {"op": {"enum": ["call"]}, "name": {"type": "string"}},
                "required": ["op", "name"],
                "additionalProperties": False,
            },
            "Hang": {
                "title": "Hang",
                "type": "object",
                "properties": {"op": {"enum": ["hang"]}},
                "required": ["op"],
                "additionalProperties": False,
            },
        },
        "discriminator": {"propertyName": "op", "mapping": {"call": "#/$defs/Call", "hang": "#/$defs/Hang"}},
    }


@pytest.mark.parametrize(
    ("name", "data", "path", "words"),
    [
        ("msgspec", {"type": "Go", "to": [0, 9]}, "to[1]", "to[1]"),
        ("msgspec", {"type": "Wait"}, "steps", "steps: this field is missing"),
        ("msgspec", {"type": "Fly"}, "type", "type: expected one of 'Go', 'Wait', got 'Fly'"),
        ("msgspec", {"steps": 1}, "type", "type: expected one of 'Go', 'Wait', got None"),
        ("msgspec", {"type": ["Go"]}, "type", "type: expected one of"),
        ("msgspec", {"type": "Wait", "steps": 1, "to": [0, 0]}, "to", "to: unknown field"),
        ("literals", {"by": 3}, "kind", "kind: expected one of 'up', 'left', 'right', got None"),
        ("pydantic", {"kind": "sell", "price": -1, "at": [0, 0]}, "price", "price: expected int >= 0, got -1"),
        ("fields", {"color": 3}, "color", "color: expected str, got 3"),
        ("fields", {"area": [0, 0], "thick": True}, None, ""),
        ("fields", {}, None, ""),
        ("fields", 3, "", "Paint | Erase: expected dict"),
        ("fields", None, "", "Paint | Erase: expected dict"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(name, data, path, words):
    with pytest.raises(InvalidValue) as refused:
        Struct(UNIONS[name]).validate(data)
    assert path is None or refused.value.path == path
    assert str(refused.value).startswith(words)


def test_instances_are_checked_and_other_classes_are_no_members():
    space = Struct(Go | Wait)
    assert Wait("x") not in space and Paint("red") not in space and {"type": "Wait", "steps": 1} not in space
    with pytest.raises(InvalidValue, match="steps: expected int, got 'x'"):
        space.validate(Wait("x"))
    with pytest.raises(Nonconforming, match="steps: expected int"):
        conform(space, Wait("x"))
    assert conform(space, {"type": "Wait", "steps": 3}) == Wait(3)


@pytest.mark.parametrize(
    "union",
    [
        Paint | dataclasses.make_dataclass("Draw", [("color", str), ("wide", bool, False)]),
        dataclasses.make_dataclass("A", [("x", int, 1)]) | dataclasses.make_dataclass("B", [("y", int, 1)]),
        Look | type("Also", (BaseModel,), {"__annotations__": {"where": int}}),
        Up | dataclasses.make_dataclass("Again", [("kind", Literal["up"], "up"), ("far", int, 1)]),
    ],
    ids=str,
)
def test_classes_that_plain_data_can_not_tell_apart_are_refused(union):
    with pytest.raises(InvalidSpace, match="plain data can't say whether it is"):
        Struct(union)


@pytest.mark.parametrize("union", [Go | None, Go | int, list[Go] | Wait, "Go | Wait", Union[Go, Any]])  # noqa: UP007
def test_parts_that_are_no_records_are_refused(union):
    with pytest.raises(InvalidSpace, match="Struct takes a dataclass"):
        Struct(union)


def test_a_union_of_one_is_that_one():
    assert Struct(Union[Go]) == Struct(Annotated[Go, "note"]) == Struct(Go)  # noqa: UP007


def test_a_union_in_another_space_has_its_definitions_at_the_top():
    space = Dict({"first": Struct(Go | Wait), "second": Struct(Call | Hang)}, seed=1)
    schema = json_schema(space)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["$defs"]) == {"Go", "Wait", "Call", "Hang"}
    sample = space.sample()
    far = Space.from_json(space.to_json())
    jsonschema.validate({key: part[0] for key, part in space.to_jsonable([sample]).items()}, schema)
    assert far.to_jsonable([{key: space[key].to_plain(item) for key, item in sample.items()}])


def test_two_classes_of_one_name_stay_two():
    other = dataclasses.make_dataclass("Paint", [("shade", int)])
    space = Struct(Paint | other)
    assert set(space.schema["$defs"]) == {"Paint", "Paint_2"}
    assert type(space.validate({"shade": 3})) is other and space.validate({"color": "red"}) == Paint("red")


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["kind", "type", "by", "to", "steps", "x"]), inner, max_size=4)
        ),
        max_leaves=6,
    ),
    st.sampled_from(sorted(UNIONS)),
)
def test_any_data_is_a_member_or_an_invalid_value(data, name):
    space = Struct(UNIONS[name])
    try:
        made = space.validate(data)
    except InvalidValue:
        return
    assert made in space
