"""``gymnasium.spaces.utils``."""

from typing import TypeVar

from paddock.spaces.flatten import flatdim, flatten, flatten_space, is_space_dtype_shape_equiv, unflatten

__all__ = ["flatdim", "flatten", "flatten_space", "is_space_dtype_shape_equiv", "unflatten"]

T = TypeVar("T")
