"""Our clients against servers of the real packages, and their clients against our wire."""

import asyncio

import pytest

from paddock.errors import SessionGone
from paddock.openenv import Action, AsEnv, EnvClient, GenericEnvClient, Observation, OutcomeUnknown, State, StepResult
from tests.openenv import worlds
from tests.openenv.loopback import Loopback
from tests.openenv.scripted_server import ScriptedServer
from tests.openenv.walk import Walk
from tests.peers import run_with_peer

pytestmark = pytest.mark.peers


class EchoAction(Action):
    text: str
    times: int = 1


class EchoObservation(Observation):
    echoed: str
    length: int
    anything: object = None


class EchoClient(EnvClient[EchoAction, EchoObservation, State]):
    """As an environment's package writes it."""

    def _step_payload(self, action):
        return action.model_dump()

    def _parse_result(self, payload):
        fields = {"reward": payload["reward"], "done": payload["done"], **payload["observation"]}
        return StepResult(EchoObservation(**fields), payload["reward"], payload["done"])

    def _parse_state(self, payload):
        return State(**payload)


@pytest.mark.peers
def test_generic_client(server):
    peer, url = server
    with GenericEnvClient(base_url=url) as env:
        assert env.reset(seed=3, colour="red").observation["anything"] == {"seed": 3, "colour": "red"}
        result = env.step({"text": "HI"})
        assert (result.observation["echoed"], result.reward, result.done) == ("HI", 1.0, False)
        assert result.metadata == ({"loud": True} if peer == "openenv10" else None)
        assert env.step({"text": "end"}).done
        assert env.state() == {"episode_id": "e1", "step_count": 2, "total": 5}


@pytest.mark.process
def test_typed_client_for_plain_code(server):
    _, url = server
    with EchoClient(base_url=url).sync() as env:
        env.reset(episode_id="mine")
        observation = env.step(EchoAction(text="ab", times=3)).observation
        assert (observation.echoed, observation.length, observation.reward) == ("ababab", 6, 3.0)
        assert (env.state().episode_id, env.state().total) == ("mine", 2)


@pytest.mark.process
def test_typed_client_in_async_code(server):
    async def main(url):
        async with EchoClient(base_url=url) as env, EchoClient(base_url=url) as other:
            await asyncio.gather(env.reset(), other.reset())
            results = await asyncio.gather(env.step(EchoAction(text="a")), other.step(EchoAction(text="bb")))
            return [result.observation.echoed for result in results], (await env.state()).total

    assert asyncio.run(main(server[1])) == (["a", "bb"], 1)


@pytest.mark.process
def test_errors_leave_the_episode_as_it_was(server):
    with GenericEnvClient(base_url=server[1]) as env:
        env.reset()
        with pytest.raises(RuntimeError, match=r"Server error: Invalid message \(code: VALIDATION_ERROR\)"):
            env.step({"text": 5})
        with pytest.raises(RuntimeError, match=r"Server error: it broke \(code: EXECUTION_ERROR\)"):
            env.step({"text": "crash"})
        assert env.state()["step_count"] == 1


@pytest.mark.process
def test_after_a_timeout_no_answer_is_off_by_one(server):
    with GenericEnvClient(base_url=server[1], message_timeout_s=0.5) as env:
        env.reset()
        with pytest.raises(OutcomeUnknown):
            env.step({"text": "slow1"})
        with pytest.raises(SessionGone):
            env.step({"text": "x"})
        env.reset()
        assert env.step({"text": "after"}).observation["echoed"] == "after"


@pytest.mark.process
def test_a_large_observation(server):
    with GenericEnvClient(base_url=server[1]) as env:
        env.reset()
        text = "é" * 500_000
        assert env.step({"text": text}).observation["echoed"] == text


@pytest.mark.process
def test_new_sessions_are_apart(server):
    with GenericEnvClient(base_url=server[1]) as env:
        other = env.new_session()
        env.reset()
        other.reset()
        env.step({"text": "a"})
        assert (env.state()["step_count"], other.state()["step_count"]) == (1, 0)


def speaking(make, form):
    """A script that answers by our wire."""

    def script(peer):
        session = Loopback(make, form=form)
        while (frame := session.ask(peer.text())) is not None:
            peer.send(frame.encode())
        peer.close()

    return script


STOCK = """
import asyncio, json, sys
from openenv.core import EnvClient, GenericEnvClient
from openenv.core.client_types import StepResult

class Typed(EnvClient):
    def _step_payload(self, action):
        return {"text": action}
    def _parse_result(self, payload):
        return StepResult(payload["observation"]["echoed"], payload["reward"], payload["done"])
    def _parse_state(self, payload):
        return payload["total"]

typed, plain = URLS
seen = {}
with Typed(base_url=typed).sync() as env:
    env.reset(seed=1)
    seen["typed"] = [env.step("ab").observation, env.state()]
    try:
        env.step(5)
    except RuntimeError as error:
        seen["refused"] = str(error)
    seen["after"] = env.step("c").observation

async def main():
    async with GenericEnvClient(base_url=plain) as env:
        first = await env.reset(seed=3)
        second = await env.step({"action": 1})
        return [first.observation["value"], second.observation["value"], second.reward, await env.state()]

seen["plain"] = asyncio.run(main())
print(json.dumps(seen))
"""


@pytest.mark.peers
@pytest.mark.parametrize(("peer", "form"), [("openenv10", "0.10"), ("openenv03", "0.3")])
def test_stock_clients_understand_our_wire(peer, form):
    with (
        ScriptedServer(speaking(lambda: AsEnv(worlds.EchoEnv), form)) as typed,
        ScriptedServer(speaking(Walk, form)) as plain,
    ):
        seen = run_with_peer(peer, STOCK.replace("URLS", repr((typed.url, plain.url))))
    assert seen["typed"] == ["ab", 2]
    assert seen["refused"] == "Server error: Invalid message (code: VALIDATION_ERROR)"
    assert seen["after"] == "c"
    first, second, reward, state = seen["plain"]
    assert (first, second, reward) == ({"at": [0.0, "inf"], "moves": 0}, {"at": [1.0, "inf"], "moves": 1}, 1.0)
    assert state["moves"] == 1
