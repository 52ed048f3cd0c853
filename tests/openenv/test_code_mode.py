"""Code mode: an agent's code calls tools by name, in a process that is not the environment's, and has a deadline."""

import os

import pytest
from fastapi.testclient import TestClient

import paddock
from paddock.agentic.envs.coding import workspace
from paddock.errors import NotPermitted
from paddock.hosting.private_loop import PrivateLoop
from paddock.openenv import Action, Environment, MCPEnvironment, Observation, State, create_app
from paddock.sandbox import Policy, workspaces
from tests.sandbox.workers import needs_linux

pytestmark = [needs_linux, pytest.mark.process]


class Shop(MCPEnvironment):
    """Tools without FastMCP."""

    def __init__(self):
        self._loop, self.calls = PrivateLoop(), []

    def get_callables(self):
        def price(name, count=1):
            self.calls.append(name)
            if name not in ("apple", "pear"):
                raise KeyError(name)
            return {"cents": 30 * count, "pid": os.getpid()}

        async def slow(name):
            return (name, 0.5, float("nan"))

        return {"price": price, "slow": slow}

    def reset(self, seed=None, episode_id=None, **kwargs): ...
    def _step_impl(self, action, timeout_s=None, **kwargs): ...
    @property
    def state(self): ...


class Market(Environment):
    """Each action is code."""

    def execute_code(self, code):
        return Shop().execute_code(code)

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        return self.execute_code(action.code)

    @property
    def state(self):
        return State()


class Code(Action):
    code: str


@pytest.fixture(scope="module")
def shop():
    return Shop()


@pytest.mark.parametrize(
    ("code", "metadata"),
    [
        ("result = price('apple', count=2)['cents'] + 1", {"result": 61}),
        ("x = 1", {"result": None}),
        ("def twice(n): return sum(many(n))\ndef many(n): return [n, n]\nresult = twice(4)", {"result": 8}),
        (
            "name, half, nothing = slow('pear')\nresult = [name, half, nothing != nothing]",
            {"result": ["pear", 0.5, True]},
        ),
        ("try:\n    price('nail')\nexcept KeyError as error:\n    result = str(error)", {"result": "\"'nail'\""}),
        ("price('nail')", {"error": "\"'nail'\""}),
        ("1 +", {"error": "Syntax error: invalid syntax (<string>, line 1)"}),
        ("raise ValueError('no')", {"error": "no"}),
        ("exit(3)", {"error": "name 'exit' is not defined"}),
        ("result = {1, 2}", {"error": "set is not plain data"}),
        ("price({1})", {"error": "set is not plain data"}),
        ("import os; os._exit(0)", {"error": "The code has no result: it was ended (exit)."}),
        ("import os; os.write(3, b'[\"oh\"]\\n')", {"error": "The code has no result: it was ended (exit)."}),
        ("import os; os.write(3, b'[\"call\", [1], 2, 3]\\n')", {"result": None}),
        ("x = 'a' * (1 << 30)", {"error": "The code has no result: it was ended (memory)."}),
    ],
)
def test_code_calls_tools_and_its_result_or_error_comes_back_as_plain_data(shop, code, metadata):
    observation = shop.execute_code(code)
    assert (observation.metadata, observation.done, observation.reward) == (metadata, False, 0.0)


def test_code_has_another_process_than_its_tools_and_sees_nothing_of_theirs(shop, tmp_path):
    (tmp_path / "answers").write_text("secret")
    code = f"""
import os, sys
result = [price("apple")["pid"], os.getpid(), os.path.exists({str(tmp_path / "answers")!r}), "paddock" in sys.modules]
"""
    tools, own, sees, imported = shop.execute_code(code).metadata["result"]
    assert (tools, own != os.getpid(), sees, imported) == (os.getpid(), True, False, False)


def test_code_that_does_not_end_is_ended(shop, monkeypatch):
    monkeypatch.setattr(workspace, "RUN_S", 0.5)
    assert shop.execute_code("while True: pass").metadata == {
        "error": "The code has no result: it took more than 0.5 seconds."
    }
    endless = shop.execute_code("while True: price('apple')").metadata  # calls are no way to get more time
    assert endless == {"error": "The code has no result: it took more than 0.5 seconds."}


def test_a_served_class_has_code_mode_and_a_worker_without_workspaces_refuses_it():
    with TestClient(create_app(Market, Code, Observation)) as client, client.websocket_connect("/ws") as peer:
        peer.send_json({"type": "step", "data": {"code": "result = price('pear')['cents']"}})
        assert peer.receive_json()["data"]["metadata"] == {"result": 30}
    with paddock.make("tests.openenv.test_code_mode:Market", isolation=Policy()) as env:
        env.reset()
        with pytest.raises(NotPermitted, match="Serve it with create_app"):
            env.step({"code": "result = 1"})


def test_code_mode_is_supported_where_workspaces_can_be_started(shop, monkeypatch):
    assert shop.supports_code_mode
    monkeypatch.setattr(workspaces, "_walled", True)
    assert not shop.supports_code_mode
    with pytest.raises(NotPermitted):
        shop.execute_code("result = 1")
