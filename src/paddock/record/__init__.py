"""Records of what happened: digests of trajectories and environments, and traces, which are episodes as files."""

from paddock.record.digest import TrajectoryDigest, canonical_bytes, environment_digest

__all__ = ["TrajectoryDigest", "canonical_bytes", "environment_digest"]
