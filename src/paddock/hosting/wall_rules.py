"""WallRules: what a worker behind a wall may say, and how long it may take. Data only: ``wall`` checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from paddock.hosting.limits import Limits
from paddock.sandbox.bounds import CALL_S, INFO_KB, REWARD_RANGE, START_S

if TYPE_CHECKING:
    from paddock.sandbox.policy import Policy

# Frames from behind a wall. The head stays what it is elsewhere: the infos of many lanes lie in one.
WALLED_LIMITS = Limits(depth=48, text_bytes=1 << 24, json_bytes=1 << 18, odd_keys=1 << 8)


class WallRules(msgspec.Struct, frozen=True, kw_only=True):
    """The trusted side's bounds: those of the default policy where nothing is said.

    >>> from paddock import Policy
    >>> WallRules.of(Policy(call_s=2.0)).call_s
    2.0
    """

    reward_range: tuple[float, float] = REWARD_RANGE
    info_bytes: int = INFO_KB * 1024
    info_depth: int = 8
    info_entries: int = 4096
    value_bytes: int = 1 << 26  # what an attribute or a call may bring
    value_depth: int = 16
    value_entries: int = 1 << 16
    space_bytes: int = 1 << 28  # a picture, or a value of a space that came from behind the wall: what a frame may hold
    lanes_bytes: int = 1 << 30  # the values of all lanes together, for which this side makes room
    ordered: bool = False  # an episode that has ended goes on only with a reset, whatever the far end says
    call_s: float = CALL_S
    start_s: float = START_S
    frames: Limits = WALLED_LIMITS
    server: bool = False  # the far end is a server: it knows what became of its workers and sessions, a worker does not

    @classmethod
    def of(cls, policy: Policy) -> WallRules:
        """The rules that a policy asks for."""
        return cls(
            reward_range=policy.reward_range,
            info_bytes=policy.info_kb * 1024,
            call_s=policy.call_s,
            start_s=policy.start_s,
        )
