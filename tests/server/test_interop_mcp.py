"""The official SDK's client against ``paddock serve``: both of its generations, which differ in handshake and names."""

import json
import re

import pytest

from tests.peers import ROOT, run_with_peer
from tests.server.clients import call, rpc
from tests.server.paddock_serve import paddock_serve

pytestmark = pytest.mark.peers

GUESS = "tests.server.guess_world:Guess-v0"

USE = """
async def used(list_tools, call_tool, ping):
    listed = (await list_tools()).tools
    tools = {tool.name: tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed}
    seen = {"tools": tools, "ping": await ping()}
    for name, arguments in {"guess": {"number": 11}, "notes": {"about": "aab"}, "look": {}, "complain": {}}.items():
        result = await call_tool(name, arguments)
        seen[name] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    unknown = await call_tool("nope", {})
    seen["nope"] = unknown.model_dump(mode="json", by_alias=True, exclude_none=True)
    return seen
"""
OLD = (
    USE
    + """
import asyncio, json
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main():
    headers = {"Authorization": "Bearer TOKEN"}
    async with streamablehttp_client("URL", headers=headers) as (read, write, _), ClientSession(read, write) as session:
        began = await session.initialize()

        async def ping():
            return (await session.send_ping()).model_dump(exclude_none=True)

        seen = await used(session.list_tools, session.call_tool, ping)
    return {**seen, "version": began.protocolVersion, "instructions": began.instructions}

print(json.dumps(asyncio.run(main())))
"""
)
NEW = (
    USE
    + """
import asyncio, json
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer TOKEN"}) as http:
        async with Client(streamable_http_client("URL", http_client=http), mode=MODE) as client:
            began = client.session.initialize_result

            async def ping():
                return (await client.session.send_ping()).model_dump(exclude_none=True) and {}

            seen = await used(client.list_tools, client.call_tool, ping)
    return {**seen, "version": began.protocol_version, "instructions": began.instructions}

print(json.dumps(asyncio.run(main())))
"""
)
CLIENTS = {
    "mcp 1": ("mcp1", OLD),
    "mcp 2": ("mcp", NEW.replace("MODE", "'legacy'")),
    "mcp 2, which asks for a newer protocol first": ("mcp", NEW.replace("MODE", "'auto'")),
}


@pytest.mark.peers
@pytest.mark.parametrize("peer", ["mcp1", "mcp"])
def test_the_page_shows_a_client_that_works_with_both(tmp_path, peer):
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (program,) = (block for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "ClientSession" in block)
    with paddock_serve(tmp_path, "paddock/Echo") as server:
        program = program.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}").replace('"TOKEN"', repr(server.token))
        assert server.token in program and str(server.port) in program
        told = "import io, json, sys\nsys.stdout = told = io.StringIO()\n"
        said = run_with_peer(peer, f"{told}{program}\nprint(json.dumps(told.getvalue()), file=sys.__stdout__)")
        assert said == "['echo_message', 'echo_with_length']\nhello\n"


@pytest.fixture(scope="module", params=CLIENTS)
def seen(request, tmp_path_factory):
    """What a client saw of a session that an operator handed to it, and of one of its own."""
    peer, program = CLIENTS[request.param]
    with paddock_serve(tmp_path_factory.mktemp("serve"), GUESS) as server:

        def run(token):
            url = f"http://127.0.0.1:{server.port}/mcp"
            return run_with_peer(peer, program.replace("URL", url).replace("TOKEN", token))

        own = run(server.token)
        assert server.ask("GET", "/sessions").json == {"sessions": []}  # the client ended it
        made = server.ask("POST", "/mcp", json.dumps(rpc("openenv/session/create", reset={"index": 2}))).json["result"]
        named = {"x_paddock_session": made["session_id"]}
        handed = run(server.ask("POST", "/handover", **named).json["token"])
        yield own, handed, server.ask("GET", "/handover", **named).json
        assert server.ask("POST", "/mcp", json.dumps(call("guess", session=made["session_id"], number=0))).status == 200


@pytest.mark.peers
def test_it_begins_and_is_told_the_task(seen):
    own, handed, _ = seen
    assert own["version"] == handed["version"] == "2025-11-25"
    assert own["instructions"].startswith("Find a number between 1 and 10.\n\nGuess number ")
    assert handed["instructions"].endswith("Guess number 2.")
    assert own["ping"] == {}


@pytest.mark.process
def test_it_lists_tools(seen):
    tools = seen[0]["tools"]
    assert list(tools) == ["guess", "notes", "look", "complain", "crash"]
    assert tools["guess"]["inputSchema"]["properties"]["number"]["type"] == "integer"
    assert tools["guess"]["outputSchema"]["properties"] == {"result": {"type": "string"}}
    assert "outputSchema" not in tools["look"]


@pytest.mark.process
@pytest.mark.parametrize("which", [0, 1], ids=["own", "handed"])
def test_it_calls_tools(seen, which):
    seen = seen[which]
    assert seen["guess"]["content"] == [{"type": "text", "text": "Lower."}]
    assert seen["guess"]["structuredContent"] == {"result": "Lower."}
    assert seen["notes"]["structuredContent"] == {"a": 2, "b": 1}
    assert [block["type"] for block in seen["look"]["content"]] == ["text", "image"]
    assert (seen["complain"]["isError"], seen["complain"]["content"][0]["text"]) == (True, "The desk is closed.")
    assert seen["nope"]["isError"] and "nope" in seen["nope"]["content"][0]["text"]


@pytest.mark.process
def test_the_operator_sees_what_came_of_it(seen):
    outcome = seen[2]
    assert (outcome["begun"], outcome["steps"], outcome["terminated"]) == (True, 5, False)
