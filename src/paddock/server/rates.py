"""How often someone may ask. Time is given from outside, so that a test needs no clock."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass
class _Bucket:
    left: float
    at_s: float


class Rates:
    """``per_s`` requests a second for each name, and ``burst`` at once. Names that are quiet are forgotten."""

    def __init__(self, per_s: float, burst: int, *, most_names: int = 10_000) -> None:
        self._per_s, self._burst, self._most = per_s, float(burst), most_names
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, name: str, now_s: float) -> float:
        """0 if ``name`` may go on now, which is then counted; else after how many seconds it may."""
        bucket = self._buckets.pop(name, None) or _Bucket(self._burst, now_s)
        bucket.left = min(self._burst, bucket.left + (now_s - bucket.at_s) * self._per_s)
        bucket.at_s = now_s
        self._buckets[name] = bucket  # the latest one stands last
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._per_s
        bucket.left -= 1.0
        return 0.0
