"""A Struct across JSON: without its class it takes what the original takes, and strangers' schemas do no harm."""

import copy
import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import InvalidSpace, InvalidValue
from paddock.spaces import Dict, Discrete, Space, Struct, Tuple
from paddock.spaces.records.nodes import Draw, safe_pattern
from tests.spaces.hostile import hostile_objects
from tests.spaces.records import KINDS, Step

SPACES = {name: Struct(record) for name, record in KINDS.items()}
REBUILT = {name: Space.from_json(space.to_json()) for name, space in SPACES.items()}
kinds = pytest.mark.parametrize("kind", KINDS)


def schema(**fields):
    return {"type": "object", "properties": fields, "required": list(fields)}


def top(schema):
    return json.dumps({"paddock": 1, "type": "Struct", "name": "N", "schema": schema})


@kinds
def test_the_json_form_is_read_without_the_class(kind):
    space, back = SPACES[kind], REBUILT[kind]
    assert type(back) is Struct and back.record is None and back.name == space.name
    assert back.to_json() == space.to_json()
    assert back == Space.from_json(space.to_json()) and hash(back) == hash(Space.from_json(space.to_json()))
    assert back != space  # its members are dicts
    assert repr(back) == f"Struct.from_schema({space.name!r})"
    nested = Dict({"a": Tuple([space, Discrete(2)])})
    assert Space.from_json(nested.to_json()) == Dict({"a": Tuple([back, Discrete(2)])})


@kinds
def test_the_same_seed_gives_the_same_samples_with_and_without_the_class(kind):
    space, back = copy.deepcopy(SPACES[kind]), copy.deepcopy(REBUILT[kind])
    space.seed(3), back.seed(3)
    for _ in range(30):
        value = back.sample()
        assert value in back and type(value) is dict
        assert isinstance(value["corner"], np.ndarray)
        assert space.to_plain(space.validate(value)) == space.to_plain(space.sample())


ITEMS = [
    *(None, True, 0, 3, -1, 9, 2**70, 0.5, -0.0, 1e300, float("inf"), float("nan"), "", "abc", "abcdef", "AB", "red"),
    *("\ud800", "walk", "go", [], [0.5, 0.5], [1, "a"], [1, 1], [1, 2], [[0, 0]], [{"to": 1}], {}, {"to": 1}),
    *({"to": 1, "how": "run"}, {"to": "1"}, {"to": 1, "q": 1}, {"kind": "go", "to": 1}, {"kind": "say", "text": "ab"}),
    *({"kind": "say", "text": "A"}, {"kind": "no"}, {"a": [0, 1], "b": [1, "a"]}, {"a": [0, 2], "b": [1, "a"]}),
    *({"1": 1.5}, {"x": [True]}, {"1": [True]}, "aGk=", {"corner": [0, 0]}),
]


def answer(space, data):
    try:
        space.validate(data)
        return True
    except InvalidValue:
        return False


@pytest.mark.slow
@kinds
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**20), data=st.data())
def test_rebuilt_takes_exactly_what_the_original_takes(kind, seed, data):
    space, back = SPACES[kind], REBUILT[kind]
    space.seed(seed)
    plain = space.to_plain(space.sample())
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.sampled_from([*plain, "zz"]))
        change = data.draw(st.sampled_from([*range(len(ITEMS)), "drop"]))
        if change == "drop":
            plain.pop(place, None)
        elif place != "counts" or kind == "dataclass":  # a dict[int, ...] looks like a dict[str, ...] in a schema
            plain[place] = ITEMS[change]
    taken = answer(space, plain)
    assert answer(back, plain) is taken
    if taken:
        made = space.validate(plain)
        assert back.to_plain(back.validate(space.to_plain(made))) == space.to_plain(made)


@kinds
def test_rebuilt_contains_answers_for_hostile_objects(kind):
    REBUILT[kind].seed(1)
    for value in hostile_objects():
        assert REBUILT[kind].contains(value) is False
        assert REBUILT[kind].contains({**REBUILT[kind].sample(), "last": value}) in (True, False)


def test_rebuilt_members_are_dicts_with_members_of_spaces():
    back = REBUILT["dataclass"]
    plain = {"corner": [0, 0], "small": 1, "gear": 1, "word": "abc"}
    assert plain not in back  # a list is the JSON form of the array
    made = back.validate(plain)
    assert made in back and made["corner"].dtype == np.float32
    assert back.to_plain(made) == plain
    assert Step(1) not in Space.from_json(Struct(Step).to_json())
    assert Space.from_json(Struct(Step).to_json()).validate(Step(1)) == {"to": 1, "how": "walk"}


BAD = {
    "no object": ([], r"^\$: schema: expected an object"),
    "unknown keyword": (schema(a={"type": "integer", "not": {}}), r"schema\.properties\.a\.not: unknown keyword"),
    "if": ({"if": {}}, r"schema\.if: unknown keyword"),
    "unknown type": ({"type": "decimal"}, r"schema\.type: expected one of object"),
    "types": ({"type": ["string", "null"]}, r"schema\.type: expected one of"),
    "lost reference": (schema(a={"$ref": "#/$defs/X"}), r"properties\.a\.\$ref: no definition 'X'"),
    "reference elsewhere": ({"$ref": "https://example.com/x"}, r"expected a reference #/\$defs/"),
    "reference to itself": ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "nothing but itself"),
    "union of itself": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/A"}]}}},
        "nothing but itself",
    ),
    "narrowed union": (
        {"anyOf": [{"type": "integer"}], "minimum": 3},
        r"minimum: this keyword can't stand beside anyOf",
    ),
    "several allOf": ({"allOf": [{}, {}]}, "allOf of 2"),
    "negative count": (schema(a={"type": "array", "minItems": -1}), r"minItems: expected an integer"),
    "bound that is text": (schema(a={"type": "integer", "minimum": "1"}), r"minimum: expected a number"),
    "step of zero": (schema(a={"type": "integer", "multipleOf": 0}), r"multipleOf: expected a number"),
    "required that is text": ({"type": "object", "required": "a"}, r"required: expected a list of strings"),
    "properties that are a list": ({"properties": []}, r"properties: expected an object"),
    "a space that is none": (schema(a={"x-paddock-space": {"type": "Discrete", "n": 0}}), r"x-paddock-space"),
    "a space that is text": (schema(a={"x-paddock-space": "Box"}), r"x-paddock-space"),
    "half a discriminator": ({"oneOf": [{}], "discriminator": {"propertyName": "a"}}, "propertyName and mapping"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_schema_that_we_do_not_understand_is_refused_with_its_place(case):
    bad, reason = BAD[case]
    with pytest.raises(InvalidSpace, match=reason):
        Space.from_json(top(bad))


def test_a_repeated_key_and_a_missing_schema_are_refused():
    with pytest.raises(InvalidSpace, match="occurs twice"):
        Space.from_json('{"paddock":1,"type":"Struct","name":"","schema":{"type":"object","type":"object"}}')
    with pytest.raises(InvalidSpace, match=r"\$\.schema: this field is missing"):
        Space.from_json('{"paddock":1,"type":"Struct","name":""}')


def test_remarks_and_formats_that_nobody_checks_are_left_alone():
    space = Struct.from_schema(
        {
            **schema(mail={"type": "string", "format": "email", "description": "where", "examples": ["a"]}),
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Mail",
        }
    )
    assert {"mail": "anything"} in space and {"mail": 3} not in space


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ({"format": "date-time"}, "2020-01-02T03:04:05Z", "yesterday"),
        ({"format": "date"}, "2020-01-02", "2020-13-02"),
        ({"format": "time"}, "03:04:05", "25:04:05"),
        ({"format": "duration"}, "PT3S", "3 s"),
        ({"format": "uuid"}, "32f7a623-fa62-4150-a7c1-080b3d2d47e4", "32f7"),
        ({"format": "decimal"}, "1.50", "one"),
        ({"contentEncoding": "base64"}, "aGk=", "a"),
        ({"pattern": "^[a-z]+$"}, "abc", "ABC"),
        ({"minLength": 2, "maxLength": 3}, "abc", "abcd"),
    ],
    ids=str,
)
def test_text_of_a_format_is_checked_and_sampled(kind, good, bad):
    space = Struct.from_schema(schema(a={"type": "string", **kind}), seed=1)
    assert {"a": good} in space and {"a": bad} not in space
    assert len({space.sample()["a"] for _ in range(20)}) > 3


HANG = "a" * 5000 + "!"


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*$",
        "a*a*a*a*a*a*$",
        "^a?a?a?a?a?a?a?a?a?a?aaaaaaaaaa$",
        "(?=a)a",
        r"(a)\1",
        "a*?b",
        "[a--b]",
        "(",
    ],
)
def test_a_pattern_that_could_hang_is_not_matched(pattern):
    assert safe_pattern(pattern) is None
    assert {"a": "zzz"} in Struct.from_schema(schema(a={"type": "string", "pattern": pattern}))


@pytest.mark.parametrize(
    "pattern",
    ["^[a-z]{3,5}$", r"^\d+\.\d+$", r"^[\w.-]+x$", "abc", "^$", "^.{2}$", r"^\$[^a]$", "^[A-Z][a-z]*$", "^a{2}b?$"],
)
def test_a_safe_pattern_matches_soon_and_can_be_sampled(pattern):
    safe = safe_pattern(pattern)
    draw = Draw(np.random.default_rng(1))
    assert all(safe.matches(safe.sample(draw)) for _ in range(20))
    began = time.perf_counter()
    safe.matches("a" * 9999 + "!")
    assert time.perf_counter() - began < 5


def test_a_schema_that_doubles_its_ways_at_every_level_is_cut_short():
    twice = {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}, {"type": "null"}]}
    space = Struct.from_schema({"$ref": "#/$defs/A", "$defs": {"A": schema(x=twice)}})
    data = "wrong"
    for _ in range(50):
        data = {"x": data}
    with pytest.raises(InvalidValue, match="more than 131072 ways"):
        space.validate(data)
    deep = {}
    for _ in range(100):
        deep = {"x": deep}
    with pytest.raises(InvalidValue, match="nested deeper"):
        space.validate(deep)


@pytest.mark.parametrize(
    "endless",
    [
        schema(a={"type": "array", "items": {"type": "integer"}, "minItems": 10**12}),
        schema(a={"type": "string", "minLength": 10**12}),
        {"$ref": "#/$defs/A", "$defs": {"A": schema(x={"$ref": "#/$defs/A"})}},
        {"$ref": "#/$defs/A", "$defs": {"A": schema(**{f"x{i}": {"$ref": "#/$defs/A"} for i in range(50)})}},
        schema(a={"enum": []}),
        schema(a={"anyOf": []}),
        schema(a={"type": "integer", "minimum": 5, "maximum": 3}),
    ],
    ids=["long list", "long text", "endless", "endless and wide", "no constants", "no branches", "no numbers"],
)
def test_a_schema_without_bearable_samples_says_so(endless):
    with pytest.raises(InvalidSpace):
        Struct.from_schema(endless, seed=1).sample()


def test_keywords_of_the_author_stay_in_the_schema_and_out_of_the_json_form():
    import pydantic

    class Shown(pydantic.BaseModel):
        best: float = float("inf")
        word: str = pydantic.Field(json_schema_extra={"ui:widget": "wide"})

    space = Struct(Shown)
    assert space.json_schema()["properties"]["word"]["ui:widget"] == "wide"
    back = Space.from_json(space.to_json())
    assert back.schema["properties"]["word"] == {"title": "Word", "type": "string"}
    assert "default" not in back.schema["properties"]["best"]
