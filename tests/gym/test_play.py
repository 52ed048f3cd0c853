"""play: keys to steps, on a screen that nobody sees. Keys are pressed by a script, one line for each frame shown."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import paddock
from paddock import errors
from paddock.gym.utils import play as playing
from paddock.gym.utils.play import MissingKeysToAction, PlayableGame, PlayPlot, display_arr, play
from paddock.wrappers import HumanRendering, RenderCollection
from tests.wrappers.painters import Painter

KEYS = {"a": 1, "b": 2, "ab": 3}


class Game(Painter):
    """Notes its actions and seeds; the observation is the step with a random part of the episode."""

    action_space = paddock.spaces.Discrete(4)
    observation_space = paddock.spaces.Box(0, 100, (2,), np.float64)
    metadata = {**Painter.metadata, "render_fps": 10_000}

    def __init__(self, lengths=(3,), **kwargs):
        super().__init__(lengths, **kwargs)
        self.actions, self.seeds = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.luck = self.np_random.random()
        return np.array([0, self.luck]), {}

    def step(self, action):
        self.actions.append(action)
        time, *rest = super().step(action)
        return np.array([time, self.luck]), *rest


class Script:
    """What the player does: a list of "+a" (press), "-a" (release), "quit" for each frame that is shown."""

    def __init__(self, pygame, monkeypatch, *frames):
        self.pygame, self.left = pygame, list(frames)
        monkeypatch.setattr(pygame.event, "get", self.get)

    def get(self):
        return [self.event(word) for word in (self.left.pop(0) if self.left else "quit").split()]

    def event(self, word):
        pygame = self.pygame
        if word == "quit":
            return pygame.event.Event(pygame.QUIT)
        if word == "escape":
            return pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE)
        if word.startswith("size"):
            width, height = map(int, word.removeprefix("size").split("x"))
            return pygame.event.Event(pygame.WINDOWRESIZED, x=width, y=height)
        return pygame.event.Event(pygame.KEYDOWN if word[0] == "+" else pygame.KEYUP, key=ord(word[1]))


@pytest.fixture
def script(pygame, monkeypatch):
    return lambda *frames: Script(pygame, monkeypatch, *frames)


@pytest.mark.parametrize(
    "keys",
    [KEYS, {("a",): 1, ("b",): 2, ("b", "a"): 3}, {97: 1, (98,): 2, (97, 98): 3}, {"a": 1, 98: 2, ("a", 98): 3}],
    ids=str,
)
def test_keys_that_are_down_together_are_the_action(keys, script):
    script("", "+a", "+b", "-a", "-b", "+z", "")
    env = Game((20,))
    play(env, keys_to_action=keys, noop=0)
    assert env.actions == [0, 1, 3, 2, 0, 0, 0]


def test_the_same_script_gives_gymnasiums_actions(script, monkeypatch):
    class Theirs(gymnasium.Env):
        metadata, render_mode = Game.metadata, "rgb_array"
        action_space, observation_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(9)
        lane, shape, render, actions = 0, (32, 48, 3), Painter.render, ()

        def reset(self, *, seed=None, options=None):
            self.time = 0
            return 0, {}

        def step(self, action):
            self.time, self.actions = self.time + 1, (*self.actions, action)
            return self.time, 0.0, self.time == 3, False, {}

    frames = ("", "+a", "+b", "-a", "", "-b", "+b", "+a", "quit")
    sys.modules.pop("gymnasium.utils.play", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # else it would choose a window system for the whole process
    with pytest.warns(UserWarning, match="matplotlib is not installed"):
        from gymnasium.utils.play import play as their_play
    sys.modules.pop("gymnasium.utils.play", None)
    env, other = Game(), Theirs()
    script(*frames)
    play(env, keys_to_action=KEYS)
    script(*frames)
    their_play(other, keys_to_action=KEYS)
    assert tuple(env.actions) == other.actions
    assert len(env.actions) == 6


@pytest.mark.parametrize("end", ["quit", "escape"])
def test_the_window_s_button_and_escape_end_it(end, script, pygame):
    script("", "", end, "")
    env = Game()
    play(env, keys_to_action=KEYS)
    assert len(env.actions) == 2
    assert not pygame.display.get_init()


def test_escape_can_be_a_key_of_the_game(script):
    script("", "escape", "", "quit")
    env = Game((20,))
    play(env, keys_to_action={27: 2})
    assert env.actions == [0, 2, 2]


def test_a_game_of_turns_waits_for_its_player(script):
    script("", "", "+a", "", "-a", "", "quit")
    env = Game((20,))
    play(env, keys_to_action=KEYS, wait_on_player=True)
    assert env.actions == [1, 1]


def test_a_game_of_turns_waits_with_a_list_of_frames_too(script):
    script("", "", "+a", "-a", "", "quit")
    env = RenderCollection(Game((20,)))
    play(env, keys_to_action=KEYS, wait_on_player=True)
    assert env.unwrapped.actions == [1]


def test_the_first_observation_before_a_step_is_an_observation_and_not_what_reset_returns(script):
    told = []
    script(*[""] * 9)
    play(Game(), keys_to_action=KEYS, callback=lambda *step: told.append(step), seed=3)
    before, after, action, reward, terminated, truncated, info = zip(*told, strict=True)
    assert [float(each[0]) for each in before] == [0, 1, 2, 0, 1, 2, 0]
    assert [float(each[0]) for each in after] == [1, 2, 3, 1, 2, 3, 1]
    assert terminated == (False, False, True) * 2 + (False,)
    assert set(action) == {0}
    assert (set(reward), set(truncated), info) == ({1.0}, {False}, ({},) * 7)


def test_the_seed_is_for_the_first_episode_and_the_others_differ(script):
    luck = []
    script(*[""] * 11)
    env = Game((2,))
    play(env, keys_to_action=KEYS, seed=3, callback=lambda before, *_: luck.append(float(before[1])))
    assert env.seeds[0] == 3
    assert set(env.seeds[1:]) == {None}
    assert len(set(luck)) == len(env.seeds) > 3


def test_keys_are_the_environments_own_if_none_are_given(script):
    class Keyed(Game):
        def get_keys_to_action(self):
            return {"b": 2}

    script("", "+b", "", "quit")
    env = HumanRenderingFree(Keyed((20,)))
    play(env)
    assert env.unwrapped.actions == [0, 2, 2]


class HumanRenderingFree(paddock.Wrapper):
    """A wrapper: keys are looked for beneath it."""


def test_a_game_without_keys_is_refused_by_name():
    env = Game()
    with pytest.raises(MissingKeysToAction, match="does not have explicit key to action mapping") as caught:
        play(env)
    assert isinstance(caught.value, ValueError)
    env.spec = paddock.EnvSpec("test/Game-v0")
    with pytest.raises(MissingKeysToAction, match="test/Game-v0"):
        PlayableGame(env)


@pytest.mark.parametrize(
    ("keys", "text", "kind"),
    [
        ([("a", 1)], "must be a dictionary", TypeError),
        ({(1.5,): 1}, "must be integers or strings", TypeError),
        ({("ab",): 1}, "of one key", TypeError),
        ({1.5: 1}, "must be integers or strings", TypeError),
        ({"a": 7}, "Action 7 is not a valid action .*Discrete\\(4\\)", ValueError),
    ],
)
def test_keys_that_mean_nothing_are_refused(keys, text, kind):
    with pytest.raises(errors.InvalidKeys, match=text) as caught:
        play(Game(), keys_to_action=keys)
    assert isinstance(caught.value, kind)


def test_modes_zooms_and_rates_that_cannot_be_are_refused(pygame):
    with pytest.raises(errors.UnsupportedMode, match="works only with rgb_array"):
        play(Game(render_mode="human"), keys_to_action=KEYS)
    with pytest.raises(errors.InvalidBound, match="Zoom must be a positive float, got 0"):
        play(Game(), keys_to_action=KEYS, zoom=0)
    with pytest.raises(errors.InvalidMetadata, match="to be a positive number"):
        play(Game(), keys_to_action=KEYS, fps=0)
    env = Game()
    env.render = lambda: "a frame"
    with pytest.raises(errors.CheckFailed, match="to return a numpy array"):
        play(env, keys_to_action=KEYS)
    assert not pygame.display.get_init()


def test_a_window_of_another_size_keeps_the_proportions(pygame):
    game = PlayableGame(Game(), {(97,): 1}, zoom=2)
    assert game.video_size == game.original_video_size == (96, 64) == game.screen.get_size()
    for width, height, expected in ((48, 640, (48, 32)), (960, 64, (96, 64)), (192, 640, (192, 128))):
        game.process_event(pygame.event.Event(pygame.WINDOWRESIZED, x=width, y=height))
        assert game.video_size == expected
    game.close()
    game.close()


def test_keys_that_do_not_matter_are_not_noted(pygame):
    game = PlayableGame(Game(), {(97, 98): 1})
    for key in (97, 99, 98):
        game.process_event(pygame.event.Event(pygame.KEYDOWN, key=key))
    assert game.pressed_keys == {97, 98}
    for key in (99, 97):
        game.process_event(pygame.event.Event(pygame.KEYUP, key=key))
    assert game.pressed_keys == {98}
    assert game.relevant_keys == {97, 98}
    game.close()


def test_pictures_are_drawn_amid_the_screen_with_black_around(pygame):
    pygame.display.init()
    screen = pygame.display.set_mode((40, 30))
    picture = np.zeros((10, 20, 3), np.uint8)
    picture[:5], picture[5:] = 100, 200  # upper half, lower half
    display_arr(screen, picture, (40, 20), True)
    seen = pygame.surfarray.array3d(screen)[20, :, 0]
    assert [int(seen[y]) for y in (2, 7, 12, 17, 22, 27)] == [0, 100, 100, 200, 200, 0]
    display_arr(screen, picture, (30, 30), False)
    assert pygame.surfarray.array3d(screen)[[2, 10, 30, 37], 15, 0].tolist() == [0, 100, 200, 0]
    with pytest.raises(errors.CheckFailed, match="uint8"):
        display_arr(screen, picture / 255, (40, 20), True)


def test_other_windows_outlive_the_game(script, pygame):
    other = HumanRendering(Game())
    other.reset()
    script("", "quit")
    play(Game(), keys_to_action=KEYS)
    assert pygame.display.get_init()
    other.step(0)
    other.close()
    assert not pygame.display.get_init()


def test_the_window_is_given_up_when_a_step_fails(script, pygame):
    env = Game()
    env.step = lambda action: 1 / 0
    script("", "", "")
    with pytest.raises(ZeroDivisionError):
        play(env, keys_to_action=KEYS)
    assert not pygame.display.get_init()


def test_no_key_can_have_an_action_of_its_own(script):
    """MountainCar has one, so Gymnasium refuses to play its own game."""
    script("", "+z", "-z", "quit")
    taken = []
    env = paddock.make("MountainCar-v0", render_mode="rgb_array")
    play(env, fps=10_000, callback=lambda before, after, action, *_: taken.append(action), noop=0)
    assert taken == [1, 1, 1]


def test_arrows_play_a_game_that_knows_them_by_their_former_codes(pygame):
    env = paddock.make("MountainCar-v0", render_mode="rgb_array")
    env.reset()
    game = PlayableGame(env, {(276,): 0, (273, 274): 1})
    assert game.relevant_keys == {pygame.K_LEFT, pygame.K_UP, pygame.K_DOWN}
    game.process_event(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_LEFT))
    assert game.pressed_keys == {pygame.K_LEFT}
    assert set(playing.key_codes(env.get_wrapper_attr("get_keys_to_action")())) == {
        (),
        (pygame.K_LEFT,),
        (pygame.K_RIGHT,),
        (pygame.K_RIGHT, pygame.K_LEFT),
    }
    game.close()


def test_missing_pygame_is_told_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(errors.DependencyNotInstalled, match=r"pip install pygame-ce"):
        play(Game(), keys_to_action=KEYS)


@pytest.mark.process
def test_importing_it_imports_neither_pygame_nor_matplotlib():
    code = (
        "import sys, paddock.gym.utils.play, paddock.gym.utils.save_video;"
        "print([name for name in ('pygame', 'matplotlib', 'av') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_plots_show_the_last_steps_and_leave_the_backend_alone(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setattr(matplotlib, "use", lambda name: pytest.fail(f"chose {name}"))
    matplotlib.rcParams["backend"] = "agg"
    plot = PlayPlot(lambda before, after, action, reward, *rest: [reward, action], 3, ["reward", "action"])
    for time in range(5):
        plot.callback(0, 0, time * 10, time, False, False, {})
    assert plot.t == 5
    assert [list(series) for series in plot.data] == [[2, 3, 4], [20, 30, 40]]
    assert [axis.get_title() for axis in plot.ax] == ["reward", "action"]
    assert plot.cur_plot[1].get_offsets().tolist() == [[2, 20], [3, 30], [4, 40]]
    assert plot.ax[0].get_xlim() == (2, 5)
    assert [len(axis.collections) for axis in plot.ax] == [1, 1]
    with pytest.raises(errors.InvalidBound, match="returned 1 numbers"):
        PlayPlot(lambda *step: [1], 3, ["one", "two"]).callback(0, 0, 0, 0.0, False, False, {})


def test_missing_matplotlib_is_told_when_a_plot_is_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(errors.DependencyNotInstalled, match="pip install matplotlib"):
        playing.PlayPlot(lambda *step: [], 1, [])
