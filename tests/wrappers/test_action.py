"""Action wrappers without memory: equality with Gymnasium, its defects, and what is refused."""

import copy
import inspect
import pickle

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock import AutoresetMode, wrappers
from paddock.errors import InvalidAction, InvalidBound, InvalidSpace
from paddock.spaces import Box, Discrete
from paddock.wrappers import vector
from tests.toys import Mover
from tests.wrappers.lanes import Wanderer, lanes

WRAPPERS = [
    ("TransformAction", (lambda action: action / 2, None)),
    ("TransformAction", (lambda action: action / 2, Box(-2, 2, (2,), np.float32))),
    ("ClipAction", ()),
    ("RescaleAction", (-3, 0.5)),
    ("RescaleAction", (np.array([0.0, 1.0]), np.array([1.0, 5.0]))),
    ("DiscretizeAction", (5,)),
    ("DiscretizeAction", ((3, 4), True)),
]
each = pytest.mark.parametrize(("name", "args"), WRAPPERS)


@each
def test_single_wrappers_equal_gymnasiums(name, args, seed):
    mine, theirs = getattr(wrappers, name)(Mover(), *args), paddock.to_gymnasium(Mover())
    theirs = getattr(gymnasium.wrappers, name)(theirs, *args)
    assert str(mine.action_space) == str(theirs.action_space)
    mine.action_space.seed(seed)
    for _ in range(50):
        action = mine.action_space.sample()
        one, other = mine.action(action), theirs.action(action)
        assert np.array_equal(one, other)
        assert one.dtype == other.dtype
        mine.reset()
        mine.step(action)
        assert np.array_equal(mine.unwrapped.actions[-1], one)


@each
def test_vector_wrappers_equal_gymnasiums(name, args, seed):
    if not hasattr(gymnasium.wrappers.vector, name):
        pytest.skip("Gymnasium has it for one environment only")
    offered = ()
    if name == "TransformAction" and args[1] is not None:
        offered = Box(-2, 2, (2,), np.float32), gymnasium.spaces.Box(-2, 2, (2,), np.float32)
    if name == "TransformAction":
        args = args[:1]
    mine, theirs = ({"single_action_space": space} for space in offered) if offered else ({}, {})
    mine = getattr(vector, name)(lanes(AutoresetMode.NEXT_STEP, continuous=True), *args, **mine)
    makers = [lambda lane=lane: paddock.to_gymnasium(Wanderer(lane, continuous=True)) for lane in range(4)]
    theirs = getattr(gymnasium.wrappers.vector, name)(gymnasium.vector.SyncVectorEnv(makers), *args, **theirs)
    assert str(mine.action_space) == str(theirs.action_space)
    mine.action_space.seed(seed)
    for _ in range(20):
        actions = mine.action_space.sample()
        one, other = mine.actions(actions.copy()), theirs.actions(actions.copy())
        assert np.array_equal(one, other)
        assert one.dtype == other.dtype


@each
def test_signatures_bases_and_attributes_are_gymnasiums(name, args):
    for ours, theirs in ((wrappers, gymnasium.wrappers), (vector, gymnasium.wrappers.vector)):
        if not hasattr(theirs, name):
            continue
        one, other = getattr(ours, name), getattr(theirs, name)
        mine, peer = inspect.signature(one).parameters.values(), inspect.signature(other).parameters.values()
        assert [(p.name, p.kind, p.default) for p in mine] == [(p.name, p.kind, p.default) for p in peer]
        for base in ("TransformAction", "VectorizeTransformAction"):
            if hasattr(ours, base) and hasattr(theirs, base):
                assert issubclass(one, getattr(ours, base)) == issubclass(other, getattr(theirs, base))
    mine = getattr(wrappers, name)(Mover(), *args)
    theirs = getattr(gymnasium.wrappers, name)(paddock.to_gymnasium(Mover()), *args)
    for attribute, value in vars(theirs).items():
        if attribute == "bin_centers":
            assert all(map(np.array_equal, mine.bin_centers, value))
        elif not attribute.startswith("_") and attribute not in ("env", "func"):
            assert np.all(getattr(mine, attribute) == value), attribute


@each
def test_copies_pickles_and_specs_rebuild_them(name, args, fresh_registry):
    paddock.register("Moves-v0", "tests.toys:Mover")
    env = getattr(wrappers, name)(paddock.make("Moves-v0"), *args)
    twins = [copy.deepcopy(env)]
    if name != "TransformAction":  # its function is a lambda
        twins += [pickle.loads(pickle.dumps(env)), paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))]
    action = env.action_space.sample()
    for twin in twins:
        assert twin.action_space == env.action_space
        assert np.array_equal(twin.action(action), env.action(action))


@given(st.floats(-100, 100, width=32), st.floats(0.0625, 100, width=32), st.integers(-9, 9), st.integers(1, 9))
def test_rescaled_bounds_stay_in_the_box(low, width, least, span):
    """Gymnasium's +1.0 lands past the bound of one Box in sixteen; a guard refuses that action."""

    class Bounded(Mover):
        def __init__(self):
            super().__init__()
            self.action_space = Box(np.float32(low), np.float32(low) + np.float32(width), (2,), np.float32)

    env = wrappers.RescaleAction(Bounded(), least, least + span)
    for dtype in (np.float32, np.float64):
        for action in (env.action_space.low, env.action_space.high):
            assert np.asarray(env.action(action.astype(dtype)), np.float32) in env.unwrapped.action_space


def test_an_action_outside_stays_outside_for_the_guard_to_refuse(fresh_registry):
    paddock.register("Moves-v0", Mover)
    env = wrappers.RescaleAction(paddock.make("Moves-v0"), -2, 2)
    env.reset()
    env.step(np.full(2, 2, np.float32))
    with pytest.raises(InvalidAction):
        env.step(np.full(2, 2.5, np.float32))


def test_a_subclass_may_change_what_it_does():
    class Halved(wrappers.RescaleAction):
        def action(self, action):
            return super().action(action) / 2

    env = Halved(Mover(), -2, 2)
    env.reset()
    env.step(np.full(2, 2, np.float32))
    env.func = np.zeros_like
    env.step(np.full(2, 2, np.float32))
    assert [action.tolist() for action in env.unwrapped.actions] == [[0.5, 0.5], [0.0, 0.0]]


def test_the_callers_actions_are_left_as_they_were():
    env = vector.RescaleAction(lanes(AutoresetMode.NEXT_STEP, continuous=True), -1, 1)  # the space stays equal
    actions = np.full((4, 2), 0.3, np.float32)
    env.reset(seed=1)
    env.step(actions)
    assert np.array_equal(actions, np.full((4, 2), 0.3, np.float32))


def test_the_middle_of_a_bin_is_told_back():
    for multidiscrete in (False, True):
        mine = wrappers.DiscretizeAction(Mover(), (4, 3), multidiscrete)
        theirs = gymnasium.wrappers.DiscretizeAction(paddock.to_gymnasium(Mover()), (4, 3), multidiscrete)
        for number in range(12):
            action = np.array(divmod(number, 3)) if multidiscrete else number
            assert np.array_equal(mine.revert_action(mine.action(action)), action)
            assert np.array_equal(theirs.revert_action(mine.action(action)), action)


@pytest.mark.parametrize("action", [-1, 12, 1.0, "a", None])
def test_a_bin_that_is_not_there_is_refused(action):
    """Gymnasium takes -1 and 12 for the last bin and the first."""
    with pytest.raises(InvalidAction) as caught:
        wrappers.DiscretizeAction(Mover(), (4, 3)).action(action)
    assert caught.value.action == action


@pytest.mark.parametrize("action", [[-1, 0], [4, 0], [0], [0, 0, 0], 1, [0.5, 0]])
def test_a_bin_of_several_that_is_not_there_is_refused(action):
    with pytest.raises(InvalidAction):
        wrappers.DiscretizeAction(Mover(), (4, 3), True).action(action)


def test_of_lanes_the_error_names_the_lane():
    for args, actions in (((4,), [0, 3, 16, 0]), (((4, 3), True), [[0, 0], [3, 2], [0, 3], [0, 0]])):
        env = vector.DiscretizeAction(lanes(AutoresetMode.NEXT_STEP, continuous=True), *args)
        env.reset(seed=1)
        with pytest.raises(InvalidAction, match="lane 2") as caught:
            env.step(np.array(actions))
        assert caught.value.lane == 2


REFUSED = [
    ("ClipAction", (), False, TypeError, "Box"),
    ("RescaleAction", (-1, 1), False, TypeError, "Box"),
    ("RescaleAction", (1, 1), True, InvalidBound, "strictly smaller"),
    ("RescaleAction", (1, -1), True, ValueError, "less than or equal"),
    ("RescaleAction", (None, 1), True, TypeError, "integer, float"),
    ("DiscretizeAction", (3,), False, TypeError, "Box"),
    ("DiscretizeAction", ((3,),), True, ValueError, "expected 2, got 1"),
    ("DiscretizeAction", ((3, -1),), True, ValueError, "positive"),
]


@pytest.mark.parametrize(("name", "args", "continuous", "error", "text"), REFUSED)
def test_what_can_not_be_done_is_refused_when_made(name, args, continuous, error, text):
    with pytest.raises(error, match=text) as caught:
        getattr(wrappers, name)(Wanderer(continuous=continuous), *args)
    assert isinstance(caught.value, InvalidSpace)
    with pytest.raises(error, match=text):
        getattr(vector, name)(lanes(AutoresetMode.NEXT_STEP, continuous=continuous), *args)


def test_actions_without_bounds_have_no_bins():
    env = Mover()
    env.action_space = Box(-np.inf, 1, (2,), np.float32)
    with pytest.raises(ValueError, match="finite"):
        wrappers.DiscretizeAction(env, 3)


def test_a_batched_space_that_does_not_fit_is_warned_of():
    env = lanes(AutoresetMode.NEXT_STEP)
    with pytest.warns(UserWarning, match="don't match"):
        vector.TransformAction(env, lambda rows: rows, action_space=Discrete(3))
    taken = vector.TransformAction(env, lambda rows: rows % 5, single_action_space=Discrete(9))
    assert (str(taken.single_action_space), str(taken.action_space)) == ("Discrete(9)", "MultiDiscrete([9 9 9 9])")
