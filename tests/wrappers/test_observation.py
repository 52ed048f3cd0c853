"""Observation wrappers without memory: equality with Gymnasium, its defects, and what is refused."""

import builtins
import copy
import inspect
import pickle

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import paddock
from paddock import AutoresetMode, wrappers
from paddock.errors import DependencyNotInstalled, InvalidSpace
from paddock.spaces import Box, Discrete
from paddock.wrappers import vector
from paddock.wrappers.rescale import Stretch
from tests.wrappers.lanes import Wanderer, lanes
from tests.wrappers.likeness import alike, as_text

# name, arguments, kind of observation
WRAPPERS = [
    ("TransformObservation", (lambda values: values * 2 + 1, None), "array"),
    ("FilterObservation", (["values", "count"],), "dict"),
    ("FilterObservation", ((1,),), "pair"),
    ("FlattenObservation", (), "bounded"),
    ("FlattenObservation", (), "dict"),
    ("FlattenObservation", (), "nested"),
    ("FlattenObservation", (), "pair"),
    ("FlattenObservation", (), "discrete"),
    ("FlattenObservation", (), "counts"),
    ("GrayscaleObservation", (), "picture"),
    ("GrayscaleObservation", (True,), "picture"),
    ("ResizeObservation", ((2, 5),), "picture"),
    ("ResizeObservation", ((6, 2),), "image"),
    ("ReshapeObservation", ((1, 2, 1),), "bounded"),
    ("RescaleObservation", (-1, 3), "bounded"),
    ("RescaleObservation", (np.array([[0], [1]], np.float32), np.array([[0.5], [9]], np.float32)), "bounded"),
    ("DtypeObservation", (np.float64,), "bounded"),
    ("DtypeObservation", (np.float32,), "discrete"),
    ("DtypeObservation", (np.int32,), "counts"),
    ("DtypeObservation", (np.float32,), "flags"),
    ("DiscretizeObservation", (7,), "bounded"),
    ("DiscretizeObservation", ((3, 5), True), "bounded"),
]
each = pytest.mark.parametrize(("name", "args", "kind"), WRAPPERS)


@each
def test_single_wrappers_equal_gymnasiums(name, args, kind, seed):
    mine = getattr(wrappers, name)(Wanderer(2, observation=kind), *args)
    theirs = getattr(gymnasium.wrappers, name)(paddock.to_gymnasium(Wanderer(2, observation=kind)), *args)
    assert as_text(mine.observation_space) == as_text(theirs.observation_space)
    mine.action_space.seed(seed)
    (one, _), (other, _) = mine.reset(seed=seed), theirs.reset(seed=seed)
    assert alike(one, other)
    assert type(one) is type(other)
    assert one in mine.observation_space
    for _ in range(60):
        action = mine.action_space.sample()
        one, other = mine.step(action), theirs.step(action)
        assert alike(one[0], other[0])
        assert one[1:4] == other[1:4]
        if one[2] or one[3]:
            assert alike(mine.reset()[0], theirs.reset()[0])


@each
def test_vector_wrappers_equal_gymnasiums(name, args, kind, seed):
    theirs = getattr(gymnasium.wrappers.vector, name, None)
    if theirs is None:
        pytest.skip("Gymnasium has it for one environment only")
    mine = getattr(vector, name)(lanes(AutoresetMode.NEXT_STEP, observation=kind), *args)
    makers = [lambda lane=lane: paddock.to_gymnasium(Wanderer(lane, observation=kind)) for lane in range(4)]
    theirs = theirs(gymnasium.vector.SyncVectorEnv(makers), *args)
    assert as_text(mine.observation_space) == as_text(theirs.observation_space)
    mine.action_space.seed(seed)
    assert alike(mine.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
    for _ in range(40):
        actions = mine.action_space.sample()
        assert alike(mine.step(actions)[:4], theirs.step(actions)[:4])


@each
def test_signatures_bases_and_attributes_are_gymnasiums(name, args, kind):
    for ours, theirs in ((wrappers, gymnasium.wrappers), (vector, gymnasium.wrappers.vector)):
        if not hasattr(theirs, name):
            continue
        one, other = getattr(ours, name), getattr(theirs, name)
        mine, peer = inspect.signature(one).parameters.values(), inspect.signature(other).parameters.values()
        assert [(p.name, p.kind, p.default) for p in mine] == [(p.name, p.kind, p.default) for p in peer]
        for base in ("TransformObservation", "VectorizeTransformObservation"):
            if hasattr(ours, base) and hasattr(theirs, base):
                assert issubclass(one, getattr(ours, base)) == issubclass(other, getattr(theirs, base))
    mine = getattr(wrappers, name)(Wanderer(observation=kind), *args)
    theirs = getattr(gymnasium.wrappers, name)(paddock.to_gymnasium(Wanderer(observation=kind)), *args)
    for attribute, value in vars(theirs).items():
        if attribute == "bin_edges":
            assert all(map(np.array_equal, mine.bin_edges, value))
        elif not attribute.startswith("_") and attribute not in ("env", "func"):
            assert np.all(getattr(mine, attribute) == value), attribute


@each
def test_they_survive_copying_pickling_and_snapshots(name, args, kind):
    env = getattr(wrappers, name)(Wanderer(observation=kind), *args)
    first = env.reset(seed=3)[0]
    twins = [copy.deepcopy(env)]
    if name != "TransformObservation":  # its function is a lambda
        twins.append(pickle.loads(pickle.dumps(env)))
    for twin in twins:
        assert alike(twin.reset(seed=3)[0], first)


@each
def test_the_spec_rebuilds_them_from_json(name, args, kind, fresh_registry):
    paddock.register("Kinds-v0", Wanderer, kwargs={"observation": kind})
    if name == "TransformObservation":
        with pytest.raises(paddock.errors.InvalidSpec, match="Callable"):
            getattr(wrappers, name)(paddock.make("Kinds-v0"), *args).spec.to_json()
        return
    paddock.register("Kinds-v0", "tests.wrappers.lanes:Wanderer", kwargs={"observation": kind})
    env = getattr(wrappers, name)(paddock.make("Kinds-v0"), *args)
    again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))
    assert type(again) is type(env)
    assert again.observation_space == env.observation_space
    assert alike(again.reset(seed=4)[0], env.reset(seed=4)[0])


@pytest.mark.parametrize("name", sorted({row[0] for row in WRAPPERS}))
def test_same_step_shows_the_last_observation_through_the_wrapper(name):
    _, args, kind = next(row for row in WRAPPERS if row[0] == name)
    env = getattr(vector, name)(lanes(AutoresetMode.SAME_STEP, 2, chance=1.0, observation=kind), *args)
    env.reset(seed=1)
    *_, infos = env.step(np.zeros(2, np.int64))
    assert all(final in env.single_observation_space for final in infos["final_obs"])


def test_a_function_of_all_lanes_may_depend_on_the_lane_under_SAME_STEP_too():
    scale = np.arange(1, 5, dtype=np.float32)[:, None]
    env = vector.TransformObservation(lanes(AutoresetMode.SAME_STEP, chance=0.5), lambda rows: rows * scale)
    plain = lanes(AutoresetMode.SAME_STEP, chance=0.5)
    env.reset(seed=1), plain.reset(seed=1)
    ended = 0
    for _ in range(10):
        (one, *_, told), (other, *_, expected) = env.step([0] * 4), plain.step([0] * 4)
        assert np.array_equal(one, other * scale)
        for lane in np.flatnonzero(told.get("_final_obs", [])):
            ended += 1
            assert np.array_equal(told["final_obs"][lane], expected["final_obs"][lane] * scale[lane])
    assert ended > 5


def test_what_the_lanes_gave_is_left_as_it_was():
    rows = np.arange(8, dtype=np.float32).reshape(4, 2, 1)
    env = vector.RescaleObservation(lanes(AutoresetMode.NEXT_STEP, observation="bounded"), -4, 12)  # space stays equal
    before = rows.copy()
    env.observations(rows)
    assert np.array_equal(rows, before)  # Gymnasium writes its results into the batch that it was given


def test_the_function_can_be_replaced_and_holds_for_last_observations_too():
    many = vector.TransformObservation(lanes(AutoresetMode.SAME_STEP, 2, chance=1.0), lambda rows: rows)
    many.func = lambda rows: rows * 0 - 5
    many.reset(seed=1)
    observations, *_, infos = many.step([0, 0])
    assert observations.tolist() == np.stack(infos["final_obs"]).tolist() == [[-5, -5]] * 2
    env = wrappers.TransformObservation(Wanderer(), lambda values: values, None)
    env.func = lambda values: values * 0 - 5
    assert env.reset(seed=1)[0].tolist() == env.step(1)[0].tolist() == [-5, -5]


def test_a_subclass_may_change_what_it_shows():
    class Doubled(wrappers.RescaleObservation):
        def observation(self, observation):
            return 2 * super().observation(observation)

    env, plain = (cls(Wanderer(observation="bounded"), 0, 1) for cls in (Doubled, wrappers.RescaleObservation))
    assert np.array_equal(env.reset(seed=1)[0], 2 * plain.reset(seed=1)[0])
    assert np.array_equal(env.step(1)[0], 2 * plain.step(1)[0])


def test_send_and_recv_show_what_step_shows():
    halves, whole = (
        vector.RescaleObservation(lanes(AutoresetMode.SAME_STEP, chance=0.5, observation="bounded"), 0, 1)
        for _ in range(2)
    )
    halves.reset(seed=2), whole.reset(seed=2)
    for _ in range(10):
        halves.send([1] * 4)
        one, other = halves.recv(), whole.step([1] * 4)
        assert alike(one[:4], other[:4])
        assert alike(one[4].get("final_obs", ()), other[4].get("final_obs", ()))


@given(
    arrays.arrays(np.float32, 3, elements=st.floats(-1e3, 1e3, width=32)),
    arrays.arrays(np.float32, 3, elements=st.floats(0.015625, 1e3, width=32)),
    st.floats(-9, 9),
    st.floats(0.01, 9),
    st.data(),
)
def test_rescaling_keeps_members_members_both_ways(low, width, new_low, new_width, data):
    box = Box(low, low + width, dtype=np.float32)
    stretch = Stretch(box, new_low, new_low + new_width)
    values = [box.low, box.high, data.draw(arrays.arrays(np.float32, 3, elements=st.floats(0, 1, width=32)))]
    values[2] = np.clip(box.low + values[2] * (box.high - box.low), box.low, box.high)
    for value in values:
        assert stretch.forward(value) in stretch.target
    share = values[2] if width.any() else 0
    for value in (stretch.target.low, stretch.target.high, np.clip(share, stretch.target.low, stretch.target.high)):
        assert stretch.backward(value) in box
        assert np.asarray(stretch.backward(value.astype(np.float64)), np.float32) in box


def test_rescaling_an_integer_box_rounds():
    env = wrappers.RescaleObservation(Wanderer(observation="image"), 0, 10)
    assert env.observation(np.full((3, 2), 200, np.uint8)).tolist() == [[8, 8]] * 3
    assert env.observation(np.full((3, 2), 255, np.uint8)) in env.observation_space
    theirs = gymnasium.wrappers.RescaleObservation(paddock.to_gymnasium(Wanderer(observation="image")), 0, 10)
    assert not theirs.observation(np.full((3, 2), 200, np.uint8)).any()  # a slope below 1 is 0 there


def test_a_dimension_without_width_is_shown_at_the_lower_bound():
    stretch = Stretch(Box(np.array([1.0, 0.0]), np.array([1.0, 2.0]), dtype=np.float64), -1, 1)
    assert stretch.forward(np.array([1.0, 2.0])).tolist() == [-1.0, 1.0]


def test_bins_are_told_back_as_bounds():
    env = wrappers.DiscretizeObservation(Wanderer(observation="bounded"), (4, 2))
    theirs = gymnasium.wrappers.DiscretizeObservation(paddock.to_gymnasium(Wanderer(observation="bounded")), (4, 2))
    for number in range(8):
        mine, peer = env.revert_observation(number), theirs.revert_observation(number)
        assert alike(mine, peer)
        assert env.observation((mine[0] + mine[1]) / 2) == number


@pytest.mark.parametrize("multidiscrete", [False, True])
@given(numbers=arrays.arrays(np.float32, (2, 1), elements=st.floats(-50, 50, width=32)))
def test_bins_equal_gymnasiums(multidiscrete, numbers):
    mine = wrappers.DiscretizeObservation(Wanderer(observation="bounded"), (7, 16), multidiscrete)
    theirs = gymnasium.wrappers.DiscretizeObservation(
        paddock.to_gymnasium(Wanderer(observation="bounded")), (7, 16), multidiscrete
    )
    assert np.array_equal(mine.observation(numbers), theirs.observation(numbers))
    assert np.array_equal(mine._rows(numbers[None])[0], theirs.observation(numbers))


@given(arrays.arrays(np.uint8, (4, 3, 3)))
def test_grey_is_gymnasiums_to_the_byte(picture):
    env = wrappers.GrayscaleObservation(Wanderer(observation="picture"))
    expected = np.sum(np.multiply(picture, np.array([0.2125, 0.7154, 0.0721])), axis=-1).astype(np.uint8)
    assert np.array_equal(env.observation(picture), expected)
    assert np.array_equal(env._rows(picture[None])[0], expected)


# What is refused, with the classes that Gymnasium raises.

REFUSED = [
    ("FilterObservation", ({"values"},), "dict", TypeError, "Sequence"),
    ("FilterObservation", (["nothing"],), "dict", ValueError, "Missing keys: .'nothing'"),
    ("FilterObservation", ([1],), "dict", TypeError, "strings"),
    ("FilterObservation", ([],), "dict", ValueError, "empty"),
    ("FilterObservation", (["a"],), "pair", TypeError, "integers"),
    ("FilterObservation", ([2],), "pair", ValueError, "missing indexes: .2"),
    ("FilterObservation", ([-3],), "pair", ValueError, "missing indexes: .-3"),
    ("FilterObservation", ([1, 1],), "pair", ValueError, "Duplicate"),
    ("FilterObservation", ([1, -1],), "pair", ValueError, "Duplicate"),
    ("FilterObservation", (["a"],), "array", ValueError, "only usable"),
    ("GrayscaleObservation", (), "dict", TypeError, "Box"),
    ("GrayscaleObservation", (), "image", ValueError, "3 channels"),
    ("GrayscaleObservation", (), "array", ValueError, "0 to 255"),
    ("ResizeObservation", ((2, 2),), "array", ValueError, "0 to 255"),
    ("ResizeObservation", (2,), "image", TypeError, "tuple"),
    ("ResizeObservation", ((2, 2, 2),), "image", ValueError, "length 2"),
    ("ResizeObservation", ((2.0, 2),), "image", TypeError, "integers"),
    ("ResizeObservation", ((2, 0),), "image", ValueError, "greater than 0"),
    ("ReshapeObservation", ((2,),), "dict", TypeError, "Box"),
    ("ReshapeObservation", ((3,),), "array", ValueError, "product"),
    ("ReshapeObservation", (2,), "array", TypeError, "tuple"),
    ("ReshapeObservation", ((2.0,),), "array", TypeError, "integers"),
    ("ReshapeObservation", ((-2, -1),), "array", ValueError, "greater than 0"),
    ("RescaleObservation", (0, 1), "dict", TypeError, "Box"),
    ("RescaleObservation", (0, 1), "array", ValueError, "infinity"),
    ("RescaleObservation", (1, 0), "bounded", ValueError, "less than or equal"),
    ("RescaleObservation", ("0", 1), "bounded", TypeError, "integer, float"),
    ("RescaleObservation", (np.zeros(3), 1), "bounded", ValueError, "shape"),
    ("DtypeObservation", (np.float32,), "dict", TypeError, "requires a Box"),
    ("DiscretizeObservation", (3,), "dict", TypeError, "Box"),
    ("DiscretizeObservation", (3,), "array", ValueError, "finite"),
    ("DiscretizeObservation", ((3, 3, 3),), "bounded", ValueError, "expected 2, got 3"),
    ("DiscretizeObservation", (0,), "bounded", ValueError, "positive"),
]


@pytest.mark.parametrize(("name", "args", "kind", "error", "text"), REFUSED)
def test_what_can_not_be_done_is_refused_when_made(name, args, kind, error, text):
    with pytest.raises(error, match=text) as caught:
        getattr(wrappers, name)(Wanderer(observation=kind), *args)
    assert isinstance(caught.value, InvalidSpace)
    with pytest.raises(error, match=text):
        getattr(vector, name)(lanes(AutoresetMode.NEXT_STEP, observation=kind), *args)


@pytest.mark.parametrize(
    "make",
    [
        lambda: wrappers.ResizeObservation(Wanderer(observation="image"), (2, 2)),
        lambda: vector.ResizeObservation(lanes(AutoresetMode.NEXT_STEP, observation="image"), (2, 2)),
    ],
)
def test_without_opencv_one_error_names_the_command_when_made(monkeypatch, make):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "cv2":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DependencyNotInstalled, match="run `pip install opencv-python-headless`"):
        make()


def test_a_batched_space_that_does_not_fit_is_warned_of():
    env = lanes(AutoresetMode.NEXT_STEP)
    with pytest.warns(UserWarning, match="don't match"):
        vector.TransformObservation(env, lambda rows: rows, observation_space=Box(0, 1, (4, 3)))
    seen = vector.TransformObservation(env, lambda rows: rows[:, 0], single_observation_space=Discrete(9))
    assert (str(seen.single_observation_space), str(seen.observation_space)) == (
        "Discrete(9)",
        "MultiDiscrete([9 9 9 9])",
    )
