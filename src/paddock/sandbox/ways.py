"""Where a path leads on this machine, and whether code behind a wall could lead it elsewhere.

A link below a folder that such code may write to is its own, and so is every name there: what a policy names must not
be found by way of one. What no such folder lies on the way to stays where it is, however often it is looked up.
"""

# ruff: noqa: PTH115, PTH118, PTH120
# Paths are texts here, as in the view.

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from paddock.errors import InvalidPolicy
from paddock.sandbox.paths import covers
from paddock.sandbox.policy import Policy

_MOST_LINKS = 40  # as the kernel has it


def way_of(path: str) -> tuple[str, list[str]]:
    """Where ``path`` leads when every link is followed, and each folder in which a name was looked up on the way."""
    here, names, folders, links = "/", path.split("/")[::-1], [], 0
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            here = os.path.dirname(here)
            continue
        folders.append(here)
        there = os.path.join(here, name)
        try:
            leads = os.readlink(there)
        except OSError:  # no link, or nothing at all
            here = there
            continue
        links += 1
        if links > _MOST_LINKS:
            raise InvalidPolicy(f"{path!r} leads in circles: more than {_MOST_LINKS} links. Name what it should be.")
        here = "/" if leads.startswith("/") else here
        names += leads.split("/")[::-1]
    return here, folders


def writable(policy: Policy) -> dict[str, str]:
    """What an environment with ``policy``, or its workspaces, may write to: where it is, and the name for it."""
    below = {} if policy.workspace is None else writable(policy.workspace)
    return {**below, **{way_of(one)[0]: one for one in policy.write}}


def settled(name: str, path: str, writable: Mapping[str, str]) -> str:
    """Where ``path`` leads; InvalidPolicy if what may be written to has a say in that. ``name``: the policy's field."""
    real, folders = way_of(path)
    for root, named in writable.items():
        if any(covers(root, folder) for folder in folders):
            raise InvalidPolicy(
                f"{name}: {path!r} lies below {named!r}, which is to be written to: what is written there could be a "
                f"link to any other place. Name only {named!r} itself, or something outside of it."
            )
    return real


def check_ways(policy: Policy, writable: Mapping[str, str]) -> None:
    """InvalidPolicy if anything that ``policy`` names, or its workspaces', could be led elsewhere."""
    for name in ("read", "write", "programs", "devices"):
        for one in getattr(policy, name):
            settled(f"Policy({name}=…)", one, writable)
    if policy.cassette is not None:
        real = settled("Policy(cassette=…)", policy.cassette, writable)
        # The trusted side writes to it, and believes what it says.
        if any(covers(root, real) for root in writable):
            raise InvalidPolicy(f"Policy(cassette={policy.cassette!r}) may be written to as well. Put it elsewhere.")
    if policy.workspace is not None:
        check_ways(policy.workspace, writable)


def led_outside(asked: Policy, granted: Policy) -> list[str]:
    """Paths of ``asked`` that are within ``granted`` by name alone: a link leads out of what was granted."""
    either = (*granted.read, *granted.write)
    pairs = [(asked.read, either), (asked.write, granted.write)]
    pairs += [(asked.programs, granted.programs), (asked.devices, granted.devices)]
    return [one for wanted, given in pairs for one in wanted if not _is_within(one, given)]


def _is_within(path: str, granted: Iterable[str]) -> bool:
    return any(covers(one, path) and covers(way_of(one)[0], way_of(path)[0]) for one in granted)
