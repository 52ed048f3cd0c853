"""Make an action ready for its environment, or say why not. More lenient than `contains` on dtypes, stricter on NaN.

Hot: the guard of `make()` calls this at every step.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidValue
from paddock.spaces.box import Box
from paddock.spaces.dict import Dict
from paddock.spaces.discrete import Discrete
from paddock.spaces.multi_binary import MultiBinary
from paddock.spaces.multi_discrete import MultiDiscrete
from paddock.spaces.oneof import OneOf
from paddock.spaces.space import Space
from paddock.spaces.struct import Struct
from paddock.spaces.tuple import Tuple

_FEW = 16  # up to this many elements a loop over Python floats beats two NumPy calls


class Nonconforming(ValueError):
    """Why a value does not fit its space, in a sentence that names the place. The guard turns it into InvalidAction."""


def conform(space: Space[Any], value: Any, *, bounds: bool = True, path: str = "") -> Any:
    """``value`` as the environment should get it, or `Nonconforming`.

    A Box takes any array or list of real numbers of the right shape. Other dtypes are cast where no more than precision
    is lost; an array of the right dtype comes back as the same object. ``bounds=False`` lets values outside the bounds
    through, but never NaN. Tuple, Dict and OneOf do this part by part. A Struct makes a record of a dict with its
    fields. All other spaces ask `contains` and return the value as it is.
    """
    if type(space) is Box:
        # The common case, first and with the fewest calls: an array of the right dtype.
        if type(value) is np.ndarray and value.dtype is space.dtype and value.shape == space._shape:
            if bounds and space._pairs is not None:
                return value if space._few_within(value) else _refuse_box(space, value, path)
            return value if _fits(space, value, bounds) else _refuse_box(space, value, path)
        return _conform_box(space, value, bounds, path)
    rule = _RULES.get(type(space)) or _find_rule(type(space))
    return rule(space, value, bounds, path)


def _fits(space: Box, array: NDArray[Any], bounds: bool) -> bool:
    """Whether an array of the space's shape and dtype has no NaN and, with ``bounds``, is within them."""
    if bounds:
        return space._within(array)
    if space.dtype.kind != "f":
        return True
    if array.size <= _FEW and array.ndim == 1:
        for number in array.tolist():  # noqa: SIM110 - faster than all() over a generator
            if number != number:
                return False
        return True
    return b"\0" not in (array == array).tobytes()


def _conform_box(space: Box, value: Any, bounds: bool, path: str) -> Any:
    try:
        if space.shape and hasattr(value, "__len__") and len(value) != space.shape[0]:
            raise Nonconforming(f"{_at(path)}its shape begins with {len(value)}, {_show(space)} expects {space.shape}")
        array = np.asarray(value)
        kind, shape = array.dtype.kind, array.shape
    except Nonconforming:
        raise
    except Exception:
        raise Nonconforming(f"{_at(path)}{_show(value)} is not a regular array of numbers for {_show(space)}") from None
    if kind not in "biuf":
        raise Nonconforming(f"{_at(path)}{_show(value)} is not made of numbers, {_show(space)} expects {space.dtype}")
    if shape != space.shape:
        raise Nonconforming(f"{_at(path)}{_show(value)} has shape {shape}, {_show(space)} expects {space.shape}")
    if array.dtype != space.dtype:
        array = _cast(space, value, array, path)
    elif type(value) is np.ndarray:
        array = value
    return array if _fits(space, array, bounds) else _refuse_box(space, array, path)


def _cast(space: Box, value: Any, array: NDArray[Any], path: str) -> NDArray[Any]:
    target = space.dtype
    with np.errstate(all="ignore"):
        cast = array.astype(target)
        # A float Box takes any real dtype. An integer Box takes the integers that it can hold, and no floats.
        lossless = target.kind == "f" or (array.dtype.kind != "f" and bool((cast == array).all()))
    if not lossless or (target.kind == "b" and array.dtype.kind != "b"):
        raise Nonconforming(
            f"{_at(path)}{_show(value)} of dtype {array.dtype} can't be cast to {target} as {_show(space)} expects"
        )
    return cast


def _refuse_box(space: Box, array: NDArray[Any], path: str) -> Any:
    if space.dtype.kind == "f" and np.isnan(array).any():
        raise Nonconforming(f"{_at(path)}{_show(array)} has NaN, {_show(space)} expects numbers")
    raise Nonconforming(f"{_at(path)}{_show(array)} is outside the bounds of {_show(space)}")


def _conform_tuple(space: Tuple, value: Any, bounds: bool, path: str) -> Any:
    try:
        fits = isinstance(value, (tuple, list, np.ndarray)) and len(value) == len(space.spaces)
        parts = tuple(value) if fits else ()
    except Exception:
        fits = False
    if not fits:
        raise Nonconforming(
            f"{_at(path)}{_show(value)} is not in {_show(space)}, expected a tuple of {len(space.spaces)} values"
        )
    return tuple(
        conform(part, item, bounds=bounds, path=f"{path}[{i}]")
        for i, (part, item) in enumerate(zip(space.spaces, parts, strict=True))
    )


def _conform_dict(space: Dict, value: Any, bounds: bool, path: str) -> Any:
    try:
        fits = isinstance(value, dict) and value.keys() == space.spaces.keys()
        parts = {key: value[key] for key in space.spaces} if fits else {}
    except Exception:
        fits = False
    if not fits:
        raise Nonconforming(
            f"{_at(path)}{_show(value)} is not in {_show(space)}, expected a dict with the keys {list(space.spaces)}"
        )
    return {
        key: conform(space.spaces[key], item, bounds=bounds, path=f"{path}[{key!r}]") for key, item in parts.items()
    }


def _conform_one_of(space: OneOf, value: Any, bounds: bool, path: str) -> Any:
    index: Any = None
    try:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (int, np.int64)):
            index = int(value[0])
    except Exception:
        index = None
    if index is None or not 0 <= index < len(space.spaces):
        raise Nonconforming(
            f"{_at(path)}{_show(value)} is not in {_show(space)}, expected a pair of an index below "
            f"{len(space.spaces)} and a value"
        )
    return value[0], conform(space.spaces[index], value[1], bounds=bounds, path=f"{path}[1]")


def _conform_struct(space: Struct, value: Any, bounds: bool, path: str) -> Any:
    try:
        return space.validate(value)
    except InvalidValue as error:
        raise Nonconforming(f"{_at(path)}{error}") from None
    except Exception:
        raise Nonconforming(f"{_at(path)}{_show(value)} is not in {_show(space)}") from None


def _conform_discrete(space: Discrete[Any], value: Any, bounds: bool, path: str) -> Any:
    if not space.contains(value):
        raise Nonconforming(f"{_at(path)}{_show(value)} is not in {_show(space)}{_how_to_fix(space, value, path)}")
    return value


def _how_to_fix(space: Discrete[Any], value: Any, path: str) -> str:
    """How to get the integer out of a tensor, an array of one element or a float that holds one; else the range."""
    name = path if path and not path.startswith("[") else f"action{path}"
    with suppress(Exception):  # the value's own code may raise anything
        shape = tuple(getattr(value, "shape", ()))
        number, item = (value.item(), f"{name}.item()") if hasattr(value, "item") else (value, name)
        if int(number) == number and space.contains(int(number)):
            what = f"its shape is {shape}" if shape else f"it is a {type(value).__name__}"
            if not isinstance(number, int):
                item = f"int({item})"
            elif shape == (1,) and isinstance(value, np.ndarray):
                item = f"{name}[0] or {item}"
            elif not shape:
                item = f"{item} or int({name})"
            return f": {what}, a Discrete takes an integer. Pass {item}"
    return f", expected an integer from {space.start} to {int(space.start) + int(space.n) - 1}"


def _conform_member(space: Space[Any], value: Any, bounds: bool, path: str) -> Any:
    if not space.contains(value):
        raise Nonconforming(f"{_at(path)}{_show(value)} is not in {_show(space)}")
    return value


_RULES: dict[type, Any] = {
    Discrete: _conform_discrete,
    MultiDiscrete: _conform_member,
    MultiBinary: _conform_member,
    Box: _conform_box,
    Tuple: _conform_tuple,
    Dict: _conform_dict,
    OneOf: _conform_one_of,
    Struct: _conform_struct,
}


def _find_rule(kind: type) -> Any:
    """The rule of the class that ``kind`` extends, unless it has a ``contains`` of its own."""
    for parent in (Box, Discrete, Tuple, Dict, OneOf):
        if issubclass(kind, parent) and kind.contains is parent.contains:
            return _RULES[parent]
    return _conform_member


def _at(path: str) -> str:
    return f"{path}: " if path else ""


def _show(thing: Any, limit: int = 200) -> str:
    """``thing`` in one short line, whatever its ``repr`` does."""
    try:
        text = repr(thing)
    except Exception:
        return f"a {type(thing).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
