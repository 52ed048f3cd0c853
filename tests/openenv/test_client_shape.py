"""Clients, providers and factories have the methods and arguments of the real ones."""

import pytest

from tests.openenv.shapes import methods
from tests.peers import run_with_peer

CLASSES = {
    "openenv": "AutoAction AutoEnv GenericAction GenericEnvClient SyncEnvClient",
    "openenv.core.env_client": "EnvClient StepResult",
    "openenv.core.mcp_client": "MCPClientBase MCPToolClient",
    "openenv.core.containers.runtime": "ContainerProvider LocalDockerProvider RuntimeProvider UVProvider",
}


@pytest.mark.peers
def test_every_public_method_takes_what_the_real_one_takes():
    program = f"""
    import json
    from tests.openenv.shapes import methods
    print(json.dumps(methods({CLASSES!r})))
    """
    theirs = run_with_peer("openenv10", program)
    ours = methods({module.replace("openenv", "paddock.openenv", 1): names for module, names in CLASSES.items()})
    missing = {
        place: (names, ours.get(place)) for place, names in theirs.items() if not _takes(ours.get(place, []), names)
    }
    assert missing == {}


def _takes(ours, theirs):
    """Whether ours has their arguments in their order, perhaps with others among them, or takes any."""
    return {"*", "**"} <= set(ours) or [one for one in ours if one in theirs] == theirs
