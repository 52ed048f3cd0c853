"""A digest over everything that passed between agent and environment. Equal digests mean equal numbers, bit for bit.

Infos and rendered frames are not in it: they may hold clocks and names, and no agent is graded by them.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any, SupportsFloat

from paddock.record.canonical import canonical_bytes

_FORMAT = b"paddock trajectory 1\n"


class TrajectoryDigest:
    """sha256 over resets and steps in the order in which they happened.

    After the name of the format, a reset adds ``R``, its seed and its observation; a step adds ``S``, the action, the
    observation, the reward as a little-endian float64, and one byte: 1 if terminated, plus 2 if truncated. Values are
    in their canonical bytes.

    >>> digest = TrajectoryDigest()
    >>> digest.reset(7, [0.5])
    >>> digest.step(1, [0.6], 1.0, True, False)
    >>> digest.hexdigest()[:16]
    'a5d1530a821174d2'
    """

    def __init__(self) -> None:
        self._sha = hashlib.sha256(_FORMAT)

    def reset(self, seed: int | None, observation: Any) -> None:
        """An episode began. ``seed`` is None where none was given."""
        self._sha.update(b"R" + canonical_bytes(seed) + canonical_bytes(observation))

    def step(self, action: Any, observation: Any, reward: SupportsFloat, terminated: bool, truncated: bool) -> None:
        """One step. A value without a canonical form raises NoCanonicalForm and leaves the digest as it was."""
        ending = struct.pack("<dB", float(reward), bool(terminated) + 2 * bool(truncated))
        self._sha.update(b"S" + canonical_bytes(action) + canonical_bytes(observation) + ending)

    def hexdigest(self) -> str:
        """The digest so far, as 64 hexadecimal digits."""
        return self._sha.hexdigest()
