"""A batch of actions, taken apart by lane. Neither their values nor their dtypes are looked at here."""

from __future__ import annotations

from typing import Any

from paddock.errors import InvalidAction
from paddock.spaces import Space
from paddock.spaces.batch import iterate


def lane_actions(space: Space[Any], actions: Any, count: int) -> list[Any]:
    """One action a lane out of a batch of the batched ``space``; InvalidAction unless there are ``count``."""
    each = list(iterate(space, actions))
    if len(each) != count:
        raise InvalidAction(f"{len(each)} actions for {count} lanes. Expected one a lane.", action=actions, space=space)
    return each
