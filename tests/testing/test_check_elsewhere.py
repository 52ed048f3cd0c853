"""find() on an environment in another process: judged like one here, and never made again on this side."""

import os

import pytest

import paddock
from paddock.core.spec import EnvSpec
from paddock.testing import find
from tests.toys import Counter


class Unseeded(Counter):
    """Does not seed its stream."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None, options=options)


@pytest.fixture
def elsewhere(fresh_registry, monkeypatch):
    """``elsewhere(entry_point)``: an environment in a process of its own, whose spec must not be made."""
    made = []

    def make(entry_point):
        paddock.register("test/Elsewhere-v0", entry_point)
        env = paddock.make("test/Elsewhere-v0", isolation="process", validate=False)
        made.append(env)
        monkeypatch.setattr(EnvSpec, "make", lambda *args, **kwargs: pytest.fail(f"made in {os.getpid()}"))
        return env

    yield make
    for env in made:
        env.close()


@pytest.mark.process
def test_good_environment_elsewhere_has_no_errors_and_is_not_made_here(elsewhere):
    found = find(elsewhere("paddock.envs.classic_control.cartpole:CartPoleEnv"))
    assert [finding for finding in found if finding.level == "error"] == []


@pytest.mark.process
def test_stream_elsewhere_that_no_seed_reaches_is_found(elsewhere):
    assert "rng-not-seeded" in {
        finding.rule for finding in find(elsewhere("tests.testing.test_check_elsewhere:Unseeded"))
    }
