"""Environment ids: ``[namespace/]Name[-vN]``. The parser is total: any string gives parts or one InvalidId."""

from __future__ import annotations

import re
from typing import NamedTuple

from paddock.errors import InvalidId

MAX_ID_LENGTH = 256
# ASCII only, so that no two ids look alike; nine digits at most, so that a version is always a small int.
_ID = re.compile(r"(?:(?P<namespace>[\w:-]+)/)?(?P<name>[\w:.-]+?)(?:-v(?P<version>0|[1-9][0-9]{0,8}))?", re.ASCII)
_LOOKS_VERSIONED = re.compile(r".*-v[0-9]+", re.ASCII | re.DOTALL)
_NAMESPACE = re.compile(r"[\w:-]+", re.ASCII)


class EnvId(NamedTuple):
    """The parts of an id; ``str()`` of it is the id again."""

    namespace: str | None
    name: str
    version: int | None

    def __str__(self) -> str:
        text = self.name if self.version is None else f"{self.name}-v{self.version}"
        return text if self.namespace is None else f"{self.namespace}/{text}"


def parse_id(text: str) -> EnvId:
    """Split an id into its parts."""
    match = _ID.fullmatch(text) if isinstance(text, str) and len(text) <= MAX_ID_LENGTH else None
    # "Maze-v01" would read as a name without a version, and format as something that nobody registered.
    if match is None or (match["version"] is None and _LOOKS_VERSIONED.fullmatch(match["name"])):
        raise InvalidId(
            f"Malformed environment ID: {_shown(text)}. Expected [namespace/]Name[-vN] of ASCII letters, digits, "
            f"'_', '-', '.' and ':', a version without leading zeros, at most {MAX_ID_LENGTH} characters."
        )
    version = match["version"]
    return EnvId(match["namespace"], match["name"], None if version is None else int(version))


def format_id(namespace: str | None, name: str, version: int | None) -> str:
    """The id with these parts."""
    return str(EnvId(namespace, name, version))


def check_namespace(text: str) -> str:
    """``text`` if it can be a namespace."""
    if not isinstance(text, str) or len(text) > MAX_ID_LENGTH or not _NAMESPACE.fullmatch(text):
        raise InvalidId(f"Malformed namespace: {_shown(text)}. Expected ASCII letters, digits, '_', '-' and ':'.")
    return text


def _shown(text: object) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 80 else shown[:77] + "..."
