"""Typed spaces on OpenEnv's wire: the same envs as in tests/conformance, served from a folder behind the wall."""

import shutil
from pathlib import Path

import pytest

from paddock.openenv import GenericEnvClient
from paddock.spaces.json_value import value_to_json
from tests.conformance.typed_envs import SPACES, Drawn
from tests.serving import serving, shared

MANIFEST = """
[package]
name = "typed"
version = "1.0"
"""
ENTRY = """
[[env]]
id = "Typed{number}-v0"
entry = "typed_envs:Drawn"
kwargs = {{ name = "{name}" }}
"""


def typed_worlds(folder):
    shutil.copy(Path(__file__).parents[1] / "conformance" / "typed_envs.py", folder)
    entries = "".join(ENTRY.format(number=number, name=name) for number, name in enumerate(SPACES))
    (folder / "paddock.toml").write_text(MANIFEST + entries)
    return serving(folder)


server = shared(typed_worlds)


@pytest.mark.process
@pytest.mark.parametrize("name", SPACES)
def test_an_episode_of_records_over_openenvs_wire(server, name):
    number, headers = list(SPACES).index(name), {"Authorization": f"Bearer {server.token}"}
    bare, actions = Drawn(name), SPACES[name]()
    actions.seed(3)
    with GenericEnvClient(base_url=f"{server.url}/Typed{number}-v0", headers=headers).sync() as env:
        assert env.reset(seed=5).observation["value"] == value_to_json(bare.observation_space, bare.reset(seed=5)[0])
        for _ in range(3):
            action = actions.sample()
            sent = value_to_json(actions, action)
            result = env.step(sent if hasattr(actions, "records") else {"action": sent})
            expected, reward, *_, info = bare.step(action)
            assert result.observation["value"] == value_to_json(bare.observation_space, expected)
            assert result.reward == reward and result.observation["info"] == info
