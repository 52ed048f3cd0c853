"""Pictures of the built-in environments. What needs a display, or none, runs in an interpreter of its own: SDL reads
its settings once."""

import os
import subprocess
import sys
import textwrap
import warnings
from typing import NamedTuple

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import errors
from paddock.envs.catalog import BUILT_IN
from paddock.kernels import Kernel, KernelEnv
from paddock.spaces import Discrete

from .identity import IN_PYTHON, compile_after

# phys2d/ and tabular/ are the same environments under other names; Gymnasium's need JAX.
IDS = [spec.id for spec in BUILT_IN if spec.namespace is None]
TEXT = [id for id in IDS if id.startswith(("FrozenLake", "CliffWalking", "Taxi"))]

pytestmark = pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date:DeprecationWarning")


def actions(env, count, seed=3):
    """``count`` actions, the same for every environment of the space."""
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


def played(id, mode, *, look, steps=8):
    """Every result of some steps, the random stream after them, and what ``look`` saw on the way."""
    env = paddock.make(id, render_mode=mode)
    results, seen = [env.reset(seed=5)], [look(env)]
    for action in actions(env, steps):
        results.append(env.step(action))
        seen.append(look(env))
        if results[-1][2] or results[-1][3]:
            results.append(env.reset())
    return results, env.unwrapped.np_random.bit_generator.state, seen


def run(program, **variables):
    """Run a program without any setting of a display; what it printed."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "XDG_RUNTIME_DIR", "PYGAME_HIDE_SUPPORT_PROMPT")
    inherited = {name: value for name, value in os.environ.items() if name not in hidden}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**inherited, **variables}, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("id", IDS)
def test_declared_modes_are_those_of_gymnasium(id):
    assert set(paddock.make(id).metadata["render_modes"]) == set(gymnasium.make(id).metadata["render_modes"])
    assert paddock.make(id).metadata["render_fps"] == gymnasium.make(id).metadata["render_fps"]


@pytest.mark.parametrize("id", IDS)
def test_frames_have_the_shape_of_gymnasiums(id):
    ours, theirs = paddock.make(id, render_mode="rgb_array"), gymnasium.make(id, render_mode="rgb_array")
    ours.reset(seed=1)
    theirs.reset(seed=1)
    frame = ours.render()
    assert (frame.shape, frame.dtype) == (theirs.render().shape, np.uint8)
    assert frame.flags.c_contiguous


@pytest.mark.parametrize("shape", [(1, 12), (12, 2), (3, 5), (20, 20)])
def test_frames_of_any_map_have_the_shape_of_gymnasiums(shape):
    rows = [["F"] * shape[1] for _ in range(shape[0])]
    rows[0][0], rows[-1][-1] = "S", "G"
    desc = ["".join(row) for row in rows]
    ours = paddock.make("FrozenLake-v1", desc=desc, render_mode="rgb_array")
    theirs = gymnasium.make("FrozenLake-v1", desc=desc, render_mode="rgb_array")
    ours.reset(seed=1)
    theirs.reset(seed=1)
    assert ours.render().shape == theirs.render().shape


@pytest.mark.parametrize("id", IDS)
def test_frames_show_what_happens(id):
    _, _, frames = played(id, "rgb_array", look=lambda env: env.render())
    assert len({frame.tobytes() for frame in frames}) > 1


@pytest.mark.parametrize("id", IDS)
def test_each_frame_is_an_array_of_its_own(id):
    env = paddock.make(id, render_mode="rgb_array")
    env.reset(seed=1)
    first = env.render()
    kept = first.copy()
    first[:] = 0
    second = env.render()
    assert np.array_equal(second, kept)
    assert not np.shares_memory(first, second)
    assert first.flags.writeable


@pytest.mark.parametrize("id", IDS)
def test_rendering_changes_neither_the_episode_nor_its_random_stream(id):
    plain, stream, _ = played(id, None, look=lambda env: None)
    shown, stream_shown, _ = played(id, "rgb_array", look=lambda env: env.render())
    assert stream == stream_shown
    np.testing.assert_equal(shown, plain)


@pytest.mark.parametrize("id", TEXT)
def test_text_is_that_of_gymnasium(id):
    ours, theirs = paddock.make(id, render_mode="ansi"), gymnasium.make(id, render_mode="ansi")
    ours.reset(seed=2)
    theirs.reset(seed=2)
    assert ours.render() == theirs.render()
    for action in actions(ours, 5):
        done = ours.step(action)[2]
        theirs.step(action)
        assert ours.render() == theirs.render()
        if done:
            break


@pytest.mark.parametrize(("id", "mode"), [*((id, "rgb_array") for id in IDS), *((id, "ansi") for id in TEXT)])
def test_lanes_look_like_single_environments(id, mode):
    lanes = paddock.make(id, num_envs=3, render_mode=mode)
    lanes.reset(seed=7)
    frames = lanes.render()
    assert len(frames) == 3
    for lane, frame in enumerate(frames):
        env = paddock.make(id, render_mode=mode)
        env.reset(seed=7 + lane)
        assert np.array_equal(frame, env.render())
    lanes.close()


def test_rendering_lanes_changes_no_lane():
    pairs = [paddock.make("CartPole-v1", num_envs=2, render_mode=mode) for mode in (None, "rgb_array")]
    for lanes in pairs:
        lanes.reset(seed=1)
    for _ in range(30):
        pairs[1].render()
        plain, shown = (lanes.step(np.array([0, 1])) for lanes in pairs)
        np.testing.assert_equal(shown, plain)


def test_compiled_lane_is_painted_where_it_is(monkeypatch):
    frames = []
    for steps in (IN_PYTHON, 2):
        compile_after(monkeypatch, steps)
        cart = paddock.make("CartPole-v1", render_mode="rgb_array")
        cart.reset(seed=1)
        for action in (0, 1, 1, 0, 1):
            cart.step(action)
        assert (cart.unwrapped._lane is not None) == (steps == 2)
        frames.append(cart.render())
    assert np.array_equal(*frames)


def test_nothing_is_shown_without_a_mode():
    env = paddock.make("CartPole-v1").unwrapped
    env.reset(seed=1)
    with pytest.warns(UserWarning, match="You are calling render method without specifying any render mode"):
        assert env.render() is None
    with pytest.warns(UserWarning, match="render_mode"):
        assert paddock.make("CartPole-v1", num_envs=2).render() is None


@pytest.mark.parametrize("id", IDS)
def test_undeclared_mode_is_refused_when_it_is_used(id):
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        env = paddock.make(id, render_mode="depth_array").unwrapped
    env.reset(seed=1)  # as in Gymnasium, it can be played
    with pytest.raises(errors.UnsupportedMode, match="render_mode='depth_array'.*rgb_array"):
        env.render()


def test_there_is_nothing_to_see_before_the_first_reset():
    for env in (
        paddock.make("Taxi-v4", render_mode="rgb_array"),
        paddock.make("Taxi-v4", render_mode="ansi").unwrapped,
    ):
        with pytest.raises(errors.ResetNeeded, match="reset"):
            env.render()
    with pytest.raises(errors.ResetNeeded, match="reset"):
        paddock.make("CartPole-v1", num_envs=2, render_mode="rgb_array").render()


@pytest.mark.parametrize("id", IDS)
def test_missing_pygame_is_told_and_does_not_hinder_a_step(id, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = paddock.make(id, render_mode="rgb_array")
    env.reset(seed=1)
    env.step(actions(env, 1)[0])
    with pytest.raises(errors.DependencyNotInstalled, match=r"pip install pygame-ce"):
        env.render()
    env.close()


def test_states_far_outside_the_picture_are_drawn_as_well():
    env = paddock.make("CartPole-v1", render_mode="rgb_array").unwrapped
    env.reset(seed=1)
    empty = env.render()
    env.state = (1e12, 0.0, 0.1, 0.0)
    assert not np.array_equal(env.render(), empty)


def test_written_map_and_hands_are_painted():
    lake = paddock.make("FrozenLake-v1", render_mode="rgb_array").unwrapped
    lake.reset(seed=1)
    before = lake.render()
    lake.desc[2, 2] = b"H"
    assert not np.array_equal(lake.render(), before)
    cards = paddock.make("Blackjack-v1", render_mode="rgb_array").unwrapped
    cards.reset(seed=1)
    before = cards.render()
    cards.player.append(5)
    assert not np.array_equal(cards.render(), before)


class Light(NamedTuple):
    on: int


class Dark(NamedTuple):
    chance: float = 0.5


class Lamp(KernelEnv):
    """A kernel whose author paints arrays, and needs no pygame for it."""

    kernel = Kernel(
        lambda rng, params: Light(0),
        lambda state, action, rng, params: (Light(action), 0.0, False),
        lambda state, params: state.on,
        params=Dark(),
        observation_space=Discrete(2),
        action_space=Discrete(2),
    )
    metadata = {"render_modes": ["rgb_array", "human", "ansi"]}

    def paint(self):
        return np.full((2, 3, 3), 255 * self.kernel_state.on, np.uint8)


def test_authors_may_paint_arrays(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    lamp = Lamp(render_mode="rgb_array")
    lamp.reset(seed=1)
    dark = lamp.render()
    lamp.step(1)
    assert (dark.shape, dark.max(), lamp.render().min()) == ((2, 3, 3), 0, 255)


def test_mode_without_its_hook_is_told():
    lamp = Lamp(render_mode="ansi")
    lamp.reset(seed=1)
    with pytest.raises(NotImplementedError, match=r"Lamp lists 'ansi', for which it has no describe\(\)"):
        lamp.render()


@pytest.mark.process
def test_frames_need_no_display_and_print_nothing():
    printed = run(
        """
        import paddock
        from paddock.envs.catalog import BUILT_IN

        for spec in BUILT_IN:
            if spec.entry_point.startswith("paddock.agentic."):
                continue  # words, no pictures
            env = paddock.make(spec.id, render_mode="rgb_array")
            env.reset(seed=1)
            env.render()
        import os, pygame

        assert not pygame.display.get_init()
        assert not [name for name in os.environ if name.startswith(("SDL_", "PYGAME_"))]
        """
    )
    assert printed == []


WINDOWS = """
import paddock, pygame
from paddock.envs.catalog import BUILT_IN

flips = []
really = pygame.display.flip
pygame.display.flip = lambda: (flips.append(pygame.display.get_window_size()), really())

def shown(id, **options):
    env = paddock.make(id, render_mode="human", **options)
    env.unwrapped.metadata = {**env.unwrapped.metadata, "render_fps": 1000}
    env.action_space.seed(1)
    return env
"""


@pytest.mark.process
def test_human_mode_shows_each_reset_and_step_of_every_environment():
    run(
        WINDOWS
        + textwrap.dedent("""
        for spec in BUILT_IN:
            if spec.entry_point.startswith("paddock.agentic."):
                continue  # words, no pictures
            env = shown(spec.id)
            quiet = paddock.make(spec.id)
            assert str(env.reset(seed=1)) == str(quiet.reset(seed=1))
            action = env.action_space.sample()
            assert str(env.step(action)) == str(quiet.step(action))
            assert len(flips) == 2, spec.id
            assert env.render() is None
            size = paddock.make(spec.id, render_mode="rgb_array")
            size.reset(seed=1)
            assert flips == [size.render().shape[1::-1]] * 3, (spec.id, flips)
            flips.clear()
            env.close()
            env.close()
        """),
        SDL_VIDEODRIVER="dummy",
    )


@pytest.mark.process
def test_closing_one_window_leaves_the_others_and_the_rest_of_pygame_alive():
    run(
        WINDOWS
        + textwrap.dedent("""
        pygame.font.init()
        one, other = shown("CartPole-v1"), shown("Pendulum-v1")
        one.reset(seed=1)
        other.reset(seed=1)
        one.close()
        other.step(other.action_space.sample())
        assert flips[-1] == (500, 500) and pygame.display.get_surface() is not None
        pygame.display.quit()  # as another library might
        other.step(other.action_space.sample())
        assert flips[-1] == (500, 500)
        pygame.quit()
        pygame.init()
        other.step(other.action_space.sample())
        other.close()
        assert pygame.display.get_surface() is None and pygame.font.get_init()
        """),
        SDL_VIDEODRIVER="dummy",
    )


@pytest.mark.process
def test_display_of_a_program_that_has_one_stays_open():
    run(
        WINDOWS
        + textwrap.dedent("""
        pygame.display.set_mode((300, 200))
        env = shown("CartPole-v1")
        env.reset(seed=1)
        env.close()
        assert pygame.display.get_surface() is not None
        """),
        SDL_VIDEODRIVER="dummy",
    )


@pytest.mark.process
def test_lanes_share_a_window_side_by_side():
    run(
        WINDOWS
        + textwrap.dedent("""
        lanes = paddock.make("CartPole-v1", num_envs=4, render_mode="human")
        quiet = paddock.make("CartPole-v1", num_envs=4)
        assert str(lanes.reset(seed=1)) == str(quiet.reset(seed=1))
        actions = quiet.action_space.sample()
        assert str(lanes.step(actions)) == str(quiet.step(actions))
        assert flips == [(1200, 800)] * 2, flips
        lanes.close()
        many = paddock.make("Pendulum-v1", num_envs=100, render_mode="human")
        many.reset(seed=1)
        assert flips[-1] == (800, 800), flips
        """),
        SDL_VIDEODRIVER="dummy",
    )


@pytest.mark.process
def test_missing_display_is_told():
    run(
        """
        import paddock
        env = paddock.make("CartPole-v1", render_mode="human")
        try:
            env.reset(seed=1)
        except paddock.errors.UnsupportedMode as error:
            assert "render_mode='rgb_array'" in str(error)
        else:
            raise SystemExit("opened a window on a display that does not exist")
        """,
        SDL_VIDEODRIVER="no-such-driver",
    )
