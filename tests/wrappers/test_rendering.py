"""RenderCollection and HumanRendering. The screen is a fake one: windows are counted, not shown."""

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from paddock import errors
from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.spaces import Discrete
from paddock.testing import check_wrapper
from paddock.vector import SyncVectorEnv
from paddock.wrappers import rendering, vector
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
    for make in (lambda: HumanRendering(Painter()), lambda: vector.HumanRendering(SyncVectorEnv([Painter]))):
        with pytest.raises(errors.DependencyNotInstalled, match=r"pip install pygame-ce"):
            make()


def test_a_collection_that_grows_past_all_bounds_says_so_once(monkeypatch):
    monkeypatch.setattr(rendering, "_MANY_BYTES", 1000)  # 55 frames of 18 bytes
    env = RenderCollection(Painter(), pop_frames=False, reset_clean=False)
    env.reset()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(54):
            env.step(0)
        assert told == []
        for _ in range(200):
            env.step(0)
    (warning,) = told
    assert "RenderCollection keeps 56 frames" in str(warning.message)
    assert warning.filename == __file__
    assert len(env.render()) == 255


def test_a_collection_that_is_emptied_in_time_says_nothing(monkeypatch):
    monkeypatch.setattr(rendering, "_MANY_BYTES", 1000)
    env = RenderCollection(Painter())
    for _ in range(20):
        played(env, episodes=1, steps=40)
    for _ in range(200):
        env.step(0)
        env.render()


# Lanes, and pygame itself, on a screen that nobody sees.


class Wide(Painter):
    """As Painter, with a shade of its own, no waiting, and an end after three steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10_000}

    def __init__(self, shade=100, shape=(20, 30, 3), render_mode="rgb_array"):
        super().__init__(render_mode, shape)
        self.shade = shade

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, self.steps >= 3, truncated, info

    def render(self):
        return np.full(self.shape, self.shade, np.uint8)


def shown(pygame):
    return pygame.surfarray.array3d(pygame.display.get_surface())


def test_pygame_quit_by_another_leaves_our_window_usable(pygame):
    ours, other = HumanRendering(Wide(50)), HumanRendering(Wide(90))
    ours.reset()
    other.reset()
    pygame.quit()  # what Gymnasium's environments do when they close
    ours.step(0)
    assert set(shown(pygame).flat) == {50}
    other.close()
    ours.step(0)
    assert set(shown(pygame).flat) == {50}
    ours.close()
    assert not pygame.display.get_init()


def test_closing_ours_leaves_a_display_that_was_there_before(pygame):
    pygame.display.init()
    pygame.display.set_mode((40, 40))
    env = HumanRendering(Wide())
    env.reset()
    env.close()
    assert pygame.display.get_init()


def test_lanes_are_shown_side_by_side(pygame):
    env = vector.HumanRendering(SyncVectorEnv([lambda s=s: Wide(s) for s in (40, 80, 120)]), screen_size=(60, 40))
    env.reset()
    env.step([0, 0, 0])
    picture = shown(pygame)
    assert picture.shape == (60, 40, 3)
    places = [picture[15, 10], picture[45, 10], picture[15, 30], picture[45, 30]]
    assert [int(place[0]) for place in places] == [40, 80, 120, 0]
    assert env.render() is None
    assert (env.render_mode, "human" in env.metadata["render_modes"]) == ("human", True)
    assert "human" not in Wide.metadata["render_modes"]
    env.close()
    env.close()
    assert not pygame.display.get_init()


@pytest.mark.parametrize("size", [None, (60, 40), (300, 100), (61, 47), (1000, 1000)])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_lanes_have_gymnasiums_places(count, size, pygame, monkeypatch):
    """Gymnasium's own scaling needs OpenCV; a stand-in for it notes the sizes."""
    import gymnasium

    class Theirs(gymnasium.Env):
        metadata, render_mode = Wide.metadata, "rgb_array"
        observation_space = action_space = gymnasium.spaces.Discrete(2)
        render, step, shape = Wide.render, Painter.step, (20, 30, 3)

        def __init__(self, shade):
            self.shade, self.steps = shade, 0

        def reset(self, *, seed=None, options=None):
            return 0, {}

    def resize(picture, size):
        return np.broadcast_to(picture[:1, :1], (size[1], size[0], 3))

    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(resize=resize))
    ours = vector.HumanRendering(SyncVectorEnv([lambda k=k: Wide(10 * k + 50) for k in range(count)]), size)
    make = [lambda k=k: Theirs(10 * k + 50) for k in range(count)]
    theirs = gymnasium.wrappers.vector.HumanRendering(gymnasium.vector.SyncVectorEnv(make), size)
    ours.reset()
    seen = shown(pygame)
    ours.close()
    try:
        theirs.reset()
    except AssertionError:  # it wants two fractions to be equal, which rounding denies at some sizes
        assert size == (1000, 1000)
        return
    for name in ("screen_size", "scaled_subenv_size", "num_rows", "num_cols"):
        assert getattr(ours, name) == getattr(theirs, name), name
    np.testing.assert_allclose(seen.astype(int), shown(pygame), atol=4)  # pygame's scaling rounds down


def test_lanes_in_a_list_mode_show_their_latest(pygame):
    env = SyncVectorEnv([lambda s=s: RenderCollection(Wide(s)) for s in (40, 80)])
    env = vector.HumanRendering(env, (60, 20))
    env.reset()
    assert [int(shown(pygame)[x, 10, 0]) for x in (10, 50)] == [40, 80]
    env.close()


def test_lanes_that_cannot_be_shown_are_refused(pygame):
    with pytest.raises(errors.UnsupportedMode, match="to be one of"):
        vector.HumanRendering(SyncVectorEnv([lambda: Wide(render_mode="ansi")]))
    with pytest.raises(errors.InvalidBound, match="a width and a height"):
        vector.HumanRendering(SyncVectorEnv([Wide]), (0, 10))
    lanes = SyncVectorEnv([Wide, Wide])
    env = vector.HumanRendering(lanes)
    for frames in (
        None,
        (np.zeros((2, 2, 3), np.uint8),),
        (np.zeros((2, 2, 3), np.uint8), np.zeros((3, 2, 3), np.uint8)),
    ):
        lanes.render = lambda frames=frames: frames
        with pytest.raises(errors.CheckFailed, match="frames"):
            env.reset()


def test_showing_lanes_changes_nothing_that_the_agent_sees(pygame, seed):
    check_wrapper(
        lambda lane: HumanRendering(Wide()),
        lambda mode: vector.HumanRendering(SyncVectorEnv([Wide] * 2, autoreset_mode=mode)),
        steps=20,
        seed=seed,
    )
