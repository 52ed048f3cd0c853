"""Reaching into the environment: attributes, methods, frames and snapshots, at every distance."""

from functools import partial

import numpy as np
import pytest

from paddock.errors import EnvironmentViolation, InvalidSnapshot
from tests.conformance.envs import Dice, Telling, counting
from tests.conformance.one_lane import as_in_lanes
from tests.conformance.tiers import TIERS, call, every_tier, every_tier_and_perl, walled_tiers
from tests.hosting.exactness import assert_same
from tests.spaces.twins import same

pytestmark = pytest.mark.process

five = partial(counting, goal=5)
STILL = np.zeros(2, dtype=np.float32)


@every_tier_and_perl
def test_attributes_are_read_set_and_looked_for(tier):
    with tier.open(five) as env:
        env.reset(seed=1)
        assert env.get_wrapper_attr("goal") == 5
        assert env.has_wrapper_attr("goal") and not env.has_wrapper_attr("gaol")
        env.set_wrapper_attr("goal", 2)
        assert env.get_wrapper_attr("goal") == 2
        assert env.step(2)[2] is True


@every_tier_and_perl
def test_methods_are_called_with_their_arguments(tier):
    with tier.open(five) as env:
        assert call(env, "twice", 21) == 42
        with pytest.raises(AttributeError, match="thrice"):
            call(env, "thrice", 21)


@every_tier
def test_methods_take_and_return_values_of_every_kind(tier):
    with tier.open(five) as env:
        array = np.arange(4, dtype=np.int16)
        assert same(call(env, "twice", value=array), array * 2)
        assert call(env, "twice", ["a", (1, None)]) == ["a", (1, None), "a", (1, None)]


WIRE_VALUES = {
    "none": None,
    "bool": True,
    "int": -7,
    "large-int": 2**80,
    "float": 2.7,
    "text": "déjà ⚅",
    "bytes": b"\x00\xff",
    "list": [1, [2.5, "x"], []],
    "tuple": (1, ("a", None), ()),
    "scalar-float32": np.float32(0.1),
    "scalar-int8": np.int8(-3),
    "scalar-bool": np.bool_(True),
    "scalar-text": np.str_("word"),
    "array": np.arange(6, dtype=np.int32).reshape(2, 3),
    "array-float16": np.array([0.5, -0.0], dtype=np.float16),
    "array-empty": np.zeros((0, 3)),
    "array-text": np.array(["a", "bcd"]),
    "array-objects": np.array([None, "x", 3], dtype=object),
    "dict": {"a": 1, "b": {"c": (1.5, np.arange(2))}},
    "dict-odd-keys": [{1: "one", (2, 3): "pair", None: 0}],
    "complex": 1 + 2j,
}


# What an info may not hold when it comes from behind a wall.
STOPPED_BY_A_WALL = {"scalar-text", "array-text", "array-objects", "dict-odd-keys", "complex"}


@every_tier
@pytest.mark.parametrize("name", ["reset", "step"])
def test_infos_of_every_wire_type_arrive_as_they_are(tier, name):
    stopped = STOPPED_BY_A_WALL if tier.walled else set()
    values = {kind: value for kind, value in WIRE_VALUES.items() if kind not in stopped}
    with tier.open(partial(Telling, values)) as env:
        got = env.reset(seed=1)[1] if name == "reset" else (env.reset(seed=1), env.step(1))[1][4]
        if tier.lanes:
            assert_same(as_in_lanes(got), as_in_lanes(values))
        else:
            assert_same(got, values)


@walled_tiers
@pytest.mark.parametrize("kind", sorted(STOPPED_BY_A_WALL))
def test_what_a_wall_stops_is_named(tier, kind):
    with (
        tier.open(partial(Telling, {kind: WIRE_VALUES[kind]})) as env,
        pytest.raises(EnvironmentViolation, match=kind),
    ):
        env.reset(seed=1)


@every_tier
@pytest.mark.parametrize("mode", [None, "human", "rgb_array", "rgb_array_list", "ansi"])
def test_frames_are_those_of_the_bare_environment(tier, mode):
    bare = Dice(render_mode=mode)
    with tier.open(partial(Dice, render_mode=mode)) as env:
        assert env.render_mode == mode
        assert env.metadata == bare.metadata
        for one in (env, bare):
            one.reset(seed=1)
            one.step(STILL)
            one.step(STILL)
        assert same(env.render(), bare.render())
        assert same(env.render(), bare.render())


@every_tier
def test_a_snapshot_brings_the_episode_back(tier):
    with tier.open(Dice) as env:
        env.reset(seed=7)
        env.step(STILL)
        saved = env.snapshot()
        assert isinstance(saved, bytes)
        first = [env.step(STILL)[:4] for _ in range(3)]
        env.reset()
        env.restore(saved)
        again = [env.step(STILL)[:4] for _ in range(3)]
        assert same(first, again)
        assert first[-1][2] is True


@every_tier
def test_bytes_that_are_no_snapshot_change_nothing(tier):
    with tier.open(partial(_made, "CartPole-v1")) as env:
        first = env.reset(seed=3)[0]
        with pytest.raises(InvalidSnapshot):
            env.restore(b"not a snapshot")
        assert same(env.step(1)[0], _second(first))


def _made(id):
    import paddock

    return paddock.make(id)


def _second(first):
    bare = _made("CartPole-v1")
    assert same(bare.reset(seed=3)[0], first)
    return bare.step(1)[0]


PAIRS = [(one, other) for one in TIERS for other in TIERS if one.lanes == other.lanes and one is not other]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda tier: str(tier))
def test_an_episode_goes_on_at_another_distance(one, other):
    cartpole = partial(_made, "CartPole-v1")
    with one.open(cartpole) as env:
        env.reset(seed=9)
        env.step(1)
        saved = env.snapshot()
        expected = [env.step(action)[:4] for action in (0, 1, 1)]
    with other.open(cartpole) as env:
        env.reset(seed=1)
        env.restore(saved)
        assert same([env.step(action)[:4] for action in (0, 1, 1)], expected)
