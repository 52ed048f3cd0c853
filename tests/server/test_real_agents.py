"""Agent programs that others wrote, in a seat."""

import pytest

from tests.peers import run_with_peer


@pytest.mark.peers
@pytest.mark.process
@pytest.mark.parametrize("name", ["openai_agents", "langgraph"])
def test_agent_of_others_plays_an_episode_in_a_seat(name):
    found = run_with_peer("agents", f"from tests.server.real_agents import run\nrun({name!r})")
    assert found == {"said": "Done.", "reward": 1.0, "steps": 1, "calls": 2, "keys": [1, 1]}
