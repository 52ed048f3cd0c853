"""Agent programs of others in a seat, run in the venv of the peer `agents`: `run("langgraph")`."""

import asyncio
import json
import os

import paddock
from tests.agentic.model_server import model_server, reply


def answer(request):
    """A model that calls the tool once, and then says that it is done."""
    known = {"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, "created": 1, "id": "chatcmpl-1"}
    if any(one["role"] == "tool" for one in request["messages"]):
        return reply("Done.", **known)
    task = next(one["content"] for one in request["messages"] if one["role"] == "user")
    return reply(calls=[("echo_message", {"message": task.split()[-1]})], finish="tool_calls", **known)


async def openai_agents(seat):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStreamableHttp
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=seat.model_url, api_key=seat.api_key)
    async with MCPServerStreamableHttp({"url": seat.mcp_url}) as tools:
        model = OpenAIChatCompletionsModel(model="toy", openai_client=client)
        agent = Agent(name="mine", instructions="Use the tools.", mcp_servers=[tools], model=model)
        return (await Runner.run(agent, seat.prompt, max_turns=5)).final_output


async def langgraph(seat):
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    tools = MultiServerMCPClient({"seat": {"transport": "streamable_http", "url": seat.mcp_url}})
    model = ChatOpenAI(model="toy", base_url=seat.model_url, api_key=seat.api_key)
    agent = create_react_agent(model, await tools.get_tools())
    return (await agent.ainvoke({"messages": [("user", seat.prompt)]}))["messages"][-1].content


def run(name):
    """Let an agent play, and print what came of it as JSON."""

    async def main():
        os.environ["OPENAI_API_KEY"] = "sk-real"
        with model_server(answer) as server:
            async with paddock.seat("paddock/Echo", 3, base_url=server.url) as seat:
                said = await {"openai_agents": openai_agents, "langgraph": langgraph}[name](seat)
        keys = [head.count("Bearer sk-real") for head in server.headers]
        found = {"said": said, "reward": seat.reward, "steps": len(seat.trace.steps), "calls": len(seat.rollout.calls)}
        print(json.dumps({**found, "keys": keys}))

    asyncio.run(main())
