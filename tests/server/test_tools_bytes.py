"""Tools on OpenEnv's wire: our bytes next to those of a real MCPEnvironment with the same tools, of both packages."""

import json
import re

import pytest

from tests.peers import run_with_peer
from tests.server.paddock_serve import exchange, paddock_serve
from tests.server.real_tools import RPC, STEPS, rpc
from tests.server.tool_world import write_shop

pytestmark = pytest.mark.peers

PEERS = {"0.10": "openenv10", "0.3": "openenv03"}
# What FastMCP 4, which the old package installs today, has beside FastMCP 3. Neither package chose it.
OF_FASTMCP_4 = {
    r',\s?"io\.modelcontextprotocol/serverInfo":\s?\{[^}]*\}': "",
    r'\{"io\.modelcontextprotocol/serverInfo":\s?\{[^}]*\}\}': "null",
}


@pytest.fixture(scope="module", params=PEERS)
def both(request, tmp_path_factory):
    """The answers of our server, and of the real one."""
    folder, id = write_shop(tmp_path_factory.mktemp("shop") / "shop")
    with paddock_serve(folder.parent, f"{folder}:{id}", "--wire", request.param) as server:
        with server.socket() as peer:
            exchange(peer, '{"type":"reset"}')
            steps = [exchange(peer, json.dumps({"type": "step", "data": data})) for data in STEPS]
            framed = [
                exchange(peer, json.dumps({"type": "mcp", "data": json.loads(rpc(number, one))}))
                for number, one in enumerate(RPC)
            ]
        with server.socket("/mcp") as peer:
            spoken = [exchange(peer, rpc(number, one)) for number, one in enumerate(RPC)]
        posted = [server.ask("POST", "/mcp", rpc(number, one)).body.decode() for number, one in enumerate(RPC)]
        http = [server.ask("POST", "/step", json.dumps({"action": data})).body.decode() for data in STEPS]
    ours = {"steps": steps, "framed": framed, "spoken": spoken, "posted": posted, "http": http}
    theirs = run_with_peer(PEERS[request.param], "from tests.server.real_tools import main\nmain()")
    return request.param, ours, theirs


def plain(form, text):
    """Without what is not the form's: versions, and rewards, which OpenEnv's tools never have."""
    text = re.sub(r"errors\.pydantic\.dev/[\d.]+/", "errors.pydantic.dev/N/", text).replace(":0.0,", ":null,")
    for pattern, instead in OF_FASTMCP_4.items() if form == "0.3" else ():
        text = re.sub(pattern, instead, text)
    return text


@pytest.mark.parametrize("where", ["steps", "http", "framed", "spoken", "posted"])
def test_the_bytes_are_theirs(both, where):
    form, ours, theirs = both
    questions = STEPS if where in ("steps", "http") else RPC
    assert len(ours[where]) == len(theirs[where]) == len(questions)
    for question, mine, real in zip(questions, ours[where], theirs[where], strict=True):
        if '"tools":' not in real:  # lists are compared below
            assert (question, plain(form, mine)) == (question, plain(form, real))


@pytest.mark.parametrize("where", ["steps", "http"])
def test_the_list_of_tools_has_their_bytes(both, where):
    form, ours, theirs = both
    mine, real = json.loads(ours[where][0]), json.loads(theirs[where][0])
    mine, real = ((one if where == "http" else one["data"]) for one in (mine, real))
    tools = {tool["name"]: json.dumps(tool) for tool in mine["observation"].pop("tools")}
    listed = real["observation"].pop("tools")
    assert json.dumps(mine) == json.dumps(real)
    for tool in listed:
        same = json.loads(tools[tool["name"]])
        if form == "0.3":  # FastMCP 4 writes schemas in another order
            assert same == tool
        else:
            assert tools[tool["name"]] == json.dumps(tool)


@pytest.mark.parametrize("where", ["framed", "spoken", "posted"])
def test_json_rpcs_list_has_their_bytes(both, where):
    form, ours, theirs = both
    mine, real = json.loads(ours[where][0]), json.loads(theirs[where][0])
    mine, real = ((one["data"] if where == "framed" else one)["result"]["tools"] for one in (mine, real))
    by_name = {tool["name"]: tool for tool in mine}
    for tool in real:
        same = by_name[tool["name"]]
        if form == "0.10":
            assert json.dumps(same) == json.dumps(tool)
        else:  # FastMCP 4 has Python's spelling, another order, and titles
            spelled = {"inputSchema": tool.pop("input_schema"), "outputSchema": tool.pop("output_schema"), **tool}
            assert {**same, "title": tool["title"]} == spelled
