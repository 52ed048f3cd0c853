"""What the user decided about trust: ``trust.toml`` in the config folder. ``PADDOCK_TRUST=strict`` is stricter.

In Python these settings say where code of others runs; a command chooses that itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from paddock.errors import InvalidKey, InvalidManifest
from paddock.trust.files import config_folder
from paddock.trust.keys import PublicKey

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "trust.toml"
_MODES = ("first-use", "pinned", "endorsed")
_THIRD_PARTY = ("none", "sandbox")


@dataclass(frozen=True)
class Settings:
    """``mode``: whose packages are installed. ``third_party``: where code that is not built in runs in Python.

    ``endorsers`` and ``threshold`` are for the mode "endorsed": that many of these keys must have signed. ``registry``:
    the folder or URL from which packages are installed by name.
    """

    mode: str = "first-use"
    third_party: str = "none"
    endorsers: tuple[PublicKey, ...] = ()
    threshold: int = 0
    registry: str | None = None


def read_settings() -> Settings:
    """Read the user's settings; InvalidManifest names what is wrong with them."""
    file = config_folder() / FILE
    try:
        settings = _read(file) if file.is_file() else Settings()
    except PermissionError:
        raise InvalidManifest(f"{file} can't be read: it belongs to another user. Set HOME or PADDOCK_HOME.") from None
    strict = os.environ.get("PADDOCK_TRUST", "")
    if strict not in ("", "strict"):
        raise InvalidManifest(f"PADDOCK_TRUST={strict[:40]!r}: expected strict, or nothing.")
    if not strict:
        return settings
    return replace(settings, third_party="sandbox", mode="pinned" if settings.mode == "first-use" else settings.mode)


def _read(file: Path) -> Settings:
    try:
        table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidManifest(f"{file} is not TOML: {error}") from None
    mode, third_party = table.pop("mode", "first-use"), table.pop("third_party", "none")
    endorsed, registry = table.pop("endorsed", {}), table.pop("registry", None)
    if table or not isinstance(registry, str | None):
        odd = next(iter(table), "registry")
        raise InvalidManifest(f"{file}: {odd}: expected mode, third_party, registry (texts) and [endorsed], no more.")
    for key, value, known in (("mode", mode, _MODES), ("third_party", third_party, _THIRD_PARTY)):
        if value not in known:
            raise InvalidManifest(f"{file}: {key} = {value!r}; expected one of {', '.join(known)}.")
    match endorsed:
        case {"keys": list() as keys, "threshold": int() as threshold} if len(endorsed) == 2:
            try:
                endorsers = tuple(dict.fromkeys(PublicKey.parse(str(key)) for key in keys))
            except InvalidKey as error:
                raise InvalidManifest(f"{file}: [endorsed] keys: {error}") from None
        case {}:
            endorsers, threshold = (), 0
        case _:
            raise InvalidManifest(f"{file}: [endorsed] has keys, a list of texts, and threshold, a number.")
    if (mode == "endorsed" or endorsed) and not 1 <= threshold <= len(endorsers):
        raise InvalidManifest(f"{file}: [endorsed] threshold is {threshold}; expected 1 to {len(endorsers)}, its keys.")
    return Settings(mode, third_party, endorsers, threshold, registry)


# ── Where code of others runs if the caller does not say ──


class Choice(NamedTuple):
    """The isolation, "none" for this process, and in words who chose it."""

    isolation: str
    reason: str


_COMMAND: list[Choice] = []  # of this process, in all of its threads


def choose() -> Choice:
    """Return what holds now. InvalidManifest for settings that can't be understood: they make nothing less strict."""
    if _COMMAND:
        return _COMMAND[-1]
    isolation = read_settings().third_party
    if isolation == "none":
        return Choice(isolation, "as in Gymnasium: no setting says otherwise")
    return Choice(
        isolation, f"as {'PADDOCK_TRUST' if os.environ.get('PADDOCK_TRUST') else config_folder() / FILE} says"
    )


@contextmanager
def choosing(choice: Choice | None) -> Iterator[None]:
    """Let this choice hold in the block; None is that of the user's settings."""
    before, _COMMAND[:] = _COMMAND[:], [] if choice is None else [choice]
    try:
        yield
    finally:
        _COMMAND[:] = before
