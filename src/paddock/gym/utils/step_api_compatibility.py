"""Convert between steps of four and of five values. The info is changed in place: it says what four values can't."""

from __future__ import annotations

from typing import Any, SupportsFloat, TypeAlias

import numpy as np

from paddock.core.env import ObsType

_Infos: TypeAlias = dict[str, Any] | list[Any]
DoneStepType: TypeAlias = tuple[ObsType | np.ndarray, SupportsFloat | np.ndarray, bool | np.ndarray, _Infos]
TerminatedTruncatedStepType: TypeAlias = tuple[
    ObsType | np.ndarray, SupportsFloat | np.ndarray, bool | np.ndarray, bool | np.ndarray, _Infos
]

_KEY = "TimeLimit.truncated"


def convert_to_terminated_truncated_step_api(step_returns: Any, is_vector_env: bool = False) -> Any:
    """The step of five; ``info["TimeLimit.truncated"]`` says what ``done`` meant, and is removed."""
    if len(step_returns) == 5:
        return step_returns
    observations, rewards, dones, infos = step_returns
    if not is_vector_env:
        truncated = infos.pop(_KEY, False)
        return observations, rewards, dones and not truncated, dones and truncated, infos
    if isinstance(infos, list):
        truncated = np.array([info.pop(_KEY, False) for info in infos])
    elif isinstance(infos, dict):
        truncated = infos.pop(_KEY, np.zeros(len(dones), dtype=bool))
    else:
        raise _unexpected_infos(infos)
    return (
        observations,
        rewards,
        np.logical_and(dones, np.logical_not(truncated)),
        np.logical_and(dones, truncated),
        infos,
    )


def convert_to_done_step_api(step_returns: Any, is_vector_env: bool = False) -> Any:
    """The step of four; at an end ``info["TimeLimit.truncated"]`` says whether the episode was only cut off."""
    if len(step_returns) == 4:
        return step_returns
    observations, rewards, terminated, truncated, infos = step_returns
    if not is_vector_env:
        _note(infos, terminated, truncated)
        return observations, rewards, terminated or truncated, infos
    if isinstance(infos, list):
        for info, ended, cut in zip(infos, terminated, truncated, strict=True):
            _note(info, ended, cut)
    elif isinstance(infos, dict):
        if np.any(terminated) or np.any(truncated):
            infos[_KEY] = np.logical_and(truncated, np.logical_not(terminated))
    else:
        raise _unexpected_infos(infos)
    return observations, rewards, np.logical_or(terminated, truncated), infos


def step_api_compatibility(step_returns: Any, output_truncation_bool: bool = True, is_vector_env: bool = False) -> Any:
    """The step of five, or of four without ``output_truncation_bool``, whichever came in."""
    convert = convert_to_terminated_truncated_step_api if output_truncation_bool else convert_to_done_step_api
    return convert(step_returns, is_vector_env)


def _note(info: dict[str, Any], terminated: Any, truncated: Any) -> None:
    if terminated or truncated:
        info[_KEY] = truncated and not terminated


def _unexpected_infos(infos: Any) -> TypeError:
    expected = "Unexpected value of infos, as is_vector_envs=False, expects `info` to be a list or dict"
    return TypeError(f"{expected}, actual type: {type(infos)}")
