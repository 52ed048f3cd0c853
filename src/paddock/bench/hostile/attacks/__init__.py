"""Hostile environments and wrappers. Each is harmless without a wall: it harms only the canaries that it is told of."""
