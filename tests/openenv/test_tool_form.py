"""Tools as a worker tells them, and its observations: whatever they are, there is an answer that can be written."""

import json

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paddock.agentic import CallTool, Image, Message, Observation, Text, ToolError
from paddock.hosting import mcp, messages
from paddock.hosting import messages as m
from paddock.hosting.openenv import json_rpc, tool_form
from paddock.hosting.openenv import json_rpc as tool_rpc
from paddock.hosting.openenv.wire import WireError, dump

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
SCHEMAS = st.none() | ANYTHING.map(lambda value: json.dumps(value, default=repr)) | st.text(max_size=20)
TOLD = st.fixed_dictionaries(
    {"name": st.text(max_size=5) | ANYTHING},
    optional={"description": st.text(max_size=5) | ANYTHING, "input_schema": SCHEMAS, "output_schema": SCHEMAS},
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "video"])}, optional={"text": ANYTHING, "data": ANYTHING}
)
SEEN = st.fixed_dictionaries(
    {"content": st.lists(BLOCKS, max_size=3) | ANYTHING},
    optional={
        "messages": ANYTHING | st.lists(st.fixed_dictionaries({"role": ANYTHING, "content": st.lists(BLOCKS)})),
        "tool_name": st.just("t") | ANYTHING,
        "result": ANYTHING,
        "error": ANYTHING | st.fixed_dictionaries({"error_type": st.text(), "message": st.text()}),
    },
)
OF_OPENENV = st.fixed_dictionaries(
    {"tool_name": st.just("t") | ANYTHING},
    optional={"result": ANYTHING | st.fixed_dictionaries({"content": st.lists(BLOCKS)}), "error": ANYTHING},
)


def told(**schemas):
    return {"name": "t", "description": "", "input_schema": "{}", "output_schema": None, **schemas}


@given(st.lists(TOLD | ANYTHING, max_size=4) | ANYTHING)
def test_whatever_is_told_can_be_listed(tools):
    found = tool_form.Tools.of({messages.TOOLS_KEY: tools})
    if not isinstance(tools, (list, tuple)):
        assert found is None
        return
    dump(tool_form.listing_data(found))
    for answer in (
        tool_rpc.request_of(json_rpc.RpcRequest("tools/list", id=1), found),
        mcp.request_of(mcp.Message("tools/list", id=1), found),
    ):
        assert len(answer["result"]["tools"]) == len(found)
        json.dumps(answer), dump(answer)
    for tool in mcp.request_of(mcp.Message("tools/list", id=1), found)["result"]["tools"]:
        assert tool["inputSchema"]["type"] == "object"
        assert tool.get("outputSchema", {"type": "object"})["type"] == "object"


@given(SEEN | OF_OPENENV | ANYTHING, st.sampled_from([None, '{"type":"string"}', '{"type":"object"}']))
def test_whatever_is_seen_can_be_told(observation, output):
    tools = tool_form.Tools.of({messages.TOOLS_KEY: [told(output_schema=output)]})
    reply = m.Done([[observation, 0.0, True, False, {}]])
    asked = json_rpc.RpcRequest("tools/call", {"name": "t"}, 1)
    dump(tool_rpc.answer_to(asked, tools, reply))
    dump(mcp.answer_to(mcp.Message("tools/call", {"name": "t"}, 1), tools, reply))
    seen = tool_form.ToolObservation.of(observation)
    if seen is not None:
        dump(tool_form.outcome_data(tools, seen, {"a": np.arange(2)}, reward=1.0))


@given(st.dictionaries(st.sampled_from(["type", "tool_name", "arguments", "metadata", "x"]), ANYTHING))
def test_whatever_is_asked_is_an_action_a_refusal_or_another_kind(data):
    found = tool_form.action_of(data)
    if isinstance(found, dict):
        assert found["type"] == "list_tools" or msgspec.convert(found, CallTool)
    else:
        assert found is None or isinstance(found, WireError)


@given(ANYTHING)
def test_whatever_comes_is_a_message_or_has_an_answer(data):
    found = mcp.read_message(data)
    assert isinstance(found, mcp.Message) or "error" in found


def test_the_records_of_tool_environments_and_their_data_are_seen_alike():
    observation = Observation(
        content=[Text("a"), Image("UE5H")], messages=[Message("user", [Text("go")])], tool_name="t", result={"a": [1]}
    )
    seen = tool_form.ToolObservation.of(observation)
    assert seen == tool_form.ToolObservation.of(msgspec.to_builtins(observation))
    assert (seen.words, seen.tool_name, seen.result) == ("go", "t", {"a": [1]})
    failed = tool_form.ToolObservation.of(Observation(tool_name="t", error=ToolError("timeout", "late")))
    assert (failed.error.error_type, failed.error.message) == ("timeout", "late")


def test_words_that_no_tool_said_have_an_error_too():
    seen = tool_form.ToolObservation.of(Observation(error=ToolError("execution_error", "What?")))
    data = tool_form.outcome_data(tool_form.Tools(), seen, {}, reward=0.0)
    assert data["observation"]["error"] == {"error_type": "execution_error", "message": "What?"}
