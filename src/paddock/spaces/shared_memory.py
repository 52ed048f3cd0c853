"""Batches in memory that processes share. Reading returns views, which the next write changes.

Spaces of your own register rules here. Sequence, Graph and Struct have none: their members have no fixed size.
"""

from __future__ import annotations

import multiprocessing
from array import typecodes
from ctypes import c_bool, c_uint8
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddock.errors import InvalidLanes, InvalidSpace
from paddock.spaces.batch import no_rule, row
from paddock.spaces.dict import Dict
from paddock.spaces.flatten import flatten
from paddock.spaces.graph import Graph
from paddock.spaces.oneof import OneOf
from paddock.spaces.sequence import Sequence
from paddock.spaces.space import ArraySpace, Space
from paddock.spaces.struct import Struct
from paddock.spaces.text import Text
from paddock.spaces.tuple import Tuple

__all__ = ["create_shared_memory", "read_from_shared_memory", "write_to_shared_memory"]


@singledispatch
def create_shared_memory(space: Space[Any], n: int = 1, ctx: Any = multiprocessing) -> Any:
    """Room for ``n`` members, all zero bytes: a locked array, or a tuple or dict of them as the space is.

    ``ctx`` makes the arrays: the module `multiprocessing`, or what its ``get_context`` gives.
    """
    match space:
        case ArraySpace():
            size, dtype = n * int(np.prod(space.shape)), space.dtype
            if dtype.kind == "b":
                return ctx.Array(c_bool, size)
            if dtype.char in typecodes:
                return ctx.Array(dtype.char, size)
            return ctx.Array(c_uint8, size * dtype.itemsize)  # float16 and the like: C has no such number
        case Tuple():
            return tuple(create_shared_memory(part, n=n, ctx=ctx) for part in space.spaces)
        case Dict():
            return {key: create_shared_memory(part, n=n, ctx=ctx) for key, part in space.spaces.items()}
        case Text():
            return ctx.Array(np.dtype(np.int32).char, n * space.max_length)
        case OneOf():  # the index of each lane's alternative, then room for each alternative in every lane
            chosen = ctx.Array(np.dtype(np.int64).char, n)
            return (chosen, *(create_shared_memory(part, n=n, ctx=ctx) for part in space.spaces))
        case Graph() | Sequence() | Struct():
            raise InvalidSpace(
                f"As {space} has a dynamic shape so its not possible to make a static shared memory. "
                "For `AsyncVectorEnv`, disable `shared_memory`."
            )
    raise no_rule("create_shared_memory", space)


@singledispatch
def read_from_shared_memory(space: Space[Any], shared_memory: Any, n: int = 1) -> Any:
    """Read the batch of ``n`` members. Arrays are views; copy what must not change."""
    match space:
        case ArraySpace():
            return _numbers(shared_memory, space.dtype).reshape((n, *space.shape))
        case Tuple():
            parts = zip(space.spaces, shared_memory, strict=True)
            return tuple(read_from_shared_memory(part, memory, n=n) for part, memory in parts)
        case Dict():
            return {key: read_from_shared_memory(part, shared_memory[key], n=n) for key, part in space.spaces.items()}
        case Text():
            rows = _numbers(shared_memory, np.dtype(np.int32)).reshape((n, space.max_length)).tolist()
            characters = space.character_list
            return tuple("".join([characters[index] for index in row if index < len(characters)]) for row in rows)
        case OneOf():
            chosen = _numbers(shared_memory[0], np.dtype(np.int64))
            pairs = zip(space.spaces, shared_memory[1:], strict=True)
            batches = [read_from_shared_memory(part, memory, n=n) for part, memory in pairs]
            return tuple((index, row(space.spaces[index], batches[index], lane)) for lane, index in enumerate(chosen))
    raise no_rule("read_from_shared_memory", space)


@singledispatch
def write_to_shared_memory(space: Space[Any], index: int, value: Any, shared_memory: Any) -> None:
    """Write ``value``, a member, into lane ``index``. Takes no lock: each lane has one writer."""
    match space:
        case ArraySpace():
            room = _room(_numbers(shared_memory, space.dtype), int(np.prod(space.shape)), index)
            np.copyto(room, np.asarray(value, dtype=space.dtype).reshape(-1))
        case Tuple():
            for part, item, memory in zip(space.spaces, value, shared_memory, strict=True):
                write_to_shared_memory(part, index, item, memory)
        case Dict():
            for key, part in space.spaces.items():
                write_to_shared_memory(part, index, value[key], shared_memory[key])
        case Text():
            codes: Any = flatten(space, value)
            np.copyto(_room(_numbers(shared_memory, np.dtype(np.int32)), space.max_length, index), codes)
        case OneOf():
            chosen, item = value
            # The value first: if it can't be written, the lane still names the alternative that it holds.
            write_to_shared_memory(space.spaces[chosen], index, item, shared_memory[1 + chosen])
            _room(_numbers(shared_memory[0], np.dtype(np.int64)), 1, index)[0] = chosen
        case _:
            raise no_rule("write_to_shared_memory", space)


def _numbers(shared_memory: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    numbers: NDArray[Any] = np.frombuffer(shared_memory.get_obj(), dtype=dtype)
    return numbers


def _room(numbers: NDArray[Any], size: int, index: int) -> NDArray[Any]:
    """Lane ``index``'s part. Outside it a slice would be empty, and NumPy writes one number into nothing silently."""
    lanes = len(numbers) // size if size else index + 1
    if not 0 <= index < lanes:
        raise InvalidLanes(f"index={index} is not a lane of this memory, which has {lanes}; expected 0 to {lanes - 1}.")
    return numbers[index * size : (index + 1) * size]
