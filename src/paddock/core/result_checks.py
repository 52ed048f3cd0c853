"""What can be wrong with what reset and step return. Looking changes nothing: the caller gets the original."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from paddock.core.problem import Problem, brief
from paddock.errors import CheckFailed
from paddock.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

INFINITE_REWARD = "The reward is an inf value."


def takes_keyword(function: Callable[..., Any], name: str) -> bool:
    """Whether the function has a parameter of that name, or ``**kwargs``."""
    parameters = parameters_of(function)
    if parameters is None:
        return True
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """The parameters, or None for a function that does not tell (some compiled ones)."""
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
        yield Problem("step-result", _wrong_length(len(result)), CheckFailed)
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


def _wrong_length(length: int) -> str:
    if length == 4:
        return (
            "Core environment is written in old step API which returns one bool instead of two: expected "
            "(observation, reward, terminated, truncated, info), got a tuple of 4."
        )
    return f"Expected `Env.step` to return a four or five element tuple, actual number of elements returned: {length}."


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
        for key, part, part_space in _nested(observation, space):
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
        yield from _tuple_problems(observation, space, pre)
    elif isinstance(space, Dict):
        if not isinstance(observation, dict):
            yield Problem("observation-outside", f"{pre} must be a dict, {actual}", CheckFailed)
        elif observation.keys() != space.spaces.keys():
            text = f"{pre} observation keys is not same as the observation space keys"
            text += f", obs keys: {brief(list(observation))}, space keys: {brief(list(space.spaces))}"
            yield Problem("observation-outside", text, CheckFailed)


def _tuple_problems(observation: Any, space: Tuple, pre: str) -> Iterator[Problem]:
    if not isinstance(observation, tuple):
        yield Problem("observation-type", f"{pre} was expecting a tuple, actual type: {type(observation)}")
    length = len(observation) if isinstance(observation, Collection) else "none"
    if length != len(space.spaces):
        text = f"{pre} length is not same as the observation space length"
        text += f", obs length: {length}, space length: {len(space.spaces)}"
        yield Problem("observation-outside", text, CheckFailed)


def _nested(observation: Any, space: Space[Any]) -> list[tuple[Any, Any, Space[Any]]]:
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
