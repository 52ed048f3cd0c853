"""The spaces of n lanes from those of each: equal, or alike enough for the observation mode."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from paddock.errors import InvalidLanes
from paddock.spaces import Space
from paddock.spaces.batch import batch_differing_spaces, batch_space
from paddock.spaces.flatten import is_space_dtype_shape_equiv


@dataclass(frozen=True)
class LaneSpaces:
    """Spaces of one lane and of the batch."""

    single_observation_space: Space[Any]
    single_action_space: Space[Any]
    observation_space: Space[Any]
    action_space: Space[Any]


def lane_spaces(
    observations: Sequence[Space[Any]],
    actions: Sequence[Space[Any]],
    observation_mode: str | tuple[Space[Any], Space[Any]],
) -> LaneSpaces:
    """The batch's spaces; InvalidLanes names the lane that does not fit."""
    if not observations:
        raise InvalidLanes("A vector environment needs at least one env function.")
    single, alike = _single(observations, observation_mode)
    for lane, space in enumerate(actions):
        if space != actions[0]:
            raise InvalidLanes(f"lane {lane}: action space {space} is not {actions[0]}.")
    for lane, space in enumerate(observations):
        if not alike(space, single):
            raise InvalidLanes(
                f"lane {lane}: observation space {space} does not fit {single} (observation_mode={observation_mode!r})."
            )
    batched = _batched(observations, observation_mode)
    return LaneSpaces(single, actions[0], batched, batch_space(actions[0], len(actions)))


def _single(
    spaces: Sequence[Space[Any]], mode: str | tuple[Space[Any], Space[Any]]
) -> tuple[Space[Any], Callable[[Any, Any], bool]]:
    """The space of one lane, and how alike the others must be."""
    if isinstance(mode, tuple):
        return mode[1], is_space_dtype_shape_equiv
    if mode == "same":
        return spaces[0], operator.eq
    if mode == "different":
        return spaces[0], is_space_dtype_shape_equiv
    raise InvalidLanes(f"observation_mode={mode!r}; expected 'same', 'different' or a pair.")


def _batched(spaces: Sequence[Space[Any]], mode: str | tuple[Space[Any], Space[Any]]) -> Space[Any]:
    if isinstance(mode, tuple):
        return mode[0]
    return batch_space(spaces[0], len(spaces)) if mode == "same" else batch_differing_spaces(list(spaces))
