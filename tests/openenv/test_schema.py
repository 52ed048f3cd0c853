"""/schema and /metadata: JSON Schemas that every frame of the session fulfils."""

import json

import jsonschema
import numpy as np

from paddock.core.env import Env
from paddock.hosting.openenv import http_bodies
from paddock.openenv import AsEnv
from paddock.spaces import Box, Discrete
from tests.openenv import worlds
from tests.openenv.loopback import Loopback
from tests.openenv.walk import Walk, ask


class Plain(Env):
    observation_space = Box(0, 1, (2,))
    action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.ones(2, np.float32), 1.0, False, False, {}


def schemas(session):
    return json.loads(http_bodies.schema_body(session.actions, session.observations, session.described.metadata))


def check(session, action):
    found = schemas(session)
    jsonschema.validate(action, found["action"])
    for message in ({"type": "reset"}, {"type": "step", "data": action}):
        data = ask(session, **message)["data"]
        jsonschema.validate(
            {**data["observation"], "reward": data["reward"], "done": data["done"]}, found["observation"]
        )
    jsonschema.validate(ask(session, type="state")["data"], found["state"])


def test_frames_of_environments_with_spaces_fulfil_their_schemas():
    check(Loopback(Plain), {"action": 1})
    check(Loopback(Walk), {"action": 1})


def test_frames_of_typed_environments_fulfil_their_schemas():
    check(Loopback(lambda: AsEnv(worlds.EchoEnv)), {"text": "a"})


def test_actions_of_a_space_have_no_title_that_verifiers_takes_for_tools():
    title = schemas(Loopback(Plain))["action"]["title"]
    assert title not in ("Action", "CallToolAction", "ListToolsAction")


def test_the_schemas_of_typed_environments_are_those_of_their_classes():
    found = schemas(Loopback(lambda: AsEnv(worlds.EchoEnv)))
    assert found == {
        "action": worlds.EchoAction.model_json_schema(),
        "observation": worlds.EchoObservation.model_json_schema(),
        "state": worlds.EchoState.model_json_schema(),
        "reset_observation": worlds.EchoObservation.model_json_schema(),
    }


def test_schemas_that_a_worker_makes_up_are_left_out():
    metadata = {
        "openenv": {"schemas": {"action": "[1]", "state": 5, "observation": "{" * 9, "reset_observation": None}}
    }
    found = json.loads(http_bodies.schema_body(Discrete(2), None, metadata))
    assert found["action"]["properties"] == {"action": {"type": "integer", "minimum": 0, "maximum": 1}}
    assert found["observation"]["properties"]["value"] is True


def test_metadata_of_an_environment_that_says_nothing_has_every_field():
    assert json.loads(http_bodies.metadata_body("CartPole-v1", {"render_modes": []})) == {
        "name": "CartPole-v1",
        "description": "CartPole-v1 environment",
        "readme_content": None,
        "version": "1.0.0",
        "author": None,
        "documentation_url": None,
    }
