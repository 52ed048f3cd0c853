"""Lanes in Ray actors: in a cluster where Ray is installed, and what is decided without it."""

import secrets
import tempfile

import pytest

import paddock
from paddock import LaneOptions
from paddock.agentic import rollout
from paddock.errors import DependencyNotInstalled, PlanError
from paddock.making import locate, plan
from tests.peers import ROOT, pytest_with_peer


@pytest.mark.peers
@pytest.mark.full
def test_lanes_in_a_cluster_of_two_nodes(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else it writes one into the home
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # not tmp_path: too long for its sockets
        monkeypatch.setenv("RAY_TMPDIR", folder)
        printed = pytest_with_peer("rllib", ROOT / "tests/vector/ray_trials.py", cwd=folder, timeout=900)
    assert "passed" in printed


def test_without_ray_the_error_says_what_to_install():
    with pytest.raises(DependencyNotInstalled, match="pip install ray"):
        paddock.make_vec("CartPole-v1", 4, backend="ray")


def test_the_plan_says_where_lanes_step():
    decided = plan(locate("CartPole-v1"), num_envs=64, backend="ray", lanes=LaneOptions(lanes_per_actor=16))
    (line,) = [how for what, how in decided.lines() if what == "lanes"]
    assert line.startswith("64, in actors of a Ray cluster, 16 to an actor; there compiled")
    walled = plan(locate("CartPole-v1"), num_envs=8, backend="ray", isolation="sandbox", lanes=LaneOptions(workers=2))
    (line,) = [how for what, how in walled.lines() if what == "lanes"]
    assert "there in 2 workers" in line and walled.isolation == "sandbox"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lanes": LaneOptions(lanes_per_actor=4)}, "are for lanes in Ray actors"),
        ({"backend": "ray", "lanes": LaneOptions(workers=4)}, "are for lanes in worker processes"),
        ({"backend": "ray", "lanes": LaneOptions(batch_size=2)}, "step together"),
        ({"backend": "ray", "lanes": LaneOptions(lanes_per_actor=0)}, "at least 1"),
        ({"backend": "ray", "lanes": LaneOptions(resources={"CPU": -1})}, "amounts by name"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    with pytest.raises(PlanError, match=words):
        plan(locate("CartPole-v1"), num_envs=4, **options)


def test_what_can_not_be_placed_is_refused():
    with pytest.raises(PlanError, match="for n lanes"):
        plan(locate("CartPole-v1"), backend="ray", isolation="sandbox")
    with pytest.raises(PlanError, match="or its id"):
        rollout(paddock.make("CartPole-v1"), lambda turn: 0, tasks=1, backend="ray")
    with pytest.raises(PlanError, match="'auto' or 'ray'"):
        rollout("CartPole-v1", lambda turn: 0, tasks=1, backend="dask")
