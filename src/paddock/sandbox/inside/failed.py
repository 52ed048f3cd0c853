"""LockFailed: a part of the wall did not go up as it was asked for. Who catches it must not go on without that part."""

from __future__ import annotations


class LockFailed(Exception):
    """The text says which part, and why the kernel refused it."""
