"""Records of what happened: bytes that are the same everywhere, and digests over them."""

from paddock.record.canonical import canonical_bytes
from paddock.record.digest import TrajectoryDigest

__all__ = ["TrajectoryDigest", "canonical_bytes"]
