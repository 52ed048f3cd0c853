"""Atari preprocessing, on a small emulator that is no Atari: it counts frames, and its screens show the count."""

import builtins
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import wrappers
from paddock.core.state import open_snapshot, seal_snapshot
from paddock.errors import DependencyNotInstalled
from paddock.spaces import Box, Discrete

pytest.importorskip("cv2")


class Emulator:
    """What the wrapper asks of ``ale``."""

    def __init__(self):
        self.frame, self.left = 0, 3

    def lives(self):
        return self.left

    def picture(self):
        rows, columns = np.mgrid[:21, :16]
        # Some pixels flicker: they are dark in every other frame.
        light = (rows * 3 + columns + self.frame * 7) % 200 + 20
        return np.where((rows + columns + self.frame) % 3 == 0, 0, light).astype(np.uint8)

    def getScreenGrayscale(self, screen):
        screen[...] = self.picture()

    def getScreenRGB(self, screen):
        screen[...] = self.picture()[..., None] // np.array([1, 2, 3], np.uint8)


class Arcade(paddock.Env):
    """Loses a life every ``life`` frames; over when none is left, cut off after ``limit`` frames of an episode."""

    def __init__(self, life=9, limit=10**6, frameskip=1, meanings=("NOOP", "FIRE")):
        self.life, self.limit, self._frameskip, self.meanings = life, limit, frameskip, list(meanings)
        self.observation_space, self.action_space = Box(0, 255, (21, 16, 3), np.uint8), Discrete(2)
        self.ale = Emulator()

    def get_action_meanings(self):
        return self.meanings

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.began = self.ale.frame
        self.ale.left = 3
        return self.seen(), {"lives": 3, "begun": True}

    def seen(self):
        screen = np.empty((21, 16, 3), np.uint8)
        self.ale.getScreenRGB(screen)
        return screen

    def step(self, action):
        self.ale.frame += 1
        played = self.ale.frame - self.began
        self.ale.left = 3 - played // self.life
        info = {"lives": self.ale.left, "frame": self.ale.frame}
        return self.seen(), float(action) + 0.5, self.ale.left <= 0, played >= self.limit, info

    def snapshot(self):
        return seal_snapshot("arcade", [self.ale.frame, self.ale.left, self.began], b"")

    def restore(self, snapshot):
        (self.ale.frame, self.ale.left, self.began), _ = open_snapshot("arcade", snapshot, list[int])


class TheirArcade(gymnasium.Env):
    """The same for Gymnasium."""

    def __init__(self, **kwargs):
        self.arcade = Arcade(**kwargs)
        self.observation_space = gymnasium.spaces.Box(0, 255, (21, 16, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.ale, self._frameskip = self.arcade.ale, self.arcade._frameskip

    def get_action_meanings(self):
        return self.arcade.get_action_meanings()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.arcade.reset(seed=seed)

    def step(self, action):
        return self.arcade.step(action)


FORMS = [
    {},
    {"noop_max": 0},
    {"frame_skip": 1},
    {"frame_skip": 2, "terminal_on_life_loss": True},
    {"grayscale_obs": False, "screen_size": (10, 12)},
    {"grayscale_newaxis": True, "scale_obs": True},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_equals_gymnasiums_but_at_the_end_of_an_episode(form, seed):
    mine = wrappers.AtariPreprocessing(Arcade(), **form)
    theirs = gymnasium.wrappers.AtariPreprocessing(TheirArcade(), **form)
    assert repr(mine.observation_space) == repr(theirs.observation_space)
    one, other = mine.reset(seed=seed), theirs.reset(seed=seed)
    assert np.array_equal(one[0], other[0]) and one[1] == other[1]
    ends = 0
    for time in range(120):
        one, other = mine.step(time % 2), theirs.step(time % 2)
        if not (one[2] or one[3]):
            assert np.array_equal(one[0], other[0])
        assert one[0].dtype == other[0].dtype and one[0] in mine.observation_space
        assert one[1:] == other[1:]
        assert (mine.lives, mine.game_over) == (theirs.lives, theirs.game_over)
        if one[2] or one[3]:
            ends += 1
            one, other = mine.reset(), theirs.reset()
            assert np.array_equal(one[0], other[0])
    assert ends > 2
    for name in ("noop_max", "frame_skip", "screen_size", "terminal_on_life_loss", "grayscale_obs", "scale_obs"):
        assert getattr(mine, name) == getattr(theirs, name)


def test_an_episode_that_ends_within_a_window_is_seen_at_its_end():
    env = wrappers.AtariPreprocessing(Arcade(limit=6), noop_max=0, screen_size=(16, 21))
    env.reset()
    env.step(0)
    observation, reward, terminated, truncated, _ = env.step(1)
    assert (reward, terminated, truncated) == (3.0, False, True)
    assert np.array_equal(observation, env.ale.picture())
    theirs = gymnasium.wrappers.AtariPreprocessing(TheirArcade(limit=6), noop_max=0, screen_size=(16, 21))
    theirs.reset()
    before = theirs.step(0)[0]
    assert np.array_equal(theirs.step(1)[0], before)  # the window before: if this fails, they have mended it


def test_what_flickers_is_pooled():
    env = wrappers.AtariPreprocessing(Arcade(life=99), noop_max=0, screen_size=(16, 21))
    env.reset()
    observation = env.step(0)[0]
    newest = env.ale.picture()
    env.ale.frame -= 1
    assert np.array_equal(observation, np.maximum(newest, env.ale.picture()))
    assert (newest == 0).any() and observation.min() > 0


def test_an_episode_that_ends_among_the_noops_begins_again(seed):
    mine = wrappers.AtariPreprocessing(Arcade(life=2), noop_max=30)
    theirs = gymnasium.wrappers.AtariPreprocessing(TheirArcade(life=2), noop_max=30)
    for start in range(seed, seed + 5):
        one, other = mine.reset(seed=start), theirs.reset(seed=start)
        assert np.array_equal(one[0], other[0]) and one[1] == other[1]
        assert mine.ale.frame == theirs.ale.frame


@pytest.mark.parametrize(
    ("env", "arguments", "message"),
    [
        ({}, {"frame_skip": 0}, "Expect the `frame_skip` to be positive"),
        ({}, {"noop_max": -1}, "Expect the `noop_max` to be non-negative"),
        ({}, {"screen_size": 0}, "Expect the `screen_size` to be positive"),
        ({}, {"screen_size": (84, -1)}, "Expect the `screen_size` to be positive"),
        ({}, {"screen_size": (84, 84, 84)}, "Expect the `screen_size` to be positive"),
        ({}, {"screen_size": 8.5}, "Expect the `screen_size` to be positive"),
        ({"frameskip": 4}, {}, "Disable frame-skipping in the original env"),
        ({"meanings": ("FIRE", "NOOP")}, {}, "the first action meaning must be 'NOOP'"),
    ],
)
def test_mistakes_are_named(env, arguments, message):
    with pytest.raises(ValueError, match=message):
        wrappers.AtariPreprocessing(Arcade(**env), **arguments)
    with pytest.raises(ValueError, match=message):
        gymnasium.wrappers.AtariPreprocessing(TheirArcade(**env), **arguments)


def test_an_observation_that_is_no_box_is_refused():
    env = Arcade()
    env.observation_space = Discrete(2)
    with pytest.raises(TypeError, match="requires a Box observation space"):
        wrappers.AtariPreprocessing(env)


def test_without_opencv_it_names_what_to_install(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "cv2":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DependencyNotInstalled, match="pip install"):
        wrappers.AtariPreprocessing(Arcade())


@pytest.mark.process
def test_opencv_is_not_imported_with_the_wrappers():
    program = "import sys, paddock.wrappers; print('cv2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_is_data(fresh_registry):
    paddock.register("toy/Arcade-v0", "tests.wrappers.test_atari:Arcade")
    env = wrappers.AtariPreprocessing(paddock.make("toy/Arcade-v0"), noop_max=3, screen_size=(10, 12))
    kwargs = env.spec.additional_wrappers[0].kwargs
    assert kwargs["noop_max"] == 3 and tuple(kwargs["screen_size"]) == (10, 12) and len(kwargs) == 7
    again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()))
    assert again.screen_size == (10, 12)
    assert np.array_equal(env.reset(seed=3)[0], again.reset(seed=3)[0])
    assert np.array_equal(env.step(1)[0], again.step(1)[0])


def test_a_snapshot_holds_lives_and_screens():
    env, other = (wrappers.AtariPreprocessing(Arcade(), terminal_on_life_loss=True, noop_max=0) for _ in range(2))
    env.reset(), other.reset()
    env.step(1)
    other.restore(env.snapshot())
    assert (other.lives, other.game_over) == (env.lives, env.game_over)
    assert all(map(np.array_equal, env.obs_buffer, other.obs_buffer))
    for _ in range(2):
        one, two = env.step(1), other.step(1)
        assert np.array_equal(one[0], two[0]) and one[1:] == two[1:]
    assert one[2]  # a life was lost
