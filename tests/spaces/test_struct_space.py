"""`Struct` as a space among others: schemas, samples, batches, copies, and classes that can't be one."""

import copy
import dataclasses
import json
import pickle
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from paddock.errors import CustomSpaceError, InvalidSpace, InvalidValue
from paddock.spaces import (
    Box,
    Dict,
    Nonconforming,
    OneOf,
    Struct,
    batch_differing_spaces,
    batch_space,
    concatenate,
    conform,
    create_empty_array,
    flatdim,
    flatten,
    is_space_dtype_shape_equiv,
    iterate,
)
from tests.spaces.records import KINDS, Go, Model, Packed, Plain, Say, Step, plain_of

SPACES = {name: Struct(record) for name, record in KINDS.items()}
kinds = pytest.mark.parametrize("kind", KINDS)


NOT_RECORDS = {
    "a builtin": (int, "takes a dataclass"),
    "an instance": (Step(1), "not an instance"),
    "a generic": (list[int], "takes a dataclass"),
    "array_like": (msgspec.defstruct("Row", [("x", int)], array_like=True), "array_like"),
    "an array without a space": (dataclasses.make_dataclass("Bare", [("image", np.ndarray)]), r"Bare\.image: ndarray"),
    "a model in a dataclass": (dataclasses.make_dataclass("Mixed", [("go", Go)]), r"Mixed\.go: Go"),
    "a type of nobody": (dataclasses.make_dataclass("Odd", [("x", int | list[int] | tuple[int, ...])]), "JSON Schema"),
    "a name that is not there": (dataclasses.make_dataclass("Lost", [("x", "Nowhere")]), "can't be evaluated"),
}


@pytest.mark.parametrize("case", NOT_RECORDS)
def test_what_is_no_record_is_refused_when_the_space_is_made(case):
    record, reason = NOT_RECORDS[case]
    with pytest.raises(InvalidSpace, match=reason):
        Struct(record)


@kinds
def test_the_schema_of_the_library_admits_every_sample(kind):
    space = SPACES[kind]
    space.seed(9)
    schema = space.json_schema()
    Draft202012Validator.check_schema(schema)
    for _ in range(30):
        Draft202012Validator(schema).validate(space.to_plain(space.sample()))
    expected = Model.model_json_schema() if kind == "pydantic" else msgspec.json.schema(Step)["$defs"]["Step"]
    assert (schema if kind == "pydantic" else schema["$defs"]["Step"]).items() >= expected.items()


def test_definitions_of_structs_inside_other_spaces_stand_at_the_top():
    other = dataclasses.make_dataclass("Step", [("far", bool)])
    space = Dict({"$defs": Struct(Step), "b": OneOf([Struct(other), Struct(Step), Box(0, 1)])}, seed=2)
    schema = space.json_schema()
    assert sorted(schema["$defs"]) == ["Step", "Step_2"]
    validator = Draft202012Validator(schema)
    for _ in range(30):
        plain = space.value_to_json(space.sample())
        validator.validate(plain)
        assert space.value_from_json(plain) in space
    assert not validator.is_valid({"$defs": {"to": "x"}, "b": [1, {"to": 1}]})
    with pytest.raises(InvalidSpace, match=r"^\$\.b\[1\]\.to: expected int"):
        space.value_from_json({"$defs": {"to": 1}, "b": [1, {"to": "x"}]})


@kinds
def test_actions_are_made_to_fit(kind):
    space = SPACES[kind]
    made = conform(space, plain_of(kind))
    assert made in space and conform(space, made) is made
    with pytest.raises(Nonconforming, match=r"^\[1\]: small: expected int"):
        conform(batch_space(space, 2), (made, {**plain_of(kind), "small": "x"}))


@kinds
def test_batches_are_tuples_of_records(kind):
    space = Struct(KINDS[kind], seed=4)
    batched = batch_space(space, 3)
    values = batched.sample()
    assert values in batched and len({json.dumps(space.to_plain(value)) for value in values}) == 3
    assert all(one is other for one, other in zip(iterate(batched, values), values, strict=True))
    assert concatenate(space, values, create_empty_array(space, 3)) == values
    assert batch_differing_spaces([space, space]).sample()[1] in space
    assert is_space_dtype_shape_equiv(space, copy.deepcopy(space))
    assert not is_space_dtype_shape_equiv(space, Struct(Step))


def test_a_struct_does_not_flatten():
    assert Struct(Step).is_np_flattenable is False
    with pytest.raises(InvalidSpace, match="cannot be flattened"):
        flatdim(Struct(Step))
    with pytest.raises(CustomSpaceError, match="Struct"):
        flatten(Struct(Step), Step(1))


@kinds
def test_equal_hashable_copied_and_pickled(kind):
    space = Struct(KINDS[kind], seed=6)
    assert space == Struct(KINDS[kind]) and hash(space) == hash(Struct(KINDS[kind]))
    assert space != Struct(Step) and space != Box(0, 1)
    assert repr(space) == f"Struct({KINDS[kind].__name__})"
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert twin == space
        assert [twin.to_plain(twin.sample()) for _ in range(3)] == [
            space.to_plain(space.sample()) for space in [copy.deepcopy(space)] for _ in range(3)
        ]


def test_types_of_every_sort_are_sampled_within_their_constraints():
    Meta = msgspec.Meta
    record = msgspec.defstruct(
        "Numbers",
        [
            ("even", Annotated[int, Meta(multiple_of=2, gt=-7, lt=7)]),
            ("above", Annotated[float, Meta(gt=5)]),
            ("large", Annotated[int, Meta(ge=2**62, le=2**62 + 3)]),
            ("short", Annotated[str, Meta(min_length=2, max_length=3)]),
            ("few", Annotated[list[bool], Meta(min_length=2, max_length=2)]),
            ("keyed", dict[Annotated[str, Meta(pattern="^k[0-9]$")], int]),
            ("any", Any),
        ],
    )
    space = Struct(record, seed=8)
    drawn = [space.sample() for _ in range(60)]
    assert {value.even for value in drawn} == {-6, -4, -2, 0, 2, 4, 6}
    assert {value.large - 2**62 for value in drawn} == {0, 1, 2, 3}
    assert {len(value.short) for value in drawn} == {2, 3} and all(value.above > 5 for value in drawn)
    assert any(value.keyed for value in drawn)


def test_a_recursive_type_has_finite_samples_and_cyclic_values_are_refused():
    tree = Struct(Tree, seed=1)
    assert all(tree.sample() in tree for _ in range(50))
    cyclic = Tree()
    cyclic.children.append(cyclic)
    assert cyclic not in tree
    with pytest.raises(InvalidValue, match="holds itself"):
        tree.validate(cyclic)


@dataclasses.dataclass
class Tree:
    children: "list[Tree]" = dataclasses.field(default_factory=list)


def test_unions_of_models_are_read_by_their_tag():
    space = SPACES["pydantic"]
    plain = plain_of("pydantic")
    assert space.validate({**plain, "other": {"kind": "say", "text": "hi"}}).other == Say(text="hi")
    with pytest.raises(InvalidValue, match=r"^act\.kind: expected one of 'go', 'say', got 'fly'"):
        space.validate({**plain, "act": {"kind": "fly"}})
    with pytest.raises(InvalidValue, match=r"^act\.to: expected int >= 0 and < 9, got 9"):
        space.validate({**plain, "act": {"kind": "go", "to": 9}})


def test_names_outside_are_those_of_the_library():
    assert "outsideName" in SPACES["pydantic"].to_plain(SPACES["pydantic"].validate(plain_of("pydantic")))
    plain = SPACES["msgspec"].to_plain(Packed(np.zeros(2, np.float32), 1, 1, "abc"))
    assert plain["type"] == "Packed" and plain["allCorners"] == []
    assert Plain.__name__ == SPACES["dataclass"].name and SPACES["dataclass"].record is Plain
