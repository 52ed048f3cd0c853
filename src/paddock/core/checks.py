"""Checks of an environment: its first calls as they happen, its spaces, results and frames. Looking changes nothing.

The first four functions call the environment once, as the caller would: a problem that leaves nothing to work with
raises, everything else warns. The others yield Problems, and `paddock.testing.check_env` judges those more strictly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, SupportsFloat

import numpy as np

from paddock.core.env import ActType, Env, Info, ObsType
from paddock.core.problem import Problem, brief, raise_or_warn
from paddock.errors import CheckFailed, MissingSpace, WrongClass
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from paddock.spaces.flatten import parts

BoxCheck = Callable[[Box], Iterable[Problem]]
INFINITE_REWARD = "The reward is an inf value."
LIST_SUFFIX = "_list"


def check_spaces(env: Env[Any, Any]) -> None:
    """Raise if a space is missing or malformed, warn if its bounds look wrong."""
    for kind in ("action", "observation"):
        raise_or_warn(space_problems(space_of(env, kind), kind))


def space_of(env: Env[Any, Any], kind: str) -> Any:
    """``env.action_space`` or ``env.observation_space``, or MissingSpace."""
    try:
        return getattr(env, f"{kind}_space")
    except AttributeError as error:
        raise MissingSpace(missing_space(kind)) from error


def missing_space(kind: str) -> str:
    """The error text for an environment without such a space."""
    return f"The environment must specify an {kind} space. Set `self.{kind}_space` in `__init__`."


def reset_and_check(
    env: Env[ObsType, Any], *, seed: int | None = None, options: Info | None = None
) -> tuple[ObsType, Info]:
    """Call ``env.reset``, and check its signature and its result."""
    raise_or_warn(reset_signature_problems(env.reset))
    result = env.reset(seed=seed, options=options)
    raise_or_warn(reset_result_problems(result, env.observation_space))
    return result


def step_and_check(env: Env[ObsType, ActType], action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
    """Call ``env.step``, and check its result. The guard has checked the action."""
    result = env.step(action)
    raise_or_warn(step_result_problems(result, env.observation_space))
    return result


def render_and_check(env: Env[Any, Any]) -> Any:
    """Call ``env.render``, and check the declared modes and the frame."""
    raise_or_warn(render_metadata_problems(env.metadata, env.render_mode))
    frame = env.render()
    if env.render_mode is not None:
        raise_or_warn(frame_problems(env.render_mode, frame))
    return frame


# What reset and step take and return.


def takes_keyword(function: Callable[..., Any], name: str) -> bool:
    """Whether the function has a parameter of that name, or ``**kwargs``."""
    parameters = parameters_of(function)
    if parameters is None:
        return True
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """The parameters, or None for a function without a signature (some compiled ones)."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def reset_signature_problems(reset: Callable[..., Any], why: str = "`Env.reset` has to take") -> Iterator[Problem]:
    """``reset`` takes ``seed``, None unless given, and ``options``. ``why`` is how the messages begin."""
    if not takes_keyword(reset, "seed"):
        text = f"{why} a `seed` instead of using `Env.seed` for resetting the environment random number generator."
        yield Problem("reset-no-seed", text, category=DeprecationWarning)
    yield from seed_default_problems(reset, "`Env.reset`")
    if not takes_keyword(reset, "options"):
        text = f"{why} `options` to allow the environment initialisation to be passed additional information."
        yield Problem("reset-no-options", text, category=DeprecationWarning)


def seed_default_problems(reset: Callable[..., Any], name: str) -> Iterator[Problem]:
    """A default other than None makes every episode the same."""
    seed = (parameters_of(reset) or {}).get("seed")
    if seed is not None and seed.default is not None and seed.kind is not seed.VAR_KEYWORD:
        default = "none at all" if seed.default is seed.empty else brief(seed.default)
        text = f"The default seed argument in {name} should be `None`, otherwise the environment will by default"
        yield Problem("reset-seed-default", f"{text} always be deterministic. Actual default: {default}")


def reset_result_problems(result: Any, space: Space[Any]) -> Iterator[Problem]:
    """``reset`` returns (observation, info)."""
    if not isinstance(result, tuple):
        text = "The result returned by `env.reset()` was not a tuple of the form `(obs, info)`, where `obs` is a"
        text += f" observation and `info` is a dictionary. Actual type: `{type(result)}`"
        yield Problem("reset-result", text, CheckFailed)
    elif len(result) != 2:
        text = f"The result returned by `env.reset()` should be `(obs, info)`, a 2-tuple, actual length: {len(result)}"
        yield Problem("reset-result", text, CheckFailed)
    else:
        observation, info = result
        yield from observation_problems(observation, space, "reset")
        if not isinstance(info, dict):
            text = f"The second element returned by `env.reset()` was not a dictionary, actual type: {type(info)}"
            yield Problem("info-not-dict", text, CheckFailed)


def step_result_problems(result: Any, space: Space[Any]) -> Iterator[Problem]:
    """``step`` returns (observation, reward, terminated, truncated, info)."""
    if not isinstance(result, tuple):
        yield Problem("step-result", f"Expects step result to be a tuple, actual type: {type(result)}", CheckFailed)
        return
    if len(result) != 5:
        text = "Expected `Env.step` to return a four or five element tuple"
        text += f", actual number of elements returned: {len(result)}."
        if len(result) == 4:
            text = "Core environment is written in old step API which returns one bool instead of two: expected "
            text += "(observation, reward, terminated, truncated, info), got a tuple of 4."
        yield Problem("step-result", text, CheckFailed)
        return
    observation, reward, terminated, truncated, info = result
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            yield Problem("flag-type", f"Expects `{name}` signal to be a boolean, actual type: {type(flag)}")
    yield from observation_problems(observation, space, "step")
    yield from reward_problems(reward)
    if not isinstance(info, dict):
        text = f"The `info` returned by `step()` must be a python dictionary, actual type: {type(info)}"
        yield Problem("info-not-dict", text, CheckFailed)


def reward_problems(reward: Any) -> Iterator[Problem]:
    """A reward is a finite number; a bool or an array is not."""
    if isinstance(reward, bool | np.bool_) or not isinstance(reward, int | float | np.integer | np.floating):
        text = "The reward returned by `step()` must be a float, int, np.integer or np.floating"
        yield Problem("reward-type", f"{text}, actual type: {type(reward)}")
    elif reward != reward:
        yield Problem("reward-not-finite", "The reward is a NaN value.")
    elif reward in (float("inf"), float("-inf")):
        yield Problem("reward-not-finite", f"{INFINITE_REWARD} It is {reward}.")


def observation_problems(observation: Any, space: Space[Any], method: str) -> Iterator[Problem]:
    """The observation's types, then whether it is in the space; of nested spaces the innermost place is named."""
    pre = f"The obs returned by the `{method}()` method"
    found = list(_type_problems(observation, space, pre))
    if not any(problem.error for problem in found):
        for key, part, part_space in _list_parts(observation, space):
            inner = observation_problems(part, part_space, method)
            found += [Problem(p.rule, f"{p.message} (under {key!r})", p.error) for p in inner]
    yield from found
    if any(problem.rule == "observation-outside" for problem in found):
        return
    try:
        inside, why = observation in space, ""
    except Exception as error:
        inside, why = False, f" with exception: {brief(error)}"
    if not inside:
        text = f"{pre} is not within the observation space{why}. {_why_outside(observation, space)}"
        yield Problem("observation-outside", text)


def _type_problems(observation: Any, space: Space[Any], pre: str) -> Iterator[Problem]:
    actual = f"actual type: {type(observation)}"
    if isinstance(space, Discrete):
        if not isinstance(observation, int | np.int64):
            yield Problem("observation-type", f"{pre} should be an int or np.int64, {actual}")
    elif isinstance(space, Box | MultiBinary | MultiDiscrete):
        if isinstance(space, Box) and space.shape == ():
            return
        if not isinstance(observation, np.ndarray):
            yield Problem("observation-type", f"{pre} was expecting a numpy array, {actual}")
        elif isinstance(space, Box) and observation.dtype != space.dtype:
            text = f"{pre} was expecting numpy array dtype to be {space.dtype}, actual type: {observation.dtype}"
            yield Problem("observation-type", text)
    elif isinstance(space, Tuple):
        if not isinstance(observation, tuple):
            yield Problem("observation-type", f"{pre} was expecting a tuple, {actual}")
        length = len(observation) if isinstance(observation, Collection) else "none"
        if length != len(space.spaces):
            text = f"{pre} length is not same as the observation space length"
            text += f", obs length: {length}, space length: {len(space.spaces)}"
            yield Problem("observation-outside", text, CheckFailed)
    elif isinstance(space, Dict):
        if not isinstance(observation, dict):
            yield Problem("observation-outside", f"{pre} must be a dict, {actual}", CheckFailed)
        elif observation.keys() != space.spaces.keys():
            text = f"{pre} observation keys is not same as the observation space keys"
            text += f", obs keys: {brief(list(observation))}, space keys: {brief(list(space.spaces))}"
            yield Problem("observation-outside", text, CheckFailed)


def _list_parts(observation: Any, space: Space[Any]) -> list[tuple[Any, Any, Space[Any]]]:
    if isinstance(space, Dict):
        return [(key, observation[key], part) for key, part in space.spaces.items()]
    if isinstance(space, Tuple):
        return [(i, part, own) for i, (part, own) in enumerate(zip(observation, space.spaces, strict=True))]
    return []


def _why_outside(observation: Any, space: Space[Any]) -> str:
    if not isinstance(space, Box) or not isinstance(observation, np.ndarray):
        return f"Got {brief(observation)}, the space is {brief(space)}."
    if observation.shape != space.shape:
        return f"Its shape is {observation.shape}, the space's is {space.shape}."
    if not np.can_cast(observation.dtype, space.dtype):
        return f"Its dtype is {observation.dtype}, the space's is {space.dtype}."
    with np.errstate(invalid="ignore"):
        outside = np.argwhere(~((observation >= space.low) & (observation <= space.high)))
    if len(outside) == 0:
        return f"Got {brief(observation)}, the space is {brief(space)}."
    place = tuple(int(i) for i in outside[0])
    bounds = f"[{space.low[place]}, {space.high[place]}]"
    return f"At index {place} it is {observation[place]}, which is not in {bounds}."


# Spaces themselves. Matters of taste (bounds, images) are for paddock.testing.


def space_problems(space: Any, kind: str, check_box: BoxCheck | None = None) -> Iterator[Problem]:
    """Problems of a space and of those inside it. ``kind`` is "observation" or "action"."""
    if not isinstance(space, Space):
        text = f"{kind} space does not inherit from `gymnasium.spaces.Space`, actual type: {type(space)}"
        yield Problem("not-a-space", f"{text}. Take one from `paddock.spaces`.", WrongClass)
        return
    if isinstance(space, Box):
        yield from box_problems(space, kind) if check_box is None else check_box(space)
    else:
        for text in _faults(space, kind):
            yield Problem("space-malformed", text, CheckFailed)
    for part in parts(space):
        yield from space_problems(part, kind, check_box)


def box_problems(box: Box, kind: str) -> Iterator[Problem]:
    """Problems of a Box's bounds."""
    for side, bounds in (("low", box.low), ("high", box.high)):
        if bounds.shape != box.shape:
            text = f"The Box {kind} space shape and {side} shape have different shapes"
            text += f", {side} shape: {bounds.shape}, box shape: {box.shape}"
            yield Problem("space-malformed", text, CheckFailed)
            return
    same = np.argwhere(box.low == box.high)
    crossed = np.argwhere(box.low > box.high)
    if len(same):
        text = f"A Box {kind} space maximum and minimum values are equal. {_at(box, same)}"
        yield Problem("box-bounds-equal", text)
    elif kind == "observation" and len(crossed):
        text = f"A Box observation space low value is greater than a high value. {_at(box, crossed)}"
        yield Problem("box-bounds-equal", text)


def _faults(space: Space[Any], kind: str) -> Iterator[str]:
    # The constructors refuse these; a space may have been changed since, or be a subclass with its own constructor.
    if isinstance(space, Discrete):
        if space.n <= 0:
            yield f"Discrete {kind} space's number of elements must be positive, actual number of elements: {space.n}"
        if space.shape != ():
            yield f"Discrete {kind} space's shape should be empty, actual shape: {space.shape}"
    elif isinstance(space, MultiDiscrete):
        if space.shape != space.nvec.shape:
            yield (
                f"Multi-discrete {kind} space's shape must be equal to the nvec shape, "
                f"space shape: {space.shape}, nvec shape: {space.nvec.shape}"
            )
        if np.any(space.nvec <= 0):
            yield (f"Multi-discrete {kind} space's all nvec elements must be greater than 0, actual nvec: {space.nvec}")
    elif isinstance(space, MultiBinary):
        if any(size <= 0 for size in space.shape):
            yield (
                f"Multi-binary {kind} space's all shape elements must be greater than 0, actual shape: {space.shape}"
            )
    elif isinstance(space, Tuple | Dict) and len(space.spaces) == 0:
        yield f"An empty {type(space).__name__} {kind} space is not allowed."


def _at(box: Box, places: np.ndarray[Any, Any]) -> str:
    place = tuple(int(i) for i in places[0])
    return f"low {box.low[place]} and high {box.high[place]} at index {place}."


# Rendering: declared modes and frames. Only the mode in use says what a frame must be.


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
    fps: Any = metadata.get("render_fps")
    if modes and fps is None:
        text = "No render fps was declared in the environment (env.metadata['render_fps'] is None or not defined)"
        yield Problem("render-fps", f"{text}, rendering may occur at inconsistent fps.")
    elif modes and (isinstance(fps, bool) or not isinstance(fps, int | float | np.integer | np.floating)):
        text = f"Expects the `env.metadata['render_fps']` to be an integer or a float, actual type: {type(fps)}"
        yield Problem("render-fps", text)
    elif modes and not fps > 0:
        text = f"Expects the `env.metadata['render_fps']` to be greater than zero, actual value: {fps}"
        yield Problem("render-fps-not-positive", text, CheckFailed)
    if render_mode is not None and render_mode not in modes:
        text = f"With no render_modes, expects the Env.render_mode to be None, actual value: {render_mode}"
        if modes:
            text = "The environment was initialized successfully however with an unsupported render mode."
            text += f" Render mode: {render_mode}, modes: {modes}"
        yield Problem("render-mode-unsupported", text, CheckFailed)


def frame_problems(render_mode: str, frame: Any) -> Iterator[Problem]:
    """What ``render`` returned in that mode. A mode of the environment's own may return anything."""
    for text in _frame_faults(render_mode, frame):
        yield Problem("render-frame", text)


def _frame_faults(render_mode: str, frame: Any) -> Iterator[str]:
    if render_mode.endswith(LIST_SUFFIX):
        if isinstance(frame, list):
            for item in frame:
                yield from _frame_faults(render_mode.removesuffix(LIST_SUFFIX), item)
        else:
            yield f"Render mode `{render_mode}` should produce a list, got {type(frame)}"
    elif render_mode == "human":
        if frame is not None:
            yield f"Human rendering should return `None`, got {type(frame)}"
    elif render_mode in ("ansi", "ascii"):
        if not isinstance(frame, str):
            yield f"ANSI/ASCII rendering should produce a string, got {type(frame)}: {brief(frame)}"
    elif render_mode in ("rgb_array", "depth_array"):
        should = f"{'RGB' if render_mode == 'rgb_array' else 'Depth'}-array rendering should return a numpy array"
        if not isinstance(frame, np.ndarray):
            yield f"{should}, got {type(frame)}"
        elif render_mode == "depth_array":
            if frame.ndim != 2:
                yield f"{should} with two axes, got {frame.ndim}"
        else:
            if frame.dtype != np.uint8:
                yield f"{should} with dtype uint8, got {frame.dtype}"
            if frame.ndim != 3:
                yield f"{should} with three axes, got {frame.ndim}"
            elif frame.shape[2] != 3:
                yield f"{should} in which the last axis has three dimensions, got {frame.shape[2]}"


# Whether two results share memory. Sharing is judged by identity, so it shows even while the values are equal.


def shares_objects(one: Any, other: Any) -> bool:
    """Whether changing one changes the other: the same dict or array, or memory in common, at the same place.

    Values that can't change are often the same object and don't count, and neither do objects of unknown types.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one is other or any(shares_objects(one[key], other[key]) for key in one.keys() & other.keys())
    if isinstance(one, tuple):
        return any(shares_objects(*pair) for pair in zip(one, other, strict=False))
    if isinstance(one, np.ndarray):
        if one.dtype == object:
            return one is other or any(shares_objects(*pair) for pair in zip(one.flat, other.flat, strict=False))
        # may_share_memory first: it is cheap, and the exact answer can take exponential time for odd strides.
        return bool(np.may_share_memory(one, other) and np.shares_memory(one, other))
    return False


def reuse_problems(
    previous: tuple[Any, Any], current: tuple[Any, Any], previous_source: str, source: str, *, adjacent: bool = True
) -> Iterator[Problem]:
    """Problems of two (observation, info) that an environment returned, one right after the other if ``adjacent``."""
    then = "the following " if adjacent else ""
    for name, one, other in zip(("observations", "infos"), previous, current, strict=True):
        if shares_objects(one, other):
            yield Problem(
                "data-reused",
                f"The {name} returned by `{previous_source}` and {then}`{source}` share an object, therefore, "
                f"modifying one will modify the other. Return new data on every call: users keep what they got.",
            )
