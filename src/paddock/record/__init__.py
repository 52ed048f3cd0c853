"""Records of what happened: bytes that are the same everywhere, and digests over them."""

from paddock.record.canonical import canonical_bytes
from paddock.record.digest import TrajectoryDigest
from paddock.record.identity import environment_digest

__all__ = ["TrajectoryDigest", "canonical_bytes", "environment_digest"]
