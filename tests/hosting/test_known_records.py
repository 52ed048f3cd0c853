"""Records of paddock's own cross as what they are; a name from elsewhere chooses among them and nothing else."""

import hashlib
import json

import msgspec
import pytest

from paddock.agentic import Action, CallTool, ListTools, Observation, Say, Text, ToolError, ToolInfo
from paddock.errors import BadFrame
from paddock.hosting.codec import decode_frame, encode
from paddock.hosting.messages import Done
from paddock.hosting.values import from_wire, to_wire
from paddock.spaces import Space, Struct
from paddock.spaces.struct import known_class, known_name

ACTIONS = [CallTool("guess", {"number": 3}), CallTool("x"), ListTools(), Say("é")]
SEEN = Observation(
    content=[Text("a")],
    result={"a": [1, 2.5, None]},
    error=ToolError("timeout", "late"),
    tools=[ToolInfo("guess", "Guess.", {"type": "object"})],
)


@pytest.mark.parametrize("value", [*ACTIONS, SEEN, Observation()], ids=repr)
def test_they_arrive_as_what_they_were(value):
    arrived = decode_frame(b"".join(encode(Done({"nested": [value]}), 1)))[1].value["nested"][0]
    assert type(arrived) is type(value) and arrived == value


def test_the_bytes_are_a_contract():
    assert to_wire(Say("hi"), []) == {
        "$": "struct",
        "name": "agentic.Say.1",
        "fields": {"type": "say", "text": "hi"},
    }


# Raise the number in spaces/struct.py when one of these changes: the other end may be older.
SHAPES = {
    "agentic.CallTool.1": "31f9ec49bce9",
    "agentic.ListTools.1": "c97bfd913244",
    "agentic.Say.1": "3bbaf03d976d",
    "agentic.Observation.1": "dc223d1ad06e",
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_name_stands_for_the_same_fields_forever(name):
    schema = Struct(known_class(name)).schema
    bare = json.dumps(_without_remarks(schema), sort_keys=True)
    assert hashlib.sha256(bare.encode()).hexdigest()[:12] == SHAPES[name], bare
    assert known_name(known_class(name)) == name


def _without_remarks(part):
    if isinstance(part, dict):
        return {key: _without_remarks(item) for key, item in part.items() if key not in ("description", "title")}
    return [_without_remarks(item) for item in part] if isinstance(part, list) else part


@pytest.mark.parametrize("name", ["agentic.Say.2", "os.system", "", "paddock.agentic.env:ToolEnv", 3, None, ["x"]])
def test_any_other_name_is_no_class(name):
    assert from_wire({"$": "struct", "name": name, "fields": {"text": "hi"}}, bytearray()) == {"text": "hi"}


@pytest.mark.parametrize(
    "fields", [{}, {"type": "say"}, {"type": "say", "text": 3}, {"type": "call_tool", "tool_name": "x"}], ids=str
)
def test_fields_that_are_not_its_own_are_a_bad_frame(fields):
    with pytest.raises(BadFrame, match=r"do not fit agentic\.Say\.1"):
        from_wire({"$": "struct", "name": "agentic.Say.1", "fields": fields}, bytearray())


@pytest.mark.parametrize("record", [Observation, Action], ids=["observation", "action"])
def test_their_spaces_are_read_from_json_with_their_classes(record):
    space = Struct(record)
    assert Space.from_json(space.to_json()) == space


def test_a_space_with_other_fields_under_their_name_has_no_class():
    form = json.loads(Struct(Observation).to_json())
    form["schema"]["$defs"]["Observation"]["properties"]["more"] = {"type": "integer"}
    far = Space.from_json(json.dumps(form))
    assert far.records == () and far.name == "Observation"


def test_a_class_of_ones_own_with_such_a_name_is_not_known():
    own = msgspec.defstruct("Say", [("text", str)], module="mine")
    assert known_name(own) is None and to_wire(own("a"), []) == {"$": "struct", "fields": {"text": "a"}}
