"""Errors at every distance: paddock's own as they are, an environment's as EnvFailed that is the built-in class too."""

from functools import partial

import pytest

from paddock.errors import (
    ClosedEnvironmentError,
    EnvFailed,
    InvalidAction,
    InvalidSeed,
    InvalidSnapshot,
    NotTransferable,
    ResetNeeded,
    SnapshotUnsupported,
)
from tests.conformance.envs import Moody, Telling, counting, telling_a_secret
from tests.conformance.tiers import (
    call,
    every_tier,
    every_tier_and_perl,
    far_tiers,
    hosted_tiers,
    hosted_tiers_and_perl,
)

pytestmark = pytest.mark.process

five = partial(counting, goal=5)


@every_tier_and_perl
def test_an_action_outside_its_space_is_refused_and_nothing_happens(tier):
    with tier.open(five) as env:
        env.reset(seed=1)
        env.step(1)
        with pytest.raises(InvalidAction, match=r"4.*Discrete\(4\)"):
            env.step(4)
        observation, reward, *_ = env.step(2)
        assert (observation[0], reward) == (3, 1.0)


@every_tier_and_perl
def test_a_step_before_reset_is_refused(tier):
    with tier.open(five) as env:
        with pytest.raises(ResetNeeded):
            env.step(1)
        env.reset(seed=1)
        assert env.step(1)[0][0] == 1


@every_tier_and_perl
def test_a_step_after_the_end_is_refused(tier):
    with tier.open(five) as env:
        env.reset(seed=1)
        for _ in range(3):
            ended = env.step(2)[2]
        assert ended
        with pytest.raises(ResetNeeded):
            env.step(1)
        env.reset()
        assert env.step(1)[0][0] == 1


@every_tier_and_perl
def test_an_environments_value_error_is_a_value_error(tier):
    with tier.open(five) as env:
        env.reset(seed=1)
        with pytest.raises(ValueError, match="three is not counted") as caught:
            env.step(3)
        if tier.hosted:
            assert isinstance(caught.value, EnvFailed)
            assert caught.value.error_type == "ValueError"
        env.reset(seed=1)
        assert env.step(1)[0][0] == 1


@every_tier
def test_an_exception_class_of_the_environments_own_is_named(tier):
    with tier.open(Moody) as env:
        env.reset(seed=1)
        with pytest.raises(Exception, match="no more today") as caught:
            env.step(2)
        assert getattr(caught.value, "error_type", type(caught.value).__name__) == "Tantrum"
        env.reset(seed=1)
        assert env.step(0)[0][0] == 1


@hosted_tiers
def test_an_error_shows_where_it_arose_at_the_far_end(tier):
    with tier.open(Moody) as env:
        env.reset(seed=1)
        with pytest.raises(EnvFailed) as caught:
            env.step(2)
        assert "envs.py" in caught.value.trace and "raise Tantrum" in caught.value.trace
        assert "raise Tantrum" in str(caught.value.__cause__)


@hosted_tiers
def test_an_environment_that_leaves_takes_nobody_with_it(tier):
    with tier.open(Moody) as env:
        env.reset(seed=1)
        with pytest.raises(EnvFailed) as caught:
            env.step(3)
        assert caught.value.error_type == "SystemExit"
        env.reset(seed=1)
        assert env.step(0)[0][0] == 1


@hosted_tiers
def test_an_error_in_a_method_is_named_and_the_episode_goes_on(tier):
    with tier.open(Moody) as env:
        env.reset(seed=1)
        with pytest.raises(EnvFailed, match="not that again") as caught:
            call(env, "complain")
        assert caught.value.error_type == "Tantrum"
        assert env.step(0)[0][0] == 1


@far_tiers
def test_what_cannot_cross_is_named_with_its_place_and_type(tier):
    with tier.open(telling_a_secret) as env:
        env.reset(seed=1)
        with pytest.raises(NotTransferable, match=r"info\['debug'\]\['viewer'\]\[1\] is a .*Unspeakable"):
            env.step(1)
        assert env.reset(seed=1)[0][0] == 0


@far_tiers
def test_an_attribute_that_cannot_cross_is_named(tier):
    with tier.open(Telling) as env:
        env.reset(seed=1)
        with pytest.raises(NotTransferable, match=r"viewer is a .*Unspeakable"):
            env.get_wrapper_attr("viewer")
        assert env.step(1)[0][0] == 1


@every_tier_and_perl
def test_a_seed_that_is_none_is_refused_before_anything_happens(tier):
    with tier.open(five) as env:
        env.reset(seed=1)
        env.step(1)
        with pytest.raises(InvalidSeed):
            env.reset(seed=-1)
        assert env.step(1)[0][0] == 2


@every_tier_and_perl
def test_an_environment_without_snapshots_says_so(tier):
    with tier.open(five) as env:
        env.reset(seed=1)
        with pytest.raises(SnapshotUnsupported):
            env.snapshot()
        with pytest.raises((SnapshotUnsupported, InvalidSnapshot)):
            env.restore(b"anything")
        assert env.step(1)[0][0] == 1


@hosted_tiers_and_perl
def test_use_after_close_is_refused(tier):
    env = tier.open(five)
    env.reset(seed=1)
    env.close()
    for use in (env.reset, lambda: env.step(1), env.snapshot, lambda: env.get_wrapper_attr("goal")):
        with pytest.raises(ClosedEnvironmentError):
            use()


@hosted_tiers
def test_an_environment_that_cannot_be_made_says_why(tier):
    with pytest.raises(TypeError, match="unexpected keyword"):
        tier.open(partial(counting, gaol=5))
