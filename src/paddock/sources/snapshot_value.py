"""Snapshots that are one value, of plain data and arrays: of simulators' states, and of what stands around them.

Never pickled: what was saved may come from anywhere, so what is opened has yet to be checked by its reader. A simulator
in C trusts what is written into it: nothing that it could take for an address or a count may come from a snapshot.
"""

from __future__ import annotations

from collections.abc import Collection
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


def is_finite(array: Any) -> bool:
    """Whether a simulator could have computed it: none of them goes on from a NaN."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def fields_fit(fields: Any, layer: Any, present: dict[str, Any], settings: Collection[str]) -> bool:
    """Whether they may take the place of the ``present`` fields of ``layer``, and are alike in the ``settings``.

    A field that it does not have yet may come, as many are made by the first ``reset``; but it hides no method.
    """
    if not isinstance(fields, dict) or any(name in present and name not in fields for name in settings):
        return False
    for name, new in fields.items():
        if not isinstance(name, str) or name.startswith("__") or (name in vars(layer) and name not in present):
            return False
        of_class = getattr(type(layer), name, None)
        if name not in present and of_class is not None and type(new) is not type(of_class):
            return False
        if name in present and not _alike(new, present[name]):
            return False
        if name in settings and new != present.get(name):
            return False
    return True


def _alike(new: Any, old: Any) -> bool:
    """Of one kind. Of numbers too: what begins with 0 may go on with 0.5; and what is None now, with anything."""
    if isinstance(old, np.ndarray):
        return new is None or fits_in(new, old)
    if isinstance(old, (bool, np.bool_)):
        return isinstance(new, (bool, np.bool_))
    if isinstance(old, (int, float, np.number)):
        return new is None or (isinstance(new, (int, float, np.number)) and not isinstance(new, bool))
    return old is None or new is None or type(new) is type(old)


def class_of(thing: Any) -> str:
    """By which a snapshot knows what it belongs to."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
