"""Play an environment with the keyboard, in a pygame window. pygame and matplotlib are imported when first used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from importlib import import_module
from typing import Any, Generic

import numpy as np

from paddock.core.env import ActType, AnyByDefault, Env, ObsType
from paddock.core.window import Window, load_pygame
from paddock.errors import (
    CheckFailed,
    DependencyNotInstalled,
    InvalidBound,
    InvalidKeys,
    InvalidMetadata,
    MissingKeysToAction,
    UnsupportedMode,
)
from paddock.wrappers.rendering import latest_frame

__all__ = ["MissingKeysToAction", "PlayPlot", "PlayableGame", "display_arr", "play"]

_USUAL_RATE = 30
# Arrows, as pygame 1 numbered them and games still do (MountainCar among them), and as pygame 2 reports them.
_FORMER_CODES = {273: 1073741906, 274: 1073741905, 275: 1073741903, 276: 1073741904}
Size = tuple[int, int]
Keys = tuple[int, ...]


class PlayableGame:
    """An environment, its relevant keys, those that are pressed now, and its window.

    ``close`` gives up the window, which stays open while another environment shows something there.
    """

    def __init__(
        self, env: Env[Any, Any], keys_to_action: dict[Keys, Any] | None = None, zoom: float | None = None
    ) -> None:
        if env.render_mode not in ("rgb_array", "rgb_array_list"):
            raise UnsupportedMode(
                "PlayableGame wrapper works only with rgb_array and rgb_array_list render modes, "
                f"but your environment render_mode = {env.render_mode}."
            )
        if zoom is not None and zoom <= 0:
            raise InvalidBound(f"Zoom must be a positive float, got {zoom}")
        self.env = env
        self.relevant_keys = {key for keys in key_codes(keys_of(env, keys_to_action)) for key in keys}
        self.picture = self.look()
        height, width = self.picture.shape[:2]
        scale = 1 if zoom is None else zoom
        self.original_video_size: Size = (int(width * scale), int(height * scale))
        self.video_size = self.original_video_size
        self.pressed_keys: set[int] = set()
        self.running = True
        self._window = _ResizableWindow()
        self.screen = self._window.open(self.video_size)

    def look(self) -> np.ndarray[Any, Any]:
        """Fetch the environment's frame: of a list the newest, or the last one again if there is none since."""
        frame = latest_frame(self.env.render())
        if frame is None:
            frame = getattr(self, "picture", None)
        if not isinstance(frame, np.ndarray):
            raise CheckFailed(f"Expected `env.render()` to return a numpy array, actually returned {type(frame)}")
        self.picture = frame
        return frame

    def process_event(self, event: Any) -> None:
        """Note keys that go down or up, the window's size, and the wish to end: its close button, or Escape."""
        pygame = load_pygame()
        if event.type == pygame.QUIT:
            self.running = False
        elif event.type == pygame.KEYDOWN:
            if event.key in self.relevant_keys:
                self.pressed_keys.add(event.key)
            elif event.key == pygame.K_ESCAPE:
                self.running = False
        elif event.type == pygame.KEYUP:
            self.pressed_keys.discard(event.key)
        elif event.type == pygame.WINDOWRESIZED:
            width, height = self.original_video_size  # of the first size: rounding must not add up
            scale = min(event.x / width, event.y / height)
            self.video_size = (round(width * scale), round(height * scale))

    def close(self) -> None:
        """Give up the window. Calling it twice is fine."""
        self._window.close()


class _ResizableWindow(Window):
    """The display, with a frame that can be dragged. Other windows' pictures appear there too, if there are any."""

    def __init__(self) -> None:
        super().__init__(_USUAL_RATE)

    def open(self, size: Size) -> Any:
        pygame = load_pygame()
        self._join(pygame)
        return pygame.display.set_mode(size, pygame.RESIZABLE)


def display_arr(screen: Any, arr: np.ndarray[Any, Any], video_size: Size, transpose: bool | None) -> None:
    """Draw an array uint8[height, width, 3] amid the screen, scaled; without ``transpose`` it is [width, height, 3]."""
    if not isinstance(arr, np.ndarray) or arr.dtype != np.uint8:
        raise CheckFailed(f"Expected an array of uint8, got {getattr(arr, 'dtype', type(arr))}")
    pygame = load_pygame()
    surface = pygame.surfarray.make_surface(arr.swapaxes(0, 1) if transpose else arr)
    width, height = screen.get_size()
    screen.fill((0, 0, 0))  # bars, where the screen is larger
    corner = ((width - video_size[0]) / 2, (height - video_size[1]) / 2)
    screen.blit(pygame.transform.scale(surface, video_size), corner)


def play(
    env: Env[Any, Any],
    transpose: bool | None = True,
    fps: int | None = None,
    zoom: float | None = None,
    callback: Callable[..., Any] | None = None,
    keys_to_action: dict[Any, Any] | None = None,
    seed: int | None = None,
    noop: Any = 0,
    wait_on_player: bool = False,
) -> None:
    """Play until the window is closed or Escape is pressed; an episode that ends is followed by another.

    ``keys_to_action``: keys that are pressed together, as a text, a code or a tuple of either, and the action that they
    mean; by default the environment's ``get_keys_to_action()``. Any other keys, and none unless ``()`` is in the
    mapping, mean ``noop``; with ``wait_on_player`` nothing happens while no key is down. ``seed`` is for the first
    episode; those after it differ.
    ``callback(obs_t, obs_tp1, action, rew, terminated, truncated, info)`` follows each step.
    """
    codes = key_codes(keys_of(env, keys_to_action))
    for keys, action in codes.items():
        if action not in env.action_space:
            where = f"in the environment action space: {env.action_space} (keys {keys})"
            raise InvalidKeys(f"Action {action} is not a valid action {where}")
    rate = env.metadata.get("render_fps", _USUAL_RATE) if fps is None else fps
    if not isinstance(rate, (int, float, np.integer, np.floating)) or not rate > 0:
        raise InvalidMetadata(f"Expected fps, or env.metadata['render_fps'], to be a positive number, got {rate!r}")
    observation, _ = env.reset(seed=seed)
    with closing(PlayableGame(env, codes, zoom)) as game:
        pygame = load_pygame()
        clock, over, first = pygame.time.Clock(), False, True
        while game.running:
            if over:
                (observation, _), over = env.reset(), False
                game.look()
            elif not first and (not wait_on_player or game.pressed_keys):
                action = codes.get(tuple(sorted(game.pressed_keys)), noop)
                before = observation
                observation, reward, terminated, truncated, info = env.step(action)
                over = terminated or truncated
                game.look()
                if callback is not None:
                    callback(before, observation, action, reward, terminated, truncated, info)
            first = False
            display_arr(game.screen, game.picture, game.video_size, transpose)
            for event in pygame.event.get():
                game.process_event(event)
            pygame.display.flip()
            clock.tick(float(rate))


def keys_of(env: Env[Any, Any], keys_to_action: Any) -> dict[Any, Any]:
    """``keys_to_action``, or the environment's own mapping."""
    if keys_to_action is None:
        if not env.has_wrapper_attr("get_keys_to_action"):
            name = str(env) if env.spec is None else env.spec.id
            raise MissingKeysToAction(
                f"{name} does not have explicit key to action mapping, please specify one manually, "
                "`play(env, keys_to_action=...)`"
            )
        keys_to_action = env.get_wrapper_attr("get_keys_to_action")()
    if not isinstance(keys_to_action, dict):
        raise InvalidKeys(f"keys_to_action must be a dictionary, got {type(keys_to_action)}")
    return keys_to_action


def key_codes(keys_to_action: dict[Any, Any]) -> dict[Keys, Any]:
    """The same mapping with each combination of keys as their codes, the lowest first."""
    codes: dict[Keys, Any] = {}
    for keys, action in keys_to_action.items():
        if isinstance(keys, (int, np.integer)):
            keys = (keys,)
        if not isinstance(keys, (str, tuple)):
            raise InvalidKeys(f"Keys in keys_to_action must be integers or strings, got {type(keys)}")
        if not all(isinstance(key, (int, np.integer)) or (isinstance(key, str) and len(key) == 1) for key in keys):
            raise InvalidKeys(f"All keys in key combination tuple must be integers or strings of one key, got {keys}")
        numbers = (ord(key) if isinstance(key, str) else _FORMER_CODES.get(key, int(key)) for key in keys)
        codes[tuple(sorted(numbers))] = action
    return codes


class PlayPlot(AnyByDefault, Generic[ObsType, ActType]):
    """Plots what ``callback`` computes of each step, for ``play(env, callback=plot.callback)``.

    It gets the step (obs_t, obs_tp1, action, rew, terminated, truncated, info) and returns a number for each of
    ``plot_names``; the last ``horizon_timesteps`` of them are shown. matplotlib's settings choose the window system.
    """

    def __init__(self, callback: Callable[..., Iterable[Any]], horizon_timesteps: int, plot_names: list[str]) -> None:
        self.data_callback = callback
        self.horizon_timesteps = horizon_timesteps
        self.plot_names = plot_names
        try:
            self._pyplot: Any = import_module("matplotlib.pyplot")
        except ImportError as error:
            raise DependencyNotInstalled("matplotlib is not installed, run `pip install matplotlib`") from error
        self.fig, axes = self._pyplot.subplots(len(plot_names), squeeze=False)
        self.ax: list[Any] = list(axes[:, 0])
        for axis, name in zip(self.ax, plot_names, strict=True):
            axis.set_title(name)
        self.t = 0
        self.cur_plot: list[Any] = [None] * len(plot_names)
        self.data: list[deque[Any]] = [deque(maxlen=horizon_timesteps) for _ in plot_names]

    def callback(
        self, obs_t: Any, obs_tp1: Any, action: Any, rew: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None:
        """Add a step to the plots."""
        points = list(self.data_callback(obs_t, obs_tp1, action, rew, terminated, truncated, info))
        if len(points) != len(self.data):
            raise InvalidBound(f"The callback returned {len(points)} numbers for the plots {self.plot_names}")
        self.t += 1
        begin = max(0, self.t - self.horizon_timesteps)
        for at, (axis, series, point) in enumerate(zip(self.ax, self.data, points, strict=True)):
            series.append(point)
            if self.cur_plot[at] is not None:
                self.cur_plot[at].remove()
            self.cur_plot[at] = axis.scatter(range(begin, self.t), list(series), c="blue")
            axis.set_xlim(begin, self.t)
        self._pyplot.pause(1e-6)  # the window answers its events meanwhile
