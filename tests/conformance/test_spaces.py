"""Every space, as observation and as action, at every distance: what arrives is what was sent, to the last bit."""

from functools import partial

import pytest

from paddock.errors import BadFrame, EnvironmentViolation
from tests.conformance.envs import Colour, Sampled
from tests.conformance.one_lane import as_in_lanes
from tests.conformance.tiers import every_tier, hosted_tiers, reopen
from tests.spaces.twins import CATALOGUE, same

pytestmark = pytest.mark.process

# Every class of space, each way of nesting, and each width of number once; the whole catalogue runs with `full`.
CHOSEN = [
    "box",
    "box-scalar",
    "box-float16",
    "box-free",
    "box-empty",
    "box-image",
    "box-int64-large",
    "box-uint64",
    "box-bool",
    "discrete",
    "discrete-start",
    "discrete-int8",
    "multi-discrete",
    "multi-discrete-axes",
    "multi-binary-axes",
    "text",
    "text-charset",
    "tuple",
    "tuple-empty",
    "tuple-nested",
    "dict",
    "dict-in-order",
    "sequence",
    "sequence-stack-dict",
    "sequence-text",
    "graph",
    "graph-no-edges",
    "graph-dict",
    "one-of",
    "one-of-small",
]
MAKERS = {**CATALOGUE, "custom": Colour}
NAMES = [pytest.param(name, marks=[] if name in (*CHOSEN, "custom") else pytest.mark.full) for name in MAKERS]


def sampled(name):
    """By name: the makers are no functions that a fresh interpreter could import."""
    return Sampled(MAKERS[name])


@every_tier
@pytest.mark.parametrize("name", NAMES)
def test_observations_and_actions_arrive_as_they_were_sent(tier, name):
    if tier.lanes and name == "tuple-empty":
        pytest.skip("a batch of empty tuples has no length")
    alike = same_in_lanes if tier.lanes else same
    factory = partial(sampled, name)
    bare, actions = factory(), MAKERS[name]()
    actions.seed(8)
    spaces = (MAKERS[name](), MAKERS[name]()) if name == "custom" else None
    with reopen(tier, factory, spaces=spaces) as env:
        assert env.observation_space == bare.observation_space
        assert env.action_space == bare.action_space
        assert alike(env.reset(seed=5)[0], bare.reset(seed=5)[0])
        for _ in range(3):
            action = actions.sample()
            assert alike(env.step(action)[0], bare.step(action)[0])
            assert alike(env.get_wrapper_attr("last_action"), action)


def same_in_lanes(one, other):
    return same(as_in_lanes(one), as_in_lanes(other))


@hosted_tiers
def test_a_space_of_ones_own_class_must_be_given_or_made_here(tier):
    factory = partial(sampled, "custom")
    if tier.lanes:  # lanes ask the factory in this process
        with tier.open(factory) as env:
            assert type(env.observation_space) is Colour
    else:
        refused = (EnvironmentViolation, "class is the environment's own") if tier.walled else (BadFrame, "Colour")
        with pytest.raises(refused[0], match=refused[1]):
            tier.open(factory)
