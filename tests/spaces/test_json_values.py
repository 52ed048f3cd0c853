"""The JSON form of values and its schema: exact, and refused with the place where it describes no member."""

import json

import jsonschema
import numpy as np
import pytest

from paddock.errors import InvalidSpace
from paddock.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    GraphInstance,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)
from tests.spaces.twins import CATALOGUE, same


@pytest.mark.parametrize("name", CATALOGUE)
def test_values_match_their_schema_and_come_back_the_same(name):
    space = CATALOGUE[name]()
    space.seed(4)
    schema = json.loads(json.dumps(space.json_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for _ in range(10):
        value = space.sample()
        data = json.loads(json.dumps(space.value_to_json(value), allow_nan=False))
        validator.validate(data)
        assert same(space.value_from_json(data), value)


def test_infinity_is_a_string():
    space = Box(-np.inf, np.inf, (2, 2))
    value = np.array([[np.inf, -np.inf], [0.5, 1e-45]], np.float32)
    data = space.value_to_json(value)
    assert data[0] == ["inf", "-inf"]
    assert same(space.value_from_json(json.loads(json.dumps(data))), value)
    jsonschema.validate(data, space.json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([["inf", 0], [0, 0]], Box(0, 1, (2, 2)).json_schema())


@pytest.mark.parametrize(
    ("space", "data", "message"),
    [
        (Box(0, 1, (2,)), [0, 2], r"^\$\[1\]: expected a number from 0.0 to 1.0, got 2.0"),
        (Box(0, 1, (2,)), [0], r"^\$: expected a list of 2"),
        (Box(0, 1, (2,)), 0, r"^\$: expected a list of 2"),
        (Box(0, 1, (2, 2)), [[0, 0], [0]], r"^\$\[1\]: expected a list of 2"),
        (Box(0, 1, (2,)), [0, None], r"^\$\[1\]: expected a number"),
        (Box(0, 1, (2,)), [0, True], r"^\$\[1\]: expected a number"),
        (Box(0, 1, (2,)), [0, "nan"], r"^\$\[1\]: expected a number"),
        (Box(0, 1, (2,)), [0, float("nan")], r"^\$\[1\]: expected a number"),
        (Box(0, np.inf, (2,)), [0, float("inf")], r"^\$\[1\]: expected a number"),
        (Box(0, np.inf, (2,)), [0, "-inf"], r"^\$\[1\]: expected a number from"),
        (Box(0, np.inf, (2,)), [0, 1e300], r"^\$\[1\]: expected a number of float32"),
        (Box(0, np.inf, (2,)), [0, 10**400], r"^\$\[1\]: expected a number"),
        (Box(0, 1, ()), [0], r"^\$: expected a number"),
        (Box(0, 9, (2,), np.int8), [0, 1.0], r"^\$\[1\]: expected an integer"),
        (Box(0, 9, (2,), np.int8), [0, 300], r"^\$\[1\]: expected an integer of int8"),
        (Box(0, 9, (2,), np.int8), [0, "inf"], r"^\$\[1\]: expected an integer"),
        (Box(0, 1, (1,), np.bool_), [1], r"^\$\[0\]: expected true or false"),
        (Discrete(3), 3, r"^\$: expected an integer from 0 to 2"),
        (Discrete(3), True, r"^\$: expected an integer from 0 to 2"),
        (Discrete(3), 1.0, r"^\$: expected an integer from 0 to 2"),
        (MultiDiscrete([2, 3]), [1, 3], r"^\$\[1\]: expected an integer from 0 to 2"),
        (MultiBinary(2), [1, 2], r"^\$\[1\]: expected 0 or 1"),
        (Text(3), "abcd", r"^\$: expected a string of 1 to 3"),
        (Text(3), 3, r"^\$: expected a string"),
        (Tuple([Discrete(2)]), [2], r"^\$\[0\]: expected an integer"),
        (Tuple([Discrete(2)]), [], r"^\$: expected a list of 1"),
        (Dict(a=Discrete(2)), {"a": 2}, r"^\$\.a: expected an integer"),
        (Dict(a=Discrete(2)), {}, r"^\$\.a: this key is missing"),
        (Dict(a=Discrete(2)), {"a": 1, "b": 1}, r"^\$\.b: unknown key"),
        (Dict(a=Discrete(2)), [1], r"^\$: expected an object"),
        (OneOf([Discrete(2)]), [1, 0], r"^\$\[0\]: expected an integer from 0 to 0"),
        (OneOf([Discrete(2)]), [0, 2], r"^\$\[1\]: expected an integer"),
        (Sequence(Discrete(2)), [0, 2], r"^\$\[1\]: expected an integer"),
        (Sequence(Discrete(2), stack=True), 3, r"^\$: expected a list"),
        (Graph(Discrete(2), None), {"nodes": [2], "edges": None, "edge_links": None}, r"^\$\.nodes\[0\]"),
        (Graph(Discrete(2), None), {"nodes": [1], "edges": [1], "edge_links": [[0, 0]]}, r"^\$\.edges: expected null"),
        (
            Graph(Discrete(2), Discrete(2)),
            {"nodes": [1], "edges": [1], "edge_links": [[0, 1]]},
            r"^\$\.edge_links\[0\]\[1\]: expected the index",
        ),
        (Graph(Discrete(2), Discrete(2)), {"nodes": [1], "edges": [1], "edge_links": None}, r"^\$\.edge_links: exp"),
        (Graph(Discrete(2), Discrete(2)), {"nodes": [1]}, r"^\$\.edges: this key is missing"),
    ],
)
def test_data_that_describes_no_member_is_refused_with_the_place(space, data, message):
    with pytest.raises(InvalidSpace, match=message):
        space.value_from_json(data)


def test_a_value_that_is_no_member_is_not_written():
    with pytest.raises(InvalidSpace, match="is not in Discrete"):
        Discrete(2).value_to_json(2)
    with pytest.raises(InvalidSpace, match="exact"):
        Box(0, 1, (1,), np.longdouble).value_to_json(np.zeros(1, np.longdouble))
    for call in (
        lambda s: s.value_to_json({1: 0}),
        lambda s: s.value_from_json({"1": 0}),
        lambda s: s.json_schema(),
    ):
        with pytest.raises(InvalidSpace, match="is not a str"):
            call(Dict({1: Discrete(2)}))


def test_a_graph_without_edges_is_written_and_read():
    space = Graph(Discrete(2), Discrete(3))
    for graph in (
        GraphInstance(np.array([0, 1]), None, None),
        GraphInstance(np.array([0, 1]), np.zeros(0, np.int64), np.zeros((0, 2), np.int32)),
    ):
        data = space.value_to_json(graph)
        jsonschema.validate(data, space.json_schema())
        assert same(space.value_from_json(data), graph)


def test_schemas_are_precise_where_they_can_be():
    space = Box([0, 5], [1, 6])
    jsonschema.validate([0.5, 5.5], space.json_schema())
    for wrong in ([5.5, 0.5], [0.5], [0.5, 5.5, 0]):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, space.json_schema())
    text = Text(3, charset="a-]^\\[é \n&~|")
    for good in ("a-]", "^\\[", "é \n", "&~|"):
        jsonschema.validate(good, text.json_schema())
    for wrong in ("b", "aaaa", "", 3):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, text.json_schema())
    assert len(json.dumps(Box(0, np.arange(10.0**5), (10**5,), np.float64).json_schema())) < 1000
