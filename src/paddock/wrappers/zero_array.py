"""``create_zero_array``: zero_of as Gymnasium has it, where users register the zero of their own space classes."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from paddock.errors import CustomSpaceError, InvalidSpace
from paddock.spaces import Dict, Space, Tuple
from paddock.wrappers.zero import zero_of


@singledispatch
def create_zero_array(space: Space[Any]) -> Any:
    """The member of the space nearest to zero. For a space class of your own: ``create_zero_array.register(Class)``."""
    if not isinstance(space, Space):
        raise InvalidSpace(
            f"The space provided to `create_zero_array` is not a gymnasium Space instance, type: {type(space)}, {space}"
        )
    try:
        return zero_of(space)
    except CustomSpaceError:
        raise CustomSpaceError(
            f"Space of type `{type(space)}` doesn't have an registered `create_zero_array` function. "
            f"Register `{type(space)}` for `create_zero_array` to support it."
        ) from None


@create_zero_array.register(Dict)
def _zero_dict(space: Dict) -> dict[str, Any]:
    return {key: create_zero_array(part) for key, part in space.spaces.items()}


@create_zero_array.register(Tuple)
def _zero_tuple(space: Tuple) -> tuple[Any, ...]:
    return tuple(create_zero_array(part) for part in space.spaces)
