"""What one Policy allows beyond another. Two that mean the same differ in nothing, however they are written down.

What a reader would get wrong: what may be written may be read as well, and a path holds everything below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from paddock.sandbox.paths import covers
from paddock.sandbox.policy import Policy
from paddock.sandbox.words import amount, explain, listed, number, quoted

Direction = Literal["wider", "narrower"]

NONE = "none"
# From the strongest wall to the weakest: "auto" is at least "landlock".
_TIERS = ("sandbox", "auto", "landlock")
_AMOUNTS = {
    "scratch_mb": "scratch",
    "processes": "processes",
    "threads": "threads",
    "memory_mb": "memory",
    "cpu_s": "CPU time",
    "call_s": "time for a call",
    "call_cpu_s": "CPU time for a call",
    "start_s": "time to start",
    "descriptors": "open files",
    "output_kb": "kept output",
    "info_kb": "size of an info",
    "workspaces": "workspaces",
}


@dataclass(frozen=True)
class Change:
    """One thing that a new policy allows more of, or less."""

    topic: str
    old: str
    new: str
    direction: Direction


@dataclass(frozen=True)
class _Beyond:
    """What is asked, and what is granted of it."""

    topic: str
    asked: str
    granted: str


def exceeds(asked: Policy, granted: Policy) -> list[str]:
    """What ``asked`` wants that ``granted`` does not allow, in words; empty if it is all allowed.

    >>> exceeds(Policy(hosts=("a.example:443",), memory_mb=512), Policy())
    ['hosts to reach: a.example:443 (allowed: none)']
    """
    return [f"{one.topic}: {one.asked} (allowed: {one.granted})" for one in _beyond(asked, granted)]


def differences(old: Policy, new: Policy) -> list[Change]:
    """How the new policy differs from the old one, what became wider first."""
    wider = [Change(one.topic, one.granted, one.asked, "wider") for one in _beyond(new, old)]
    return wider + [Change(one.topic, one.asked, one.granted, "narrower") for one in _beyond(old, new)]


def _beyond(asked: Policy, granted: Policy) -> Iterator[_Beyond]:
    if _TIERS.index(asked.tier) > _TIERS.index(granted.tier):
        yield _Beyond("wall", asked.tier, granted.tier)
    yield from _items("files to read", asked.read, (*granted.read, *granted.write), covers)
    yield from _items("files to change", asked.write, granted.write, covers)
    yield from _items("hosts to reach", asked.hosts, granted.hosts, _reaches)
    if asked.cassette is not None and asked.cassette != granted.cassette:
        kept = NONE if granted.cassette is None else quoted(granted.cassette)
        yield _Beyond("file for recorded answers", quoted(asked.cassette), kept)
    yield from _items("programs to run", asked.programs, granted.programs, covers)
    yield from _items("devices", asked.devices, granted.devices, covers)
    yield from _items("variables", _pairs(asked), _pairs(granted), str.__eq__)
    yield from _amounts(asked, granted)
    yield from _rewards(asked, granted)
    yield from _workspaces(asked, granted)


def _items(
    topic: str, asked: Iterable[str], granted: Iterable[str], holds: Callable[[str, str], bool]
) -> Iterator[_Beyond]:
    """Each that nothing granted holds, with what is granted within it."""
    for one in dict.fromkeys(asked):
        if not any(holds(other, one) for other in granted):
            within = listed(dict.fromkeys(other for other in granted if holds(one, other)))
            yield _Beyond(topic, quoted(one), f"of it {within}" if within else NONE)


def _reaches(granted: str, asked: str) -> bool:
    """``*:443`` is every host on this port."""
    name, _, port = granted.rpartition(":")
    return granted == asked or (name == "*" and asked.rpartition(":")[2] == port)


def _pairs(policy: Policy) -> list[str]:
    return [f"{name}={value}" for name, value in policy.variables.items()]


def _amounts(asked: Policy, granted: Policy) -> Iterator[_Beyond]:
    for field, topic in _AMOUNTS.items():
        wanted, allowed = getattr(asked, field), getattr(granted, field)
        # None is no limit, the widest there is.
        if allowed is not None and (wanted is None or wanted > allowed):
            yield _Beyond(topic, amount(field, wanted), amount(field, allowed))


def _rewards(asked: Policy, granted: Policy) -> Iterator[_Beyond]:
    (low, high), (lowest, highest) = asked.reward_range, granted.reward_range
    if low < lowest:
        yield _Beyond("lowest reward", number(low), number(lowest))
    if high > highest:
        yield _Beyond("highest reward", number(high), number(highest))


def _workspaces(asked: Policy, granted: Policy) -> Iterator[_Beyond]:
    """Within the workspaces. One that can't be asked for (their number is 0) asks for nothing."""
    if not asked.workspaces or asked.workspace is None:
        return
    if granted.workspaces and granted.workspace is not None:
        for one in _beyond(asked.workspace, granted.workspace):
            yield _Beyond(f"workspace: {one.topic}", one.asked, one.granted)
        return
    # That there are any is said by their number. What each may do is not said anywhere else.
    for line in explain(asked.workspace):
        if line.weight in ("grant", "weaker"):
            yield _Beyond(f"workspace: {line.topic}", line.text, NONE)
