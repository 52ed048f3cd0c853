"""How often someone may ask. Time is given from outside, so that a test needs no clock."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache


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
        """0 if ``name`` may ask now, which is then counted; else after how many seconds it may."""
        bucket = self._bucket(name, now_s)
        if bucket.left < 1:
            return (1 - bucket.left) / self._per_s
        bucket.left -= 1
        return 0.0

    def charge(self, name: str, now_s: float, count: int = 1) -> float:
        """Count what ``name`` has asked already; for how many seconds it must be silent to be within its rate."""
        bucket = self._bucket(name, now_s)
        bucket.left -= count
        return max(0.0, -bucket.left / self._per_s)

    def _bucket(self, name: str, now_s: float) -> _Bucket:
        bucket = self._buckets.pop(name, None) or _Bucket(self._burst, now_s)
        bucket.left = min(self._burst, bucket.left + (now_s - bucket.at_s) * self._per_s)
        bucket.at_s = now_s
        self._buckets[name] = bucket  # the latest one stands last
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return bucket


class AddressRates:
    """``per_s`` requests a second of each address, ``burst`` at once; ten times as many of all addresses together."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._each, self._all = Rates(per_s, burst), Rates(10 * per_s, 10 * burst)

    def wait_s(self, peer: str, now_s: float) -> float:
        """As that of ``Rates``, for the address of ``peer``."""
        return self._each.wait_s(network_of(peer), now_s) or self._all.wait_s("", now_s)


def network_of(peer: str) -> str:
    """Who counts as one: an IPv4 address, or an IPv6 network of 64 bits, of which one machine has all addresses."""
    return _network_of(peer.rpartition(":")[0] or peer)


@lru_cache(1024)
def _network_of(host: str) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)
