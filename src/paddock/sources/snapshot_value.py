"""Snapshots that are one value, of plain data and arrays: of simulators' states, and of what stands around them.

Never pickled: what was saved may come from anywhere, so what is opened has yet to be checked by its reader.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddock.core.snapshot import opened, sealed
from paddock.errors import BadFrame, InvalidSnapshot, NotTransferable, SnapshotUnsupported
from paddock.hosting.values import from_wire, to_wire


def sealed_value(layer: str, value: Any, *, name: str) -> bytes:
    """The value as bytes; SnapshotUnsupported, for the environment ``name``, if some of it has no form as data."""
    pieces: list[Any] = []
    try:
        plain = to_wire(value, pieces, name=name)
    except NotTransferable as error:
        raise SnapshotUnsupported(f"{name} can't be saved: {error}") from None
    return sealed(layer, plain, b"".join(pieces))


def opened_value(layer: str, snapshot: bytes) -> Any:
    """What was sealed; anything else is an InvalidSnapshot."""
    plain, body = opened(layer, snapshot, Any)
    try:
        return from_wire(plain, bytearray(body))
    except BadFrame as error:
        raise InvalidSnapshot(f"This snapshot is malformed: {error}") from None


def fits_in(array: Any, like: Any) -> bool:
    """Whether it is an array that may take the place of ``like``."""
    return isinstance(array, np.ndarray) and array.dtype == like.dtype and array.shape == like.shape


def class_of(thing: Any) -> str:
    """By which a snapshot knows what it belongs to."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
