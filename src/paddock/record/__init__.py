"""Records of what happened: digests of trajectories and environments, and traces, which are episodes as files."""

from paddock.core.values import canonical_bytes
from paddock.record.digest import TrajectoryDigest, environment_digest

__all__ = ["TrajectoryDigest", "canonical_bytes", "environment_digest"]
