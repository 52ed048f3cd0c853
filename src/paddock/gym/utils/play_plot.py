"""PlayPlot: metrics of a game as plots that move along. Which window system matplotlib uses is left to its settings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Generic

from paddock.core.env import ActType, AnyByDefault, ObsType
from paddock.errors import DependencyNotInstalled, InvalidBound


class PlayPlot(AnyByDefault, Generic[ObsType, ActType]):
    """Plots what ``callback`` computes of each step, for ``play(env, callback=plot.callback)``.

    It gets the step (obs_t, obs_tp1, action, rew, terminated, truncated, info) and returns a number for each of
    ``plot_names``; the last ``horizon_timesteps`` of them are shown.
    """

    def __init__(self, callback: Callable[..., Iterable[Any]], horizon_timesteps: int, plot_names: list[str]) -> None:
        self.data_callback = callback
        self.horizon_timesteps = horizon_timesteps
        self.plot_names = plot_names
        self._pyplot = _load_pyplot()
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


def _load_pyplot() -> Any:
    try:
        return import_module("matplotlib.pyplot")
    except ImportError as error:
        raise DependencyNotInstalled("matplotlib is not installed, run `pip install matplotlib`") from error
