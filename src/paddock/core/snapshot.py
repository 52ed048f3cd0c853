"""Snapshots of layers: what a wrapper remembers, around the bytes of what it wraps. Never pickled, always bounded."""

from __future__ import annotations

from typing import Any

from paddock.errors import InvalidSnapshot

MAX_BYTES = 1 << 28


def sealed(layer: str, memory: Any, inner: bytes) -> bytes:
    """A layer's memory (plain data) around the snapshot of what it wraps."""
    import msgspec

    return msgspec.msgpack.encode([f"paddock.{layer}.1", memory, inner])


def opened(layer: str, snapshot: bytes, kind: Any) -> tuple[Any, bytes]:
    """The memory, as ``kind``, and the inner snapshot; anything else is an InvalidSnapshot."""
    import msgspec

    if not isinstance(snapshot, (bytes, bytearray, memoryview)) or len(snapshot) > MAX_BYTES:
        raise InvalidSnapshot(f"A snapshot is at most {MAX_BYTES} bytes, got {type(snapshot).__name__}.")
    try:
        name, memory, inner = msgspec.msgpack.decode(snapshot, type=tuple[str, msgspec.Raw, bytes])
        if name != f"paddock.{layer}.1":
            raise InvalidSnapshot(f"This is a snapshot of {ascii(name)[:60]}, expected one of {layer}.")
        return msgspec.msgpack.decode(memory, type=kind), inner
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidSnapshot(f"Not a snapshot of a {layer}: {error}.") from None
