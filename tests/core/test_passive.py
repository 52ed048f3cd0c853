"""Passive checks: what raises, what warns, and that Gymnasium judges the same values the same way."""

import re
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import passive_env_checker as theirs

from paddock import spaces
from paddock.core.checks import check_spaces, render_and_check, reset_and_check, step_and_check
from paddock.core.env import Env
from paddock.errors import CheckFailed, InvalidAction, MissingSpace, WrongClass
from paddock.gym.utils import passive_env_checker as ours
from paddock.spaces import Box, Discrete
from paddock.wrappers.guard import Guard


class Scripted(Env):
    """Returns what it was given."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, space=None, *, reset=(0, {}), step=(0, 1.0, False, False, {}), frame=None, render_mode=None):
        self.observation_space = Discrete(2) if space is None else space
        self.action_space = Discrete(2)
        self.render_mode = render_mode
        self.answers = {"reset": reset, "step": step, "render": frame}

    def reset(self, *, seed=None, options=None):
        return self.answers["reset"]

    def step(self, action):
        return self.answers["step"]

    def render(self):
        return self.answers["render"]


class GymnasiumScripted(gymnasium.Env):
    metadata = Scripted.metadata
    __init__, reset, step, render = Scripted.__init__, Scripted.reset, Scripted.step, Scripted.render


def judged(call, *args):
    """(error or None, texts of the warnings) of a call; colours and prefixes removed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(*args)
            error = None
        except Exception as raised:
            error = raised
    return error, [re.sub(r"\x1b\[\d+m|WARN: ", "", str(each.message)) for each in caught]


def same_judgement(own, their):
    """Both raise, or both warn, and the first text begins alike."""
    (own_error, own_texts), (their_error, their_texts) = own, their
    assert (own_error is None) == (their_error is None), (own_error, their_error)
    assert bool(own_texts) == bool(their_texts), (own_texts, their_texts)
    assert str(own_error)[:40] == str(their_error)[:40]
    assert "".join(own_texts)[:27] == "".join(their_texts)[:27]


def both(make):
    return make(spaces), make(gymnasium.spaces)


OBSERVATIONS = {
    "int": (lambda s: s.Discrete(3), 1),
    "np.int64": (lambda s: s.Discrete(3), np.int64(2)),
    "np.int32": (lambda s: s.Discrete(3), np.int32(2)),
    "int outside": (lambda s: s.Discrete(3), 3),
    "text for int": (lambda s: s.Discrete(3), "1"),
    "array": (lambda s: s.Box(0, 1, (2,), np.float32), np.zeros(2, np.float32)),
    "list": (lambda s: s.Box(0, 1, (2,), np.float32), [0.0, 0.0]),
    "dtype": (lambda s: s.Box(0, 1, (2,), np.float32), np.zeros(2)),
    "shape": (lambda s: s.Box(0, 1, (2,), np.float32), np.zeros(3, np.float32)),
    "bounds": (lambda s: s.Box(0, 1, (2,), np.float32), np.full(2, 2, np.float32)),
    "nan": (lambda s: s.Box(0, 1, (2,), np.float32), np.full(2, np.nan, np.float32)),
    "without axes": (lambda s: s.Box(0, 1, (), np.float32), np.array(0.5, np.float32)),
    "bits": (lambda s: s.MultiBinary(2), np.zeros(2, np.int8)),
    "list of bits": (lambda s: s.MultiBinary(2), [2, 0]),
    "numbers": (lambda s: s.MultiDiscrete([2, 2]), np.array([5, 0])),
    "tuple": (lambda s: s.Tuple((s.Discrete(2), s.Discrete(2))), (0, 1)),
    "list for tuple": (lambda s: s.Tuple((s.Discrete(2), s.Discrete(2))), [0, 1]),
    "short tuple": (lambda s: s.Tuple((s.Discrete(2), s.Discrete(2))), (0,)),
    "no tuple": (lambda s: s.Tuple((s.Discrete(2), s.Discrete(2))), 3),
    "dict": (lambda s: s.Dict(a=s.Discrete(2)), {"a": 0}),
    "keys": (lambda s: s.Dict(a=s.Discrete(2)), {"b": 0}),
    "no dict": (lambda s: s.Dict(a=s.Discrete(2)), [0]),
    "value in dict": (lambda s: s.Dict(a=s.Discrete(2)), {"a": 9}),
    "text": (lambda s: s.Text(3), "abc"),
    "long text": (lambda s: s.Text(3), "abcd"),
}


@pytest.mark.parametrize(("make", "value"), OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_observations_are_judged_as_in_gymnasium(make, value):
    own_space, their_space = both(make)
    own = judged(ours.check_obs, value, own_space, "step")
    their = judged(theirs.check_obs, value, their_space, "step")
    if isinstance(their[0], TypeError):  # len() of something without a length: an accident, ours names the mistake
        their = own[0], their[1]
    same_judgement(own, their)


SPACES = {
    "box": lambda s: s.Box(0, 1, (2,)),
    "equal bounds": lambda s: s.Box(0, 0, (2,)),
    "equal bounds without axes": lambda s: s.Box(0, 0, ()),
    "empty dict": lambda s: s.Dict({}),
    "empty tuple": lambda s: s.Tuple(()),
    "nested": lambda s: s.Tuple((s.Dict(a=s.Box(0, 0, (1,))), s.Discrete(2))),
    "not a space": lambda s: 3,
    "a changed Discrete": lambda s: changed(s.Discrete(2), n=0),
    "a changed MultiDiscrete": lambda s: changed(s.MultiDiscrete([2]), nvec=np.array([0])),
    "an odd subclass of Box": lambda s: odd_box(s),
}


class OddBox(Box):
    low = np.zeros(3)


def odd_box(s):
    # The bounds of our Box can't be set, those of Gymnasium's can.
    return OddBox(0, 1, (2,)) if s is spaces else changed(s.Box(0, 1, (2,)), low=np.zeros(3))


def changed(space, **values):
    for name, value in values.items():
        setattr(space, name, value)
    return space


@pytest.mark.parametrize("kind", ["observation", "action"])
@pytest.mark.parametrize("make", SPACES.values(), ids=SPACES)
def test_spaces_are_judged_as_in_gymnasium(make, kind):
    own_space, their_space = both(make)
    own = judged(getattr(ours, f"check_{kind}_space"), own_space)
    same_judgement(own, judged(getattr(theirs, f"check_{kind}_space"), their_space))


STEPS = {
    "good": (0, 1.0, False, False, {}),
    "numpy": (0, np.float32(1), np.bool_(True), np.bool_(False), {}),
    "four": (0, 1.0, False, {}),
    "four, done is an int": (0, 1.0, 0, {}),
    "three": (0, 1.0, {}),
    "a list": [0, 1.0, False, False, {}],
    "terminated is an int": (0, 1.0, 0, False, {}),
    "truncated is None": (0, 1.0, False, None, {}),
    "reward is an array": (0, np.ones(1), False, False, {}),
    "reward is a bool": (0, True, False, False, {}),
    "reward is NaN": (0, float("nan"), False, False, {}),
    "reward is infinite": (0, -np.inf, False, False, {}),
    "reward is text": (0, "1", False, False, {}),
    "info is None": (0, 1.0, False, False, None),
    "observation outside": (7, 1.0, False, False, {}),
}


@pytest.mark.parametrize("result", STEPS.values(), ids=STEPS)
def test_steps_are_judged_as_in_gymnasium(result):
    own = judged(ours.env_step_passive_checker, Scripted(step=result), 0)
    env = GymnasiumScripted(gymnasium.spaces.Discrete(2), step=result)
    same_judgement(own, judged(theirs.env_step_passive_checker, env, 0))


RESETS = {
    "good": (0, {}),
    "no tuple": 0,
    "three": (0, {}, 1),
    "info is a list": (0, []),
    "observation outside": (5, {}),
}


@pytest.mark.parametrize("result", RESETS.values(), ids=RESETS)
def test_resets_are_judged_as_in_gymnasium(result):
    own = judged(ours.env_reset_passive_checker, Scripted(reset=result))
    env = GymnasiumScripted(gymnasium.spaces.Discrete(2), reset=result)
    same_judgement(own, judged(theirs.env_reset_passive_checker, env))


FRAMES = {
    "rgb": ("rgb_array", np.zeros((2, 3, 3), np.uint8)),
    "rgb, float": ("rgb_array", np.zeros((2, 3, 3))),
    "rgb, flat": ("rgb_array", np.zeros((2, 3), np.uint8)),
    "rgb, four channels": ("rgb_array", np.zeros((2, 3, 4), np.uint8)),
    "rgb, list": ("rgb_array", [[0]]),
    "depth": ("depth_array", np.zeros((2, 3))),
    "depth, three axes": ("depth_array", np.zeros((2, 3, 1))),
    "depth, None": ("depth_array", None),
    "ansi": ("ansi", "x"),
    "ansi, bytes": ("ansi", b"x"),
    "human": ("human", None),
    "human, array": ("human", np.zeros(3)),
    "list": ("rgb_array_list", [np.zeros((2, 3, 3), np.uint8)]),
    "list, of floats": ("rgb_array_list", [np.zeros((2, 3, 3))]),
    "list, array": ("rgb_array_list", np.zeros((1, 2, 3, 3), np.uint8)),
    "own mode": ("sonar", object()),
}


@pytest.mark.parametrize(("mode", "frame"), FRAMES.values(), ids=FRAMES)
def test_frames_are_judged_as_in_gymnasium(mode, frame):
    pair = Scripted(frame=frame, render_mode=mode), GymnasiumScripted(0, frame=frame, render_mode=mode)
    for env in pair:
        env.metadata = {"render_modes": [mode], "render_fps": 10}
    same_judgement(judged(ours.env_render_passive_checker, pair[0]), judged(theirs.env_render_passive_checker, pair[1]))


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"render_modes": []},
        {"render_modes": ["ansi", 3], "render_fps": 10},
        {"render_modes": ("ansi",)},
        {"render_modes": ["ansi"], "render_fps": "10"},
        {"render_modes": ["ansi"], "render_fps": 0},
        {"render_modes": ["human"], "render_fps": 10},
    ],
    ids=str,
)
def test_render_metadata_is_judged_as_in_gymnasium(metadata):
    pair = Scripted(frame="x", render_mode="ansi"), GymnasiumScripted(0, frame="x", render_mode="ansi")
    for env in pair:
        env.metadata = metadata
    same_judgement(judged(ours.env_render_passive_checker, pair[0]), judged(theirs.env_render_passive_checker, pair[1]))


def test_reset_signature_is_judged_as_in_gymnasium():
    class Own(Scripted):
        def reset(self, seed=3):
            return 0, {}

    class Theirs(GymnasiumScripted):
        reset = Own.reset

    own = judged(ours.env_reset_passive_checker, Own())
    their = judged(theirs.env_reset_passive_checker, Theirs(gymnasium.spaces.Discrete(2)))
    same_judgement(own, their)
    assert [text[:40] for text in own[1]] == [text[:40] for text in their[1]]


@pytest.mark.parametrize(
    ("result", "match"),
    [((0, 1.0, False, {}), "old step API"), ((0,), "four or five element tuple"), (None, "step result to be a tuple")],
)
def test_guard_refuses_a_step_that_is_no_tuple_of_five(result, match):
    with pytest.raises(CheckFailed, match=match):
        step_and_check(Scripted(step=result), 0)


@pytest.mark.parametrize("result", [0, (0, {}, 1), None])
def test_guard_refuses_a_reset_that_is_no_pair(result):
    with pytest.raises(CheckFailed, match=r"The result returned by `env.reset\(\)`"):
        reset_and_check(Scripted(reset=result))


def test_missing_space_is_named():
    env = Scripted()
    del env.observation_space
    with pytest.raises(MissingSpace, match="must specify an observation space"):
        check_spaces(env)
    env.observation_space = "left or right"
    with pytest.raises(WrongClass, match="observation space does not inherit from"):
        check_spaces(env)


def test_results_come_back_unchanged():
    env = Scripted(frame=np.zeros((2, 2, 3), np.uint8), render_mode="rgb_array")
    assert reset_and_check(env, seed=3, options={}) is env.answers["reset"]
    assert step_and_check(env, 0) is env.answers["step"]
    assert render_and_check(env) is env.answers["render"]


def test_warning_names_the_line_of_the_user_through_all_layers():
    env = Guard(Scripted(step=(5, 1.0, False, False, {})))
    env.reset()
    with pytest.warns(UserWarning, match="not within the observation space") as warned:
        env.step(0)
    assert warned[0].filename == __file__


def test_message_tells_which_value_is_wrong_and_where():
    space = spaces.Dict(a=Box(0, 1, (2,), np.float64), b=Discrete(2))
    with pytest.warns(UserWarning, match="is not within the observation space") as warned:
        ours.check_obs({"a": np.array([0.5, 1.5]), "b": 0}, space, "step")
    [text] = [str(each.message) for each in warned]
    assert "At index (1,) it is 1.5, which is not in [0.0, 1.0]" in text
    assert "under 'a'" in text


def test_arrays_that_share_memory_are_found_as_in_gymnasium():
    buffer = np.zeros(4)
    nested = {"a": (buffer, {"b": buffer[1:]})}
    objects = np.array([buffer, None], dtype=object)
    cases = [
        (buffer, buffer),
        (buffer, buffer[2:]),
        (buffer, buffer.copy()),
        (buffer[:2], buffer[2:]),
        (buffer[::2], buffer[1::2]),
        (nested, {"a": (buffer.copy(), {"b": buffer[:2]})}),
        (nested, {"a": (buffer.copy(), {"b": buffer[1:].copy()})}),
        (objects, objects.copy()),
        ({}, {}),
        ((), ()),
        ([buffer], [buffer]),
        (1, 1),
        ("a", "a"),
        (buffer, [buffer]),
    ]
    for one, other in cases:
        assert ours.data_shares_objects(one, other) is theirs.data_shares_objects(one, other)
    same = {"x": 1}
    own = judged(ours.env_data_reuse_passive_checker, (buffer, same), (buffer, same), "reset", "step")
    same_judgement(own, judged(theirs.env_data_reuse_passive_checker, (buffer, same), (buffer, same), "reset", "step"))
    assert len(own[1]) == 2


def test_passive_checks_end_but_actions_are_validated_at_every_step():
    class Recording(Scripted):
        taken = ()

        def step(self, action):
            self.taken += (action,)
            return super().step(action)

    env = Recording()
    env.action_space = Box(-1, 1, (1,), np.float64)
    guard = Guard(env)
    guard.reset()
    for _ in range(5):
        guard.step(np.zeros(1))
    with pytest.raises(InvalidAction):
        guard.step(np.array([np.nan]))
    assert len(env.taken) == 5


@pytest.mark.parametrize("place", ["node_space", "edge_space"])
def test_spaces_inside_a_graph_are_checked(place):
    graph = spaces.Graph(Discrete(2), Discrete(3))
    getattr(graph, place).n = 0
    with pytest.raises(CheckFailed, match="number of elements must be positive"):
        check_spaces(Scripted(graph))


def test_make_does_not_speak_of_gymnasium_where_reset_takes_no_options():
    class Older(Scripted):
        def reset(self, seed=None):
            return 0, {}

    with pytest.warns(DeprecationWarning, match="^`Env.reset` has to take `options`"), pytest.raises(TypeError):
        reset_and_check(Older())
