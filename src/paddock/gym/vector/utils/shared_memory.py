"""``gymnasium.vector.utils.shared_memory``."""

from paddock.spaces.shared_memory import create_shared_memory, read_from_shared_memory, write_to_shared_memory

__all__ = ["create_shared_memory", "read_from_shared_memory", "write_to_shared_memory"]
