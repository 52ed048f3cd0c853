"""The loop of verifiers, as the peer of rollouts.py: its episodes, its traces, its interception of calls to the model.

    .peers/verifiers/bin/python benchmarks/_rollouts_verifiers.py AT_ONCE EACH TURNS SLEEP_S

The model sleeps in verifiers' process, and so does the harness that plays: verifiers' own ones start a program per
rollout. It reaches the model as all of them do, over the interception's HTTP. Prints wall and CPU seconds as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time

import aiohttp
import verifiers.v1 as vf
from _rollouts_http import REPLY, TOOLS
from verifiers.v1.clients import Client, ModelContext
from verifiers.v1.interception import server
from verifiers.v1.runtimes import ProgramResult
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

__all__ = ["CountHarness", "CountTaskset"]
AT_ONCE, EACH, TURNS = map(int, sys.argv[1:4])
SLEEP_S = float(sys.argv[4])


class CountTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def counted(self, trace) -> float:
        return float(trace.info["count"] == TURNS)


class CountTaskset(vf.Taskset[CountTask]):
    def load(self):
        for index in range(AT_ONCE * EACH):
            yield CountTask(vf.TaskData(name=f"count {index}", prompt="Count."))


class CountHarness(vf.Harness[vf.HarnessConfig]):
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        messages, count = [{"role": "user", "content": data.prompt}], 0
        while count < TURNS:
            body = {"model": ctx.model, "messages": messages, "tools": TOOLS}
            headers = {"Authorization": f"Bearer {secret}"}
            async with self.http.post(f"{endpoint}/chat/completions", json=body, headers=headers) as answer:
                reply = (await answer.json())["choices"][0]["message"]
            count += 1
            (call,) = reply["tool_calls"]
            messages += [reply, {"role": "tool", "tool_call_id": call["id"], "content": str(count)}]
        trace.info["count"] = count
        return ProgramResult(exit_code=0, stdout="", stderr="")


class Sleeper(Client):
    """A model that answers after a while."""

    async def get_response(self, dialect, body, sampling, session_id=None, turn=None, headers=None):
        await asyncio.sleep(SLEEP_S)
        response = dialect.parse_response(dialect.validate_response(REPLY))
        response.raw = REPLY
        return response


async def main():
    logging.disable(logging.WARNING)
    server.resolve_client = lambda config: Sleeper()
    runtime = {"runtime": {"type": "subprocess"}}
    env = load_environment(resolve_env_config({"taskset": {"id": "_rollouts_verifiers"}, "agent": runtime}))
    client = vf.EvalClientConfig(base_url="http://127.0.0.1:1/v1", api_key_var="NONE")
    context, gate = ModelContext(model="toy", client=client, sampling=vf.SamplingConfig()), asyncio.Semaphore(AT_ONCE)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as CountHarness.http, env.serving():
        slots = [slot for task in env.taskset for slot in env.slots(task)]
        cpu, wall = time.process_time(), time.perf_counter()
        episodes = await asyncio.gather(*(env.run_slot(slot, context, gate) for slot in slots))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    failed = [one for one in episodes if not one.ok or one.traces[0].reward != 1.0]
    if failed or len(episodes) != AT_ONCE * EACH:
        raise RuntimeError(f"{len(failed)} episodes failed: {failed[:1]}")
    print(json.dumps({"wall_s": wall, "cpu_s": cpu}), flush=True)


if __name__ == "__main__":
    import _rollouts_verifiers  # by the name by which verifiers finds the taskset and the harness

    asyncio.run(_rollouts_verifiers.main())
