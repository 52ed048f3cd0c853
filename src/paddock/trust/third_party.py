"""Where code of others runs if the caller does not say: in Python by the user's settings, in commands behind a wall."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from paddock.trust.files import config_folder
from paddock.trust.settings import FILE, read_settings


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
