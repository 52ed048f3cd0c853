"""Finding a spec by id as ``core.lookup`` does; where there is none, the error says which other library has the id.

A reader would look for this in ``core.lookup``, which stands below the table of families and can't read it.
"""

from __future__ import annotations

import re

from paddock.core import lookup
from paddock.core.ids import parse_id
from paddock.core.spec import EnvSpec
from paddock.errors import NameNotFound, NamespaceNotFound, PaddockError
from paddock.sources.families import FAMILIES, SOURCES, family_of

_PARTS = re.compile(r"[,:] *")
_NAME = re.compile(r"([A-Za-z][\w-]*?)(-v\d+)?", re.ASCII)
_NAMESPACE = re.compile(r"([\w-]+)/\*", re.ASCII)
# Packages that are taken for a prefix, and what stands before a name of theirs.
_NOT_PREFIXES = {"procgen": "gym3:procgen/", "ale_py": "ALE/", "ale": "ALE/", "atari": "ALE/", "mujoco": ""}


def spec(env_id: str) -> EnvSpec:
    """The registered spec of exactly this id."""
    try:
        return lookup.spec(env_id)
    except (NameNotFound, NamespaceNotFound) as error:
        raise _explained(error, env_id) from None


def find_spec(env_id: str) -> EnvSpec:
    """The spec that ``make(env_id)`` means: without a version the newest, and a warning if a newer one exists."""
    try:
        return lookup.find_spec(env_id)
    except (NameNotFound, NamespaceNotFound) as error:
        raise _explained(error, env_id) from None


def perhaps_meant(module: str, name: str) -> str:
    """A sentence for ``module:name`` whose module is not there but looks like one of the prefixes; else nothing."""
    if module in _NOT_PREFIXES:
        return f" Did you mean '{_NOT_PREFIXES[module]}{name}'?"
    from difflib import get_close_matches

    close = get_close_matches(module.lower().replace("-", "_"), list(SOURCES), n=1, cutoff=0.75)
    return f" Did you mean '{close[0]}:{name}'?" if close else ""


def _explained(error: PaddockError, id: str) -> PaddockError:
    family = family_of(id)
    if family is None:
        shown = [part for one in FAMILIES for part in _PARTS.split(one.shown)]
        names = [found[1] for part in shown if (found := _NAME.fullmatch(part))]
        namespaces = [found[1] for part in shown if (found := _NAMESPACE.fullmatch(part))]
        return lookup.not_found(parse_id(id), names=names, namespaces=namespaces)
    missing = f" To install what it needs: pip install {family.install}" if family.missing else ""
    return type(error)(
        f"{id!r} is not registered in paddock: it is one of {family.name}'s environments, whose specs are known once "
        f"they are made. paddock.make({id!r}).spec is this one's; in a shell: paddock info --make {id}.{missing}"
    )
