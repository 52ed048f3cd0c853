"""Values that cross between processes, exactly: what arrives has the same types and the same bits.

Plain msgpack stands for itself: None, bool, 64-bit int, float, short str and bytes, list, and dict with short ASCII
keys other than ``"$"``. Everything else is a dict ``{"$": kind, …}``; ``docs/wire.md`` lists the kinds. What a reader
would get wrong: a decoded array is a view of the message's body, writable, and keeps the whole body alive.

Not quite the same arrive: subclasses of int, float, str, bytes, complex, list and dict (as their base), arrays that
are not contiguous (contiguous), a space's own random stream and a generator's seed sequence (left behind), and the
tuples in a spec's kwargs (lists, as in Gymnasium's JSON).
"""

from __future__ import annotations

from typing import Any

from paddock.hosting.limits import LIMITS, Limits
from paddock.hosting.value_reader import Reader, Unpickler
from paddock.hosting.value_writer import Pickler, Piece, Writer

__all__ = ["Pickler", "Piece", "Reader", "Unpickler", "Writer", "from_wire", "to_wire"]


def to_wire(
    value: Any,
    buffers: list[Piece],
    *,
    name: str = "value",
    limits: Limits = LIMITS,
    pickler: Pickler | None = None,
) -> Any:
    """``value`` as plain data; what lies in the body is added to ``buffers``, which must be empty.

    Raises NotTransferable with the path of the first value that can't cross, beginning with ``name``. With a
    ``pickler`` such values are pickled instead, for a far end that trusts this one.

    >>> buffers = []
    >>> to_wire((1, 2.5), buffers), buffers
    ({'$': 'tuple', 'items': [1, 2.5]}, [])
    """
    writer = Writer(limits, pickler)
    plain = writer.add(value, name)
    buffers += writer.pieces
    return plain


def from_wire(plain: Any, body: bytearray, *, limits: Limits = LIMITS, unpickler: Unpickler | None = None) -> Any:
    """The value that `to_wire` was given, or BadFrame. ``plain`` is used up, ``body`` belongs to the value's arrays."""
    reader = Reader(body, limits, unpickler)
    value = reader.read(plain)
    reader.finish()
    return value
