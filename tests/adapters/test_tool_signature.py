"""Tools as functions: names that Python takes, hints, and docstrings that are read again as they were meant."""

import inspect
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.adapters.trl import python_name, python_type, tool_signature

SCALARS = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


def of(properties, required=(), **more):
    return tool_signature(
        "act", "Do it.", {"type": "object", "properties": properties, "required": [*required], **more}
    )


@pytest.mark.parametrize(("kind", "hint"), SCALARS.items())
def test_type_of_json_is_the_type_of_python(kind, hint):
    assert python_type({"type": kind}) is hint


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"enum": ["a", 1, None]}, typing.Literal["a", 1, None]),
        ({"const": "a"}, typing.Literal["a"]),
        ({"enum": [["a"]]}, typing.Any),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, str | None),
        ({"oneOf": [{"type": "string"}, {}]}, typing.Any),
        ({"type": ["integer", "null"]}, int | None),
        ({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, list[list[float]]),
        ({"$ref": "#/$defs/Name"}, str),
        ({"$ref": "#/$defs/Self"}, typing.Any),
        ({"$ref": "#/$defs/Gone"}, typing.Any),
        ({}, typing.Any),
        (True, typing.Any),
        ({"type": "unknown"}, typing.Any),
    ],
)
def test_schema_is_the_hint_that_says_most_of_it(schema, hint):
    assert python_type(schema, {"Name": {"type": "string"}, "Self": {"$ref": "#/$defs/Self"}}) == hint


def test_required_arguments_come_first_and_others_have_their_default():
    made = of({"a": {"type": "integer", "default": 3}, "b": {"type": "string"}, "c": {"type": "string"}}, ["c"])
    assert str(made.signature) == "(self, c: str, a: int = 3, b: Optional[str] = None) -> str"


@pytest.mark.parametrize(
    ("name", "taken", "python"),
    [
        ("move", (), "move"),
        ("class", (), "class_"),
        ("reset", {"reset", "reset_"}, "reset__"),
        ("_hidden", (), "hidden"),
        ("a.b-c d", (), "a_b_c_d"),
        ("2fast", (), "n2fast"),
        ("é", (), "tool"),
        ("", (), "tool"),
    ],
)
def test_names_become_names_of_python(name, taken, python):
    assert python_name(name, taken) == python


@given(st.text(max_size=20), st.sets(st.sampled_from(["a", "b", "tool", "reset"])))
def test_any_name_becomes_a_public_name_that_is_free(name, taken):
    made = python_name(name, taken)
    assert made.isidentifier() and not made.startswith("_") and made not in taken
    inspect.Parameter(made, inspect.Parameter.KEYWORD_ONLY)


def test_arguments_that_get_the_same_name_stay_apart():
    made = of({"a-b": {}, "a.b": {}, "self": {}})
    assert made.arguments == {"a_b": "a-b", "a_b_": "a.b", "self_": "self"}


def test_each_argument_has_one_line_and_no_head_of_a_section_is_in_a_text():
    made = of({"a": {"description": "one\n  two\nArgs: x"}, "b_c": {}, "d": {"title": "Title"}})
    assert made.docstring.splitlines() == [
        "Do it.",
        "",
        "Args:",
        "    a: one two Arguments: x",
        "    b_c: the b c.",
        "    d: Title",
    ]


def test_fields_of_an_object_are_told_in_words_and_cut_where_they_are_many():
    fields = {f"field{at}": {"type": "string"} for at in range(100)}
    made = of({"small": {"properties": {"x": {"type": "integer"}}}, "large": {"items": {"properties": fields}}})
    small, large = made.docstring.splitlines()[-2:]
    assert small == '    small: the small. As JSON Schema: {"properties":{"x":{"type":"integer"}}}'
    assert len(large) < 700 and large.endswith("…")


def test_tool_without_a_description_and_arguments_has_its_name():
    assert tool_signature("wait", " ", {}).docstring == "wait."


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "enum", "anyOf", "items", "$ref", "properties", "description", "default", "x"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_schema_of_a_stranger_breaks_it(schema):
    made = of({"x": schema}, ["x"])
    assert list(made.signature.parameters) == ["self", "x"]
