"""What a worker says an environment is: spaces, metadata, render mode, spec. All of it is data; nothing is loaded."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from paddock.core.spec import EnvSpec
from paddock.core.spec_json import MAX_BYTES, decode_spec
from paddock.errors import EnvironmentViolation
from paddock.hosting.messages import Description
from paddock.hosting.wall_members import shown, violation
from paddock.hosting.wall_rules import WallRules
from paddock.hosting.wall_spaces import read_space
from paddock.hosting.wall_values import ValueCheck
from paddock.sandbox.plain_text import brief, plain
from paddock.spaces import Space

_NAME_CHARACTERS = 64
_MODES = 64


def checked_description(value: Any, rules: WallRules) -> Description:
    """The description with its text made plain, or EnvironmentViolation; see ``checked_spaces`` for the spaces."""
    try:
        described = msgspec.convert(value, Description)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise violation("description", f"it is none: {brief(str(error), 200)}") from None
    metadata = _metadata(described.metadata, rules)
    mode = described.render_mode
    if mode is not None and (len(mode) > _NAME_CHARACTERS or plain(mode) != mode):
        raise violation("render_mode", f"{shown(mode)} is no name of a mode")
    spec = None if described.spec is None else _spec_text(described.spec, rules)
    return msgspec.structs.replace(described, metadata=metadata, spec=spec, custom=brief(described.custom, 200))


def checked_spaces(described: Description, rules: WallRules) -> tuple[Space[Any], Space[Any]]:
    """Observation and action space, rebuilt here within bounds."""
    return (
        read_space(described.observation_space, "observation_space", limit=rules.space_bytes),
        read_space(described.action_space, "action_space", limit=rules.space_bytes),
    )


def checked_spec(described: Description) -> EnvSpec | None:
    """The spec without the code that it names: ``make`` of it, or of its id, must import nothing because of it.

    None for an id that ``make`` would take for a module's or a folder's.
    """
    try:
        spec = None if described.spec is None else decode_spec(described.spec)
    except Exception as error:  # InvalidSpec, and what a space in its arguments may raise
        raise violation("spec", f"it is malformed: {brief(str(error), 300)}") from None
    if spec is None or ":" in spec.id or spec.id.startswith("."):
        return None
    return replace(spec, entry_point=None, vector_entry_point=None, additional_wrappers=())


def _metadata(metadata: dict[str, Any], rules: WallRules) -> dict[str, Any]:
    check = ValueCheck(
        "metadata", max_bytes=rules.info_bytes, depth=rules.info_depth, entries=rules.info_entries, wide=True
    )
    metadata = check.read(metadata)
    modes = metadata.get("render_modes", [])
    if type(modes) not in (list, tuple) or len(modes) > _MODES or not all(type(mode) is str for mode in modes):
        raise violation("metadata['render_modes']", f"{shown(modes)}, expected a list of names")
    fps = metadata.get("render_fps")
    numeric = isinstance(fps, (int, float, np.integer, np.floating)) and math.isfinite(fps) and fps >= 0
    if fps is not None and not numeric:
        raise violation("metadata['render_fps']", f"{shown(fps)}, expected a number")
    return metadata


def _spec_text(text: str, rules: WallRules) -> str:
    """The spec's JSON with its text made plain: in JSON an escape sequence hides behind letters."""
    if len(text) > MAX_BYTES:
        raise violation("spec", f"it has more than {MAX_BYTES} bytes")
    check = ValueCheck("spec", max_bytes=4 * MAX_BYTES, depth=rules.value_depth, entries=rules.value_entries)
    try:
        return json.dumps(check.read(json.loads(text)))
    except EnvironmentViolation:
        raise
    except Exception as error:  # no JSON, or nested past Python's limit
        raise violation("spec", f"it is no JSON: {brief(str(error), 200)}") from None
