"""Hostile environments and wrappers. They are safe to run without a wall: they harm only the canaries named to them."""
