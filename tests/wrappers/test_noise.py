"""AddWhiteNoise and ObstructView: Gymnasium's very pixels, and lanes that are single environments."""

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import errors
from paddock.gym.vector import SyncVectorEnv
from paddock.wrappers import AddWhiteNoise, ObstructView, RenderCollection, vector
from paddock.wrappers.noise import Obstructions

CASES = [
    ("AddWhiteNoise", (0.3,), {}),
    ("AddWhiteNoise", (0.0,), {}),
    ("AddWhiteNoise", (0.7,), {"is_noise_grayscale": True}),
    ("ObstructView", (0.4, 5), {}),
    ("ObstructView", (0.9, 1), {}),
    ("ObstructView", (0.2, 40), {}),
    ("ObstructView", (0.5, 4), {"is_noise_grayscale": True}),
]
cases = pytest.mark.parametrize(("name", "args", "kwargs"), CASES)


class Blank:
    """The same frame always, and a random observation, so that every draw shows."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode="rgb_array"):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(1), {}

    def step(self, action):
        return self.np_random.random(1), 0.0, bool(self.np_random.random() < 0.2), False, {}

    def render(self):
        return (np.arange(30 * 20 * 3) % 251).astype(np.uint8).reshape(30, 20, 3)


class Ours(Blank, paddock.Env):
    observation_space, action_space = paddock.spaces.Box(0, 1, (1,), np.float64), paddock.spaces.Discrete(2)


class Theirs(Blank, gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,), np.float64), gymnasium.spaces.Discrete(2)


@cases
def test_every_pixel_and_the_episode_after_it_are_gymnasiums(name, args, kwargs):
    ours = getattr(paddock.wrappers, name)(Ours(), *args, **kwargs)
    theirs = getattr(gymnasium.wrappers, name)(Theirs(), *args, **kwargs)
    for env in (ours, theirs):
        env.reset(seed=3)
    for _ in range(4):
        mine, other = ours.render(), theirs.render()
        assert mine.dtype == np.uint8  # Gymnasium's grey noise makes uint64 of the frame
        np.testing.assert_array_equal(mine, other)
        assert ours.step(0)[0] == theirs.step(0)[0]


@cases
def test_frames_of_n_lanes_are_those_of_n_single_environments(name, args, kwargs):
    single = getattr(paddock.wrappers, name)
    many = getattr(vector, name)(SyncVectorEnv([Ours] * 3), *args, **kwargs)
    alone = [single(Ours(), *args, **kwargs) for _ in range(3)]
    many.reset(seed=5)
    for lane, env in enumerate(alone):
        env.reset(seed=5 + lane)
    over = np.zeros(3, bool)
    for _ in range(12):
        for frame, env in zip(many.render(), alone, strict=True):
            np.testing.assert_array_equal(frame, env.render())
        observations, _, terminated, _, _ = many.step([0, 0, 0])
        for lane, env in enumerate(alone):
            assert (env.reset() if over[lane] else env.step(0))[0] == observations[lane]
        over = terminated


def test_lanes_elsewhere_go_on_where_the_noise_ended():
    lanes = paddock.make_vec("CartPole-v1", num_envs=2, render_mode="rgb_array", backend="compiled")
    many = vector.AddWhiteNoise(lanes, 0.1)
    alone = [AddWhiteNoise(paddock.make("CartPole-v1", render_mode="rgb_array"), 0.1) for _ in range(2)]
    many.reset(seed=5)
    for lane, env in enumerate(alone):
        env.reset(seed=5 + lane)
    for _ in range(2):
        for frame, env in zip(many.render(), alone, strict=True):
            np.testing.assert_array_equal(frame, env.render())


def test_patches_cover_what_squares_around_their_centres_cover(seed, monkeypatch):
    random = np.random.default_rng(seed)
    for width in (1, 2, 5, 9):
        centres = random.integers(0, 12 * 17, 9)
        plain = np.zeros((12, 17), bool)
        for row, column in zip(*np.divmod(centres, 17), strict=True):
            low, high = width // 2, width - width // 2
            plain[max(row - low, 0) : row + high, max(column - low, 0) : column + high] = True
        for many in (0, 500):  # painted in one pass, and one by one
            monkeypatch.setattr("paddock.wrappers.noise._MANY_PATCHES", many)
            np.testing.assert_array_equal(Obstructions(0.5, width)._patch_mask(centres, 12, 17), plain)


def test_frames_in_a_list_are_each_disturbed():
    env = AddWhiteNoise(RenderCollection(Ours()), 0.5)
    env.reset(seed=1)
    env.step(0)
    one, other = env.render()
    assert (one != other).any()


def test_attributes_and_spec_hold_the_arguments():
    env = Ours()
    env.spec = paddock.EnvSpec("test/Ours-v0", "tests.wrappers.test_noise:Ours")
    env = ObstructView(AddWhiteNoise(env, 0.25), 0.5, 10, is_noise_grayscale=True)
    assert (env.obstruction_centers_ratio, env.obstruction_width, env.is_noise_grayscale) == (0.005, 10, True)
    assert (env.env.probability_of_noise_per_pixel, env.env.is_noise_grayscale) == (0.25, False)
    again = paddock.make(paddock.EnvSpec.from_json(env.spec.to_json()), render_mode="rgb_array")
    assert isinstance(again, ObstructView)
    assert again.obstruction_width == 10


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda env: AddWhiteNoise(env, 1), errors.InvalidProbability, r"in the interval \[0,1\). Received 1"),
        (lambda env: AddWhiteNoise(env, -0.1), errors.InvalidProbability, "Received -0.1"),
        (lambda env: ObstructView(env, 1.5, 3), errors.InvalidBound, "obstructed_pixels_ratio .* Received 1.5"),
        (lambda env: ObstructView(env, 0.5, 0), errors.InvalidBound, "obstruction_width .* Received 0"),
    ],
)
def test_impossible_arguments_are_refused(make, error, text):
    with pytest.raises(error, match=text) as caught:
        make(Ours())
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("frame", [None, "text", np.zeros((4, 4)), np.zeros((4, 4, 3)), np.zeros((4, 4, 1), np.uint8)])
def test_frames_that_are_no_pictures_are_refused(frame):
    env = Ours()
    env.render = lambda: frame
    env.reset(seed=1)
    with pytest.raises(errors.CheckFailed, match="render_mode='rgb_array'"):
        AddWhiteNoise(env, 0.5).render()
