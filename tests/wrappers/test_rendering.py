"""RenderCollection and HumanRendering. The screen is a fake one: windows are counted, not shown."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from paddock import errors
from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.spaces import Discrete
from paddock.wrappers.rendering import HumanRendering, RenderCollection


class Painter(Env):
    """Paints its step number."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}
    observation_space = action_space = Discrete(2)

    def __init__(self, render_mode="rgb_array", shape=(2, 3, 3)):
        self.render_mode, self.shape, self.steps, self.closed = render_mode, shape, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        return 0, 0.0, False, False, {}

    def render(self):
        return np.full(self.shape, self.steps, np.uint8)

    def close(self):
        self.closed += 1


def numbers(frames):
    return [int(frame.flat[0]) for frame in frames]


def played(env, episodes=2, steps=2):
    for _ in range(episodes):
        env.reset(seed=1)
        for _ in range(steps):
            env.step(0)
    return env


@pytest.mark.parametrize(
    ("pop_frames", "reset_clean", "first", "second"),
    [
        (True, True, [0, 1, 2], []),
        (True, False, [0, 1, 2, 0, 1, 2], []),
        (False, True, [0, 1, 2], [0, 1, 2]),
        (False, False, [0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 1, 2]),
    ],
)
def test_frames_are_kept_as_documented(pop_frames, reset_clean, first, second):
    env = played(RenderCollection(Painter(), pop_frames, reset_clean))
    assert numbers(env.render()) == first
    assert numbers(env.render()) == second
    assert numbers(env.frame_list) == second


def test_same_frames_as_gymnasiums():
    import gymnasium

    class Theirs(gymnasium.Env):
        metadata, render_mode, shape = Painter.metadata, "rgb_array", (2, 3, 3)
        observation_space = action_space = gymnasium.spaces.Discrete(2)
        step, render = Painter.step, Painter.render

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return 0, {}

    for options in ({}, {"pop_frames": False}, {"reset_clean": False}):
        own = played(RenderCollection(Painter(), **options))
        theirs = played(gymnasium.wrappers.RenderCollection(Theirs(), **options))
        assert (own.render_mode, own.metadata) == (theirs.render_mode, theirs.metadata)
        for _ in range(2):
            assert numbers(own.render()) == numbers(theirs.render())


def test_frames_given_out_are_not_added_to_later():
    env = played(RenderCollection(Painter(), pop_frames=False))
    frames = env.render()
    env.step(0)
    assert numbers(frames) == [0, 1, 2]


def test_list_mode_is_declared_on_the_wrapper_alone():
    env = RenderCollection(Painter())
    assert env.render_mode == "rgb_array_list"
    assert env.metadata["render_modes"] == ["rgb_array", "rgb_array_list"]
    assert Painter.metadata["render_modes"] == ["rgb_array"]


@pytest.mark.parametrize("mode", [None, "rgb_array_list"])
def test_collecting_needs_a_mode_of_single_frames(mode):
    with pytest.raises(errors.UnsupportedMode, match=r"Expected env\.render_mode to") as caught:
        RenderCollection(Painter(mode))
    assert isinstance(caught.value, ValueError)


def test_arguments_are_in_the_spec():
    env = Painter()
    env.spec = EnvSpec("test/Painter-v0", Painter)
    wrappers = HumanRendering(RenderCollection(env, pop_frames=False)).spec.additional_wrappers
    assert [(each.name, each.kwargs) for each in wrappers] == [
        ("RenderCollection", {"pop_frames": False, "reset_clean": True}),
        ("HumanRendering", {}),
    ]


def test_arguments_that_a_subclass_recorded_stay():
    class Mine(RenderCollection):
        def __init__(self, env, colour):
            self._saved_kwargs = {"colour": colour}
            super().__init__(env)

    assert Mine(Painter(), "red")._saved_kwargs == {"colour": "red"}


class FakeSurface(np.ndarray):
    def get_size(self):
        return self.shape[:2]


class FakeScreen:
    """As much of pygame as HumanRendering uses, with a record of what happened."""

    def __init__(self):
        self.surface, self.shown, self.rates, self.quits = None, [], [], 0
        self.display = SimpleNamespace(
            init=lambda: None,
            set_mode=self.set_mode,
            get_surface=lambda: self.surface,
            flip=lambda: None,
            quit=self.quit,
        )
        self.time = SimpleNamespace(Clock=lambda: SimpleNamespace(tick=self.rates.append))
        self.event = SimpleNamespace(pump=lambda: None)
        self.surfarray = SimpleNamespace(make_surface=lambda array: array.view(FakeSurface))

    def set_mode(self, size):
        self.surface = SimpleNamespace(blit=lambda picture, place: self.shown.append(picture), get_size=lambda: size)
        return self.surface

    def quit(self):
        self.surface, self.quits = None, self.quits + 1


@pytest.fixture
def screen(monkeypatch):
    screen = FakeScreen()
    monkeypatch.setitem(sys.modules, "pygame", screen)
    return screen


def test_each_reset_and_step_shows_a_frame_at_the_declared_rate(screen):
    env = played(HumanRendering(Painter()), episodes=1)
    assert numbers(screen.shown) == [0, 1, 2]
    assert {picture.shape for picture in screen.shown} == {(3, 2, 3)}  # pygame counts the width first
    assert screen.rates == [25, 25, 25]
    assert env.render_mode == "human"
    assert "human" in env.metadata["render_modes"]
    assert env.render() is None
    env.close()


def test_latest_of_a_list_of_frames_is_shown(screen):
    played(HumanRendering(RenderCollection(Painter())), episodes=1).close()
    assert numbers(screen.shown) == [0, 1, 2]


def test_depth_is_shown_in_grey(screen):
    env = HumanRendering(Painter("depth_array", shape=(2, 3)))
    played(env, episodes=1, steps=1)
    assert [picture.shape for picture in screen.shown] == [(3, 2, 3), (3, 2, 3)]
    assert numbers(screen.shown) == [0, 255]
    env.close()


def test_window_stays_open_until_the_last_environment_closes(screen):
    one, other = HumanRendering(Painter()), HumanRendering(Painter(shape=(4, 4, 3)))
    one.reset()
    other.reset()
    one.close()
    assert (screen.quits, one.unwrapped.closed) == (0, 1)
    other.step(0)
    other.close()
    other.close()
    assert screen.quits == 1


def test_window_that_another_closed_is_opened_again(screen):
    env = HumanRendering(Painter())
    env.reset()
    screen.quit()
    env.step(0)
    assert numbers(screen.shown) == [0, 1]
    env.close()


def test_frames_must_keep_their_shape_and_be_arrays(screen):
    env = HumanRendering(Painter())
    env.reset()
    env.unwrapped.shape = (5, 5, 3)
    with pytest.raises(errors.CheckFailed, match="has changed from"):
        env.step(0)
    env.unwrapped.render = lambda: "a frame"
    with pytest.raises(errors.CheckFailed, match="to return a numpy array"):
        env.step(0)
    env.close()


def test_mode_and_rate_are_required():
    with pytest.raises(errors.UnsupportedMode, match=r"Expected env\.render_mode to be one of"):
        HumanRendering(Painter("ansi"))
    env = Painter()
    env.metadata = {"render_modes": ["rgb_array"]}
    with pytest.raises(errors.InvalidMetadata, match="render_fps") as caught:
        HumanRendering(env)
    assert isinstance(caught.value, ValueError)


def test_missing_pygame_is_told_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = HumanRendering(Painter())  # making it needs no screen
    with pytest.raises(errors.DependencyNotInstalled, match=r'pip install "paddock\[render\]"'):
        env.reset()
    env.close()
    assert env.unwrapped.closed == 1
