"""What can be wrong with rendering: declared modes and frames. Only the mode in use says what a frame must be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from paddock.core.problem import Problem, brief
from paddock.errors import CheckFailed

LIST_SUFFIX = "_list"


def render_metadata_problems(metadata: dict[str, Any], render_mode: str | None) -> Iterator[Problem]:
    """The render modes and frames per second that ``metadata`` declares, and whether the mode in use is among them."""
    modes = metadata.get("render_modes")
    if modes is None:
        text = "No render modes was declared in the environment (env.metadata['render_modes'] is None or not defined)"
        yield Problem("render-modes", f"{text}, you may have trouble when calling `.render()`.")
        return
    if not isinstance(modes, list | tuple):
        text = f"Expects the render_modes to be a sequence (i.e. list, tuple), actual type: {type(modes)}"
        yield Problem("render-modes", text)
        return
    if not all(isinstance(mode, str) for mode in modes):
        text = f"Expects all render modes to be strings, actual types: {[type(mode) for mode in modes]}"
        yield Problem("render-modes", text)
    if modes:
        yield from _fps_problems(metadata.get("render_fps"))
    yield from _mode_problems(modes, render_mode)


def _fps_problems(fps: Any) -> Iterator[Problem]:
    if fps is None:
        text = "No render fps was declared in the environment (env.metadata['render_fps'] is None or not defined)"
        yield Problem("render-fps", f"{text}, rendering may occur at inconsistent fps.")
    elif isinstance(fps, bool) or not isinstance(fps, int | float | np.integer | np.floating):
        text = f"Expects the `env.metadata['render_fps']` to be an integer or a float, actual type: {type(fps)}"
        yield Problem("render-fps", text)
    elif not fps > 0:
        text = f"Expects the `env.metadata['render_fps']` to be greater than zero, actual value: {fps}"
        yield Problem("render-fps-not-positive", text, CheckFailed)


def _mode_problems(modes: list[Any] | tuple[Any, ...], render_mode: str | None) -> Iterator[Problem]:
    if render_mode is None or render_mode in modes:
        return
    if not modes:
        text = f"With no render_modes, expects the Env.render_mode to be None, actual value: {render_mode}"
    else:
        text = "The environment was initialized successfully however with an unsupported render mode."
        text += f" Render mode: {render_mode}, modes: {modes}"
    yield Problem("render-mode-unsupported", text, CheckFailed)


def frame_problems(render_mode: str, frame: Any) -> Iterator[Problem]:
    """What ``render`` returned in that mode; modes of the environment's own may return anything."""
    if render_mode.endswith(LIST_SUFFIX):
        if isinstance(frame, list):
            for item in frame:
                yield from frame_problems(render_mode.removesuffix(LIST_SUFFIX), item)
        else:
            yield _frame(f"Render mode `{render_mode}` should produce a list, got {type(frame)}")
    elif render_mode == "human":
        if frame is not None:
            yield _frame(f"Human rendering should return `None`, got {type(frame)}")
    elif render_mode in ("ansi", "ascii"):
        if not isinstance(frame, str):
            yield _frame(f"ANSI/ASCII rendering should produce a string, got {type(frame)}: {brief(frame)}")
    elif render_mode in ("rgb_array", "depth_array"):
        yield from _rgb_problems(frame) if render_mode == "rgb_array" else _depth_problems(frame)


def _rgb_problems(frame: Any) -> Iterator[Problem]:
    should = "RGB-array rendering should return a numpy array"
    if not isinstance(frame, np.ndarray):
        yield _frame(f"{should}, got {type(frame)}")
        return
    if frame.dtype != np.uint8:
        yield _frame(f"{should} with dtype uint8, got {frame.dtype}")
    if frame.ndim != 3:
        yield _frame(f"{should} with three axes, got {frame.ndim}")
    elif frame.shape[2] != 3:
        yield _frame(f"{should} in which the last axis has three dimensions, got {frame.shape[2]}")


def _depth_problems(frame: Any) -> Iterator[Problem]:
    should = "Depth-array rendering should return a numpy array"
    if not isinstance(frame, np.ndarray):
        yield _frame(f"{should}, got {type(frame)}")
    elif frame.ndim != 2:
        yield _frame(f"{should} with two axes, got {frame.ndim}")


def _frame(message: str) -> Problem:
    return Problem("render-frame", message)
